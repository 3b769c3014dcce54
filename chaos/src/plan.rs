//! The plan of a turn: it is sent in the user's message, so that the scripted model knows its answer, and the checker
//! the expected one, from the message alone.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::tools::PAY;

/// Precedes the plan in a message.
const MARK: &str = "chaos plan ";
/// Separates the texts of two steps, as in the product.
const STEP_SEPARATOR: &str = "\n\n";

/// A turn: steps, each with text and optionally a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Unique.
    pub id: String,
    pub steps: Vec<Step>,
    /// Delay between two words.
    pub pace_ms: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    pub words: u32,
    /// A call after the text.
    pub call: Option<Call>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    pub tool: String,
    /// Delay between its effect and its answer.
    pub hold_ms: u64,
    /// The plans of sub-agents, or of tasks or steps, the last of which waits for all others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<Plan>,
}

/// The agent of each project.
pub const AGENT: &str = "chaos";
pub const SPAWN: &str = "spawn_agents";
pub const TASKS: &str = "create_tasks";
pub const ASK: &str = "ask_user";
pub const PLAN: &str = "agent_create_plan";
/// The modes of a plan: executed at once, or approved by a user.
pub const PLAN_MODES: [&str; 2] = ["auto_execute", "draft_only"];

impl Plan {
    /// One answer without calls.
    pub fn words(id: impl Into<String>, words: u32, pace_ms: u64) -> Self {
        Self {
            id: id.into(),
            steps: vec![Step { words, call: None }],
            pace_ms,
        }
    }

    /// Prepends a step with a call, after some text.
    #[must_use]
    pub fn after_call(mut self, words: u32, tool: &str, hold_ms: u64) -> Self {
        let call = Call {
            tool: tool.to_owned(),
            hold_ms,
            others: Vec::new(),
        };
        let step = Step {
            words,
            call: Some(call),
        };
        self.steps.insert(0, step);
        self
    }

    /// Prepends a step with sub-agents.
    #[must_use]
    pub fn after_spawning(self, words: u32, others: Vec<Plan>) -> Self {
        self.after_others(words, SPAWN, others)
    }

    /// Prepends a step with a DAG of tasks.
    #[must_use]
    pub fn after_tasks(self, words: u32, others: Vec<Plan>) -> Self {
        self.after_others(words, TASKS, others)
    }

    /// Prepends a step with a plan, whose steps have the paying tool.
    #[must_use]
    pub fn after_planning(self, words: u32, others: Vec<Plan>) -> Self {
        self.after_others(words, PLAN, others)
    }

    /// Prepends a step with a question to a user.
    #[must_use]
    pub fn after_asking(self, words: u32) -> Self {
        self.after_call(words, ASK, 0)
    }

    fn after_others(self, words: u32, tool: &str, others: Vec<Plan>) -> Self {
        let mut plan = self.after_call(words, tool, 0);
        if let Some(call) = plan.steps.first_mut().and_then(|step| step.call.as_mut()) {
            call.others = others;
        }
        plan
    }

    /// Returns the message that requests it.
    pub fn message(&self) -> String {
        format!("{MARK}{}", json!(self))
    }

    /// Parses the plan in a message; the last one, if several consecutive messages are given to a model as one.
    pub fn of(message: &str) -> Option<Self> {
        let at = message.rfind(MARK)? + MARK.len();
        let mut values = serde_json::Deserializer::from_str(&message[at..]).into_iter();
        values.next()?.ok()
    }

    /// Returns the model's text in this step (from 0); empty after the last one.
    pub fn says(&self, step: usize) -> String {
        let words = self.steps.get(step).map_or(0, |step| step.words);
        (0..words).map(|word| format!("{}.{step}.{word} ", self.id)).collect()
    }

    /// Returns the arguments of the step's call, which are unique in a turn.
    pub fn arguments(&self, step: usize) -> Value {
        let call = self.steps.get(step).and_then(|step| step.call.as_ref());
        let hold_ms = call.map_or(0, |call| call.hold_ms);
        let others = call.map_or(&[][..], |call| &call.others);
        match call.map_or("", |call| call.tool.as_str()) {
            SPAWN => {
                let agents: Vec<Value> = others
                    .iter()
                    .map(|plan| json!({ "agent_name": AGENT, "task": plan.message() }))
                    .collect();
                json!({ "agents": agents })
            }
            TASKS => {
                let ids: Vec<&str> = others.iter().map(|plan| plan.id.as_str()).collect();
                let tasks: Vec<Value> = others
                    .iter()
                    .zip(1..)
                    .map(|(plan, nth)| {
                        let after = if nth == others.len() { &ids[..nth - 1] } else { &[] };
                        json!({ "id": plan.id, "title": plan.id, "description": plan.message(), "after": after, "agent": AGENT })
                    })
                    .collect();
                json!({ "name": self.id, "tasks": tasks })
            }
            PLAN => {
                let count = others.len();
                let steps: Vec<Value> = others
                    .iter()
                    .zip(1..)
                    .map(|(plan, nth)| {
                        let before: Vec<usize> = if nth == count { (1..nth).collect() } else { Vec::new() };
                        json!({ "stepNumber": nth, "type": "action", "description": plan.message(), "tools": [PAY], "dependsOn": before })
                    })
                    .collect();
                // Both equally likely, and deterministic.
                let mode = PLAN_MODES[self.id.len() % PLAN_MODES.len()];
                json!({ "objective": self.id, "execution_mode": mode, "plan": { "steps": steps } })
            }
            ASK => json!({ "question": format!("{} {step}?", self.id), "options": [] }),
            _ => json!({ "plan": self.id, "step": step, "hold_ms": hold_ms }),
        }
    }

    /// The whole reply.
    pub fn reply(&self) -> String {
        let said: Vec<String> = (0..self.steps.len())
            .map(|step| self.says(step))
            .filter(|text| !text.is_empty())
            .collect();
        said.join(STEP_SEPARATOR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_read_from_its_message_whatever_stands_around_it() {
        let plan = Plan::words("a1", 3, 10).after_call(2, "pay", 50);
        assert_eq!(
            Plan::of(&format!("Context: …\n{}\nmore", plan.message())),
            Some(plan.clone())
        );
        assert_eq!(plan.reply(), "a1.0.0 a1.0.1 \n\na1.1.0 a1.1.1 a1.1.2 ");
        assert_eq!(Plan::of("hello"), None);
    }
}
