//! I4: nothing is written under a lost lease. Every word of a reply occurs once, in order: in the tokens as displayed
//! by a client, and in the stored message; and attempts are sequential.

use std::collections::HashMap;

use super::Case;
use super::case::text_of;
use crate::evidence::Expected;

/// Reasons of resets that take the text of a program's step back.
const TAKEN_BACK: [&str; 2] = [
    "the program that wrote it was lost",
    "the step that wrote it has failed",
];

pub(super) fn check(case: &Case) -> Vec<String> {
    let mut wrong = Vec::new();
    let messages: HashMap<_, _> = case.messages.iter().map(|message| (message.id, message)).collect();
    for (post, plan, run_id) in case.accepted_posts() {
        let Some(run) = case.runs.get(&run_id) else { continue };
        let events = case.events_of(run);
        let (shown, whole) = (text_of(run_id, &events), plan.reply());
        let good = match case.expected(post, run) {
            Expected::Whole => shown == whole,
            Expected::Stopped | Expected::Refused => whole.starts_with(&shown),
        };
        if !good {
            wrong.push(format!(
                "{} (run {run_id}): a client shows {shown:?} instead of {whole:?}",
                post.key
            ));
        }
        if let Some(message) = run.final_message_id.and_then(|id| messages.get(&id))
            && message.content != shown
        {
            wrong.push(format!(
                "{} (run {run_id}): stored is {:?}, shown {shown:?}",
                post.key, message.content
            ));
        }
        // An attempt of the run may take several texts of its program back.
        let attempts: Vec<i64> = events
            .iter()
            .filter(|event| {
                !event.json["reason"]
                    .as_str()
                    .is_some_and(|reason| TAKEN_BACK.contains(&reason))
            })
            .filter_map(|event| event.json["attempt"].as_i64())
            .collect();
        if !attempts.windows(2).all(|pair| pair[0] < pair[1]) {
            wrong.push(format!("{} (run {run_id}): attempts {attempts:?}", post.key));
        }
    }
    wrong
}
