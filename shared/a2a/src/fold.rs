//! A task, folded from the events of its run.
//!
//! Invariant: an event changes the task by at most one update, and a client that applies the updates to the task as it was has the task as it
//! is: its number in the log is a cursor.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::FIELD;
use super::parts::{data_part, file_part, text_part, usage};
use super::state::TaskState;
use super::update::{Change, Piece, Update};
use rejoin_dialects::pieces::Text;

/// The artifact that is the answer, and the one that is the answer as data.
const ANSWER: &str = "answer";
const OUTPUT: &str = "output";
/// The message of a task that a limit has paused.
const PAUSED: &str = "A limit has paused the run. Send a message to this task to let it continue.";

/// What a task is about.
#[derive(Debug, Clone)]
pub struct Context {
    /// The run's id.
    pub task_id: String,
    /// The client's name of the conversation, or the conversation's id.
    pub context_id: String,
    /// The server's address, which precedes the paths of files. Empty: unknown, so that their URLs are paths.
    pub origin: String,
}

#[derive(Debug)]
struct Artifact {
    id: Cow<'static, str>,
    name: &'static str,
    parts: Vec<Value>,
}

impl Artifact {
    fn as_json(&self) -> Value {
        json!({"artifactId": self.id, "name": self.name, "parts": self.parts})
    }
}

#[derive(Debug)]
pub(super) struct TaskFold {
    about: Context,
    state: TaskState,
    /// The message of the status.
    message: Option<Value>,
    /// Whether that message is a question, which belongs to the history once the next message is there.
    is_question: bool,
    history: Vec<Value>,
    /// Artifacts that are complete.
    artifacts: Vec<Artifact>,
    /// The answer that is being written.
    text: Text,
    /// Whether a client was sent a part of it.
    is_shown: bool,
    /// Turns of the run that have ended: a resumed run has several.
    turns: usize,
    /// Open questions: their events, with their numbers.
    questions: Vec<(i64, Value)>,
    error: Option<(String, String)>,
    /// Of the run: the agent, the model, what was used.
    metadata: Map<String, Value>,
}

impl TaskFold {
    pub(super) fn new(about: Context) -> Self {
        Self {
            about,
            state: TaskState::Submitted,
            message: None,
            is_question: false,
            history: Vec::new(),
            artifacts: Vec::new(),
            text: Text::default(),
            is_shown: false,
            turns: 0,
            questions: Vec::new(),
            error: None,
            metadata: Map::new(),
        }
    }

    pub(super) fn state(&self) -> TaskState {
        self.state
    }

    /// The status as it is now, as an update.
    pub(super) fn status(&self) -> Value {
        self.status_update(&Value::Null)
    }

    /// The task as it is now, with this number of the newest messages. None: with all of them.
    pub(super) fn task(&self, history_length: Option<usize>) -> Value {
        let mut artifacts: Vec<Value> = self.artifacts.iter().map(Artifact::as_json).collect();
        if self.is_shown {
            artifacts.push(self.answer(vec![text_part(self.text.as_str())]).as_json());
        }
        let from = history_length.map_or(0, |most| self.history.len().saturating_sub(most));
        let mut task = json!({
            "id": self.about.task_id, "contextId": self.about.context_id, "status": self.state.status(self.message.as_ref()),
        });
        // Protobuf's JSON leaves out what is empty.
        for (name, list) in [("artifacts", artifacts.as_slice()), ("history", &self.history[from..])] {
            if !list.is_empty() {
                task[name] = list.into();
            }
        }
        if !self.metadata.is_empty() {
            task["metadata"] = Value::Object(self.metadata.clone());
        }
        task
    }

    /// The update with this piece of the answer.
    pub(super) fn piece<'a>(&'a self, text: &'a str, appends: bool) -> Piece<'a> {
        Piece::of_answer(
            &self.about.task_id,
            &self.about.context_id,
            (self.artifact_id(ANSWER), ANSWER),
            text,
            appends,
        )
    }

    /// Takes the next event of the run, if that is a piece of an answer.
    pub(super) fn apply_token<'e>(&mut self, seq: i64, run: Option<&str>, piece: &'e str) -> Change<'e> {
        if run.is_none_or(|run| run == self.about.task_id) {
            self.token(seq, piece)
        } else {
            Change::default()
        }
    }

    /// Takes the next event of the run.
    pub(super) fn apply<'e>(&mut self, seq: i64, event: &'e Value) -> Change<'e> {
        let is_own = event["runId"].as_str().is_none_or(|run| run == self.about.task_id);
        let text = |name: &str| event[name].as_str().unwrap_or_default();
        match text("type") {
            // Sub-agents ask, and wait, for the same client.
            "question" => {
                self.questions.push((seq, event.clone()));
                Change::default()
            }
            "question_answered" => self.answered(text("questionId")),
            "agent_state" => self.wait(text("state")),
            _ if !is_own => Change::default(),
            "message" => self.message(&event["message"]),
            "meta" => {
                for name in ["agent", "model"] {
                    if let Value::String(value) = &event[name] {
                        self.metadata.insert(name.to_owned(), value.as_str().into());
                    }
                }
                self.work()
            }
            "token" => self.token(seq, text("token")),
            "reset" => self.reset(event["discardAfter"].as_i64().unwrap_or_default()),
            "mcp_tool" => self.tool(seq, event),
            "usage" => {
                self.metadata.insert("usage".to_owned(), usage(event));
                Change::default()
            }
            "output" => self.output(&event["output"]),
            "error" => {
                self.error = Some((text("error").to_owned(), text("code").to_owned()));
                Change::default()
            }
            "done" => self.done(seq, text("status")),
            _ => Change::default(),
        }
    }

    fn message(&mut self, message: &Value) -> Change<'static> {
        if message["role"] == "user" {
            self.keep_question();
            self.history.push(self.user_message(message));
            // It continues a run that a limit has paused.
            let resumes = self.state == TaskState::InputRequired && self.questions.is_empty();
            return if resumes { self.work() } else { Change::default() };
        }
        let stored = message["content"].as_str().unwrap_or_default();
        let files: Vec<Value> = message["attachments"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|file| file_part(&self.about.origin, file))
            .collect();
        if stored.is_empty() && files.is_empty() && !self.is_shown {
            return Change::default();
        }
        let is_same = files.is_empty() && self.text.as_str() == stored;
        let mut parts = vec![text_part(stored)];
        parts.extend(files);
        let answer = self.answer(parts);
        let update = if is_same {
            // The client has the words; nothing but the end is new.
            let end = self.answer(vec![text_part("")]).as_json();
            self.artifact_update(&end, true, true)
        } else {
            self.artifact_update(&answer.as_json(), false, true)
        };
        self.artifacts.push(answer);
        self.text = Text::default();
        self.is_shown = false;
        Change::update(update)
    }

    /// A worker has begun the task, or continues it.
    fn work(&mut self) -> Change<'static> {
        if self.state == TaskState::Working {
            return Change::default();
        }
        self.enter(TaskState::Working, None);
        Change::update(self.status())
    }

    fn token<'e>(&mut self, seq: i64, piece: &'e str) -> Change<'e> {
        if piece.is_empty() {
            return Change::default();
        }
        self.text.push(seq, piece);
        let appends = std::mem::replace(&mut self.is_shown, true);
        Change {
            update: Some(Update::Piece { text: piece, appends }),
            rests: false,
        }
    }

    fn reset(&mut self, after: i64) -> Change<'static> {
        self.questions.retain(|(seq, _)| *seq <= after);
        if !self.text.truncate(after) {
            return Change::default();
        }
        let kept = self.answer(vec![text_part(self.text.as_str())]).as_json();
        Change::update(self.artifact_update(&kept, false, false))
    }

    /// A call of a tool is progress: a status with a message while it runs.
    fn tool(&mut self, seq: i64, event: &Value) -> Change<'static> {
        let mut call = Map::new();
        for name in ["callId", "tool", "status", "input", "result", "error", "durationMs"] {
            if !event[name].is_null() {
                call.insert(name.to_owned(), event[name].clone());
            }
        }
        let progress = (event["status"] == "started").then(|| {
            let words = format!("Calls {}", event["tool"].as_str().unwrap_or("a tool"));
            self.agent_message(&format!("{}-{seq}", self.about.task_id), vec![text_part(&words)])
        });
        self.enter(TaskState::Working, progress);
        Change::update(self.status_update(&json!({ "toolCall": call })))
    }

    fn output(&mut self, output: &Value) -> Change<'static> {
        let artifact = Artifact {
            id: self.artifact_id(OUTPUT),
            name: OUTPUT,
            parts: vec![data_part(output)],
        };
        let update = self.artifact_update(&artifact.as_json(), false, true);
        self.artifacts.push(artifact);
        Change::update(update)
    }

    /// The run waits. If a person is asked, the task waits for its client.
    fn wait(&mut self, state: &str) -> Change<'static> {
        if !state.starts_with("waiting_on_") || self.questions.is_empty() {
            return Change::default();
        }
        let message = self.questions_as_message();
        self.enter(TaskState::InputRequired, Some(message));
        self.is_question = true;
        Change {
            update: Some(Update::Whole(self.status())),
            rests: true,
        }
    }

    fn answered(&mut self, question: &str) -> Change<'static> {
        self.questions.retain(|(_, event)| event["questionId"] != question);
        if self.state != TaskState::InputRequired {
            return Change::default();
        }
        if self.questions.is_empty() {
            self.keep_question();
            return self.work();
        }
        // The others may be answered by the same request, so no client is sent this. Its message is what is still asked.
        self.message = Some(self.questions_as_message());
        Change::default()
    }

    fn done(&mut self, seq: i64, status: &str) -> Change<'static> {
        self.questions.clear();
        self.keep_question();
        self.end_answer();
        let mut message = None;
        let mut metadata = json!({});
        let mut say = |fold: &Self, words: &str| {
            message = Some(fold.agent_message(&format!("{}-{seq}", fold.about.task_id), vec![text_part(words)]));
        };
        let state = match status {
            "completed" => TaskState::Completed,
            "cancelled" => TaskState::Canceled,
            "paused" => {
                say(self, PAUSED);
                TaskState::InputRequired
            }
            _ => {
                let (words, code) = self.error.take().unwrap_or_default();
                say(self, if words.is_empty() { "The run failed." } else { &words });
                if !code.is_empty() {
                    metadata["errorCode"] = code.as_str().into();
                    self.metadata.insert("errorCode".to_owned(), code.into());
                }
                TaskState::Failed
            }
        };
        if let Some(usage) = self.metadata.get("usage") {
            metadata["usage"] = usage.clone();
        }
        self.enter(state, message);
        self.turns += 1;
        Change {
            update: Some(Update::Whole(self.status_update(&metadata))),
            rests: true,
        }
    }

    /// The turn ended without a stored answer: what was written stays an artifact.
    fn end_answer(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            let answer = self.answer(vec![text_part(self.text.as_str())]);
            self.artifacts.push(answer);
        }
        self.text = Text::default();
    }

    fn enter(&mut self, state: TaskState, message: Option<Value>) {
        self.state = state;
        self.message = message;
        self.is_question = false;
    }

    /// The question of the status is a part of the dialogue, before what follows it.
    fn keep_question(&mut self) {
        if std::mem::take(&mut self.is_question) {
            self.history.extend(self.message.clone());
        }
    }

    /// A turn's artifacts have ids that differ from those of the run's earlier turns.
    fn artifact_id(&self, name: &'static str) -> Cow<'static, str> {
        match self.turns {
            0 => name.into(),
            turns => format!("{name}-{}", turns + 1).into(),
        }
    }

    fn answer(&self, parts: Vec<Value>) -> Artifact {
        Artifact {
            id: self.artifact_id(ANSWER),
            name: ANSWER,
            parts,
        }
    }

    fn artifact_update(&self, artifact: &Value, appends: bool, is_last: bool) -> Value {
        json!({"artifactUpdate": {
            "taskId": self.about.task_id, "contextId": self.about.context_id, "artifact": artifact,
            "append": appends, "lastChunk": is_last,
        }})
    }

    fn status_update(&self, metadata: &Value) -> Value {
        let mut update = json!({
            "taskId": self.about.task_id, "contextId": self.about.context_id, "status": self.state.status(self.message.as_ref()),
        });
        if metadata.as_object().is_some_and(|metadata| !metadata.is_empty()) {
            update["metadata"] = metadata.clone();
        }
        json!({ "statusUpdate": update })
    }

    fn agent_message(&self, id: &str, parts: Vec<Value>) -> Value {
        json!({
            "messageId": id, "role": "ROLE_AGENT", "parts": parts,
            "taskId": self.about.task_id, "contextId": self.about.context_id,
        })
    }

    /// What is asked: for people as text, for programs as data.
    fn questions_as_message(&self) -> Value {
        let mut parts = Vec::new();
        let mut id = "";
        for (_, event) in &self.questions {
            let mut asked = Map::new();
            for name in ["questionId", "question", "options", "interactionType", "tool", "input"] {
                if !event[name].is_null() {
                    asked.insert(name.to_owned(), event[name].clone());
                }
            }
            parts.push(text_part(event["question"].as_str().unwrap_or_default()));
            parts.push(data_part(&Value::Object(asked)));
            id = event["questionId"].as_str().unwrap_or_default();
        }
        self.agent_message(id, parts)
    }

    /// A user's message, with the id that its client gave it.
    fn user_message(&self, message: &Value) -> Value {
        let sent = &message["attachedContext"][FIELD]["messageId"];
        let id = if sent.is_string() { sent } else { &message["id"] };
        let mut parts = vec![text_part(message["content"].as_str().unwrap_or_default())];
        let files = message["attachments"].as_array().into_iter().flatten();
        parts.extend(files.map(|file| file_part(&self.about.origin, file)));
        json!({
            "messageId": id, "role": "ROLE_USER", "parts": parts,
            "taskId": self.about.task_id, "contextId": self.about.context_id,
        })
    }
}
