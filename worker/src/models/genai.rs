//! Every model that is reached over the network, through the genai crate: the one place that knows it.
//!
//! `registry` makes a [`GenaiProvider`] per run. Invariant: a stream ends with [`Chunk::End`] only where the provider said
//! that the answer is complete, and otherwise with exactly one error. genai itself is not so strict: for Gemini and Ollama
//! it makes up an end when the connection closes, so the reason to stop is checked here.

mod errors;
mod parts;

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use ::genai::adapter::AdapterKind;
use ::genai::chat::{
    ChatMessage, ChatOptions, ChatRequest, ChatStream, ChatStreamEvent, ContentPart, MessageContent, ReasoningEffort,
    StopReason, StreamEnd, Tool, ToolResponse,
};
use ::genai::resolver::{AuthData, Endpoint};
use ::genai::{Client, ModelIden, ServiceTarget, WebConfig};
use async_trait::async_trait;
use futures::StreamExt;
use serde_json::{Value, json};
use uuid::Uuid;

use self::errors::ErrorContext;
use super::name::{ModelName, ModelSettings, ProviderKind, ProviderSettings, Secret};
use super::{Chunk, Finish, Message, ModelError, ModelRequest, ModelStream, Provider, ToolCall, Usage};

/// Sent as the key to an own base URL when none is set: many local servers want a header, any header.
const PLACEHOLDER_KEY: &str = "none";
const OLLAMA_PORT: u16 = 11_434;

/// The shared HTTP client; cheap to clone.
#[derive(Clone)]
pub struct GenaiModels {
    client: Client,
}

impl GenaiModels {
    pub fn new(settings: &ModelSettings) -> Result<Self, ModelError> {
        let web = WebConfig::default().with_connect_timeout(settings.connect_timeout);
        let client = Client::builder()
            .with_web_config(web)
            .build()
            .map_err(|error| misconfigured(format!("could not make the HTTP client for models: {error}")))?;
        Ok(Self { client })
    }

    /// `settings` must hold what the provider needs ([`ModelSettings::missing_variable`]).
    pub fn provider(&self, settings: &ModelSettings, name: ModelName) -> Result<GenaiProvider, ModelError> {
        let (adapter, base_url, key) = match name.provider {
            ProviderKind::OpenAi => {
                let key = settings
                    .openai
                    .key
                    .clone()
                    .unwrap_or_else(|| Secret::new(PLACEHOLDER_KEY));
                (
                    AdapterKind::OpenAI,
                    base_url(&settings.openai, "https://api.openai.com/v1"),
                    Some(key),
                )
            }
            ProviderKind::Anthropic => (
                AdapterKind::Anthropic,
                anthropic_base_url(settings.anthropic.base_url.as_deref()),
                settings.anthropic.key.clone(),
            ),
            ProviderKind::Gemini => (
                AdapterKind::Gemini,
                base_url(&settings.gemini, "https://generativelanguage.googleapis.com/v1beta"),
                settings.gemini.key.clone(),
            ),
            ProviderKind::Vertex => (
                AdapterKind::Vertex,
                base_url(&settings.vertex, &vertex_base_url(settings)),
                settings.vertex.key.clone(),
            ),
            ProviderKind::Ollama => (
                AdapterKind::Ollama,
                ollama_base_url(settings.ollama_host.as_deref()),
                None,
            ),
            ProviderKind::Demo => return Err(misconfigured(format!("`{name}` is not a model of the network"))),
        };
        let url = reqwest::Url::parse(&base_url)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
            .ok_or_else(|| {
                misconfigured(format!(
                    "the base URL set for `{}` is not an http or https address; write for example \
                     http://127.0.0.1:8080/v1",
                    name.provider
                ))
            })?;
        Ok(GenaiProvider {
            client: self.client.clone(),
            target: ServiceTarget {
                endpoint: Endpoint::from_owned(base_url),
                auth: AuthData::from_single(key.as_ref().map_or(PLACEHOLDER_KEY, Secret::expose)),
                model: ModelIden::new(adapter, name.model.clone()),
            },
            idle_timeout: settings.idle_timeout,
            context: Arc::new(ErrorContext {
                // Host and port only: a path or query may hold a key.
                host: url.host_str().map_or_else(String::new, |host| match url.port() {
                    Some(port) => format!("{host}:{port}"),
                    None => host.to_owned(),
                }),
                name,
                key,
            }),
        })
    }
}

/// One model of one provider.
pub struct GenaiProvider {
    client: Client,
    target: ServiceTarget,
    idle_timeout: Duration,
    context: Arc<ErrorContext>,
}

#[async_trait]
impl Provider for GenaiProvider {
    async fn stream(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        let kind = self.context.name.provider;
        let answer = Answer {
            upstream: None,
            ready: VecDeque::new(),
            said_something: false,
            used_ids: used_call_ids(&request.messages),
            idle_timeout: self.idle_timeout,
            context: self.context.clone(),
        };
        let options = options(kind, &request);
        // Sends nothing yet: the request goes out when the stream is first polled, so that its errors come as its first item.
        let upstream = self
            .client
            .exec_chat_stream(self.target.clone(), chat_request(kind, request), Some(&options))
            .await
            .map_err(|error| self.context.classify(&error))?
            .stream;
        let answer = Answer {
            upstream: Some(upstream),
            ..answer
        };
        Ok(futures::stream::unfold(answer, |mut answer| async move {
            answer.next().await.map(|item| (item, answer))
        })
        .boxed())
    }
}

/// An answer on its way. `upstream` is dropped (which closes the connection) with the last item.
struct Answer {
    upstream: Option<ChatStream>,
    ready: VecDeque<Chunk>,
    said_something: bool,
    /// Ids of tool calls that the run has already; providers without ids would repeat theirs.
    used_ids: HashSet<String>,
    idle_timeout: Duration,
    context: Arc<ErrorContext>,
}

impl Answer {
    async fn next(&mut self) -> Option<Result<Chunk, ModelError>> {
        loop {
            if let Some(chunk) = self.ready.pop_front() {
                return Some(Ok(chunk));
            }
            let upstream = self.upstream.as_mut()?;
            let event = match tokio::time::timeout(self.idle_timeout, upstream.next()).await {
                Ok(Some(Ok(event))) => event,
                Ok(Some(Err(error))) => return self.fail(self.context.classify(&error)),
                Ok(None) => return self.fail(self.context.cut()),
                Err(_) => return self.fail(self.context.silent(self.idle_timeout)),
            };
            match event {
                ChatStreamEvent::Chunk(piece) if !piece.content.is_empty() => {
                    self.said_something = true;
                    self.ready.push_back(Chunk::Text(piece.content));
                }
                ChatStreamEvent::ReasoningChunk(piece) if !piece.content.is_empty() => {
                    self.ready.push_back(Chunk::Reasoning(piece.content));
                }
                ChatStreamEvent::End(end) => {
                    if let Err(error) = self.finish(end) {
                        return self.fail(error);
                    }
                    self.upstream = None;
                }
                // Partial tool calls: genai hands over the whole ones with the end.
                ChatStreamEvent::ToolCallChunk(_)
                | ChatStreamEvent::Chunk(_)
                | ChatStreamEvent::ReasoningChunk(_)
                | ChatStreamEvent::ThoughtSignatureChunk(_)
                | ChatStreamEvent::Heartbeat
                | ChatStreamEvent::Start => {}
            }
        }
    }

    fn fail(&mut self, error: ModelError) -> Option<Result<Chunk, ModelError>> {
        self.upstream = None;
        Some(Err(error))
    }

    /// Queues the tool calls and the end, or says why this is not an end.
    fn finish(&mut self, end: StreamEnd) -> Result<(), ModelError> {
        let made_up = match self.context.name.provider {
            // genai ends these without being told to when the connection closes. An old Ollama gives no reason, but counts.
            ProviderKind::Gemini | ProviderKind::Vertex => end.captured_stop_reason.is_none(),
            ProviderKind::Ollama => end.captured_stop_reason.is_none() && end.captured_usage.is_none(),
            ProviderKind::OpenAi | ProviderKind::Anthropic | ProviderKind::Demo => false,
        };
        if made_up {
            return Err(self.context.cut());
        }
        let usage = end.captured_usage.as_ref().map_or_else(Usage::default, |usage| Usage {
            input_tokens: usage.prompt_tokens.and_then(|n| u64::try_from(n).ok()).unwrap_or(0),
            output_tokens: usage.completion_tokens.and_then(|n| u64::try_from(n).ok()).unwrap_or(0),
        });
        let reason = end.captured_stop_reason.clone();
        let calls = self.tool_calls(end.captured_into_tool_calls().unwrap_or_default())?;
        let finish = match reason {
            Some(StopReason::MaxTokens(_)) => Finish::Length,
            Some(StopReason::ContentFilter(_)) => Finish::ContentFilter,
            Some(StopReason::ToolCall(_)) if calls.is_empty() => {
                return Err(self.context.protocol("it ended with a tool call and named no tool"));
            }
            Some(StopReason::Other(word)) if calls.is_empty() && !self.said_something => {
                return Err(self
                    .context
                    .protocol(&format!("it ended with `{word}` and said nothing")));
            }
            Some(
                StopReason::Completed(_) | StopReason::ToolCall(_) | StopReason::StopSequence(_) | StopReason::Other(_),
            )
            | None => {
                if calls.is_empty() {
                    Finish::Stop
                } else {
                    Finish::ToolCalls
                }
            }
        };
        self.ready.extend(calls.into_iter().map(Chunk::ToolCall));
        self.ready.push_back(Chunk::End { usage, finish });
        Ok(())
    }

    fn tool_calls(&mut self, mut calls: Vec<::genai::chat::ToolCall>) -> Result<Vec<ToolCall>, ModelError> {
        let kind = self.context.name.provider;
        if kind == ProviderKind::OpenAi {
            // Where a server counts its calls from 1, genai fills the gap with a copy of the next call's first piece.
            let ids: Vec<String> = calls.iter().map(|call| call.call_id.clone()).collect();
            let mut position = 0;
            calls.retain(|call| {
                position += 1;
                call.call_id.is_empty() || ids.get(position) != Some(&call.call_id)
            });
        }
        calls
            .into_iter()
            .map(|call| {
                if call.fn_name.is_empty() {
                    return Err(self.context.protocol("a tool call has no name"));
                }
                Ok(ToolCall {
                    id: self.unique_id(kind, call.call_id, &call.fn_name),
                    arguments: match call.fn_arguments {
                        // A call without arguments: some providers send nothing instead of `{}`.
                        Value::Null => json!({}),
                        Value::String(text) if text.trim().is_empty() => json!({}),
                        other => other,
                    },
                    name: call.fn_name,
                })
            })
            .collect()
    }

    fn unique_id(&mut self, kind: ProviderKind, id: String, tool: &str) -> String {
        let id = if !id.is_empty() && !self.used_ids.contains(&id) {
            id
        } else {
            match kind {
                // genai's form for "Gemini gave no id", which it does not send back as one. The number makes it unique.
                ProviderKind::Gemini | ProviderKind::Vertex => (self.used_ids.len()..)
                    .map(|number| format!("call#{tool}#{number}"))
                    .find(|id| !self.used_ids.contains(id))
                    .unwrap_or(id),
                ProviderKind::OpenAi | ProviderKind::Anthropic | ProviderKind::Ollama | ProviderKind::Demo => {
                    format!("call_{}", Uuid::now_v7().simple())
                }
            }
        };
        self.used_ids.insert(id.clone());
        id
    }
}

fn used_call_ids(messages: &[Message]) -> HashSet<String> {
    messages
        .iter()
        .flat_map(|message| match message {
            Message::Assistant { tool_calls, .. } => tool_calls.as_slice(),
            Message::User { .. } | Message::ToolResult { .. } => &[],
        })
        .map(|call| call.id.clone())
        .collect()
}

fn options(kind: ProviderKind, request: &ModelRequest) -> ChatOptions {
    let mut options = ChatOptions::default()
        .with_capture_usage(true)
        .with_capture_tool_calls(true);
    if kind == ProviderKind::OpenAi {
        // genai reads `-low`, `-medium`, `-high` at the end of a name as a wish for reasoning and cuts it off, which breaks
        // names such as `mistral-medium`. A budget keeps the name whole, and this adapter sends nothing for it.
        options = options.with_reasoning_effort(ReasoningEffort::Budget(0));
    }
    if let Some(temperature) = request.temperature {
        options = options.with_temperature(temperature);
    }
    if let Some(max_tokens) = request.max_tokens {
        options = options.with_max_tokens(max_tokens);
    }
    options
}

fn chat_request(kind: ProviderKind, request: ModelRequest) -> ChatRequest {
    let mut chat = ChatRequest::new(chat_messages(kind, request.messages));
    if !request.system.is_empty() {
        chat = chat.with_system(request.system);
    }
    if !request.tools.is_empty() {
        chat = chat.with_tools(request.tools.into_iter().map(|tool| {
            Tool::new(tool.name)
                .with_description(tool.description)
                .with_schema(tool.parameters.document().clone())
        }));
    }
    chat
}

fn chat_messages(kind: ProviderKind, messages: Vec<Message>) -> Vec<ChatMessage> {
    let mut chat: Vec<ChatMessage> = Vec::with_capacity(messages.len());
    // Results of parallel calls that belong into one message: Anthropic and Gemini insist on it; genai's Ollama adapter keeps
    // only the last result of a message, so there each one is a message of its own.
    let mut results: Vec<ToolResponse> = Vec::new();
    let mut files = Vec::new();
    for message in messages {
        if !matches!(message, Message::ToolResult { .. }) {
            if !results.is_empty() {
                chat.push(ChatMessage::from(std::mem::take(&mut results)));
            }
            chat.extend(parts::behind_results(std::mem::take(&mut files)));
        }
        match message {
            Message::User { text, attachments } => chat.push(parts::user(text, attachments)),
            Message::Assistant { text, tool_calls } => {
                let mut parts = Vec::with_capacity(tool_calls.len() + 1);
                if !text.is_empty() {
                    parts.push(ContentPart::Text(text));
                }
                parts.extend(
                    tool_calls
                        .into_iter()
                        .map(|call| ContentPart::ToolCall(sent_call(call))),
                );
                // A step that was stopped before it said anything; providers refuse an empty message.
                if !parts.is_empty() {
                    chat.push(ChatMessage::assistant(MessageContent::from_parts(parts)));
                }
            }
            Message::ToolResult {
                call_id,
                tool,
                content,
                attachments,
                ..
            } => {
                files.extend(attachments);
                results.push(ToolResponse::new(call_id, content).with_fn_name(tool));
                if kind == ProviderKind::Ollama {
                    chat.push(ChatMessage::from(std::mem::take(&mut results)));
                }
            }
        }
    }
    if !results.is_empty() {
        chat.push(ChatMessage::from(results));
    }
    chat.extend(parts::behind_results(files));
    chat
}

fn sent_call(call: ToolCall) -> ::genai::chat::ToolCall {
    ::genai::chat::ToolCall {
        call_id: call.id,
        fn_name: call.name,
        // Providers refuse arguments that are not an object, and with them every later step of the run.
        fn_arguments: match call.arguments {
            Value::Object(map) => Value::Object(map),
            Value::Null => json!({}),
            other => json!({ "invalid_arguments": other }),
        },
        thought_signatures: None,
    }
}

fn misconfigured(message: String) -> ModelError {
    ModelError {
        code: "model_misconfigured",
        message,
        retryable: false,
        retry_after: None,
    }
}

/// With exactly one slash at the end of its path, whatever was written: genai joins paths onto it. A query stays.
fn with_slash(url: &str) -> String {
    let (path, query) = url
        .split_once('?')
        .map_or((url, None), |(path, query)| (path, Some(query)));
    let path = path.trim_end_matches('/');
    query.map_or_else(|| format!("{path}/"), |query| format!("{path}/?{query}"))
}

fn base_url(settings: &ProviderSettings, default: &str) -> String {
    with_slash(settings.base_url.as_deref().unwrap_or(default))
}

fn anthropic_base_url(own: Option<&str>) -> String {
    let url = own.unwrap_or("https://api.anthropic.com").trim_end_matches('/');
    format!("{}/v1/", url.strip_suffix("/v1").unwrap_or(url))
}

fn vertex_base_url(settings: &ModelSettings) -> String {
    let location = &settings.vertex_location;
    let project = settings.vertex_project.as_deref().unwrap_or_default();
    let region = if location == "global" {
        String::new()
    } else {
        format!("{location}-")
    };
    format!("https://{region}aiplatform.googleapis.com/v1/projects/{project}/locations/{location}")
}

/// `OLLAMA_HOST` is also what the server listens on, so it may lack scheme and port, and say 0.0.0.0.
fn ollama_base_url(host: Option<&str>) -> String {
    let host = host.unwrap_or("127.0.0.1").trim_end_matches('/');
    let (scheme, rest) = host.split_once("://").unwrap_or(("http", host));
    let rest = if rest.starts_with(':') {
        format!("127.0.0.1{rest}")
    } else {
        rest.replacen("0.0.0.0", "127.0.0.1", 1)
    };
    let authority = rest.split('/').next().unwrap_or_default();
    let after_address = authority.rsplit(']').next().unwrap_or_default();
    if scheme == "http" && !after_address.contains(':') && !rest.contains('/') {
        format!("{scheme}://{rest}:{OLLAMA_PORT}/")
    } else {
        format!("{scheme}://{rest}/")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_urls_are_taken_as_people_write_them() {
        assert_eq!(with_slash("http://h:1/v1"), "http://h:1/v1/");
        assert_eq!(with_slash("http://h:1/v1//"), "http://h:1/v1/");
        assert_eq!(
            with_slash("http://h:1/v1?api-version=1"),
            "http://h:1/v1/?api-version=1"
        );
        assert_eq!(anthropic_base_url(None), "https://api.anthropic.com/v1/");
        assert_eq!(anthropic_base_url(Some("http://h/v1/")), "http://h/v1/");
        assert_eq!(ollama_base_url(None), "http://127.0.0.1:11434/");
        assert_eq!(ollama_base_url(Some("0.0.0.0:1234")), "http://127.0.0.1:1234/");
        assert_eq!(ollama_base_url(Some(":1234")), "http://127.0.0.1:1234/");
        assert_eq!(ollama_base_url(Some("[::1]")), "http://[::1]:11434/");
        assert_eq!(
            ollama_base_url(Some("https://ollama.example/")),
            "https://ollama.example/"
        );
    }

    #[test]
    fn results_of_parallel_calls_travel_together_except_to_ollama() {
        let result = |id: &str| Message::ToolResult {
            call_id: id.to_owned(),
            tool: "t".to_owned(),
            content: "{}".to_owned(),
            is_error: false,
            attachments: Vec::new(),
        };
        let messages = vec![result("a"), result("b"), Message::user("go")];
        assert_eq!(chat_messages(ProviderKind::Anthropic, messages.clone()).len(), 2);
        assert_eq!(chat_messages(ProviderKind::Ollama, messages).len(), 3);
    }

    #[test]
    fn arguments_that_are_no_object_are_sent_as_one() {
        let call = ToolCall {
            id: "a".to_owned(),
            name: "t".to_owned(),
            arguments: json!("{broken"),
        };
        assert_eq!(sent_call(call).fn_arguments, json!({"invalid_arguments": "{broken"}));
    }
}
