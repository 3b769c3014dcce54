//! Ollama's own protocol. genai does not send thinking back, nor the tool's name with its result, which
//! <https://docs.ollama.com/capabilities/tool-calling> requires, so requests are written and answers are read here, in genai's types.
//! <https://docs.ollama.com/api/chat>
//!
//! Invariant: an answer ends only when Ollama has reported `done`.

use std::collections::VecDeque;

use ::genai::chat::{
    BinarySource, ChatMessage, ChatOptions, ChatRequest, ChatRole, ChatStreamEvent, ContentPart, MessageContent,
    PromptTokensDetails, ReasoningEffort as Effort, StopReason, StreamChunk, StreamEnd, Tool, ToolCall, ToolName,
    Usage,
};
use ::genai::{Error as GenaiError, ModelIden, Result as GenaiResult};
use futures::{StreamExt, stream};
use serde_json::{Map, Value, json};

use super::wire::{self, Bytes, Upstream, Wire, broken_off};

/// Maximum length of a line, in bytes.
const LINE_MAX_BYTES: usize = 16 << 20;

pub(super) fn stream(to: &Wire<'_>, chat: ChatRequest, options: &ChatOptions) -> Upstream {
    let model = to.model.clone();
    let request = to.http.post(format!("{}api/chat", to.base_url));
    let request = request.json(&body(&model.model_name, chat, options));
    wire::stream(request, model, read)
}

fn body(model: &str, chat: ChatRequest, options: &ChatOptions) -> Value {
    let system = chat.system.map(|text| json!({"role": "system", "content": text}));
    let messages: Vec<Value> = system
        .into_iter()
        .chain(chat.messages.into_iter().flat_map(messages))
        .collect();
    let mut request = json!({"model": model, "stream": true, "messages": messages});
    let mut settings = Map::new();
    if let Some(temperature) = options.temperature {
        settings.insert("temperature".to_owned(), json!(temperature));
    }
    if let Some(tokens) = options.max_tokens {
        settings.insert("num_predict".to_owned(), json!(tokens));
    }
    if !settings.is_empty() {
        request["options"] = Value::Object(settings);
    }
    let tools: Vec<Value> = chat.tools.into_iter().flatten().filter_map(tool).collect();
    if !tools.is_empty() {
        request["tools"] = Value::Array(tools);
    }
    if let Some(effort) = &options.reasoning_effort {
        request["think"] = think(effort);
    }
    request
}

/// <https://docs.ollama.com/capabilities/thinking>: a level for models with levels, which means "yes" for the others.
fn think(effort: &Effort) -> Value {
    match effort {
        Effort::Zero => json!(false),
        Effort::Minimal | Effort::Low => json!("low"),
        Effort::Medium => json!("medium"),
        Effort::High | Effort::XHigh | Effort::Max => json!("high"),
        Effort::Budget(_) => json!(true),
    }
}

fn tool(tool: Tool) -> Option<Value> {
    let ToolName::Custom(name) = tool.name else {
        return None;
    };
    let mut function = json!({"name": name, "parameters": tool.schema});
    if let Some(description) = tool.description {
        function["description"] = json!(description);
    }
    Some(json!({"type": "function", "function": function}))
}

/// Returns a message, or one per tool result.
fn messages(message: ChatMessage) -> Vec<Value> {
    let role = match message.role {
        ChatRole::System => "system",
        ChatRole::User => "user",
        ChatRole::Assistant => "assistant",
        ChatRole::Tool => "tool",
    };
    let (mut sent, mut results) = (json!({"role": role, "content": ""}), Vec::new());
    let (mut text, mut thinking) = (String::new(), String::new());
    let (mut images, mut calls) = (Vec::new(), Vec::new());
    for part in message.content.into_parts() {
        match part {
            ContentPart::Text(words) => text.push_str(&words),
            ContentPart::ReasoningContent(thought) => thinking.push_str(&thought),
            ContentPart::Binary(binary) if binary.is_image() => {
                if let BinarySource::Base64(bytes) = binary.source {
                    images.push(json!(&*bytes));
                }
            }
            ContentPart::ToolCall(call) => {
                calls.push(json!({"function": {"name": call.fn_name, "arguments": call.fn_arguments}}));
            }
            ContentPart::ToolResponse(response) => results.push(json!({
                "role": "tool",
                "tool_name": response.fn_name,
                "content": response.content,
            })),
            // `rejoin_models::Reads` refuses other files before; Ollama signs nothing.
            ContentPart::Binary(_) | ContentPart::ThoughtSignature(_) | ContentPart::Custom(_) => {}
        }
    }
    if role == "tool" {
        return results;
    }
    sent["content"] = json!(text);
    for (name, values) in [("images", images), ("tool_calls", calls)] {
        if !values.is_empty() {
            sent[name] = Value::Array(values);
        }
    }
    if !thinking.is_empty() {
        sent["thinking"] = json!(thinking);
    }
    vec![sent]
}

struct Reader {
    bytes: Bytes,
    model: ModelIden,
    buffer: Vec<u8>,
    ready: VecDeque<GenaiResult<ChatStreamEvent>>,
    thinking: String,
    calls: Vec<ContentPart>,
    is_over: bool,
}

/// Returns the lines of an answer as events. <https://docs.ollama.com/api/streaming>
fn read(bytes: Bytes, model: ModelIden) -> Upstream {
    let reader = Reader {
        bytes,
        model,
        buffer: Vec::new(),
        ready: VecDeque::from([Ok(ChatStreamEvent::Start)]),
        thinking: String::new(),
        calls: Vec::new(),
        is_over: false,
    };
    stream::unfold(reader, |mut reader| async move {
        reader.next().await.map(|item| (item, reader))
    })
    .boxed()
}

impl Reader {
    async fn next(&mut self) -> Option<GenaiResult<ChatStreamEvent>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if self.is_over {
                return None;
            }
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let rest = self.buffer.split_off(end + 1);
                let line = std::mem::replace(&mut self.buffer, rest);
                self.take(&line);
                continue;
            }
            match self.bytes.next().await {
                Some(Ok(_)) if self.buffer.len() > LINE_MAX_BYTES => self.fail("a line of the answer is too long"),
                Some(Ok(bytes)) => self.buffer.extend_from_slice(&bytes),
                Some(Err(error)) => {
                    self.is_over = true;
                    self.ready.push_back(Err(broken_off(error, &self.model)));
                }
                None => {
                    // The last line may lack its line end.
                    let line = std::mem::take(&mut self.buffer);
                    self.take(&line);
                    self.is_over = true;
                }
            }
        }
    }

    fn fail(&mut self, what: &str) {
        self.is_over = true;
        self.ready.push_back(Err(GenaiError::ChatResponse {
            model_iden: self.model.clone(),
            body: json!({"error": {"message": what}}),
        }));
    }

    fn take(&mut self, line: &[u8]) {
        if line.trim_ascii().is_empty() {
            return;
        }
        let line: Value = match serde_json::from_slice(line) {
            Ok(line) => line,
            Err(serde_error) => {
                self.is_over = true;
                return self.ready.push_back(Err(GenaiError::StreamParse {
                    model_iden: self.model.clone(),
                    serde_error,
                }));
            }
        };
        // An error within the stream: <https://docs.ollama.com/api/errors>.
        if let Some(error) = line["error"].as_str() {
            return self.fail(error);
        }
        let message = &line["message"];
        let text = |field: &str| {
            message[field]
                .as_str()
                .filter(|text| !text.is_empty())
                .map(str::to_owned)
        };
        if let Some(content) = text("thinking") {
            self.thinking.push_str(&content);
            self.ready
                .push_back(Ok(ChatStreamEvent::ReasoningChunk(StreamChunk { content })));
        }
        if let Some(content) = text("content") {
            self.ready
                .push_back(Ok(ChatStreamEvent::Chunk(StreamChunk { content })));
        }
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            self.calls.push(ContentPart::ToolCall(ToolCall {
                // Older servers send no id: `answer` makes one.
                call_id: call["id"].as_str().unwrap_or_default().to_owned(),
                fn_name: call["function"]["name"].as_str().unwrap_or_default().to_owned(),
                fn_arguments: call["function"]["arguments"].clone(),
                thought_signatures: None,
            }));
        }
        if line["done"] == true {
            self.is_over = true;
            let calls = std::mem::take(&mut self.calls);
            let thinking = std::mem::take(&mut self.thinking);
            self.ready.push_back(Ok(ChatStreamEvent::End(StreamEnd {
                captured_usage: Some(usage(&line)),
                captured_stop_reason: line["done_reason"]
                    .as_str()
                    .map(|word| StopReason::from(word.to_owned())),
                captured_content: (!calls.is_empty()).then(|| MessageContent::from_parts(calls)),
                captured_reasoning_content: (!thinking.is_empty()).then_some(thinking),
                captured_response_id: None,
            })));
        }
    }
}

/// <https://docs.ollama.com/api/usage>.
fn usage(line: &Value) -> Usage {
    let tokens = |name: &str| line[name].as_i64().and_then(|tokens| i32::try_from(tokens).ok());
    Usage {
        prompt_tokens: tokens("prompt_eval_count"),
        prompt_tokens_details: Some(PromptTokensDetails {
            cached_tokens: tokens("prompt_eval_cached_count"),
            ..PromptTokensDetails::default()
        }),
        completion_tokens: tokens("eval_count"),
        ..Usage::default()
    }
}
