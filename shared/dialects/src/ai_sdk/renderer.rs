//! The renderer: a fold of a run's events into chunks.
//!
//! A step of the UI message is a model call with the tool calls that it asked for. Words go out at once, or when their step is stored
//! (`Words`); those of a turn's past, in a stream that is opened again, only as far as they are still valid.
//!
//! Invariant: the text parts of a UI message, without the abandoned ones, are together the text of the stored message.

use std::collections::{BTreeMap, BTreeSet};

use rejoin_chat::WordsMode;
use rejoin_sse::dialects::Renderer;
use rejoin_sse::frame::Token;
use serde_json::{Value, json};

use super::chunks::Chunks;
use super::data::{self, DataParts};
use super::words::Words;

/// The error that ends a response before its turn ends.
const INTERRUPTED: &str =
    "The server is restarting, and the answer goes on meanwhile. Resume the stream to see the rest.";

/// Renders a run as UI messages.
pub struct UiMessages {
    mode: WordsMode,
    /// Tools that the client executes.
    client_tools: BTreeSet<String>,
    /// Whether the events are of the past: they are sent together when the present is reached.
    is_replay: bool,
    chunks: Chunks,
    text: Words,
    reasoning: Words,
    /// The message being written. None: none has begun.
    message: Option<UiMessage>,
    /// Questions without an answer so far, each with the call that it is about.
    open_questions: BTreeMap<String, Option<String>>,
    /// Whether the run waits for answers.
    waits: bool,
    /// Whether the response ends here.
    is_over: bool,
}

/// A UI message being written.
#[derive(Default)]
struct UiMessage {
    step: Option<Step>,
    /// Calls that the client knows, and whether they have ended.
    calls: BTreeMap<String, bool>,
    data: DataParts,
    /// The text of its steps that are stored.
    answer: String,
    sources: usize,
    failed: bool,
}

/// A step being written.
#[derive(Default)]
struct Step {
    /// The model has answered: what it says next belongs to the next step.
    is_stored: bool,
}

impl UiMessages {
    /// A renderer of a turn that begins now, or is continued.
    pub fn live(mode: WordsMode, client_tools: BTreeSet<String>) -> Self {
        Self {
            mode,
            client_tools,
            is_replay: false,
            chunks: Chunks::default(),
            text: Words::of("text"),
            reasoning: Words::of("reasoning"),
            message: None,
            open_questions: BTreeMap::new(),
            waits: false,
            is_over: false,
        }
    }

    /// A renderer of a turn that began before.
    pub fn replay(mode: WordsMode, client_tools: BTreeSet<String>) -> Self {
        Self {
            is_replay: true,
            ..Self::live(mode, client_tools)
        }
    }

    fn holds_words(&self) -> bool {
        self.is_replay || self.mode == WordsMode::Safe
    }

    fn fold(&mut self, seq: i64, event: &Value) {
        let is_of_sub_agent = event.get("parentRunId").is_some();
        match (event["type"].as_str().unwrap_or_default(), is_of_sub_agent) {
            ("message", false) => self.stored_message(event),
            ("meta", false) => self.meta(event),
            ("token", false) => self.token(event["token"].as_str().unwrap_or_default()),
            ("reasoning", false) => self.think(event["text"].as_str().unwrap_or_default()),
            ("mcp_tool", false) => self.call(event),
            ("reset", false) => {
                self.text.reset();
                self.reasoning.reset();
                if let Some(message) = &mut self.message {
                    message.data.reset(event["discardAfter"].as_i64().unwrap_or_default());
                }
            }
            ("custom", false) => {
                let chunk = self.message(event).data.emitted(seq, event);
                self.chunks.push(&chunk);
            }
            ("usage", false) => self.step_stored(event),
            ("question", _) => self.question(event),
            ("question_answered", _) => self.answered(event),
            ("agent_state", _) => self.waiting(event),
            ("error", false) => self.error(event),
            ("done", false) => self.done(event),
            // A sub-agent's own words, calls and costs are its parent's business; that it runs is shown.
            (_, false) | ("sub_agent" | "operation", true) => self.data(event),
            (_, true) => {}
        }
    }

    /// Returns the message, begun if it was not.
    fn message(&mut self, event: &Value) -> &mut UiMessage {
        if self.message.is_none() {
            self.begin(event["runId"].as_str().unwrap_or_default(), event);
        }
        self.message.get_or_insert_default()
    }

    fn begin(&mut self, answers: &str, event: &Value) {
        self.message = Some(UiMessage::default());
        self.chunks.push(&json!({
            "type": "start", "messageId": format!("answer-{answers}"), "messageMetadata": { "runId": event["runId"] },
        }));
    }

    fn stored_message(&mut self, event: &Value) {
        let message = &event["message"];
        if message["role"] == "assistant" {
            return self.complete_text(event, message["content"].as_str().unwrap_or_default());
        }
        // Any other message of a user steers the turn: the answer stays one message.
        if self.message.is_none() || self.waits {
            self.chunks.clear();
            self.text = Words::of("text");
            self.reasoning = Words::of("reasoning");
            self.begin(message["id"].as_str().unwrap_or_default(), event);
        }
    }

    fn meta(&mut self, event: &Value) {
        self.message(event);
        let mut metadata = json!({ "runId": event["runId"] });
        for field in ["conversationId", "agent", "model"] {
            if !event[field].is_null() {
                metadata[field] = event[field].clone();
            }
        }
        self.chunks
            .push(&json!({ "type": "message-metadata", "messageMetadata": metadata }));
        self.cite(&event["citations"]);
    }

    fn cite(&mut self, citations: &Value) {
        let Some(message) = &mut self.message else {
            return;
        };
        // The assistant's message repeats those of `meta`.
        let first = message.sources;
        for citation in citations.as_array().into_iter().flatten().skip(first) {
            message.sources += 1;
            self.chunks.push(&data::source(citation, message.sources));
        }
    }

    fn token(&mut self, piece: &str) {
        self.speak();
        self.reasoning.close(&mut self.chunks);
        let holds = self.holds_words();
        self.text.add(piece, holds, &mut self.chunks);
    }

    fn think(&mut self, piece: &str) {
        self.speak();
        let holds = self.holds_words();
        self.reasoning.add(piece, holds, &mut self.chunks);
    }

    /// Begins the step of the model's next words.
    fn speak(&mut self) {
        let step = self.message.get_or_insert_default().step.as_ref();
        if step.is_some_and(|step| step.is_stored) {
            self.end_step();
        }
        self.step();
    }

    fn step(&mut self) -> &mut Step {
        let message = self.message.get_or_insert_default();
        if message.step.is_none() {
            self.chunks.push(&json!({ "type": "start-step" }));
        }
        message.step.get_or_insert_default()
    }

    fn end_step(&mut self) {
        self.end_words();
        if let Some(message) = &mut self.message
            && message.step.take().is_some()
        {
            self.chunks.push(&json!({ "type": "finish-step" }));
        }
    }

    fn end_words(&mut self) {
        self.reasoning.finish(&mut self.chunks);
        let text = self.text.finish(&mut self.chunks);
        if let Some(message) = &mut self.message {
            message.answer.push_str(&text);
        }
    }

    fn step_stored(&mut self, event: &Value) {
        self.message(event);
        self.speak();
        self.end_words();
        self.step().is_stored = true;
        self.data(event);
    }

    /// Sends what the stored text has beyond the words: an answer that was not streamed.
    fn complete_text(&mut self, event: &Value, content: &str) {
        self.end_words();
        let answer = self.message(event).answer.clone();
        if let Some(rest) = content.strip_prefix(&answer).filter(|rest| !rest.is_empty()) {
            self.step();
            self.text.add(rest, false, &mut self.chunks);
            self.end_words();
        }
        self.cite(&event["message"]["citations"]);
    }

    fn call(&mut self, event: &Value) {
        let call_id = event["callId"].as_str().unwrap_or_default();
        let tool = event["tool"].as_str().unwrap_or_default();
        self.message(event);
        match event["status"].as_str() {
            Some("started") => self.announce(call_id, tool, &event["input"]),
            Some("completed") => self.call_ended(
                call_id,
                json!({ "type": "tool-output-available", "toolCallId": call_id, "output": event["result"] }),
            ),
            _ => {
                let why = event["error"].as_str().unwrap_or("The tool failed.");
                self.call_ended(
                    call_id,
                    json!({ "type": "tool-output-error", "toolCallId": call_id, "errorText": why }),
                );
            }
        }
    }

    /// Shows a call, unless it is shown already: one that was approved begins after it was shown.
    fn announce(&mut self, call_id: &str, tool: &str, input: &Value) {
        self.step();
        let message = self.message.get_or_insert_default();
        if message.calls.contains_key(call_id) {
            return;
        }
        message.calls.insert(call_id.to_owned(), false);
        let mut start = json!({ "type": "tool-input-start", "toolCallId": call_id, "toolName": tool });
        let mut available =
            json!({ "type": "tool-input-available", "toolCallId": call_id, "toolName": tool, "input": input });
        // The client has no type for the server's tools, and must not execute them.
        if !self.client_tools.contains(tool) {
            for chunk in [&mut start, &mut available] {
                chunk["dynamic"] = true.into();
                chunk["providerExecuted"] = true.into();
            }
        }
        self.chunks.push(&start);
        self.chunks.push(&available);
    }

    /// Shows the end of a call, if its beginning belongs to this message.
    fn call_ended(&mut self, call_id: &str, chunk: Value) {
        let calls = &mut self.message.get_or_insert_default().calls;
        if let Some(has_ended) = calls.get_mut(call_id).filter(|has_ended| !**has_ended) {
            *has_ended = true;
            self.chunks.push(&chunk);
        }
    }

    fn question(&mut self, event: &Value) {
        let Some(id) = event["questionId"].as_str() else {
            return;
        };
        self.message(event);
        let call_id = event["callId"].as_str();
        self.open_questions.insert(id.to_owned(), call_id.map(str::to_owned));
        match (event["interactionType"].as_str(), call_id, event["tool"].as_str()) {
            (Some("client_tool"), Some(call_id), Some(tool)) => {
                self.client_tools.insert(tool.to_owned());
                self.announce(call_id, tool, &event["input"]);
            }
            (Some("confirm"), Some(call_id), Some(tool)) => {
                self.announce(call_id, tool, &event["input"]);
                self.chunks
                    .push(&json!({ "type": "tool-approval-request", "approvalId": id, "toolCallId": call_id }));
            }
            _ => self.data(event),
        }
    }

    fn answered(&mut self, event: &Value) {
        let Some(call) = event["questionId"]
            .as_str()
            .and_then(|id| self.open_questions.remove(id))
        else {
            return;
        };
        match call {
            Some(call_id) if event["answer"]["decision"] == "refuse" => {
                self.call_ended(&call_id, json!({ "type": "tool-output-denied", "toolCallId": call_id }));
            }
            Some(_) => {}
            None if self.message(event).data.has(event) => self.data(event),
            None => {}
        }
        self.waits &= !self.open_questions.is_empty();
    }

    fn waiting(&mut self, event: &Value) {
        let is_waiting = event["state"]
            .as_str()
            .is_some_and(|state| state.starts_with("waiting_on_"));
        self.waits = is_waiting && !self.open_questions.is_empty();
        if self.waits && !self.is_replay {
            self.pause();
        }
    }

    /// Ends the response, whose message the client's next request continues or follows.
    fn pause(&mut self) {
        self.end_step();
        self.chunks
            .push(&json!({ "type": "finish", "finishReason": "tool-calls" }));
        self.chunks.end();
        self.is_over = true;
    }

    fn data(&mut self, event: &Value) {
        if let Some(chunk) = self.message(event).data.chunk(event) {
            self.chunks.push(&chunk);
        }
    }

    fn error(&mut self, event: &Value) {
        self.message(event).failed = true;
        self.end_step();
        let why = event["error"].as_str().unwrap_or("The run failed.");
        self.chunks.push(&json!({ "type": "error", "errorText": why }));
    }

    fn done(&mut self, event: &Value) {
        self.message(event);
        self.end_step();
        let mut metadata = json!({ "runId": event["runId"], "status": event["status"] });
        for field in ["finalMessageId", "usage"] {
            if !event[field].is_null() {
                metadata[field] = event[field].clone();
            }
        }
        let reason = match event["status"].as_str() {
            Some("completed") => "stop",
            Some("failed") => "error",
            _ => "other",
        };
        let mut finish = json!({ "type": "finish", "finishReason": reason });
        if event["status"] == "cancelled" {
            self.chunks
                .push(&json!({ "type": "message-metadata", "messageMetadata": metadata }));
            finish = json!({ "type": "abort", "reason": "cancelled" });
        } else {
            finish["messageMetadata"] = metadata;
        }
        self.chunks.push(&finish);
        self.chunks.end();
        self.is_replay = false;
    }
}

impl Renderer for UiMessages {
    fn render(&mut self, seq: i64, event: &Value, out: &mut Vec<u8>) {
        self.is_over = false;
        self.fold(seq, event);
        if !self.is_replay {
            self.chunks.send(out);
        }
    }

    fn render_token(&mut self, _seq: i64, token: &Token<'_>, out: &mut Vec<u8>) -> bool {
        self.is_over = false;
        if token.parent_run_id.is_none() {
            self.token(&token.token);
        }
        if !self.is_replay {
            self.chunks.send(out);
        }
        true
    }

    fn is_over(&self) -> bool {
        self.is_over
    }

    fn caught_up(&mut self, _through: i64, out: &mut Vec<u8>) -> bool {
        if !self.is_replay {
            return false;
        }
        self.is_replay = false;
        if self.mode == WordsMode::Live {
            self.reasoning.release(&mut self.chunks);
            self.text.release(&mut self.chunks);
        }
        if self.waits && !self.open_questions.is_empty() {
            self.pause();
        }
        self.chunks.send(out);
        self.is_over()
    }

    fn interrupted(&mut self, out: &mut Vec<u8>) {
        self.chunks.push(&json!({ "type": "error", "errorText": INTERRUPTED }));
        self.chunks.send(out);
    }
}

#[cfg(test)]
mod tests;
