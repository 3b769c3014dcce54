//! I2: a log's numbers are 1..n without a gap, and no event of a turn follows its `done`.

use std::collections::HashSet;

use super::Case;

pub(super) fn check(case: &Case) -> Vec<String> {
    let mut wrong = Vec::new();
    for (log, events) in &case.logs {
        let first = case.oldest.get(log).copied().unwrap_or(1);
        let expected = (first..).zip(events);
        if let Some((expected, event)) = expected.into_iter().find(|(expected, event)| *expected != event.seq) {
            wrong.push(format!("log {log}: {} stands where {expected} should", event.seq));
        }
        let mut done = HashSet::new();
        for event in events {
            let Some(run) = event.run_id else { continue };
            if done.contains(&run) {
                wrong.push(format!(
                    "log {log}: {} ({}) of run {run} follows its done",
                    event.seq, event.kind
                ));
            }
            if event.kind == "done" && event.json["runId"] == run.to_string() {
                done.insert(run);
            }
        }
    }
    wrong
}
