//! The renderer of Responses. The object that ends a stream, the answer without a stream, and what a later request for the response gets are
//! built by the same fold.

mod frames;

use chrono::DateTime;
use rejoin_chat::WordsMode;
use rejoin_sse::dialects::Renderer;
use rejoin_sse::frame::Token;
use serde_json::{Value, json};
use uuid::Uuid;

use self::frames::{Frames, TextDeltas};
use super::changes::{Call, Change, End, Usage};
use super::fold::Fold;
use super::ids::{self, ResponseId};
use super::items::{self, SERVER_LABEL};

/// What ends a stream.
pub(super) const DONE: &[u8] = b"data: [DONE]\n\n";

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Frames whose number is greater than `after`.
    Stream { after: i64 },
    /// The response as one document, at its end.
    Document,
}

/// An output item.
#[derive(Debug)]
struct Item {
    id: String,
    value: Value,
    /// The call that it shows, while it is open.
    open_call: Option<String>,
    /// Its text is not part of the answer.
    is_abandoned: bool,
}

/// Renders one response.
#[derive(Debug)]
pub struct Responses {
    id: ResponseId,
    conversation: Option<Uuid>,
    form: Form,
    fold: Fold,
    items: Vec<Item>,
    /// The items that are being written. The text's has its words at its end.
    text: Option<usize>,
    /// What its frames have in common, once one is written.
    deltas: Option<TextDeltas>,
    reasoning: Option<usize>,
    status: &'static str,
}

impl Responses {
    pub fn new(id: ResponseId, conversation: Option<Uuid>, words: WordsMode, form: Form) -> Self {
        Self {
            id,
            conversation,
            form,
            fold: Fold::new(id, words),
            items: Vec::new(),
            text: None,
            deltas: None,
            reasoning: None,
            status: "queued",
        }
    }

    /// Returns the response as the events so far have it. None: there is no such response.
    pub fn document(&self) -> Option<Value> {
        self.fold.is_active().then(|| self.response())
    }

    /// Returns the response's input items.
    pub fn input(&self) -> Option<&[Value]> {
        self.fold.is_active().then(|| self.fold.input())
    }

    /// Whether the response is the first one of a conversation that was made for it.
    pub fn begins_conversation(&self) -> bool {
        self.fold.is_active() && self.fold.previous_id().is_none() && !self.fold.settings().in_conversation
    }

    fn response(&self) -> Value {
        let mut response = self.fold.settings().repeated();
        let items = self.items.iter().enumerate().filter(|(_, item)| !item.is_abandoned);
        let output: Vec<Value> = items
            .map(|(at, item)| {
                let mut value = item.value.clone();
                if self.text == Some(at) {
                    value["content"][0]["text"] = json!(self.fold.shown_text());
                }
                value
            })
            .collect();
        let ended_at = self
            .fold
            .ended_at()
            .and_then(|at| DateTime::parse_from_rfc3339(at).ok());
        let completed_at = ended_at.filter(|_| self.status == "completed").map(|at| at.timestamp());
        let reason = match self.status {
            "incomplete" => json!({"reason": "max_output_tokens"}),
            _ => Value::Null,
        };
        let error = match self.status {
            "failed" => self.error(),
            _ => Value::Null,
        };
        let fields = [
            ("id", json!(self.id.to_string())),
            ("object", json!("response")),
            ("created_at", json!(self.id.created_at())),
            ("completed_at", json!(completed_at)),
            ("status", json!(self.status)),
            ("error", error),
            ("incomplete_details", reason),
            ("previous_response_id", json!(self.fold.previous_id())),
            (
                "conversation",
                json!(self.conversation.map(|id| json!({"id": ids::conversation(id)}))),
            ),
            ("output", json!(output)),
            ("usage", self.usage()),
            ("access_programs", Value::Null),
        ];
        for (name, value) in fields {
            response[name] = value;
        }
        response
    }

    fn error(&self) -> Value {
        let failure = self.fold.failure();
        let (code, message) = failure.map_or(("", "the run failed"), |failure| (&*failure.code, &*failure.message));
        let kind = if code.contains("rate_limit") {
            "rate_limit_exceeded"
        } else {
            "server_error"
        };
        // The protocol has few codes: ours is the type.
        json!({"code": kind, "message": message, "type": code})
    }

    fn usage(&self) -> Value {
        let used = self.fold.usage();
        if used == Usage::default() {
            return Value::Null;
        }
        json!({
            "input_tokens": used.input,
            "input_tokens_details": {"cached_tokens": used.cached, "cache_write_tokens": used.cache_write},
            "output_tokens": used.output,
            "output_tokens_details": {"reasoning_tokens": used.reasoning},
            "total_tokens": used.input + used.output,
        })
    }

    fn change(&mut self, change: Change<'_>, frames: &mut Frames<'_>) {
        match change {
            Change::Created => {
                self.tell("response.created", frames);
                if self.fold.settings().background {
                    self.tell("response.queued", frames);
                }
            }
            Change::InProgress => {
                self.status = "in_progress";
                self.tell("response.in_progress", frames);
            }
            Change::Text(text) => self.write_text(&text, frames),
            Change::TextDone(text) => self.end_text("completed", &text, frames),
            Change::TextAbandoned(text) => {
                if let Some(at) = self.text {
                    self.items[at].is_abandoned = true;
                }
                self.end_text("incomplete", &text, frames);
            }
            Change::Rewritten(text) => {
                for item in &mut self.items {
                    item.is_abandoned |= item.value["type"] == "message";
                }
                self.write_text(text, frames);
                self.end_text("completed", text, frames);
            }
            Change::Reasoning(text) => self.write_reasoning(&text, frames),
            Change::ReasoningDone => self.end_reasoning(frames),
            Change::CallStarted(call) => {
                self.begin_call(call, frames);
            }
            Change::CallDone { call, output, error } => self.end_call(call, output.as_ref(), error.as_ref(), frames),
            Change::Function {
                question,
                name,
                arguments,
            } => self.function(question, &name, &arguments, frames),
            Change::Approval {
                question,
                name,
                arguments,
            } => {
                let id = ids::approval(question);
                let item = json!({"id": id, "type": "mcp_approval_request", "name": name, "arguments": arguments,
                    "server_label": SERVER_LABEL});
                let at = self.begin(id, item, frames);
                self.end(at, frames);
            }
            Change::Question(words) => {
                self.write_text(&words, frames);
                self.end_text("completed", &words, frames);
            }
            Change::Waits => self.end_response("completed", frames),
            Change::Ended(end) => self.end_response(
                match end {
                    End::Completed => "completed",
                    End::Failed => "failed",
                    End::Cancelled => "cancelled",
                    End::Paused => "incomplete",
                },
                frames,
            ),
        }
    }

    fn tell(&self, kind: &str, frames: &mut Frames<'_>) {
        frames.send(kind, json!({"response": self.response()}));
    }

    fn end_response(&mut self, status: &'static str, frames: &mut Frames<'_>) {
        self.status = status;
        let kind = match status {
            "completed" => "response.completed",
            "failed" => "response.failed",
            // The protocol has no event for a cancelled response; its status says it.
            _ => "response.incomplete",
        };
        self.tell(kind, frames);
    }

    /// The id of the next item.
    fn next_id(&self, prefix: &str) -> String {
        format!("{prefix}_{}_{}", self.id.digits(), self.items.len())
    }

    fn begin(&mut self, id: String, value: Value, frames: &mut Frames<'_>) -> usize {
        let at = self.items.len();
        frames.send("response.output_item.added", json!({"output_index": at, "item": value}));
        self.items.push(Item {
            id,
            value,
            open_call: None,
            is_abandoned: false,
        });
        at
    }

    fn end(&mut self, at: usize, frames: &mut Frames<'_>) {
        let item = &self.items[at].value;
        frames.send("response.output_item.done", json!({"output_index": at, "item": item}));
    }

    /// Sends an event about an item.
    fn about(&self, at: usize, kind: &str, mut event: Value, frames: &mut Frames<'_>) {
        event["item_id"] = json!(self.items[at].id);
        event["output_index"] = json!(at);
        frames.send(kind, event);
    }

    fn write_text(&mut self, text: &str, frames: &mut Frames<'_>) {
        let at = self.text.unwrap_or_else(|| {
            let id = self.next_id("msg");
            let item = items::message(&id, "in_progress", &[]);
            let at = self.begin(id, item, frames);
            self.items[at].value["content"] = json!([items::text_part("")]);
            let part = json!({"content_index": 0, "part": items::text_part("")});
            self.about(at, "response.content_part.added", part, frames);
            self.text = Some(at);
            at
        });
        if let Some(number) = frames.next_number() {
            let deltas = self
                .deltas
                .get_or_insert_with(|| TextDeltas::of(&self.items[at].id, at));
            deltas.write(number, text, frames.out);
        }
    }

    fn end_text(&mut self, status: &str, text: &str, frames: &mut Frames<'_>) {
        let Some(at) = self.text.take() else { return };
        self.deltas = None;
        self.items[at].value["status"] = json!(status);
        self.items[at].value["content"][0]["text"] = json!(text);
        let part = self.items[at].value["content"][0].clone();
        let done = json!({"content_index": 0, "text": part["text"], "logprobs": []});
        self.about(at, "response.output_text.done", done, frames);
        let part = json!({"content_index": 0, "part": part});
        self.about(at, "response.content_part.done", part, frames);
        self.end(at, frames);
    }

    fn write_reasoning(&mut self, text: &str, frames: &mut Frames<'_>) {
        let at = self.reasoning.unwrap_or_else(|| {
            let id = self.next_id("rs");
            let item = items::reasoning(&id, "in_progress", &[]);
            let at = self.begin(id, item, frames);
            self.items[at].value["summary"] = json!([items::summary_part("")]);
            let part = json!({"summary_index": 0, "part": items::summary_part("")});
            self.about(at, "response.reasoning_summary_part.added", part, frames);
            self.reasoning = Some(at);
            at
        });
        if let Value::String(whole) = &mut self.items[at].value["summary"][0]["text"] {
            whole.push_str(text);
        }
        let delta = json!({"summary_index": 0, "delta": text});
        self.about(at, "response.reasoning_summary_text.delta", delta, frames);
    }

    fn end_reasoning(&mut self, frames: &mut Frames<'_>) {
        let Some(at) = self.reasoning.take() else { return };
        self.items[at].value["status"] = json!("completed");
        let part = self.items[at].value["summary"][0].clone();
        let done = json!({"summary_index": 0, "text": part["text"]});
        self.about(at, "response.reasoning_summary_text.done", done, frames);
        let part = json!({"summary_index": 0, "part": part});
        self.about(at, "response.reasoning_summary_part.done", part, frames);
        self.end(at, frames);
    }

    fn begin_call(&mut self, call: Call, frames: &mut Frames<'_>) -> usize {
        let id = self.next_id("mcp");
        let item = json!({"id": id, "type": "mcp_call", "status": "in_progress", "name": call.name, "arguments": "",
            "server_label": SERVER_LABEL, "output": null, "error": null, "approval_request_id": null});
        let at = self.begin(id, item, frames);
        self.items[at].open_call = Some(call.id);
        self.items[at].value["arguments"] = json!(call.arguments);
        self.about(at, "response.mcp_call.in_progress", json!({}), frames);
        let delta = json!({"delta": call.arguments});
        self.about(at, "response.mcp_call_arguments.delta", delta, frames);
        let done = json!({"arguments": call.arguments});
        self.about(at, "response.mcp_call_arguments.done", done, frames);
        at
    }

    fn end_call(&mut self, call: Call, output: Option<&String>, error: Option<&String>, frames: &mut Frames<'_>) {
        let open = self
            .items
            .iter()
            .position(|item| item.open_call.as_deref() == Some(&call.id));
        // It began in an earlier response of the run.
        let at = open.unwrap_or_else(|| self.begin_call(call, frames));
        let item = &mut self.items[at];
        item.open_call = None;
        item.value["output"] = json!(output);
        let kind = match error {
            Some(error) => {
                item.value["status"] = json!("failed");
                let content = json!([{"type": "text", "text": error}]);
                item.value["error"] = json!({"type": "mcp_tool_execution_error", "content": content});
                "response.mcp_call.failed"
            }
            None => {
                item.value["status"] = json!("completed");
                "response.mcp_call.completed"
            }
        };
        self.about(at, kind, json!({}), frames);
        self.end(at, frames);
    }

    fn function(&mut self, question: Uuid, name: &str, arguments: &str, frames: &mut Frames<'_>) {
        let id = format!("fc_{}", question.simple());
        let item = json!({"id": id, "type": "function_call", "status": "in_progress", "call_id": ids::call(question),
            "name": name, "arguments": ""});
        let at = self.begin(id, item, frames);
        self.about(
            at,
            "response.function_call_arguments.delta",
            json!({"delta": arguments}),
            frames,
        );
        let done = json!({"arguments": arguments, "name": name});
        self.about(at, "response.function_call_arguments.done", done, frames);
        self.items[at].value["arguments"] = json!(arguments);
        self.items[at].value["status"] = json!("completed");
        self.end(at, frames);
    }
}

impl Responses {
    fn write(&mut self, seq: i64, changes: Vec<Change<'_>>, out: &mut Vec<u8>) {
        let after = match self.form {
            Form::Stream { after } => Some(after),
            Form::Document => None,
        };
        let mut frames = Frames {
            seq,
            index: 0,
            after,
            out,
        };
        for change in changes {
            self.change(change, &mut frames);
        }
    }
}

impl Renderer for Responses {
    fn render(&mut self, seq: i64, event: &Value, out: &mut Vec<u8>) {
        let was_over = self.fold.is_over();
        let changes = self.fold.apply(event);
        self.write(seq, changes, out);
        if self.fold.is_over() && !was_over {
            match self.form {
                Form::Stream { .. } => out.extend_from_slice(DONE),
                Form::Document => out.extend_from_slice(self.response().to_string().as_bytes()),
            }
        }
    }

    fn render_token(&mut self, seq: i64, token: &Token<'_>, out: &mut Vec<u8>) -> bool {
        let changes = self.fold.apply_token(token);
        self.write(seq, changes, out);
        true
    }

    fn is_over(&self) -> bool {
        self.fold.is_over()
    }
}

#[cfg(test)]
mod tests;
