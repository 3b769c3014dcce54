//! I6: no runnable job waits longer than lease + sweep; once no faults are injected, everything completes.

use super::Case;
use crate::witness::Seen;

/// Interval of sweeps.
const SWEEP_US: i64 = 2_000_000;
/// Tolerance for a machine under load.
const SLACK_US: i64 = 2_000_000;

pub(super) fn check(case: &Case) -> Vec<String> {
    let mut wrong = Vec::new();
    if case.notes.rest_after_ms.is_none() {
        wrong.push(format!(
            "{} runs and jobs were left when all faults were over",
            case.notes.left_open
        ));
    }
    let limit_us = i64::try_from(case.notes.lease_ms).unwrap_or_default() * 1_000 + SWEEP_US + SLACK_US;
    for job in &case.jobs {
        for pair in job.windows(2) {
            let (waits, next) = (&pair[0], &pair[1]);
            if waits.state != "available" || waits.held {
                continue;
            }
            let from_us = runnable_us(waits);
            let until_us = next.at.timestamp_micros();
            if until_us - from_us > limit_us && !case.is_disturbed(waits.workspace_id, from_us, until_us) {
                let waited_ms = (until_us - from_us) / 1_000;
                wrong.push(format!(
                    "job {} (project {}, run {}) waited {waited_ms} ms from {from_us} µs on though nothing was wrong",
                    waits.job_id,
                    waits.workspace_id.map_or_else(String::new, |id| id.to_string()),
                    waits.run_id.map_or_else(String::new, |id| id.to_string()),
                ));
            }
        }
    }
    wrong
}

fn runnable_us(seen: &Seen) -> i64 {
    seen.at.max(seen.run_at).timestamp_micros()
}
