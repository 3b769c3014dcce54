//! Converts a step's request to the model's format: messages, tools and options in genai's types, without rejected
//! parameters, with the reasoning that its provider expects back, and with prompt-cache marks.
//!
//! - `messages` the conversation's messages

mod messages;

use ::genai::adapter::AdapterKind;
use ::genai::chat::{
    CacheControl, ChatMessage, ChatOptions, ChatRequest, JsonSpec, ReasoningEffort as Effort, Tool, ToolChoice,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rejoin_models::choice::ReasoningEffort;
use rejoin_models::{Ability, Model};
use rejoin_tools::ToolSpec;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::parameters::{Parameter, Parameters};
use super::{openrouter, turns};
use crate::ModelRequest;

/// Anthropic's maximum temperature; the others accept up to 2.
const ANTHROPIC_MAX_TEMPERATURE: f64 = 1.0;
/// Maximum temperature at Amazon Bedrock, for all models.
const BEDROCK_MAX_TEMPERATURE: f64 = 1.0;
/// Anthropic's minimum thinking budget, in tokens.
const THINKING_MIN_TOKENS: u32 = 1_024;
/// Length of a digest of instructions and tools, in bytes.
const BOUND_DIGEST_BYTES: usize = 12;
/// OpenAI's name for a structured output.
const OUTPUT_NAME: &str = "answer";
/// Number of cache marks in messages; with those of tools and system they are the four that Anthropic accepts.
const MESSAGE_MARKS: usize = 2;

/// The target model of a request.
pub(super) struct Target<'a> {
    pub(super) adapter: AdapterKind,
    /// `provider:model`.
    pub(super) name: &'a str,
    /// The catalogue's entry.
    pub(super) known: Option<&'static Model>,
    /// Whether a custom server with the provider's protocol is used.
    pub(super) is_own_server: bool,
    /// Whether prompts are marked for the provider's cache.
    pub(super) caches: bool,
    /// The parameters rejected so far.
    pub(super) refused: Parameters,
}

/// A request as sent.
pub(super) struct Sent {
    pub(super) chat: ChatRequest,
    pub(super) options: ChatOptions,
    /// Its optional parameters.
    pub(super) parameters: Parameters,
    /// What the answer's reasoning will be tied to.
    pub(super) bound_to: Option<String>,
}

impl Target<'_> {
    pub(super) fn request(&self, request: &ModelRequest) -> Sent {
        let mut parameters = Parameters::default();
        let mut options = self.options(request, &mut parameters);
        let mut specs = &request.tools;
        // Bedrock and OpenRouter insist on the tools as long as calls of them are in the conversation.
        let keeps_tools = self.is_claude() || matches!(self.adapter, AdapterKind::BedrockApi | AdapterKind::OpenRouter);
        if specs.is_empty() && !request.withdrawn_tools.is_empty() && keeps_tools {
            specs = &request.withdrawn_tools;
            options = options.with_tool_choice(ToolChoice::None);
        }
        let bound_to = self.is_bound().then(|| digest_of(&request.system, specs));
        // A conversation without tools is one call per turn, whose prompt changes with the search results.
        let marks = self.caches && self.is_claude() && !specs.is_empty() && !self.refuses(Parameter::CacheControl);
        if marks {
            parameters.add(Parameter::CacheControl);
        }
        let mut messages = self.messages(&request.messages, bound_to.as_deref(), &mut parameters);
        if self.adapter == AdapterKind::BedrockApi {
            messages = turns::alternating(messages);
        }
        if marks {
            let last = messages.len();
            for message in messages
                .iter_mut()
                .skip(last.saturating_sub(2 * MESSAGE_MARKS - 1))
                .rev()
                .step_by(2)
            {
                message.options = Some(CacheControl::Ephemeral.into());
            }
        }
        let mut chat = ChatRequest::new(messages);
        if !request.system.is_empty() {
            if marks {
                let system = ChatMessage::system(request.system.clone()).with_options(CacheControl::Ephemeral);
                chat.messages.insert(0, system);
            } else {
                chat = chat.with_system(request.system.clone());
            }
        }
        if !specs.is_empty() {
            let mut tools: Vec<Tool> = specs
                .iter()
                .map(|tool| {
                    Tool::new(tool.name.clone())
                        .with_description(tool.description.clone())
                        .with_schema(tool.parameters.document().clone())
                })
                .collect();
            if marks && let Some(last) = tools.pop() {
                tools.push(last.with_cache_control(CacheControl::Ephemeral));
            }
            chat = chat.with_tools(tools);
        }
        Sent {
            chat,
            options,
            parameters,
            bound_to,
        }
    }

    fn refuses(&self, parameter: Parameter) -> bool {
        self.refused.has(parameter)
    }

    /// Returns whether Anthropic's rules apply, at any service.
    fn is_claude(&self) -> bool {
        match self.adapter {
            AdapterKind::Anthropic => true,
            AdapterKind::Vertex => self.name.contains(":claude"),
            AdapterKind::BedrockApi => self.name.contains("anthropic.claude"),
            _ => false,
        }
    }

    /// Returns whether to ask OpenRouter to set cache breakpoints: only Claude needs them.
    fn is_marked_there(&self, request: &ModelRequest) -> bool {
        self.caches
            && self.adapter == AdapterKind::OpenRouter
            && self.name.contains(":anthropic/")
            && !(request.tools.is_empty() && request.withdrawn_tools.is_empty())
            && !self.refuses(Parameter::CacheControl)
    }

    /// Returns whether its reasoning is rejected with other instructions or tools: Claude's models with reasoning
    /// levels. The newest ones reject it (platform.claude.com, "What's new in Opus 5.5": thinking blocks are tied to
    /// the conversation), and the others do without; models with a reasoning budget need it back in any case.
    fn is_bound(&self) -> bool {
        self.is_claude() && self.known.is_some_and(|model| !model.efforts.is_empty())
    }

    fn is_openai_chat(&self) -> bool {
        matches!(self.adapter, AdapterKind::OpenAI)
    }

    fn reasons(&self) -> Option<bool> {
        self.known?.can(Ability::Reasoning)
    }

    fn options(&self, request: &ModelRequest, parameters: &mut Parameters) -> ChatOptions {
        let mut options = ChatOptions::default()
            .with_capture_usage(true)
            .with_capture_content(true)
            .with_capture_tool_calls(true)
            .with_capture_reasoning_content(self.asks_for_thoughts(parameters));
        let max_tokens = self.max_tokens(request);
        let effort = request.effort.and_then(|effort| self.effort(effort, max_tokens));
        let thinks = matches!(&effort, Some(effort) if !matches!(effort, Effort::Zero));
        if self.adapter == AdapterKind::OpenRouter {
            let marked = self.is_marked_there(request);
            if marked {
                parameters.add(Parameter::CacheControl);
            }
            if let Some(fields) = openrouter::fields(effort.as_ref(), marked) {
                options = options.with_extra_body(fields);
            }
        }
        match effort {
            Some(effort) => {
                parameters.add(Parameter::Effort);
                options = options.with_reasoning_effort(match self.adapter {
                    // Reported above.
                    AdapterKind::OpenRouter => Effort::Budget(0),
                    _ => effort,
                });
            }
            // genai interprets `-low`, `-medium`, `-high` at the end of a name as a reasoning level and removes it,
            // which breaks names such as `mistral-medium`. A budget keeps the name whole, and these adapters send
            // nothing for it.
            None if matches!(
                self.adapter,
                AdapterKind::OpenAI | AdapterKind::OpenAIResp | AdapterKind::OpenRouter
            ) =>
            {
                options = options.with_reasoning_effort(Effort::Budget(0));
            }
            None => {}
        }
        if let Some(temperature) = request.temperature
            && !self.refuses(Parameter::Temperature)
            && self.known.is_none_or(Model::accepts_temperature)
            // Anthropic accepts none for a thinking model.
            && !(self.is_claude() && thinks)
        {
            parameters.add(Parameter::Temperature);
            let max = match self.adapter {
                AdapterKind::BedrockApi => BEDROCK_MAX_TEMPERATURE,
                _ if self.is_claude() => ANTHROPIC_MAX_TEMPERATURE,
                _ => f64::INFINITY,
            };
            options = options.with_temperature(temperature.min(max));
        }
        if let Some(max_tokens) = max_tokens {
            if !self.refuses(Parameter::MaxTokens) {
                parameters.add(Parameter::MaxTokens);
                options = options.with_max_tokens(max_tokens);
            } else if self.is_openai_chat() && !self.refuses(Parameter::MaxCompletionTokens) {
                parameters.add(Parameter::MaxCompletionTokens);
                options = options.with_extra_body(json!({ "max_completion_tokens": max_tokens }));
            }
        }
        if let Some(schema) = &request.output
            && !self.refuses(Parameter::Output)
        {
            parameters.add(Parameter::Output);
            options = options.with_response_format(JsonSpec::new(OUTPUT_NAME, schema.clone()));
        }
        if let Some(key) = &request.cache_key
            && self.takes_cache_key()
        {
            parameters.add(Parameter::CacheKey);
            options = options.with_prompt_cache_key(key.clone());
        }
        options
    }

    /// Returns whether the model's reasoning is requested, which preserves it between steps. Not for models that reject
    /// the request.
    fn asks_for_thoughts(&self, parameters: &mut Parameters) -> bool {
        let asks = match self.adapter {
            AdapterKind::OpenAIResp => self.reasons() != Some(false),
            AdapterKind::Gemini | AdapterKind::Vertex => self.reasons() == Some(true),
            // Requests nothing there: only keeps what is returned.
            _ => return true,
        };
        let asks = asks && !self.refuses(Parameter::Summary);
        if asks {
            parameters.add(Parameter::Summary);
        }
        asks
    }

    /// Anthropic requires a limit; genai's depends on the model's name, the catalogue's on its documentation.
    fn max_tokens(&self, request: &ModelRequest) -> Option<u32> {
        let most = self
            .known
            .and_then(|model| model.max_output)
            .and_then(|most| u32::try_from(most).ok());
        match request.max_tokens {
            Some(wanted) => Some(most.map_or(wanted, |most| wanted.min(most))),
            None => most.filter(|_| self.is_claude()),
        }
    }

    /// Returns the requested level, or the nearest lower one that the model has, or else its lowest. Anthropic's models
    /// with reasoning levels can't be switched off, so `none` is their lowest level, too.
    fn effort(&self, wanted: ReasoningEffort, max_tokens: Option<u32>) -> Option<Effort> {
        if self.refuses(Parameter::Effort) || self.reasons() == Some(false) {
            return None;
        }
        if wanted == ReasoningEffort::None && self.known.is_none() {
            // Most unknown models don't reason, and many of their servers reject the parameter.
            return None;
        }
        let has = self.known.map(|model| model.efforts.as_slice()).unwrap_or_default();
        if self.is_claude() && self.known.is_some() {
            match self.adapter {
                // genai asks for nothing there.
                AdapterKind::Vertex => return None,
                _ if has.is_empty() => return thinking_budget(wanted, max_tokens).map(Effort::Budget),
                _ => {}
            }
        }
        let has = |effort: &ReasoningEffort| has.is_empty() || has.iter().any(|name| name == effort.as_str());
        let mut below = ReasoningEffort::ALL
            .into_iter()
            .rev()
            .filter(|effort| *effort <= wanted);
        // A requested level other than none is never replaced by none.
        let below = below.find(|effort| has(effort) && (*effort != ReasoningEffort::None || wanted == *effort));
        let mut above = ReasoningEffort::ALL.into_iter().filter(|effort| *effort > wanted);
        let effort = below.or_else(|| above.find(has))?;
        Some(match effort {
            ReasoningEffort::None => Effort::Zero,
            ReasoningEffort::Minimal => Effort::Minimal,
            ReasoningEffort::Low => Effort::Low,
            ReasoningEffort::Medium => Effort::Medium,
            ReasoningEffort::High => Effort::High,
            ReasoningEffort::XHigh => Effort::XHigh,
            ReasoningEffort::Max => Effort::Max,
        })
    }

    /// A key routes a conversation's calls to the machine with its cached prefix. Other servers may not know the field.
    fn takes_cache_key(&self) -> bool {
        matches!(self.adapter, AdapterKind::OpenAI | AdapterKind::OpenAIResp)
            && self.known.is_some()
            && !self.refuses(Parameter::CacheKey)
    }
}

/// Returns a digest of the model's input besides the conversation.
fn digest_of(system: &str, tools: &[ToolSpec]) -> String {
    let mut hash = Sha256::new();
    hash.update(system);
    for tool in tools {
        for part in [&tool.name, &tool.description, &tool.parameters.document().to_string()] {
            hash.update([0]);
            hash.update(part);
        }
    }
    URL_SAFE_NO_PAD.encode(&hash.finalize()[..BOUND_DIGEST_BYTES])
}

/// Returns the thinking budget for models without levels, with room for the answer. None: there is too little room.
fn thinking_budget(effort: ReasoningEffort, max_tokens: Option<u32>) -> Option<u32> {
    let wanted = match effort {
        ReasoningEffort::None => return None,
        ReasoningEffort::Minimal | ReasoningEffort::Low => THINKING_MIN_TOKENS,
        ReasoningEffort::Medium => 8_000,
        ReasoningEffort::High => 24_000,
        ReasoningEffort::XHigh | ReasoningEffort::Max => 32_000,
    };
    let room = max_tokens.map_or(u32::MAX, |max| max / 2);
    (room >= THINKING_MIN_TOKENS).then(|| wanted.min(room))
}

#[cfg(test)]
mod tests;
