//! The renderer of Responses. The object that ends a stream, the answer without a stream, and what a later request for the response gets are
//! built by the same fold.

use chrono::DateTime;
use rejoin_sse::dialects::Renderer;
use serde_json::{Value, json};
use uuid::Uuid;

use super::changes::{Call, Change, End, Usage};
use super::fold::Fold;
use super::ids::{self, ResponseId};
use super::items::{self, SERVER_LABEL};
use crate::shown_text::WordsMode;

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

/// The frames of one event.
struct Frames<'a> {
    seq: i64,
    index: i64,
    /// None: no frames are written.
    after: Option<i64>,
    out: &'a mut Vec<u8>,
}

impl Frames<'_> {
    fn send(&mut self, kind: &str, mut event: Value) {
        let number = ids::frame_number(self.seq, self.index);
        debug_assert!(
            self.index < ids::FRAMES_PER_EVENT,
            "an event becomes fewer frames than {}",
            ids::FRAMES_PER_EVENT
        );
        self.index += 1;
        if self.after.is_none_or(|after| number <= after) {
            return;
        }
        event["type"] = json!(kind);
        event["sequence_number"] = json!(number);
        self.out
            .extend_from_slice(format!("event: {kind}\ndata: {event}\n\n").as_bytes());
    }
}

/// Renders one response.
#[derive(Debug)]
pub struct Responses {
    id: ResponseId,
    conversation: Option<Uuid>,
    form: Form,
    fold: Fold,
    items: Vec<Item>,
    /// The items that are being written.
    text: Option<usize>,
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
        let output: Vec<&Value> = self
            .items
            .iter()
            .filter(|item| !item.is_abandoned)
            .map(|item| &item.value)
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

    fn change(&mut self, change: Change, frames: &mut Frames<'_>) {
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
            Change::TextDone => self.end_text("completed", frames),
            Change::TextAbandoned => {
                if let Some(at) = self.text {
                    self.items[at].is_abandoned = true;
                }
                self.end_text("incomplete", frames);
            }
            Change::Rewritten(text) => {
                for item in &mut self.items {
                    item.is_abandoned |= item.value["type"] == "message";
                }
                self.write_text(&text, frames);
                self.end_text("completed", frames);
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
                self.end_text("completed", frames);
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
        if let Value::String(whole) = &mut self.items[at].value["content"][0]["text"] {
            whole.push_str(text);
        }
        let delta = json!({"content_index": 0, "delta": text, "logprobs": []});
        self.about(at, "response.output_text.delta", delta, frames);
    }

    fn end_text(&mut self, status: &str, frames: &mut Frames<'_>) {
        let Some(at) = self.text.take() else { return };
        self.items[at].value["status"] = json!(status);
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

impl Renderer for Responses {
    fn render(&mut self, seq: i64, event: &Value, out: &mut Vec<u8>) {
        let after = match self.form {
            Form::Stream { after } => Some(after),
            Form::Document => None,
        };
        let was_over = self.fold.is_over();
        let changes = self.fold.apply(event);
        let mut frames = Frames {
            seq,
            index: 0,
            after,
            out,
        };
        for change in changes {
            self.change(change, &mut frames);
        }
        if self.fold.is_over() && !was_over {
            match self.form {
                Form::Stream { .. } => out.extend_from_slice(DONE),
                Form::Document => out.extend_from_slice(self.response().to_string().as_bytes()),
            }
        }
    }

    fn is_over(&self) -> bool {
        self.fold.is_over()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openai::fold::continuation;
    use crate::openai::settings::{self, Settings};

    /// The events of a run, numbered from 3.
    struct Log {
        run: Uuid,
        events: Vec<Value>,
    }

    impl Log {
        fn new(settings: &Settings) -> Self {
            let run = Uuid::now_v7();
            let context = json!({ settings::FIELD: settings });
            let mut log = Self { run, events: vec![] };
            log.add(
                json!({"type": "message", "message": {"id": Uuid::now_v7(), "role": "user", "content": "Hi",
                "createdAt": "2026-11-25T10:00:00Z", "attachedContext": context}}),
            );
            log.add(json!({"type": "meta", "conversationId": Uuid::now_v7(), "agent": "helper", "model": "m", "citations": [], "attempt": 1}))
        }

        fn add(&mut self, mut event: Value) -> Self {
            event["runId"] = json!(self.run);
            self.events.push(event);
            Self {
                run: self.run,
                events: self.events.clone(),
            }
        }

        fn tokens(&mut self, text: &str) {
            for token in text.split_inclusive(' ') {
                self.add(json!({"type": "token", "token": token}));
            }
        }

        fn usage(&mut self, input: u64, output: u64) {
            self.add(json!({"type": "usage", "inputTokens": input, "outputTokens": output, "totalTokens": input + output, "steps": 1}));
        }

        /// Discards what follows the last event that is no token.
        fn reset(&mut self) {
            let last = self.events.iter().rposition(|event| event["type"] != "token").unwrap();
            self.add(json!({"type": "reset", "discardAfter": last + 3, "attempt": 2, "reason": "worker lost"}));
        }

        fn done(&mut self, stored: &str) {
            self.add(
                json!({"type": "message", "message": {"id": Uuid::now_v7(), "role": "assistant", "content": stored,
                "createdAt": "2026-11-25T10:00:05Z"}}),
            );
            self.add(json!({"type": "done", "status": "completed"}));
        }

        fn ask_function(&mut self, question: Uuid) {
            self.add(
                json!({"type": "mcp_tool", "callId": "c1", "tool": "look", "status": "started", "input": {"n": 1}}),
            );
            self.add(json!({"type": "question", "questionId": question, "question": "…", "options": [], "interactionType": "client_tool",
                "callId": "c1", "tool": "look", "input": {"n": 1}}));
        }

        fn wait(&mut self, questions: u64) {
            self.add(json!({"type": "agent_state", "state": "waiting_on_user", "details": {"agents": 0, "questions": questions, "dags": 0}}));
        }

        /// The frames after `after`, and the last response.
        fn frames(&self, id: ResponseId, words: WordsMode, after: i64) -> Vec<Value> {
            let mut out = Vec::new();
            let mut renderer = Responses::new(id, None, words, Form::Stream { after });
            let silent_through = ids::whole_through(after);
            for (event, seq) in self.events.iter().zip(3..) {
                let mut frames = Vec::new();
                renderer.render(seq, event, &mut frames);
                if seq > silent_through {
                    out.extend(frames);
                }
                if renderer.is_over() {
                    break;
                }
            }
            let text = String::from_utf8(out).unwrap();
            let frames = text.split("\n\n").filter(|frame| !frame.is_empty());
            let mut events = Vec::new();
            for frame in frames {
                match frame.split_once("\ndata: ") {
                    Some((kind, data)) => {
                        let event: Value = serde_json::from_str(data).unwrap();
                        assert_eq!(kind, format!("event: {}", event["type"].as_str().unwrap()));
                        events.push(event);
                    }
                    None => assert_eq!(frame, "data: [DONE]"),
                }
            }
            assert!(text.is_empty() || !renderer.is_over() || text.ends_with("data: [DONE]\n\n"));
            events
        }

        fn all(&self, words: WordsMode) -> Vec<Value> {
            self.frames(ResponseId::of_run(self.run), words, -1)
        }

        fn document(&self, id: ResponseId) -> Value {
            let mut renderer = Responses::new(id, None, WordsMode::Live, Form::Document);
            let mut out = Vec::new();
            for (event, seq) in self.events.iter().zip(3..) {
                renderer.render(seq, event, &mut out);
            }
            serde_json::from_slice(&out).unwrap()
        }
    }

    fn kinds(events: &[Value]) -> Vec<&str> {
        let mut kinds: Vec<&str> = events
            .iter()
            .map(|event| event["type"].as_str().unwrap().trim_start_matches("response."))
            .collect();
        kinds.dedup();
        kinds
    }

    fn output_text(response: &Value) -> String {
        let messages = response["output"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|item| item["type"] == "message");
        messages
            .map(|item| item["content"][0]["text"].as_str().unwrap())
            .collect()
    }

    fn deltas(events: &[Value]) -> String {
        let deltas = events
            .iter()
            .filter(|event| event["type"] == "response.output_text.delta");
        deltas.map(|event| event["delta"].as_str().unwrap()).collect()
    }

    fn settings() -> Settings {
        Settings {
            model: "helper".into(),
            tools: vec![json!({"type": "function", "name": "look"})],
            ..Settings::default()
        }
    }

    #[test]
    fn an_answer_has_its_events_in_the_protocols_order() {
        let mut log = Log::new(&settings());
        log.add(json!({"type": "reasoning", "text": "Hm."}));
        log.tokens("Hello you");
        log.usage(7, 2);
        log.add(json!({"type": "mcp_tool", "callId": "a", "tool": "search", "status": "started", "input": {"q": "x"}}));
        log.add(json!({"type": "mcp_tool", "callId": "a", "tool": "search", "status": "completed", "result": {"n": 1}, "durationMs": 3}));
        log.tokens("\n\nFound it.");
        log.usage(20, 5);
        log.done("Hello you\n\nFound it.");
        let events = log.all(WordsMode::Live);
        assert_eq!(
            kinds(&events),
            [
                "created",
                "in_progress",
                "output_item.added",
                "reasoning_summary_part.added",
                "reasoning_summary_text.delta",
                "reasoning_summary_text.done",
                "reasoning_summary_part.done",
                "output_item.done",
                "output_item.added",
                "content_part.added",
                "output_text.delta",
                "output_text.done",
                "content_part.done",
                "output_item.done",
                "output_item.added",
                "mcp_call.in_progress",
                "mcp_call_arguments.delta",
                "mcp_call_arguments.done",
                "mcp_call.completed",
                "output_item.done",
                "output_item.added",
                "content_part.added",
                "output_text.delta",
                "output_text.done",
                "content_part.done",
                "output_item.done",
                "completed"
            ]
        );
        let numbers: Vec<i64> = events
            .iter()
            .map(|event| event["sequence_number"].as_i64().unwrap())
            .collect();
        assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
        let response = &events.last().unwrap()["response"];
        assert_eq!(output_text(response), "Hello you\n\nFound it.");
        assert_eq!(response["usage"]["total_tokens"], 25);
        assert_eq!(response["completed_at"], 1_795_600_805);
        assert_eq!(response["output"][2]["output"], r#"{"n":1}"#);
        assert_eq!(&log.document(ResponseId::of_run(log.run)), response);
    }

    #[test]
    fn a_stream_continues_after_each_of_its_frames() {
        let mut log = Log::new(&settings());
        log.tokens("One two three");
        log.reset();
        log.tokens("One two four");
        log.usage(1, 1);
        log.done("One two four");
        for words in [WordsMode::Live, WordsMode::Safe] {
            let all = log.all(words);
            for (at, event) in all.iter().enumerate() {
                let after = event["sequence_number"].as_i64().unwrap();
                assert_eq!(
                    log.frames(ResponseId::of_run(log.run), words, after),
                    all[at + 1..],
                    "after {after}"
                );
            }
        }
    }

    #[test]
    fn words_of_a_lost_worker_are_not_repeated() {
        let mut log = Log::new(&settings());
        log.tokens("One two ");
        log.reset();
        log.tokens("One two three");
        log.usage(1, 1);
        log.done("One two three");
        let events = log.all(WordsMode::Live);
        assert_eq!(deltas(&events), "One two three");
        assert_eq!(output_text(&events.last().unwrap()["response"]), "One two three");
    }

    #[test]
    fn a_step_in_other_words_replaces_the_abandoned_item() {
        let mut log = Log::new(&settings());
        log.tokens("One two ");
        log.reset();
        log.tokens("One ten");
        log.usage(1, 1);
        log.done("One ten");
        let events = log.all(WordsMode::Live);
        let ended: Vec<&Value> = events
            .iter()
            .filter(|event| event["type"] == "response.output_item.done")
            .collect();
        assert_eq!(
            (&ended[0]["item"]["status"], &ended[1]["item"]["status"]),
            (&json!("incomplete"), &json!("completed"))
        );
        assert_eq!(output_text(&events.last().unwrap()["response"]), "One ten");
        let safe = log.all(WordsMode::Safe);
        assert_eq!(deltas(&safe), "One ten");
    }

    #[test]
    fn a_response_ends_with_its_calls_outputs_begin_another() {
        let question = Uuid::now_v7();
        let mut log = Log::new(&settings());
        log.tokens("Let me look.");
        log.usage(5, 3);
        log.ask_function(question);
        log.wait(1);
        log.add(json!({"type": "question_answered", "questionId": question, "status": "answered"}));
        log.add(json!({"type": "agent_state", "state": "thinking"}));
        log.add(json!({"type": "mcp_tool", "callId": "c1", "tool": "look", "status": "completed", "result": 7}));
        log.tokens("\n\nSeven.");
        log.usage(15, 4);
        log.done("Let me look.\n\nSeven.");
        let first = log.all(WordsMode::Live);
        let response = &first.last().unwrap()["response"];
        assert_eq!(response["status"], "completed");
        let call = &response["output"][1];
        assert_eq!(
            (&call["type"], &call["call_id"], &call["arguments"]),
            (
                &json!("function_call"),
                &json!(ids::call(question)),
                &json!(r#"{"n":1}"#)
            )
        );
        assert_eq!(&log.document(ResponseId::of_run(log.run)), response);

        let id = continuation(log.run, [question]);
        let second = log.frames(id, WordsMode::Live, -1);
        assert_eq!(second[0]["type"], "response.created");
        let response = &second.last().unwrap()["response"];
        assert_eq!(
            response["previous_response_id"],
            ResponseId::of_run(log.run).to_string()
        );
        assert_eq!(output_text(response), "\n\nSeven.");
        assert_eq!(response["output"].as_array().unwrap().len(), 1);
        assert_eq!(response["usage"]["input_tokens"], 10);
        assert_eq!(&log.document(id), response);
        let mut renderer = Responses::new(id, None, WordsMode::Live, Form::Document);
        for event in &log.events {
            renderer.render(1, event, &mut Vec::new());
        }
        let input = renderer.input().unwrap();
        assert_eq!(
            (&input[0]["type"], &input[0]["output"]),
            (&json!("function_call_output"), &json!("7"))
        );
        assert_eq!(
            log.frames(continuation(log.run, [Uuid::now_v7()]), WordsMode::Live, -1),
            Vec::<Value>::new()
        );
    }

    #[test]
    fn a_run_that_fails_or_is_cancelled_says_so() {
        let mut log = Log::new(&settings());
        log.tokens("Half ");
        let mut failed =
            log.add(json!({"type": "error", "error": "no key", "code": "model_key_missing", "retryable": false}));
        failed.add(json!({"type": "done", "status": "failed"}));
        let events = failed.all(WordsMode::Live);
        let last = events.last().unwrap();
        assert_eq!(
            (&last["type"], &last["response"]["status"]),
            (&json!("response.failed"), &json!("failed"))
        );
        assert_eq!(last["response"]["error"]["message"], "no key");
        let mut log = Log::new(&settings());
        log.add(json!({"type": "done", "status": "cancelled"}));
        let events = log.all(WordsMode::Live);
        let last = events.last().unwrap();
        assert_eq!(
            (&last["type"], &last["response"]["status"]),
            (&json!("response.incomplete"), &json!("cancelled"))
        );
    }

    #[test]
    fn an_answer_without_tokens_is_shown_from_its_message() {
        let mut log = Log::new(&settings());
        log.done("From a flow.");
        let events = log.all(WordsMode::Live);
        assert_eq!(deltas(&events), "From a flow.");
        assert_eq!(output_text(&events.last().unwrap()["response"]), "From a flow.");
    }

    #[test]
    fn an_approval_and_a_question_end_the_response() {
        let (approval, question) = (Uuid::now_v7(), Uuid::now_v7());
        let mut log = Log::new(&settings());
        log.add(json!({"type": "question", "questionId": approval, "question": "May it pay?", "options": [], "interactionType": "confirm"}));
        log.add(
            json!({"type": "question", "questionId": question, "question": "Which one?", "interactionType": "buttons",
            "options": [{"label": "A", "value": "a"}, {"label": "B", "value": "b"}]}),
        );
        log.wait(2);
        let response = log.document(ResponseId::of_run(log.run));
        assert_eq!(response["output"][0]["type"], "mcp_approval_request");
        assert_eq!(response["output"][0]["id"], ids::approval(approval));
        assert_eq!(output_text(&response), "Which one?\n- A\n- B");
    }
}
