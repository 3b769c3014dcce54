//! What is open in the stream of a client: its run, text messages, reasoning, steps and sub-agents.
//!
//! Invariant: whatever is asked of it, in whatever order, the events that it writes are in an order that the protocol allows: nothing goes
//! on that was not begun, nothing is begun twice, and all is closed before the run is.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::frames::{Frames, Piece};

/// The sub-agent that something belongs to; none: the run's own agent.
pub type Owner<'a> = Option<&'a str>;

/// Something open, by its id or name.
#[derive(Debug, Clone, PartialEq)]
struct Part {
    id: String,
    owner: Option<String>,
}

impl Part {
    fn is(&self, id: &str, owner: Owner<'_>) -> bool {
        self.id == id && self.owner.as_deref() == owner
    }
}

/// A sub-agent that was announced.
#[derive(Debug, Clone, PartialEq)]
pub struct Announced {
    pub id: String,
    pub name: String,
    pub task: Option<String>,
    /// The run that started it.
    pub parent: Option<String>,
}

/// How a sub-agent ended.
#[derive(Debug, Clone, Copy)]
pub enum AgentEnd<'a> {
    Completed {
        summary: Option<&'a str>,
    },
    /// It may go on in a later run of the client.
    Suspended,
    Failed {
        message: &'a str,
        code: Option<&'a str>,
    },
}

#[derive(Debug, Default)]
pub struct Open {
    is_run_open: bool,
    texts: Vec<Part>,
    reasonings: Vec<Part>,
    steps: Vec<Part>,
    agents: Vec<Announced>,
    /// Sub-agents that have ended in this run of the client, which can't be announced again.
    ended_agents: HashSet<String>,
}

/// An event with its owner.
pub fn of(owner: Owner<'_>, mut event: Value) -> Value {
    if let Some(owner) = owner {
        event["subagentRunId"] = owner.into();
    }
    event
}

impl Open {
    pub fn is_run_open(&self) -> bool {
        self.is_run_open
    }

    /// The client's run begins; the caller writes `RUN_STARTED`.
    pub fn begin_run(&mut self) {
        *self = Self {
            is_run_open: true,
            ..Self::default()
        };
    }

    /// Closes all; the caller writes the end of the run.
    pub fn end_run(&mut self, out: &mut Frames) {
        while let Some(owner) = self
            .texts
            .iter()
            .chain(&self.reasonings)
            .map(|part| part.owner.clone())
            .next()
        {
            self.end_writing(owner.as_deref(), out);
        }
        while let Some(step) = self.steps.pop() {
            out.push(of(
                step.owner.as_deref(),
                json!({"type": "STEP_FINISHED", "stepName": step.id}),
            ));
        }
        // Those started last end first.
        while let Some(agent) = self.agents.last().map(|agent| agent.id.clone()) {
            self.end_agent(&agent, AgentEnd::Suspended, out);
        }
        self.is_run_open = false;
    }

    /// Writes the beginning of everything open once more, for a client that has seen none of it.
    pub fn write_again(&self, out: &mut Frames) {
        for agent in &self.agents {
            out.push(self.announcement(agent));
        }
        for step in &self.steps {
            out.push(of(
                step.owner.as_deref(),
                json!({"type": "STEP_STARTED", "stepName": step.id}),
            ));
        }
        for part in &self.reasonings {
            begin_reasoning(part, out);
        }
        for part in &self.texts {
            begin_text(part, out);
        }
    }

    /// A piece of a text message.
    pub fn text(&mut self, id: &str, owner: Owner<'_>, delta: &str, out: &mut Frames) {
        if !self.texts.iter().any(|part| part.is(id, owner)) {
            self.end_writing(owner, out);
            let part = Part {
                id: id.to_owned(),
                owner: owner.map(str::to_owned),
            };
            begin_text(&part, out);
            self.texts.push(part);
        }
        out.push_piece(&Piece {
            r#type: "TEXT_MESSAGE_CONTENT",
            message_id: id,
            delta,
            subagent_run_id: owner,
        });
    }

    /// A piece of reasoning.
    pub fn reasoning(&mut self, id: &str, owner: Owner<'_>, delta: &str, out: &mut Frames) {
        if !self.reasonings.iter().any(|part| part.is(id, owner)) {
            self.end_writing(owner, out);
            let part = Part {
                id: id.to_owned(),
                owner: owner.map(str::to_owned),
            };
            begin_reasoning(&part, out);
            self.reasonings.push(part);
        }
        out.push_piece(&Piece {
            r#type: "REASONING_MESSAGE_CONTENT",
            message_id: id,
            delta,
            subagent_run_id: owner,
        });
    }

    /// Ends the text and the reasoning of an agent, which writes one thing at a time.
    pub fn end_writing(&mut self, owner: Owner<'_>, out: &mut Frames) {
        self.texts.retain(|part| {
            let stays = part.owner.as_deref() != owner;
            if !stays {
                out.push(of(owner, json!({"type": "TEXT_MESSAGE_END", "messageId": part.id})));
            }
            stays
        });
        self.reasonings.retain(|part| {
            let stays = part.owner.as_deref() != owner;
            if !stays {
                out.push(of(
                    owner,
                    json!({"type": "REASONING_MESSAGE_END", "messageId": part.id}),
                ));
                out.push(of(owner, json!({"type": "REASONING_END", "messageId": part.id})));
            }
            stays
        });
    }

    pub fn begin_step(&mut self, name: &str, owner: Owner<'_>, out: &mut Frames) {
        if self.steps.iter().any(|step| step.is(name, owner)) {
            return;
        }
        out.push(of(owner, json!({"type": "STEP_STARTED", "stepName": name})));
        self.steps.push(Part {
            id: name.to_owned(),
            owner: owner.map(str::to_owned),
        });
    }

    pub fn end_step(&mut self, name: &str, owner: Owner<'_>, out: &mut Frames) {
        let Some(at) = self.steps.iter().position(|step| step.is(name, owner)) else {
            return;
        };
        self.steps.remove(at);
        out.push(of(owner, json!({"type": "STEP_FINISHED", "stepName": name})));
    }

    /// Announces a sub-agent. False: it was announced before, and a client knows one beginning of each only.
    pub fn begin_agent(&mut self, agent: Announced, out: &mut Frames) -> bool {
        let known = self.agents.iter().any(|other| other.id == agent.id) || self.ended_agents.contains(&agent.id);
        if known {
            return false;
        }
        out.push(self.announcement(&agent));
        self.agents.push(agent);
        true
    }

    fn announcement(&self, agent: &Announced) -> Value {
        let mut event = json!({"type": "SUBAGENT_STARTED", "subagentRunId": agent.id, "name": agent.name});
        if let Some(task) = &agent.task {
            event["description"] = task.as_str().into();
        }
        // The client refuses the name of an agent that no event has announced.
        let parent = agent.parent.as_ref();
        if let Some(parent) = parent.filter(|parent| self.agents.iter().any(|other| other.id == **parent)) {
            event["parentSubagentRunId"] = parent.as_str().into();
        }
        event
    }

    /// Ends a sub-agent. False: it is not open.
    pub fn end_agent(&mut self, id: &str, end: AgentEnd<'_>, out: &mut Frames) -> bool {
        let Some(at) = self.agents.iter().position(|agent| agent.id == id) else {
            return false;
        };
        self.agents.remove(at);
        self.ended_agents.insert(id.to_owned());
        self.end_writing(Some(id), out);
        let mut event = json!({"type": "SUBAGENT_FINISHED", "subagentRunId": id});
        match end {
            AgentEnd::Completed { summary } => {
                if let Some(summary) = summary {
                    event["result"] = summary.into();
                }
            }
            AgentEnd::Suspended => event["outcome"] = json!({"type": "suspended"}),
            AgentEnd::Failed { message, code } => {
                event["type"] = "SUBAGENT_ERROR".into();
                event["message"] = message.into();
                if let Some(code) = code {
                    event["code"] = code.into();
                }
            }
        }
        out.push(event);
        true
    }
}

fn begin_text(part: &Part, out: &mut Frames) {
    let event = json!({"type": "TEXT_MESSAGE_START", "messageId": part.id, "role": "assistant"});
    out.push(of(part.owner.as_deref(), event));
}

fn begin_reasoning(part: &Part, out: &mut Frames) {
    let owner = part.owner.as_deref();
    out.push(of(owner, json!({"type": "REASONING_START", "messageId": part.id})));
    out.push(of(
        owner,
        json!({"type": "REASONING_MESSAGE_START", "messageId": part.id, "role": "reasoning"}),
    ));
}
