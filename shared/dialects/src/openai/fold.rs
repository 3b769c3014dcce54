//! A run's events, folded into what a client is shown that can't take words back. Both protocols render these changes.
//!
//! Invariants: the changes depend on the events alone; what is shown as text, without what was abandoned, is the stored message.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use rejoin_chat::WordsMode;
use rejoin_sse::frame::Token;
use serde_json::{Value, json};
use uuid::Uuid;

use super::changes::{Call, Change, End, Failure, Usage};
use super::ids::ResponseId;
use super::items;
use super::settings::Settings;
use crate::shown_text::{Finished, Shown, ShownText};

/// The interaction of a question that a client answers by a function's output.
const CLIENT_TOOL: &str = "client_tool";
/// The interaction of a question that asks for approval.
const CONFIRM: &str = "confirm";

/// What a question wants of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wants {
    Output,
    Approval,
    Words,
}

/// The step that is being written.
#[derive(Debug, Default)]
struct Step {
    text: ShownText,
    reasoning: ShownText,
    has_text: bool,
    has_reasoning: bool,
    /// Its reasoning was shown to its end.
    has_reasoned: bool,
    /// An attempt of it was lost.
    is_repeated: bool,
    /// In the mode `safe`: what is not yet shown.
    held_text: String,
    held_reasoning: String,
}

/// The fold of one response.
#[derive(Debug)]
pub struct Fold {
    words: WordsMode,
    id: ResponseId,
    /// Whether the response has begun: not while the events are those of earlier responses of the run.
    is_active: bool,
    is_created: bool,
    is_over: bool,
    step: Step,
    /// The run's text before the step, as the log has it.
    text: String,
    /// Its length at the beginning of the response.
    text_before: usize,
    calls: HashMap<String, Call>,
    /// Calls of the client's functions, with the questions that wait for their outputs.
    functions: HashMap<String, Uuid>,
    /// Questions since the run last waited.
    asked: Vec<Uuid>,
    wants: HashMap<Uuid, Wants>,
    /// The last of the run's responses before this one.
    previous: ResponseId,
    settings: Option<Settings>,
    agent: String,
    usage: Usage,
    usage_before: Usage,
    failure: Option<Failure>,
    ended_at: Option<String>,
    input: Vec<Value>,
}

impl Fold {
    pub fn new(id: ResponseId, words: WordsMode) -> Self {
        Self {
            words,
            id,
            is_active: id.question.is_none(),
            is_created: false,
            is_over: false,
            step: Step::default(),
            text: String::new(),
            text_before: 0,
            calls: HashMap::new(),
            functions: HashMap::new(),
            asked: Vec::new(),
            wants: HashMap::new(),
            previous: ResponseId::of_run(id.run),
            settings: None,
            agent: String::new(),
            usage: Usage::default(),
            usage_before: Usage::default(),
            failure: None,
            ended_at: None,
            input: Vec::new(),
        }
    }

    /// Whether an event of the response has been seen. False at the end of the events: there is no such response.
    pub fn is_active(&self) -> bool {
        self.is_active
    }

    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// What the request set; the run's agent, if it came another way.
    pub fn settings(&self) -> Settings {
        self.settings.clone().unwrap_or_else(|| Settings {
            model: self.agent.clone(),
            ..Settings::default()
        })
    }

    /// The response that this one continues.
    pub fn previous_id(&self) -> Option<String> {
        match self.id.question {
            Some(_) => Some(self.previous.to_string()),
            None => self.settings.as_ref()?.previous_response_id.clone(),
        }
    }

    /// What the response has used so far.
    pub fn usage(&self) -> Usage {
        self.usage.since(self.usage_before)
    }

    pub fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// When the run's last message was stored, in RFC 3339.
    pub fn ended_at(&self) -> Option<&str> {
        self.ended_at.as_deref()
    }

    /// The response's input items.
    pub fn input(&self) -> &[Value] {
        &self.input
    }

    /// Takes the next event of the run, and returns what it changes for the response's client.
    pub fn apply<'a>(&mut self, event: &'a Value) -> Vec<Change<'a>> {
        self.changes(|fold, changes| fold.take(event, changes))
    }

    /// The same for a piece of an answer.
    pub fn apply_token<'a>(&mut self, token: &'a Token<'_>) -> Vec<Change<'a>> {
        self.changes(|fold, changes| {
            if token.parent_run_id.is_none() {
                fold.token(&token.token, changes);
            }
        })
    }

    /// The text that the client has of the step being written.
    pub fn shown_text(&self) -> &str {
        self.step.text.text()
    }

    fn changes<'a>(&mut self, take: impl FnOnce(&mut Self, &mut Vec<Change<'a>>)) -> Vec<Change<'a>> {
        let mut changes = Vec::new();
        if self.is_over {
            return changes;
        }
        let is_shown = self.is_active;
        if is_shown && !self.is_created {
            self.is_created = true;
            changes.push(Change::Created);
            if self.id.question.is_some() {
                changes.push(Change::InProgress);
            }
        }
        take(self, &mut changes);
        if !is_shown {
            changes.clear();
        }
        changes
    }

    fn take<'a>(&mut self, event: &'a Value, changes: &mut Vec<Change<'a>>) {
        let is_root = event["parentRunId"].is_null();
        let text = |name: &str| -> &'a str { event[name].as_str().unwrap_or_default() };
        match text("type") {
            // Sub-agents ask, and wait, for the same client.
            "question" => self.ask(event, changes),
            "question_answered" => self.answered(event),
            "agent_state" => self.wait(event, changes),
            _ if !is_root => {}
            "message" => self.message(&event["message"], event, changes),
            "meta" => {
                text("agent").clone_into(&mut self.agent);
                if self.id.question.is_none() {
                    changes.push(Change::InProgress);
                }
            }
            "token" => self.token(text("token"), changes),
            "reasoning" => self.reason(text("text"), changes),
            "reset" => self.reset(),
            "usage" => {
                self.usage = Usage::of(event);
                self.end_step(changes);
            }
            "mcp_tool" => self.tool(event, changes),
            "error" => {
                self.failure = Some(Failure {
                    code: text("code").to_owned(),
                    message: text("error").to_owned(),
                });
            }
            "done" => self.done(text("status"), changes),
            _ => {}
        }
    }

    fn message<'a>(&mut self, message: &'a Value, event: &Value, changes: &mut Vec<Change<'a>>) {
        if message["role"] == "user" {
            if self.settings.is_none() {
                self.settings = Settings::of_message(event);
            }
            if self.is_active {
                self.input.push(items::user_message(message));
            }
            return;
        }
        self.end_step(changes);
        self.ended_at = message["createdAt"].as_str().map(str::to_owned);
        let stored = message["content"].as_str().unwrap_or_default();
        if let Some(rest) = stored.strip_prefix(self.text.as_str()) {
            // An agent that calls no model has written nothing before.
            if !rest.is_empty() {
                changes.extend([Change::Text(rest.into()), Change::TextDone(rest.into())]);
            }
        } else {
            let before = &self.text[..self.text_before];
            changes.push(Change::Rewritten(stored.strip_prefix(before).unwrap_or(stored)));
        }
        stored.clone_into(&mut self.text);
    }

    fn token<'a>(&mut self, piece: &'a str, changes: &mut Vec<Change<'a>>) {
        match self.words {
            WordsMode::Safe => self.step.held_text.push_str(piece),
            WordsMode::Live => {
                let shown = self.step.text.add(piece);
                if shown != Shown::Nothing {
                    self.end_reasoning(changes);
                }
                match shown {
                    Shown::Nothing => {}
                    Shown::More(more) => changes.push(Change::Text(more.into())),
                    Shown::Replaced { shown, text } => {
                        changes.extend([Change::TextAbandoned(shown), Change::Text(text.into())]);
                    }
                }
                self.step.has_text = true;
            }
        }
    }

    fn reason<'a>(&mut self, piece: &'a str, changes: &mut Vec<Change<'a>>) {
        let step = &mut self.step;
        match self.words {
            WordsMode::Safe => step.held_reasoning.push_str(piece),
            // It was shown to its end by an attempt that was lost.
            WordsMode::Live if step.is_repeated && step.has_reasoned => {}
            WordsMode::Live => {
                match step.reasoning.add(piece) {
                    Shown::Nothing => {}
                    Shown::More(more) => changes.push(Change::Reasoning(more.into())),
                    Shown::Replaced { text, .. } => {
                        changes.extend([Change::ReasoningDone, Change::Reasoning(text.into())]);
                    }
                }
                step.has_reasoning = true;
            }
        }
    }

    fn end_reasoning(&mut self, changes: &mut Vec<Change<'_>>) {
        let step = &mut self.step;
        if std::mem::take(&mut step.has_reasoning) {
            step.has_reasoned = true;
            // Reasoning is no part of the answer: what a lost attempt has shown of it stays.
            step.reasoning = ShownText::default();
            changes.push(Change::ReasoningDone);
        }
    }

    fn reset(&mut self) {
        let step = &mut self.step;
        step.is_repeated = true;
        step.text.reset();
        step.reasoning.reset();
        step.held_text.clear();
        step.held_reasoning.clear();
    }

    /// The step is stored, or the run ends: its text is final.
    fn end_step(&mut self, changes: &mut Vec<Change<'_>>) {
        self.end_reasoning(changes);
        let mut step = std::mem::take(&mut self.step);
        if !step.held_reasoning.is_empty() {
            changes.extend([Change::Reasoning(step.held_reasoning.into()), Change::ReasoningDone]);
        }
        if !step.held_text.is_empty() {
            step.text.add(&step.held_text);
            step.has_text = true;
            changes.push(Change::Text(step.held_text.into()));
        }
        let Finished { text, shown } = step.text.finish();
        self.text.push_str(&text);
        match shown {
            Some(shown) => {
                changes.push(Change::TextAbandoned(shown));
                if !text.is_empty() {
                    changes.extend([Change::Text(text.clone().into()), Change::TextDone(text.into())]);
                }
            }
            None if step.has_text => changes.push(Change::TextDone(text.into())),
            None => {}
        }
    }

    fn tool(&mut self, event: &Value, changes: &mut Vec<Change<'_>>) {
        let name = event["tool"].as_str().unwrap_or_default();
        let settings = self.settings.as_ref();
        if settings.is_some_and(|settings| settings.function_names().any(|function| function == name)) {
            self.returned(event);
            return;
        }
        let id = event["callId"].as_str().unwrap_or_default().to_owned();
        if event["status"] == "started" {
            self.end_step(changes);
            // A new attempt may repeat a call.
            if let Entry::Vacant(vacant) = self.calls.entry(id.clone()) {
                let call = Call {
                    id,
                    name: name.to_owned(),
                    arguments: items::json_text(&event["input"]),
                };
                vacant.insert(call.clone());
                changes.push(Change::CallStarted(call));
            }
            return;
        }
        if let Some(call) = self.calls.remove(&id) {
            let output = Some(&event["result"]).filter(|result| !result.is_null());
            changes.push(Change::CallDone {
                call,
                output: output.map(items::json_text),
                error: event["error"].as_str().map(str::to_owned),
            });
        }
    }

    /// A call of the client's function begins, or has ended with what the client returned: its output is input.
    fn returned(&mut self, event: &Value) {
        let id = event["callId"].as_str().unwrap_or_default();
        if event["status"] == "started" {
            return;
        }
        if let Some(question) = self.functions.remove(id)
            && self.is_active
        {
            let output = Some(&event["result"]).filter(|result| !result.is_null());
            self.input
                .push(items::function_output(question, output.unwrap_or(&event["error"])));
        }
    }

    fn ask(&mut self, event: &Value, changes: &mut Vec<Change<'_>>) {
        let Some(question) = event["questionId"].as_str().and_then(|id| id.parse::<Uuid>().ok()) else {
            return;
        };
        self.end_step(changes);
        self.asked.push(question);
        let text = |name: &str| event[name].as_str().unwrap_or_default();
        let (wants, change) = match text("interactionType") {
            CLIENT_TOOL => {
                self.functions.insert(text("callId").to_owned(), question);
                let change = Change::Function {
                    question,
                    name: text("tool").to_owned(),
                    arguments: items::json_text(&event["input"]),
                };
                (Wants::Output, change)
            }
            CONFIRM => {
                let name = Some(text("tool")).filter(|name| !name.is_empty()).unwrap_or("approval");
                let asked = json!({"question": text("question")});
                let arguments = Some(&event["input"]).filter(|input| !input.is_null()).unwrap_or(&asked);
                let change = Change::Approval {
                    question,
                    name: name.to_owned(),
                    arguments: items::json_text(arguments),
                };
                (Wants::Approval, change)
            }
            _ => (Wants::Words, Change::Question(items::question(event))),
        };
        self.wants.insert(question, wants);
        changes.push(change);
    }

    fn answered(&mut self, event: &Value) {
        let question = event["questionId"].as_str().and_then(|id| id.parse::<Uuid>().ok());
        let Some((question, wants)) = question.and_then(|id| Some((id, *self.wants.get(&id)?))) else {
            return;
        };
        if !self.is_active {
            return;
        }
        match wants {
            Wants::Approval => self.input.push(items::approval_response(question, &event["answer"])),
            // The call's end, or a message, which are separate events.
            Wants::Output | Wants::Words => {}
        }
    }

    /// The run waits. If it waits for its client, the response ends.
    fn wait(&mut self, event: &Value, changes: &mut Vec<Change<'_>>) {
        let questions = event["details"]["questions"].as_u64().unwrap_or_default();
        if (event["state"] != "waiting_on_user" && questions == 0) || self.asked.is_empty() {
            return;
        }
        self.end_step(changes);
        let asked = std::mem::take(&mut self.asked);
        if self.is_active {
            changes.push(Change::Waits);
            self.is_over = true;
            return;
        }
        if self.id.question.is_some_and(|question| asked.contains(&question)) {
            self.is_active = true;
            self.text_before = self.text.len();
            self.usage_before = self.usage;
        } else {
            self.previous = continuation(self.id.run, asked);
        }
    }

    fn done(&mut self, status: &str, changes: &mut Vec<Change<'_>>) {
        self.end_step(changes);
        let end = match status {
            "completed" => End::Completed,
            "cancelled" => End::Cancelled,
            "paused" => End::Paused,
            _ => End::Failed,
        };
        changes.push(Change::Ended(end));
        self.is_over = self.is_active;
    }
}

/// Returns the id of the response that continues a run when these questions, for which it waits, are answered. The first one names it.
pub fn continuation(run: Uuid, questions: impl IntoIterator<Item = Uuid>) -> ResponseId {
    ResponseId {
        run,
        question: questions.into_iter().min(),
    }
}
