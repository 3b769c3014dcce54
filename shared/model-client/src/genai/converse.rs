//! Amazon Bedrock's ConverseStream. genai implements it without cache points and without the effort levels that Claude has since 4.6, so
//! requests are written and answers are read here, both in genai's types.
//! <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html>
//!
//! - `events` the events of an answer
//! - `frames` the event stream encoding

mod events;
mod frames;

use ::genai::chat::{
    Binary, BinarySource, CacheControl, ChatMessage, ChatOptions, ChatRequest, ChatRole, ContentPart,
    ReasoningEffort as Effort, Tool, ToolName,
};
use serde_json::{Map, Value, json};

use super::wire::{self, Upstream, Wire};

/// The effort at which Nova accepts no limits and no temperature.
/// <https://docs.aws.amazon.com/nova/latest/nova2-userguide/extended-thinking.html>
const NOVA_HIGHEST: &str = "high";
/// The name of an unnamed document.
const DOCUMENT: &str = "document";

/// Returns the events of the answer. `key` is a Bedrock API key, sent as a bearer token.
pub(super) fn stream(to: &Wire<'_>, key: &str, chat: ChatRequest, options: &ChatOptions) -> Upstream {
    let model = to.model.clone();
    let id = url::form_urlencoded::byte_serialize(model.model_name.as_bytes()).collect::<String>();
    let request = to
        .http
        .post(format!("{}model/{id}/converse-stream", to.base_url))
        .bearer_auth(key)
        .json(&body(&model.model_name, chat, options));
    wire::stream(request, model, events::read)
}

/// Returns the request body. Its messages alternate (`turns`) and have cache points.
fn body(model: &str, chat: ChatRequest, options: &ChatOptions) -> Value {
    let mut system: Vec<Value> = chat.system.map(|text| json!({"text": text})).into_iter().collect();
    let mut messages: Vec<Value> = Vec::with_capacity(chat.messages.len());
    for message in chat.messages {
        let point = message
            .options
            .as_ref()
            .and_then(|options| options.cache_control.as_ref());
        let point = point.map(point_of);
        if message.role == ChatRole::System {
            system.extend(message.content.joined_texts().map(|text| json!({"text": text})));
            system.extend(point);
            continue;
        }
        let role = if message.role == ChatRole::Assistant {
            "assistant"
        } else {
            "user"
        };
        let mut content = blocks(message);
        content.extend(point);
        messages.push(json!({"role": role, "content": content}));
    }
    let mut request = json!({"messages": messages});
    if !system.is_empty() {
        request["system"] = Value::Array(system);
    }
    let tools = tools(chat.tools.unwrap_or_default());
    if !tools.is_empty() {
        request["toolConfig"] = json!({"tools": tools});
    }
    let more = options
        .reasoning_effort
        .as_ref()
        .and_then(|effort| effort_of(model, effort));
    let mut inference = Map::new();
    if more
        .as_ref()
        .is_none_or(|more| more["reasoningConfig"]["maxReasoningEffort"] != NOVA_HIGHEST)
    {
        if let Some(tokens) = options.max_tokens {
            inference.insert("maxTokens".to_owned(), json!(tokens));
        }
        if let Some(temperature) = options.temperature {
            inference.insert("temperature".to_owned(), json!(temperature));
        }
    }
    if !inference.is_empty() {
        request["inferenceConfig"] = Value::Object(inference);
    }
    if let Some(more) = more {
        request["additionalModelRequestFields"] = more;
    }
    request
}

/// Returns the fields that request reasoning, which differ by the model's maker. None: no field is needed.
fn effort_of(model: &str, effort: &Effort) -> Option<Value> {
    let level = match effort {
        Effort::Zero => "none",
        Effort::Minimal | Effort::Low => "low",
        Effort::Medium => "medium",
        Effort::High => "high",
        Effort::XHigh => "xhigh",
        Effort::Max => "max",
        // Claude's alone: `thinking_budget`.
        Effort::Budget(tokens) => {
            return Some(json!({"thinking": {"type": "enabled", "budget_tokens": tokens}}));
        }
    };
    let is_of = |vendor: &str| model.split('.').any(|part| part == vendor);
    if is_of("anthropic") {
        // <https://docs.aws.amazon.com/bedrock/latest/userguide/claude-messages-adaptive-thinking.html>.
        return (level != "none")
            .then(|| json!({"thinking": {"type": "adaptive"}, "output_config": {"effort": level}}));
    }
    if is_of("amazon") {
        let level = match level {
            "none" => return None,
            "xhigh" | "max" => NOVA_HIGHEST,
            other => other,
        };
        return Some(json!({"reasoningConfig": {"type": "enabled", "maxReasoningEffort": level}}));
    }
    if model.contains("gpt-oss") {
        // <https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-openai.html>: three levels.
        let level = if matches!(level, "xhigh" | "max") {
            "high"
        } else {
            level
        };
        return (level != "none").then(|| json!({"reasoning_effort": level}));
    }
    // What it passes on to OpenAI's models.
    is_of("openai").then(|| json!({"reasoning": {"effort": level}}))
}

/// A cache point. <https://docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html>
fn point_of(mark: &CacheControl) -> Value {
    match mark {
        CacheControl::Ephemeral1h => json!({"cachePoint": {"type": "default", "ttl": "1h"}}),
        _ => json!({"cachePoint": {"type": "default"}}),
    }
}

fn tools(tools: Vec<Tool>) -> Vec<Value> {
    let mut specs = Vec::with_capacity(tools.len());
    for tool in tools {
        let name = match tool.name {
            ToolName::Custom(name) => name,
            ToolName::WebSearch => continue,
        };
        let mut spec = json!({"name": name, "inputSchema": {"json": tool.schema}});
        // Bedrock rejects an empty one.
        if let Some(description) = tool.description.filter(|description| !description.is_empty()) {
            spec["description"] = json!(description);
        }
        specs.push(json!({"toolSpec": spec}));
        specs.extend(tool.cache_control.as_ref().map(point_of));
    }
    specs
}

/// Returns the blocks of a message: reasoning before text and calls, each signature before the call that it signs.
fn blocks(message: ChatMessage) -> Vec<Value> {
    let mut blocks: Vec<Value> = Vec::new();
    let mut documents: Vec<String> = Vec::new();
    let mut parts = message.content.into_parts().into_iter().peekable();
    while let Some(part) = parts.next() {
        match part {
            ContentPart::Text(text) => blocks.push(json!({"text": text})),
            ContentPart::Binary(binary) => blocks.extend(medium(binary, &mut documents)),
            ContentPart::ToolCall(call) => blocks.push(json!({"toolUse": {
                "toolUseId": call.call_id,
                "name": call.fn_name,
                "input": call.fn_arguments,
            }})),
            ContentPart::ToolResponse(response) => blocks.push(json!({"toolResult": {
                "toolUseId": response.call_id,
                "content": [{"text": response.content}],
            }})),
            ContentPart::ThoughtSignature(signature) => {
                let signed = parts.next_if(|next| matches!(next, ContentPart::ReasoningContent(_)));
                blocks.push(match signed {
                    Some(ContentPart::ReasoningContent(text)) => {
                        json!({"reasoningContent": {"reasoningText": {"text": text, "signature": signature}}})
                    }
                    _ => json!({"reasoningContent": {"redactedContent": signature}}),
                });
            }
            // Bedrock rejects unsigned reasoning.
            ContentPart::ReasoningContent(_) | ContentPart::Custom(_) => {}
        }
    }
    blocks
}

/// None: Bedrock accepts no such file. `rejoin_models::Reads` has checked before what the model accepts.
fn medium(binary: Binary, documents: &mut Vec<String>) -> Option<Value> {
    let BinarySource::Base64(bytes) = binary.source else {
        return None;
    };
    let source = json!({"bytes": &*bytes});
    let format = match binary.content_type.as_str() {
        "application/pdf" => {
            let name = document_name(binary.name.as_deref().unwrap_or_default(), documents);
            return Some(json!({"document": {"format": "pdf", "name": name, "source": source}}));
        }
        "image/png" => "png",
        "image/jpeg" => "jpeg",
        "image/gif" => "gif",
        "image/webp" => "webp",
        _ => return None,
    };
    Some(json!({"image": {"format": format, "source": source}}))
}

/// Returns a name in Bedrock's characters that is unique in the message.
/// <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_DocumentBlock.html>
fn document_name(file: &str, used: &mut Vec<String>) -> String {
    let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
    let plain: String = stem
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || " -()[]".contains(c) {
                c
            } else {
                '-'
            }
        })
        .collect();
    let words = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    let base = if words.is_empty() { DOCUMENT.to_owned() } else { words };
    let mut name = base.clone();
    for number in 2.. {
        if !used.contains(&name) {
            break;
        }
        name = format!("{base} {number}");
    }
    used.push(name.clone());
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_have_names_that_bedrock_takes() {
        let mut used = Vec::new();
        let mut name = |file: &str| document_name(file, &mut used);
        assert_eq!(name("Q3 report_v2.final.pdf"), "Q3 report-v2-final");
        assert_eq!(name("Q3 report_v2.final.pdf"), "Q3 report-v2-final 2");
        assert_eq!(name(""), "document");
    }

    #[test]
    fn an_effort_is_said_in_the_words_of_who_made_the_model() {
        let fields = |model: &str, effort: Effort| effort_of(model, &effort);
        assert_eq!(
            fields("us.anthropic.claude-opus-5-5", Effort::High),
            Some(json!({"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}))
        );
        assert_eq!(fields("anthropic.claude-opus-5-5", Effort::Zero), None);
        assert_eq!(
            fields("us.amazon.nova-2-lite-v1:0", Effort::Max),
            Some(json!({"reasoningConfig": {"type": "enabled", "maxReasoningEffort": "high"}}))
        );
        assert_eq!(
            fields("openai.gpt-6-luna", Effort::Zero),
            Some(json!({"reasoning": {"effort": "none"}}))
        );
        assert_eq!(fields("meta.llama3-1-70b-instruct-v1:0", Effort::Low), None);
    }
}
