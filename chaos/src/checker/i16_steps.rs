//! I16: a step of a durable function has one result, which every later execution gets.

use std::collections::HashMap;

use serde_json::Value;
use uuid::Uuid;

use super::Case;
use crate::tools::PROGRAM_FLOW;

pub(super) fn check(case: &Case) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut accepted: HashMap<(Uuid, &str, i64), &Value> = HashMap::new();
    for step in &case.steps {
        let key = (step.run_id, step.call_id.as_str(), step.number);
        let first = *accepted.entry(key).or_insert(&step.output);
        if *first != step.output {
            wrong.push(format!(
                "run {}: step {} of the call {} was recorded as {first} and as {}",
                step.run_id, step.number, step.call_id, step.output
            ));
        }
    }
    let flows = case.calls.iter().filter(|call| call.tool_name == PROGRAM_FLOW);
    for call in flows.filter(|call| call.status == "completed") {
        let paid = call.output.as_ref().map(|output| &output["paid"]);
        let recorded = accepted.get(&(call.run_id, call.call_id.as_str(), 1)).copied();
        // Null: the step was begun when its program was lost.
        if paid.is_some_and(|paid| !paid.is_null()) && paid != recorded {
            wrong.push(format!(
                "run {}: the call {} ended with {paid:?} of its first step, which was recorded as {recorded:?}",
                call.run_id, call.call_id
            ));
        }
    }
    wrong
}
