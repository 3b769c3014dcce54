//! I16: a step of a durable function has one result, which every later execution gets.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use uuid::Uuid;

use super::Case;
use crate::tools::FLOWS;

pub(super) fn check(case: &Case) -> Vec<String> {
    let mut wrong = Vec::new();
    let on_record: HashMap<(Uuid, &str, i64), &Value> = case
        .steps_on_record
        .iter()
        .map(|(run, call, number, output)| {
            let output = output.as_ref().unwrap_or(&Value::Null);
            ((*run, call.as_str(), i64::from(*number)), output)
        })
        .collect();
    // Not those of conversations that were deleted.
    let kept: HashSet<(Uuid, &str)> = case
        .calls
        .iter()
        .map(|call| (call.run_id, call.call_id.as_str()))
        .collect();
    for step in case
        .steps
        .iter()
        .filter(|step| kept.contains(&(step.run_id, step.call_id.as_str())))
    {
        let recorded = on_record
            .get(&(step.run_id, step.call_id.as_str(), step.number))
            .copied();
        if recorded != Some(&step.output) {
            wrong.push(format!(
                "run {}: step {} of the call {} was confirmed as {} and is on record as {recorded:?}",
                step.run_id, step.number, step.call_id, step.output
            ));
        }
    }
    let flows = case
        .calls
        .iter()
        .filter(|call| FLOWS.contains(&call.tool_name.as_str()));
    for call in flows.filter(|call| call.status == "completed") {
        let paid = call.output.as_ref().map(|output| &output["paid"]);
        let recorded = on_record.get(&(call.run_id, call.call_id.as_str(), 1)).copied();
        // Null: the step was begun when its program was lost.
        if paid.is_some_and(|paid| !paid.is_null()) && paid != recorded {
            wrong.push(format!(
                "run {}: the call {} ended with {paid:?} of its first step, which is on record as {recorded:?}",
                call.run_id, call.call_id
            ));
        }
    }
    wrong
}
