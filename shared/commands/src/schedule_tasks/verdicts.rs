//! The answers of deciding agents: their JSON Schemas and parsing. Called by the scheduler.

use serde_json::{Value, json};

use super::text_of;
use rejoin_runs::agents::AgentDefinition;
use rejoin_scheduling::tasks::select;
use rejoin_scheduling::tasks::{DagTask, EndedRun, TaskRole};
use rejoin_tools::outputs;

/// The decision about a task after an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    Accept,
    /// Retry, with this advice.
    Retry(String),
    Skip,
    Fail(String),
    /// A user decides.
    Escalate(String),
}

/// The schema of the answer expected in this role; none if the role defines its own.
pub(super) fn answer_schema(role: TaskRole, agent: &str, agents: &[AgentDefinition]) -> Option<Value> {
    let verdict = |choices: &[&str], description: &str, feedback: &str| {
        outputs::object(
            &["verdict"],
            json!({
                "verdict": outputs::one_of(choices, description),
                "feedback": {"type": "string", "description": feedback},
            }),
        )
    };
    match role {
        TaskRole::Work => None,
        TaskRole::Select => {
            let others = agents.iter().filter(|known| known.name != agent);
            Some(select::answer_schema(others.map(|known| known.name.as_str())))
        }
        TaskRole::Judge => Some(verdict(
            &["accept", "retry", "escalate"],
            "accept: the output fulfils the task; retry: the task is repeated with the feedback; escalate: a person \
            decides",
            "What to improve, or what the person must know; empty if the output is accepted",
        )),
        TaskRole::Triage => Some(verdict(
            &["retry", "skip", "fail", "escalate"],
            "retry: the task is repeated; skip: dependent tasks continue without it; fail: the task fails; escalate: \
            a person decides",
            "What to do differently, or what the person must know; may be empty",
        )),
    }
}

/// Parses the verdict of a deciding agent. An unreadable one falls back to the rule.
pub(super) fn verdict_of(role: TaskRole, task: &DagTask, end: &EndedRun) -> Verdict {
    let said: Value = serde_json::from_str(text_of(end)).unwrap_or_default();
    let feedback = said["feedback"].as_str().unwrap_or_default().to_owned();
    let failure = || task.failure_context.clone().unwrap_or_default();
    match (role, said["verdict"].as_str()) {
        (_, Some("escalate")) => Verdict::Escalate(feedback),
        (TaskRole::Judge, Some("accept")) => Verdict::Accept,
        (TaskRole::Triage, Some("skip")) => Verdict::Skip,
        (TaskRole::Triage, Some("fail")) => Verdict::Fail(failure()),
        (_, Some("retry")) if !feedback.is_empty() => Verdict::Retry(feedback),
        (TaskRole::Judge, _) => Verdict::Escalate("the judge gave no valid verdict".to_owned()),
        (_, _) => Verdict::Retry(failure()),
    }
}
