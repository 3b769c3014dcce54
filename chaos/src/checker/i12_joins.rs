//! I12: a task runs once, a parent joins once. Each waiting run got the result of each of its children, after their
//! end, and nothing waits forever.

use std::collections::HashMap;

use uuid::Uuid;

use super::Case;
use super::case::text_of;
use crate::plan::{PLAN, Plan};

pub(super) fn check(case: &Case) -> Vec<String> {
    let mut wrong = Vec::new();
    for run in case.runs.values() {
        if run.state == "waiting" {
            wrong.push(format!("run {} waits for ever", run.id));
        }
        if run.parent_run_id.is_some() {
            wrong.extend(sub_agent(case, run));
        }
    }
    // A parent's call is answered once, after the ends of all that it started.
    let mut ends: HashMap<Uuid, i64> = HashMap::new();
    for run in case.runs.values().filter(|run| run.parent_run_id.is_some()) {
        if let (Some(call), Some(done_seq)) = (run.spawn_call_id, run.done_seq) {
            let last = ends.entry(call).or_default();
            *last = (*last).max(done_seq);
        }
    }
    for call in case.calls.iter().filter(|call| call.tool_name == "spawn_agents") {
        let Some(run) = case.runs.get(&call.run_id) else {
            continue;
        };
        let answers: Vec<i64> = case
            .events_of(run)
            .iter()
            .filter(|event| event.kind == "mcp_tool" && event.json["callId"] == call.call_id.as_str())
            .filter(|event| event.json["status"] != "started")
            .map(|event| event.seq)
            .collect();
        let last = ends.get(&call.id).copied().unwrap_or_default();
        if run.state == "completed" && (answers.len() != 1 || answers[0] < last) {
            wrong.push(format!(
                "run {}: the call {} was answered at {answers:?}, and its last sub-agent ended at {last}",
                run.id, call.call_id
            ));
        }
    }
    wrong.extend(tasks(case));
    wrong.extend(plans(case));
    wrong
}

/// A plan's step is reported as done once, before the planning call is answered.
fn plans(case: &Case) -> Vec<String> {
    let mut wrong = Vec::new();
    for call in case.calls.iter().filter(|call| call.tool_name == PLAN) {
        let Some(run) = case.runs.get(&call.run_id).filter(|run| run.state == "completed") else {
            continue;
        };
        let events = case.events_of(run);
        let answered = events.iter().find(|event| {
            event.kind == "mcp_tool"
                && event.json["callId"] == call.call_id.as_str()
                && event.json["status"] != "started"
        });
        let made: Vec<&str> = answered
            .and_then(|event| event.json["result"]["plan_id"].as_str())
            .into_iter()
            .collect();
        let mut done: HashMap<i64, usize> = HashMap::new();
        for event in events.iter().filter(|event| event.kind == "step_complete") {
            let step = &event.json["step"];
            if made.contains(&step["planId"].as_str().unwrap_or_default()) && step["status"] == "completed" {
                *done.entry(step["stepNumber"].as_i64().unwrap_or_default()).or_default() += 1;
                if answered.is_some_and(|answer| answer.seq < event.seq) {
                    wrong.push(format!("run {}: a step ended after its plan was answered", run.id));
                }
            }
        }
        let status = answered
            .map(|event| event.json["result"]["status"].clone())
            .unwrap_or_default();
        // The number of steps in this turn's plan.
        let wanted: Vec<usize> = Plan::of(&run.input)
            .iter()
            .flat_map(|plan| &plan.steps)
            .filter_map(|step| step.call.as_ref())
            .filter(|call| call.tool == PLAN)
            .map(|call| call.others.len())
            .collect();
        if status == "completed" && (done.values().any(|times| *times != 1) || !wanted.contains(&done.len())) {
            wrong.push(format!(
                "run {}: steps of a plan were told to be done {done:?}, of {wanted:?}",
                run.id
            ));
        }
    }
    wrong
}

/// A sub-agent ends once, with its scripted text.
fn sub_agent(case: &Case, run: &super::case::Run) -> Vec<String> {
    let mut wrong = Vec::new();
    let events = case.events_of(run);
    let ends: Vec<i64> = events
        .iter()
        .filter(|event| event.kind == "sub_agent" && event.json["status"] != "started")
        .map(|event| event.seq)
        .collect();
    if ends.len() != 1 || run.done_seq != Some(ends[0]) {
        wrong.push(format!(
            "sub-agent {} ended at {ends:?}, says {:?}",
            run.id, run.done_seq
        ));
    }
    if run.state == "completed"
        && let Some(plan) = Plan::of(&run.input)
    {
        let (shown, whole) = (text_of(run.id, &events), plan.reply());
        if shown != whole {
            wrong.push(format!("sub-agent {} said {shown:?} instead of {whole:?}", run.id));
        }
    }
    wrong
}

/// Each task is executed by one run, after all its predecessors.
fn tasks(case: &Case) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut done: HashMap<Uuid, usize> = HashMap::new();
    for run in case.runs.values().filter(|run| run.state == "completed") {
        if let Some(task) = run.task_id {
            *done.entry(task).or_default() += 1;
        }
    }
    let by_id: HashMap<Uuid, &super::case::Task> = case.tasks.iter().map(|task| (task.id, task)).collect();
    for task in &case.tasks {
        let runs = done.get(&task.id).copied().unwrap_or_default();
        match task.state.as_str() {
            "completed" if runs == 1 => {}
            "completed" => wrong.push(format!("task {} was done {runs} times", task.id)),
            "pending" | "in_progress" => wrong.push(format!("task {} is {} for ever", task.id, task.state)),
            _ => {}
        }
    }
    for (before, after) in &case.blocks {
        if let (Some(before), Some(after)) = (by_id.get(before), by_id.get(after))
            && let (Some(over), Some(begun)) = (before.finished_at, after.started_at)
            && begun < over
        {
            wrong.push(format!("task {} began before {} was over", after.id, before.id));
        }
    }
    wrong
}
