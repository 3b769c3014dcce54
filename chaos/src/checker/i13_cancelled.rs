//! I13: after a confirmed cancellation no tool starts.

use std::collections::HashMap;

use super::Case;

pub(super) fn check(case: &Case) -> Vec<String> {
    let cancelled: HashMap<_, _> = case
        .accepted_posts()
        .filter_map(|(post, _, run)| Some((run, post.cancelled_at_us?)))
        .collect();
    case.calls
        .iter()
        .filter_map(|call| {
            // Both by clocks of one machine; a transaction that began after the response has seen the cancellation.
            let (asked_us, started_us) = (*cancelled.get(&call.run_id)?, call.started_at?.timestamp_micros());
            (started_us > asked_us).then(|| {
                let late_ms = (started_us - asked_us) / 1_000;
                format!(
                    "run {}: the call {} started {late_ms} ms after its cancellation",
                    call.run_id, call.call_id
                )
            })
        })
        .collect()
}
