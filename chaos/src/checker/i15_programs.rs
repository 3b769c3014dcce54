//! I15: of all attempts of a program's call, the result of one is accepted at most, and it is the one on record. (Of programs that use the
//! packages, which do not show what was accepted, the effects and the steps are checked: I7, I16.)

use std::collections::HashMap;

use uuid::Uuid;

use super::Case;
use crate::tools::{PROGRAM_FLOW, PROGRAM_LOOK, PROGRAM_PAY};

pub(super) fn check(case: &Case) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut accepted: HashMap<(Uuid, &str), i64> = HashMap::new();
    for one in &case.accepted {
        let call = (one.run_id, one.call_id.as_str());
        let first = *accepted.entry(call).or_insert(one.attempt);
        if first != one.attempt {
            wrong.push(format!(
                "run {}: of the call {}, the results of the attempts {first} and {} were accepted",
                one.run_id, one.call_id, one.attempt
            ));
        }
    }
    let of_programs = [PROGRAM_PAY, PROGRAM_LOOK, PROGRAM_FLOW];
    let calls = case.calls.iter();
    for call in calls.filter(|call| of_programs.contains(&call.tool_name.as_str())) {
        let attempt = accepted.get(&(call.run_id, call.call_id.as_str()));
        let recorded = call.output.as_ref().and_then(|output| output["attempt"].as_i64());
        if call.status == "outcome_unknown" && attempt.is_some() {
            wrong.push(format!(
                "run {}: the result of the call {} was accepted, and its outcome is on record as unknown",
                call.run_id, call.call_id
            ));
        }
        if call.status == "completed" && attempt.copied() != recorded {
            wrong.push(format!(
                "run {}: the call {} is on record with the result of attempt {recorded:?}; accepted was that of {attempt:?}",
                call.run_id, call.call_id
            ));
        }
    }
    wrong
}
