//! I7: a call is recorded before it acts; a non-repeatable one acts at most once; a call recorded as completed has
//! acted; readers see every begun call end, once.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use uuid::Uuid;

use super::Case;
use super::case::Call;
use crate::tools::{LOOKING, PAYING};

pub(super) fn check(case: &Case) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut acted: HashMap<(Uuid, &str), usize> = HashMap::new();
    for effect in &case.effects {
        *acted.entry((effect.run_id, &effect.call_id)).or_default() += 1;
        let pays = PAYING.contains(&effect.tool.as_str());
        if pays && acted[&(effect.run_id, effect.call_id.as_str())] == 2 {
            wrong.push(format!("run {}: the call {} paid twice", effect.run_id, effect.call_id));
        }
    }
    // Whatever it declares: untrusted tools are not repeated.
    let mut paid: HashSet<&str> = HashSet::new();
    for effect in &case.outside {
        if !paid.insert(&effect.call_id) {
            wrong.push(format!("the call {} paid twice by an MCP server", effect.call_id));
        }
    }
    let known: HashMap<(Uuid, &str), &str> = case
        .calls
        .iter()
        .map(|call| ((call.run_id, call.call_id.as_str()), call.status.as_str()))
        .collect();
    for (run, call) in acted.keys() {
        match known.get(&(*run, *call)) {
            None => wrong.push(format!("run {run}: the call {call} acted and is not on record")),
            Some(&"pending") => wrong.push(format!("run {run}: the call {call} acted and is on record as pending")),
            Some(_) => {}
        }
    }
    // Without those of the MCP server, which may report effects that did not happen; and without those that leave no
    // external trace.
    let ours = case
        .calls
        .iter()
        .filter(|call| PAYING.iter().chain(&LOOKING).any(|tool| *tool == call.tool_name));
    // A durable function completes also if it does not know whether it has paid.
    let is_unknown = |call: &&Call| {
        call.output
            .as_ref()
            .is_some_and(|output| output.get("paid") == Some(&Value::Null))
    };
    for call in ours.filter(|call| call.status == "completed" && !is_unknown(call)) {
        if !acted.contains_key(&(call.run_id, call.call_id.as_str())) {
            wrong.push(format!(
                "run {}: the call {} is completed and never acted",
                call.run_id, call.call_id
            ));
        }
    }
    for run in case.runs.values() {
        let (mut begun, mut ended) = (HashSet::new(), HashSet::new());
        for event in case.events_of(run).iter().filter(|event| event.kind == "mcp_tool") {
            let (call, status) = (event.json["callId"].to_string(), &event.json["status"]);
            let fresh = if *status == "started" {
                begun.insert(call.clone())
            } else {
                ended.insert(call.clone())
            };
            if !fresh {
                wrong.push(format!("run {}: the call {call} is told to be {status} twice", run.id));
            }
        }
        if run.done_seq.is_some() && begun != ended {
            let open: Vec<_> = begun.symmetric_difference(&ended).collect();
            wrong.push(format!(
                "run {}: calls that only began, or only ended: {open:?}",
                run.id
            ));
        }
    }
    wrong
}
