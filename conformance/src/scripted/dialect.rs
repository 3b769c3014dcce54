//! The model's answer in the protocols of OpenAI (Chat Completions, Responses) and Anthropic (Messages), streamed or whole.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

const MODEL: &str = "scripted";
/// Counts of tokens. They cost nothing here.
const TOKENS: u64 = 10;
/// Answers so far. Ids of answers are unique, as a provider's are: servers recognize messages by them.
static ANSWERS: AtomicU64 = AtomicU64::new(1);

/// A piece of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    Begin,
    Text(String),
    Call {
        id: String,
        name: String,
        arguments: String,
    },
    End {
        calls: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Chat,
    Responses,
    Messages,
}

/// The rendering of one answer.
#[derive(Debug)]
pub(super) struct Dialect {
    protocol: Protocol,
    /// In its ids.
    number: u64,
    pub is_stream: bool,
    text: String,
    /// Whether a text is open, and how many items or blocks there are.
    is_open: bool,
    items: Vec<Value>,
    sequence: u64,
}

impl Dialect {
    fn of(protocol: Protocol, request: &Value) -> Self {
        Self {
            protocol,
            number: ANSWERS.fetch_add(1, Ordering::Relaxed),
            is_stream: request["stream"] == true,
            text: String::new(),
            is_open: false,
            items: Vec::new(),
            sequence: 0,
        }
    }

    pub fn chat(request: &Value) -> Self {
        Self::of(Protocol::Chat, request)
    }

    pub fn responses(request: &Value) -> Self {
        Self::of(Protocol::Responses, request)
    }

    pub fn messages(request: &Value) -> Self {
        Self::of(Protocol::Messages, request)
    }

    /// The frames of a piece.
    pub fn render(&mut self, piece: &Piece) -> String {
        match self.protocol {
            Protocol::Chat => chat(self.number, piece),
            Protocol::Responses => self.response(piece),
            Protocol::Messages => self.message(piece),
        }
    }

    /// The answer as one object.
    pub fn whole(mut self, pieces: &[Piece]) -> Value {
        let texts = pieces.iter().filter_map(|piece| match piece {
            Piece::Text(text) => Some(text.as_str()),
            _ => None,
        });
        let text: String = texts.collect();
        let call = pieces.iter().find_map(|piece| match piece {
            Piece::Call { id, name, arguments } => Some((id, name, arguments)),
            _ => None,
        });
        match self.protocol {
            Protocol::Chat => {
                let mut message = json!({"role": "assistant", "content": text});
                if let Some((id, name, arguments)) = call {
                    let function = json!({"name": name, "arguments": arguments});
                    message["tool_calls"] = json!([{"id": id, "type": "function", "function": function}]);
                }
                let reason = if call.is_some() { "tool_calls" } else { "stop" };
                json!({
                    "id": format!("chatcmpl-{}", self.number), "object": "chat.completion", "created": 0, "model": MODEL, "usage": chat_usage(),
                    "choices": [{"index": 0, "message": message, "finish_reason": reason}],
                })
            }
            Protocol::Responses => {
                for piece in pieces {
                    self.response(piece);
                }
                self.whole_response("completed")
            }
            Protocol::Messages => {
                let mut content = vec![json!({"type": "text", "text": text})];
                if let Some((id, name, arguments)) = call {
                    let input: Value = serde_json::from_str(arguments).unwrap_or_default();
                    content.push(json!({"type": "tool_use", "id": id, "name": name, "input": input}));
                }
                let reason = if call.is_some() { "tool_use" } else { "end_turn" };
                json!({
                    "id": self.message_id(), "type": "message", "role": "assistant", "model": MODEL, "content": content,
                    "stop_reason": reason, "stop_sequence": null,
                    "usage": {"input_tokens": TOKENS, "output_tokens": TOKENS},
                })
            }
        }
    }

    fn message_id(&self) -> String {
        format!("msg_{}", self.number)
    }

    fn whole_response(&self, status: &str) -> Value {
        json!({
            "id": format!("resp_{}", self.number), "object": "response", "created_at": 0, "status": status, "model": MODEL, "output": self.items,
            "error": null, "incomplete_details": null, "instructions": null, "metadata": {}, "parallel_tool_calls": true,
            "tool_choice": "auto", "tools": [], "temperature": 1.0, "top_p": 1.0, "usage": {
                "input_tokens": TOKENS, "output_tokens": TOKENS, "total_tokens": 2 * TOKENS,
                "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0},
            },
        })
    }

    fn response_event(&mut self, name: &str, mut fields: Value) -> String {
        fields["type"] = json!(name);
        fields["sequence_number"] = json!(self.sequence);
        self.sequence += 1;
        format!("event: {name}\ndata: {fields}\n\n")
    }

    fn response(&mut self, piece: &Piece) -> String {
        let at = self.items.len();
        match piece {
            Piece::Begin => {
                let whole = self.whole_response("in_progress");
                self.response_event("response.created", json!({ "response": whole }))
            }
            Piece::Text(text) => {
                let item = self.message_id();
                let mut out = String::new();
                if !self.is_open {
                    self.is_open = true;
                    let message = json!({"type": "message", "id": item, "status": "in_progress", "role": "assistant", "content": []});
                    out += &self.response_event(
                        "response.output_item.added",
                        json!({"output_index": at, "item": message}),
                    );
                    let part = json!({"type": "output_text", "text": "", "annotations": []});
                    let fields = json!({"item_id": item, "output_index": at, "content_index": 0, "part": part});
                    out += &self.response_event("response.content_part.added", fields);
                }
                self.text.push_str(text);
                let fields = json!({"item_id": item, "output_index": at, "content_index": 0, "delta": text});
                out + &self.response_event("response.output_text.delta", fields)
            }
            Piece::Call { id, name, arguments } => {
                let mut out = self.close_item();
                let at = self.items.len();
                let mut item = json!({
                    "type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": name, "arguments": "",
                    "status": "in_progress",
                });
                out += &self.response_event("response.output_item.added", json!({"output_index": at, "item": item}));
                let fields = json!({"item_id": item["id"], "output_index": at, "delta": arguments});
                out += &self.response_event("response.function_call_arguments.delta", fields);
                let fields = json!({"item_id": item["id"], "output_index": at, "arguments": arguments});
                out += &self.response_event("response.function_call_arguments.done", fields);
                item["arguments"] = json!(arguments);
                item["status"] = json!("completed");
                out += &self.response_event("response.output_item.done", json!({"output_index": at, "item": item}));
                self.items.push(item);
                out
            }
            Piece::End { .. } => {
                let out = self.close_item();
                let whole = self.whole_response("completed");
                out + &self.response_event("response.completed", json!({ "response": whole }))
            }
        }
    }

    fn close_item(&mut self) -> String {
        if !std::mem::take(&mut self.is_open) {
            return String::new();
        }
        let at = self.items.len();
        let part = json!({"type": "output_text", "text": self.text, "annotations": []});
        let id = self.message_id();
        let done = json!({"item_id": id, "output_index": at, "content_index": 0, "text": self.text});
        let mut out = self.response_event("response.output_text.done", done);
        let fields = json!({"item_id": id, "output_index": at, "content_index": 0, "part": part});
        out += &self.response_event("response.content_part.done", fields);
        let item = json!({"type": "message", "id": id, "status": "completed", "role": "assistant", "content": [part]});
        out += &self.response_event("response.output_item.done", json!({"output_index": at, "item": item}));
        self.items.push(item);
        out
    }

    fn message(&mut self, piece: &Piece) -> String {
        let at = self.items.len();
        match piece {
            Piece::Begin => {
                let message = json!({
                    "id": self.message_id(), "type": "message", "role": "assistant", "model": MODEL, "content": [], "stop_reason": null,
                    "stop_sequence": null, "usage": {"input_tokens": TOKENS, "output_tokens": 1},
                });
                event("message_start", &json!({ "message": message }))
            }
            Piece::Text(text) => {
                let mut out = String::new();
                if !std::mem::replace(&mut self.is_open, true) {
                    let block = json!({"type": "text", "text": ""});
                    out += &event("content_block_start", &json!({"index": at, "content_block": block}));
                }
                let delta = json!({"type": "text_delta", "text": text});
                out + &event("content_block_delta", &json!({"index": at, "delta": delta}))
            }
            Piece::Call { id, name, arguments } => {
                let mut out = self.close_block();
                let at = self.items.len();
                let block = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
                out += &event("content_block_start", &json!({"index": at, "content_block": block}));
                let delta = json!({"type": "input_json_delta", "partial_json": arguments});
                out += &event("content_block_delta", &json!({"index": at, "delta": delta}));
                self.is_open = true;
                out + &self.close_block()
            }
            Piece::End { calls } => {
                let out = self.close_block();
                let reason = if *calls { "tool_use" } else { "end_turn" };
                let delta = json!({"stop_reason": reason, "stop_sequence": null});
                let ends = json!({"delta": delta, "usage": {"output_tokens": TOKENS}});
                out + &event("message_delta", &ends) + &event("message_stop", &json!({}))
            }
        }
    }

    fn close_block(&mut self) -> String {
        if !std::mem::take(&mut self.is_open) {
            return String::new();
        }
        let at = self.items.len();
        self.items.push(Value::Null);
        event("content_block_stop", &json!({ "index": at }))
    }
}

fn event(name: &str, fields: &Value) -> String {
    let mut fields = fields.clone();
    fields["type"] = json!(name);
    format!("event: {name}\ndata: {fields}\n\n")
}

fn chat_usage() -> Value {
    json!({"prompt_tokens": TOKENS, "completion_tokens": TOKENS, "total_tokens": 2 * TOKENS})
}

fn chat(number: u64, piece: &Piece) -> String {
    let id = format!("chatcmpl-{number}");
    let chunk = |delta: Value, reason: Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
        let chunk = json!({
            "id": id, "object": "chat.completion.chunk", "created": 0, "model": MODEL, "choices": [choice],
        });
        format!("data: {chunk}\n\n")
    };
    match piece {
        Piece::Begin => chunk(json!({"role": "assistant", "content": ""}), Value::Null),
        Piece::Text(text) => chunk(json!({ "content": text }), Value::Null),
        Piece::Call { id, name, arguments } => {
            let function = json!({"name": name, "arguments": ""});
            let begin = json!({"tool_calls": [{"index": 0, "id": id, "type": "function", "function": function}]});
            let rest = json!({"tool_calls": [{"index": 0, "function": {"arguments": arguments}}]});
            chunk(begin, Value::Null) + &chunk(rest, Value::Null)
        }
        Piece::End { calls } => {
            let reason = if *calls { "tool_calls" } else { "stop" };
            let usage = json!({
                "id": id, "object": "chat.completion.chunk", "created": 0, "model": MODEL, "choices": [],
                "usage": chat_usage(),
            });
            chunk(json!({}), json!(reason)) + &format!("data: {usage}\n\ndata: [DONE]\n\n")
        }
    }
}
