//! I15: of all attempts of a program's call, the result of one is accepted at most, and it is the one on record. A program can be gone before it
//! reads that its result was accepted: then the one on record must be one that was sent. (Of programs that use the packages, which do not show
//! what was sent, the effects and the steps are checked: I7, I16.)

use std::collections::{BTreeSet, HashMap};

use uuid::Uuid;

use super::Case;
use crate::tools::{PROGRAM_FLOW, PROGRAM_LOOK, PROGRAM_PAY};

/// The attempts whose results a call's programs sent.
#[derive(Default)]
struct Attempts {
    sent: BTreeSet<i64>,
    accepted: BTreeSet<i64>,
}

pub(super) fn check(case: &Case) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut attempts: HashMap<(Uuid, &str), Attempts> = HashMap::new();
    for result in &case.results {
        let of_call = attempts.entry((result.run_id, result.call_id.as_str())).or_default();
        of_call.sent.insert(result.attempt);
        if result.is_accepted {
            of_call.accepted.insert(result.attempt);
        }
    }
    for ((run_id, call_id), Attempts { accepted, .. }) in &attempts {
        if accepted.len() > 1 {
            wrong.push(format!(
                "run {run_id}: of the call {call_id}, the results of the attempts {accepted:?} were accepted"
            ));
        }
    }
    let none = Attempts::default();
    let of_programs = [PROGRAM_PAY, PROGRAM_LOOK, PROGRAM_FLOW];
    let calls = case.calls.iter();
    for call in calls.filter(|call| of_programs.contains(&call.tool_name.as_str())) {
        let Attempts { sent, accepted } = attempts.get(&(call.run_id, call.call_id.as_str())).unwrap_or(&none);
        if call.status == "outcome_unknown" && !accepted.is_empty() {
            wrong.push(format!(
                "run {}: the result of the call {} was accepted, and its outcome is on record as unknown",
                call.run_id, call.call_id
            ));
        }
        let possible = if accepted.is_empty() { sent } else { accepted };
        let recorded = call.output.as_ref().and_then(|output| output["attempt"].as_i64());
        if call.status == "completed" && !recorded.is_some_and(|attempt| possible.contains(&attempt)) {
            wrong.push(format!(
                "run {}: the call {} is on record with the result of attempt {recorded:?}; sent were those of {sent:?}, accepted {accepted:?}",
                call.run_id, call.call_id
            ));
        }
    }
    wrong
}
