//! I9: a drain loses nothing: runs of a stopped worker are released, not left to their lease.

use super::Case;
use crate::faults::DRAIN_WORKER;

pub(super) fn check(case: &Case) -> Vec<String> {
    let mut wrong = Vec::new();
    for drain in case.faults.iter().filter(|fault| fault.fault == DRAIN_WORKER) {
        // A concurrent fault may prevent the release. (Not a move of a project, which takes leases: these have not expired.)
        let alone = !case.faults.iter().any(|other| {
            other.fault != DRAIN_WORKER
                && other.workspace_id.is_none()
                && other.from_us <= drain.until_us + 1_000_000
                && other.until_us + i64::try_from(case.notes.lease_ms).unwrap_or_default() * 2_000 >= drain.from_us
        });
        let Some(worker) = drain.worker.filter(|_| alone) else {
            continue;
        };
        for job in &case.jobs {
            for pair in job.windows(2) {
                let (ran, next) = (&pair[0], &pair[1]);
                let left = ran.worker_id == Some(worker)
                    && ran.state == "running"
                    && next.at.timestamp_micros() >= drain.from_us;
                let expired = next
                    .last_error
                    .as_deref()
                    .is_some_and(|error| error.starts_with(&format!("attempt {}: the lease expired", ran.attempt)));
                if left && expired {
                    wrong.push(format!(
                        "job {} was left to its lease by a worker that drained ({})",
                        ran.job_id, drain.detail
                    ));
                }
            }
        }
    }
    wrong
}
