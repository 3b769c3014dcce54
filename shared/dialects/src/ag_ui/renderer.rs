//! The fold of a run's events to the client's.
//!
//! Every event is folded to what a client is sent that has read the run from its beginning. A response that begins later leaves out the
//! frames before its beginning, and then writes once what is open, so that from there on all responses are the same: a client may reconnect
//! to any of them with its cursor.
//!
//! - `events` what each event becomes
//!
//! The frames of one event have the ids `{seq}.1`, `{seq}.2` …, the last one `{seq}`: who was cut off between them gets the others.

mod events;

use std::collections::HashSet;
use std::io::Write as _;

use rejoin_sse::dialects::Renderer;
use rejoin_sse::frame::Token;
use serde_json::{Map, Value, json};

use super::frames::Frames;
use super::interrupts::Question;
use super::open::{AgentEnd, Announced, Open, Owner};
use super::turn::Turn;
use super::{PROTOCOL_VERSION, STATE_KEY};

/// Where a response begins.
#[derive(Debug, Clone, PartialEq)]
pub enum Begin {
    /// With the first event after this number.
    After(i64),
    /// When all of these questions were answered, by the ids of the questions.
    Answered(HashSet<String>),
    /// With the state so far.
    Now,
    /// Nowhere: the client reads on in another response, after this number and this many frames of the next event.
    ReadOn { after: i64, frames: usize },
}

/// What a response is about.
#[derive(Debug, Clone)]
pub struct AgUi {
    pub thread_id: String,
    /// The client's name of its run.
    pub run_id: String,
    /// Our run.
    pub root: String,
    /// The user's message that begins the turn: the client has it.
    pub posted_message: Option<String>,
    /// The messages that the client has, or is to have, from before this run.
    pub messages: Vec<Value>,
    /// The client's state. None: unknown.
    pub state: Option<Value>,
    pub begin: Begin,
}

pub struct AgUiRenderer {
    about: AgUi,
    open: Open,
    turn: Turn,
    questions: Vec<Question>,
    /// Calls of the client's own tools.
    client_calls: HashSet<String>,
    /// Sub-agents under way, in order of their start.
    agents: Vec<Announced>,
    /// Steps of plans under way: the run that plans, the event's number, the name.
    steps: Vec<(String, i64, String)>,
    /// Our part of the client's state.
    state: Map<String, Value>,
    model: Option<String>,
    usage: Option<Value>,
    /// The usage when the client's run began.
    usage_before: Option<Value>,
    error: Option<(String, String)>,
    output: Option<Value>,
    /// Frames are left out: the response has not begun.
    is_silent: bool,
    /// The event rendered last has ended the client's run.
    is_over: bool,
}

/// The messages of a thread in which no run is active, as a client's run that ends at once.
pub fn thread_at_rest(thread_id: &str, run_id: &str, messages: &[Value], through: i64) -> Vec<u8> {
    let mut frames = Frames::default();
    frames.extend([
        started(thread_id, run_id),
        json!({"type": "MESSAGES_SNAPSHOT", "messages": messages}),
        json!({"type": "RUN_FINISHED", "threadId": thread_id, "runId": run_id, "outcome": {"type": "success"}}),
    ]);
    let mut out = Vec::new();
    write_unnumbered(through, &frames, &mut out);
    out
}

fn started(thread_id: &str, run_id: &str) -> Value {
    json!({"type": "RUN_STARTED", "threadId": thread_id, "runId": run_id, "protocolVersion": PROTOCOL_VERSION})
}

/// Writes frames that stand for all events through `through`: only the last one moves the cursor.
fn write_unnumbered(through: i64, frames: &Frames, out: &mut Vec<u8>) {
    let frames = frames.as_slice();
    for (at, frame) in frames.iter().enumerate() {
        let id = if at + 1 == frames.len() {
            format!("id: {through}\n")
        } else {
            String::new()
        };
        // Writing to memory can't fail.
        let _ = write!(out, "{id}data: {frame}\n\n");
    }
}

/// Writes the frames of one event.
fn write_numbered(seq: i64, frames: &Frames, skipped: usize, out: &mut Vec<u8>) {
    let frames = frames.as_slice();
    for (at, frame) in frames.iter().enumerate().skip(skipped) {
        let _ = if at + 1 == frames.len() {
            write!(out, "id: {seq}\ndata: {frame}\n\n")
        } else {
            write!(out, "id: {seq}.{}\ndata: {frame}\n\n", at + 1)
        };
    }
}

impl Renderer for AgUiRenderer {
    fn render(&mut self, seq: i64, event: &Value, out: &mut Vec<u8>) {
        self.is_over = false;
        let mut frames = Frames::default();
        let was_silent = self.is_silent;
        if self.begins_with(seq, event) {
            self.is_silent = false;
            if self.about.begin == Begin::Now {
                self.begin_run(&mut Frames::default());
            }
            self.write_state_so_far(&mut frames);
        }
        self.apply(seq, event, &mut frames);
        if was_silent && !self.is_silent && !self.open.is_run_open() && !self.is_over && !self.questions.is_empty() {
            // Answered, but not all of it.
            self.begin_run(&mut frames);
            self.wait(&mut frames);
        }
        if !self.is_silent {
            self.write(seq, &frames, out);
        }
    }

    fn render_token(&mut self, seq: i64, token: &Token<'_>, out: &mut Vec<u8>) -> bool {
        if self.is_silent {
            return false;
        }
        self.is_over = false;
        let mut frames = Frames::default();
        self.token(seq, token.run_id, &token.token, &mut frames);
        self.write(seq, &frames, out);
        true
    }

    fn is_over(&self) -> bool {
        self.is_over && !self.is_silent
    }

    fn caught_up(&mut self, through: i64, out: &mut Vec<u8>) -> bool {
        let waits = !self.questions.is_empty();
        match &self.about.begin {
            Begin::Now if self.is_silent => {}
            // The client has read the question.
            Begin::ReadOn { .. } => return waits && !self.open.is_run_open(),
            Begin::After(_) | Begin::Answered(_) | Begin::Now => return false,
        }
        self.is_silent = false;
        let mut frames = Frames::default();
        self.begin_run(&mut Frames::default());
        self.write_state_so_far(&mut frames);
        if waits {
            self.wait(&mut frames);
        }
        write_unnumbered(through, &frames, out);
        waits
    }
}

impl AgUiRenderer {
    pub fn new(about: AgUi) -> Self {
        Self {
            turn: Turn::of(&about.root),
            is_silent: !matches!(about.begin, Begin::ReadOn { .. }),
            about,
            open: Open::default(),
            questions: Vec::new(),
            client_calls: HashSet::new(),
            agents: Vec::new(),
            steps: Vec::new(),
            state: Map::new(),
            model: None,
            usage: None,
            usage_before: None,
            error: None,
            output: None,
            is_over: false,
        }
    }

    /// Writes the frames of one event, without those that the client has.
    fn write(&self, seq: i64, frames: &Frames, out: &mut Vec<u8>) {
        let skipped = match &self.about.begin {
            Begin::ReadOn { after, frames } if seq == after + 1 => *frames,
            _ => 0,
        };
        write_numbered(seq, frames, skipped, out);
    }

    /// Returns whether the response begins with this event.
    fn begins_with(&mut self, seq: i64, event: &Value) -> bool {
        if !self.is_silent {
            return false;
        }
        let is_end = event["type"] == "done" && self.owner_of(event).is_none();
        match &mut self.about.begin {
            Begin::After(after) => seq > *after,
            Begin::Answered(ids) => {
                if event["type"] == "question_answered" {
                    ids.remove(event["questionId"].as_str().unwrap_or_default());
                }
                ids.is_empty()
            }
            // The run has ended before its past was read.
            Begin::Now => is_end,
            Begin::ReadOn { .. } => true,
        }
    }

    fn run_of(&self, event: &Value) -> String {
        event["runId"].as_str().unwrap_or(&self.about.root).to_owned()
    }

    fn owner_of<'a>(&self, event: &'a Value) -> Owner<'a> {
        event["runId"].as_str().filter(|run| *run != self.about.root)
    }

    /// What a client needs that has read nothing, if its run is under way.
    fn write_state_so_far(&mut self, out: &mut Frames) {
        if !self.open.is_run_open() {
            return;
        }
        self.write_started(out);
        out.push(self.snapshot());
        self.open.write_again(out);
    }

    fn write_started(&self, out: &mut Frames) {
        out.push(started(&self.about.thread_id, &self.about.run_id));
        let ours = Value::Object(self.state.clone());
        match &self.about.state {
            Some(state @ (Value::Object(_) | Value::Null)) => {
                let mut whole = state.as_object().cloned().unwrap_or_default();
                whole.insert(STATE_KEY.to_owned(), ours);
                out.push(json!({"type": "STATE_SNAPSHOT", "snapshot": whole}));
            }
            // A state of another form has no place for ours.
            Some(_) => {}
            None => out.push(json!({"type": "STATE_DELTA", "delta": [patch("", ours)]})),
        }
    }

    /// All messages as they are now.
    fn snapshot(&self) -> Value {
        let own = self.turn.messages();
        let ids: HashSet<&str> = own.iter().filter_map(|message| message["id"].as_str()).collect();
        let calls: HashSet<&str> = own
            .iter()
            .filter_map(|message| message["toolCallId"].as_str())
            .collect();
        // A client that goes on with a run has sent its messages from the part before.
        let earlier = self.about.messages.iter().filter(|message| {
            let is_own = message["id"].as_str().is_some_and(|id| ids.contains(id));
            !is_own && !message["toolCallId"].as_str().is_some_and(|id| calls.contains(id))
        });
        let messages: Vec<&Value> = earlier.chain(&own).collect();
        json!({"type": "MESSAGES_SNAPSHOT", "messages": messages})
    }

    fn begin_run(&mut self, out: &mut Frames) {
        if self.open.is_run_open() {
            return;
        }
        self.open.begin_run();
        self.usage_before = self.usage.clone();
        self.write_started(out);
        for agent in &self.agents {
            self.open.begin_agent(agent.clone(), out);
        }
        for (run, _, name) in &self.steps {
            let owner = (*run != self.about.root).then_some(run.as_str());
            self.open.begin_step(name, owner, out);
        }
    }

    /// Changes a field of our part of the client's state.
    fn set_state(&mut self, name: &str, value: Value, out: &mut Frames) {
        if self.state.get(name) == Some(&value) {
            return;
        }
        self.state.insert(name.to_owned(), value.clone());
        let has_place = matches!(self.about.state, None | Some(Value::Object(_) | Value::Null));
        if has_place {
            out.push(json!({"type": "STATE_DELTA", "delta": [patch(&format!("/{name}"), value)]}));
        }
    }

    /// Ends the client's run, because ours waits for the client.
    fn wait(&mut self, out: &mut Frames) {
        let asked = self
            .questions
            .iter()
            .filter(|question| question.client_call().is_none());
        let interrupts: Vec<Value> = asked.map(|question| question.interrupt(&self.about.root)).collect();
        let outcome = if interrupts.is_empty() {
            let mut pending = Vec::new();
            for question in &self.questions {
                let call_id = question.client_call().unwrap_or_default();
                let known = self.turn.open_call_id(&question.run, call_id);
                pending.push(known.unwrap_or_else(|| call_id.to_owned()));
            }
            json!({"type": "success", "pendingToolCallIds": pending})
        } else {
            json!({"type": "interrupt", "interrupts": interrupts})
        };
        self.end_run(outcome, None, out);
    }

    fn done(&mut self, event: &Value, out: &mut Frames) {
        let status = event["status"].as_str().unwrap_or_default();
        if let Some(owner) = self.owner_of(event) {
            // The end of a sub-agent in logs that have no `sub_agent` event for it.
            self.agents.retain(|agent| agent.id != owner);
            self.open.end_agent(owner, AgentEnd::Completed { summary: None }, out);
            return;
        }
        self.questions.clear();
        self.agents.clear();
        self.steps.clear();
        self.turn.end();
        if status == "failed" {
            self.open.end_run(out);
            let (message, code) = self.error.take().unwrap_or_default();
            let message = if message.is_empty() {
                "the run failed".to_owned()
            } else {
                message
            };
            let mut failed = json!({"type": "RUN_ERROR", "message": message});
            if !code.is_empty() {
                failed["code"] = code.into();
            }
            if let Some(usage) = self.usage_of_this_run() {
                failed["usage"] = usage;
            }
            out.push(failed);
            self.is_over = true;
            return;
        }
        let outcome = match status {
            "cancelled" => json!({"type": "cancelled"}),
            _ => json!({"type": "success"}),
        };
        let mut result = json!({"runId": self.about.root, "status": status});
        if !event["finalMessageId"].is_null() {
            result["messageId"] = event["finalMessageId"].clone();
        }
        if let Some(output) = self.output.take() {
            result["output"] = output;
        }
        self.end_run(outcome, Some(result), out);
    }

    fn end_run(&mut self, outcome: Value, result: Option<Value>, out: &mut Frames) {
        self.open.end_run(out);
        let mut finished = json!({
            "type": "RUN_FINISHED", "threadId": self.about.thread_id, "runId": self.about.run_id, "outcome": outcome,
        });
        if let Some(result) = result {
            finished["result"] = result;
        }
        if let Some(usage) = self.usage_of_this_run() {
            finished["usage"] = usage;
        }
        out.push(finished);
        self.is_over = true;
    }

    /// The tokens of the client's run; ours counts from its own beginning.
    fn usage_of_this_run(&self) -> Option<Value> {
        let usage = self.usage.as_ref()?;
        let count = |name: &str| {
            let before = self.usage_before.as_ref().and_then(|before| before[name].as_u64());
            usage[name]
                .as_u64()
                .map(|now| now.saturating_sub(before.unwrap_or_default()))
        };
        let mut entry = json!({});
        if let Some(model) = &self.model {
            entry["model"] = model.as_str().into();
        }
        for (name, ours) in [
            ("inputTokens", "inputTokens"),
            ("outputTokens", "outputTokens"),
            ("totalTokens", "totalTokens"),
            ("reasoningTokens", "reasoningTokens"),
            ("cachedInputTokens", "cachedTokens"),
            ("cacheWriteInputTokens", "cacheWriteTokens"),
        ] {
            if let Some(tokens) = count(ours) {
                entry[name] = tokens.into();
            }
        }
        Some(json!([entry]))
    }
}

/// Sets a field of our part of the client's state, or all of it.
fn patch(path: &str, value: Value) -> Value {
    json!({"op": "add", "path": format!("/{STATE_KEY}{path}"), "value": value})
}
