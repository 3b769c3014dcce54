//! What each event of ours becomes.

use serde_json::{Value, json};

use super::super::frames::Frames;
use super::super::interrupts::Question;
use super::super::open::{AgentEnd, Announced, Owner, of};
use super::super::turn::result_id;
use super::{AgUiRenderer, Begin};

/// Maximum length of a step's description in the step's name, in characters.
const STEP_NAME_MAX_CHARS: usize = 80;

impl AgUiRenderer {
    pub(super) fn apply(&mut self, seq: i64, event: &Value, out: &mut Frames) {
        let kind = event["type"].as_str().unwrap_or_default();
        if kind == "question_answered" {
            self.answered(event, out);
            return;
        }
        self.begin_run(out);
        let run = self.run_of(event);
        let owner = self.owner_of(event);
        match kind {
            "message" => self.message(seq, &run, event, out),
            "meta" if owner.is_none() => {
                self.model = event["model"].as_str().map(str::to_owned);
                self.set_state("agent", event["agent"].clone(), out);
                self.set_state("model", event["model"].clone(), out);
                out.push(custom(owner, event));
            }
            "token" => self.token(
                seq,
                event["runId"].as_str(),
                event["token"].as_str().unwrap_or_default(),
                out,
            ),
            "reasoning" => {
                let piece = event["text"].as_str().unwrap_or_default();
                if !piece.is_empty() {
                    let id = self.turn.reasoning(&run, seq, piece);
                    self.open.reasoning(&id, owner, piece, out);
                }
            }
            "usage" => {
                self.open.end_writing(owner, out);
                self.turn.end_step(&run, seq);
                if owner.is_none() {
                    self.usage = Some(event.clone());
                }
            }
            "mcp_tool" => self.call(seq, &run, event, out),
            "reset" => self.reset(&run, event, out),
            "agent_state" => {
                if owner.is_none() {
                    self.set_state("agentState", event["state"].clone(), out);
                }
                let waits = event["state"]
                    .as_str()
                    .is_some_and(|state| state.starts_with("waiting_on_"));
                if waits && !self.questions.is_empty() {
                    self.wait(out);
                }
            }
            "question" => {
                let question = Question {
                    run,
                    seq,
                    event: event.clone(),
                };
                self.client_calls.extend(question.client_call().map(str::to_owned));
                self.questions.push(question);
            }
            // Its questions came before it.
            "clarifying_questions" => {}
            "sub_agent" => self.sub_agent(&run, event, out),
            "plan_created" | "plan_ready_for_review" | "plan_review" => {
                self.set_state("plan", event["plan"].clone(), out);
                out.push(custom(owner, event));
            }
            "step_start" | "step_complete" => self.step(seq, &run, event, out),
            "error" if owner.is_none() => {
                let text = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
                self.error = Some((text("error"), text("code")));
            }
            "done" => self.done(event, out),
            // The program's own name and data.
            "custom" => {
                let emitted = json!({"type": "CUSTOM", "name": event["name"], "value": event["data"]});
                out.push(of(owner, emitted));
            }
            _ => {
                match kind {
                    "handoff" if owner.is_none() => self.set_state("agent", event["to"].clone(), out),
                    "output" if owner.is_none() => self.output = Some(event["output"].clone()),
                    _ => {}
                }
                out.push(custom(owner, event));
            }
        }
    }

    /// A piece of the text of a run; none: of the client's own.
    pub(super) fn token(&mut self, seq: i64, run: Option<&str>, piece: &str, out: &mut Frames) {
        self.begin_run(out);
        if !piece.is_empty() {
            let owner = run.filter(|run| *run != self.about.root);
            let id = self.turn.text(run.unwrap_or(&self.about.root), seq, piece);
            self.open.text(id, owner, piece, out);
        }
    }

    fn message(&mut self, seq: i64, run: &str, event: &Value, out: &mut Frames) {
        let message = &event["message"];
        let (id, content) = (
            message["id"].as_str().unwrap_or_default(),
            message["content"].as_str().unwrap_or_default(),
        );
        if message["role"] == "user" {
            let known = self.about.messages.iter().any(|known| known["id"] == id);
            if known || self.about.posted_message.as_deref() == Some(id) || self.turn.has(id) {
                return;
            }
            // Another client's, or another answer to the run's question.
            self.turn.user(run, seq, id, content);
            out.extend([
                json!({"type": "TEXT_MESSAGE_START", "messageId": id, "role": "user"}),
                json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": content}),
                json!({"type": "TEXT_MESSAGE_END", "messageId": id}),
            ]);
            return;
        }
        // The stored reply. The client has it already, unless the agent wrote no tokens.
        if self.owner_of(event).is_some() || message["role"] != "assistant" || self.turn.reply() == content {
            return;
        }
        self.open.end_writing(None, out);
        let had_none = self.turn.reply().is_empty();
        let id = self.turn.replace_reply(seq, content);
        if had_none {
            self.open.text(&id, None, content, out);
            self.open.end_writing(None, out);
        } else {
            out.push(self.snapshot());
        }
    }

    fn call(&mut self, seq: i64, run: &str, event: &Value, out: &mut Frames) {
        let owner = self.owner_of(event);
        let call_id = event["callId"].as_str().unwrap_or_default();
        let is_open = self.turn.open_call_id(run, call_id).is_some();
        if !is_open {
            let tool = event["tool"].as_str().unwrap_or_default();
            let arguments = match &event["input"] {
                Value::Null => "{}".to_owned(),
                input => input.to_string(),
            };
            if let Some((id, message)) = self.turn.call(run, seq, call_id, tool, &arguments) {
                self.open.end_writing(owner, out);
                let start = json!({
                    "type": "TOOL_CALL_START", "toolCallId": id, "toolCallName": tool, "parentMessageId": message,
                });
                let pieces = json!({"type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": arguments});
                let end = json!({"type": "TOOL_CALL_END", "toolCallId": id});
                out.extend([start, pieces, end].map(|event| of(owner, event)));
            }
        }
        if event["status"] == "started" {
            return;
        }
        let error = event["error"].as_str();
        let content = match (error, &event["result"]) {
            (Some(error), Value::Null) => error.to_owned(),
            (_, Value::String(text)) => text.clone(),
            (_, Value::Null) => String::new(),
            (_, result) => result.to_string(),
        };
        let Some(id) = self.turn.result(run, seq, call_id, &content, error) else {
            return;
        };
        // The result of a client's own tool came from the client.
        let reads_on = matches!(self.about.begin, Begin::ReadOn { .. });
        let came_from_client = self.about.messages.iter().any(|message| message["toolCallId"] == *id)
            || reads_on && self.client_calls.contains(call_id);
        if !came_from_client {
            let result = json!({
                "type": "TOOL_CALL_RESULT", "messageId": result_id(&id), "toolCallId": id, "content": content,
                "role": "tool",
            });
            out.push(of(owner, result));
        }
    }

    fn reset(&mut self, run: &str, event: &Value, out: &mut Frames) {
        let owner = self.owner_of(event);
        let after = event["discardAfter"].as_i64().unwrap_or_default();
        self.open.end_writing(owner, out);
        self.questions
            .retain(|question| question.run != run || question.seq <= after);
        let (kept, lost): (Vec<_>, Vec<_>) = std::mem::take(&mut self.steps)
            .into_iter()
            .partition(|(of, seq, _)| of != run || *seq <= after);
        self.steps = kept;
        for (_, _, name) in lost {
            self.open.end_step(&name, owner, out);
        }
        if self.turn.reset(run, after) {
            out.push(self.snapshot());
        }
        out.push(custom(owner, event));
    }

    fn sub_agent(&mut self, run: &str, event: &Value, out: &mut Frames) {
        let text = |name: &str| event[name].as_str();
        let status = text("status").unwrap_or_default();
        if status == "started" {
            let agent = Announced {
                id: run.to_owned(),
                name: text("agent").unwrap_or("agent").to_owned(),
                task: text("task").map(str::to_owned),
                parent: text("parentRunId").map(str::to_owned),
            };
            if self.open.begin_agent(agent.clone(), out) {
                self.agents.push(agent);
            } else {
                out.push(custom(Some(run), event));
            }
            return;
        }
        self.agents.retain(|agent| agent.id != run);
        let end = match status {
            "completed" => AgentEnd::Completed {
                summary: text("summary"),
            },
            "paused" => AgentEnd::Suspended,
            _ => AgentEnd::Failed {
                message: text("error").unwrap_or(status),
                code: text("code"),
            },
        };
        if !self.open.end_agent(run, end, out) {
            out.push(custom(Some(run), event));
        }
    }

    fn step(&mut self, seq: i64, run: &str, event: &Value, out: &mut Frames) {
        let owner = self.owner_of(event);
        let step = &event["step"];
        let description: String = step["description"]
            .as_str()
            .unwrap_or_default()
            .chars()
            .take(STEP_NAME_MAX_CHARS)
            .collect();
        let number = event["stepNumber"].as_i64().or_else(|| step["stepNumber"].as_i64());
        let name = format!("{}. {description}", number.unwrap_or_default());
        if event["type"] == "step_start" {
            self.open.begin_step(&name, owner, out);
            self.steps.push((run.to_owned(), seq, name));
        } else {
            self.open.end_step(&name, owner, out);
            self.steps.retain(|(of, _, other)| of != run || *other != name);
        }
        out.push(custom(owner, event));
    }

    fn answered(&mut self, event: &Value, out: &mut Frames) {
        let id = event["questionId"].as_str().unwrap_or_default();
        let of_client = self
            .questions
            .iter()
            .any(|question| question.id() == id && question.client_call().is_some());
        self.questions.retain(|question| question.id() != id);
        // While others are open, the client's run stays as it was.
        if self.open.is_run_open() || self.questions.is_empty() {
            self.begin_run(out);
            if !of_client {
                out.push(custom(self.owner_of(event), event));
            }
        }
    }
}

/// One of our events that the protocol has no event for.
fn custom(owner: Owner<'_>, event: &Value) -> Value {
    let name = format!("rejoin.{}", event["type"].as_str().unwrap_or("unknown"));
    of(owner, json!({"type": "CUSTOM", "name": name, "value": event}))
}
