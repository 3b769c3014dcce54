//! Recovery times: until work continued elsewhere, after a worker was killed or asked to stop.

use super::checker::Case;
use crate::faults::DRAIN_WORKER;

/// Kinds of faults after which runs continue with a new attempt once the lease expires.
const KILLS: [&str; 4] = [
    "kill-worker",
    "kill-worker-in-call",
    "kill-worker-at-answer",
    "kill-worker-at-commit",
];

/// Milliseconds, sorted.
#[derive(Debug, Default)]
pub struct Recoveries {
    /// From the kill to the first event of the run's next attempt.
    pub killed_ms: Vec<f64>,
    /// Those without other faults in their period.
    pub killed_alone_ms: Vec<f64>,
    /// From the signal to the next claim.
    pub drained_ms: Vec<f64>,
    pub drained_alone_ms: Vec<f64>,
    pub kills: usize,
    pub drains: usize,
}

impl Recoveries {
    pub fn of(case: &Case) -> Self {
        let mut recoveries = Self::default();
        for fault in &case.faults {
            let drained = fault.fault == DRAIN_WORKER;
            let killed = KILLS.contains(&fault.fault.as_str());
            let Some(worker) = fault.worker.filter(|_| drained || killed) else {
                continue;
            };
            if drained {
                recoveries.drains += 1;
            } else {
                recoveries.kills += 1;
            }
            for job in &case.jobs {
                // What it ran at that time, and the next claim of it.
                let Some(held) = job.iter().rposition(|seen| seen.at.timestamp_micros() <= fault.from_us) else {
                    continue;
                };
                if job[held].worker_id != Some(worker) || job[held].state != "running" {
                    continue;
                }
                let next = job[held + 1..]
                    .iter()
                    .find(|seen| seen.state == "running" && seen.worker_id.is_some());
                let Some(next) = next else { continue };
                let mut at_us = next.at.timestamp_micros();
                if killed {
                    let run = next.run_id.and_then(|run| case.runs.get(&run));
                    let events = run.map(|run| case.events_of(run)).unwrap_or_default();
                    let Some(event) = events.iter().find(|event| event.created_us >= at_us) else {
                        continue;
                    };
                    at_us = event.created_us;
                }
                let took_ms = (at_us - fault.from_us) as f64 / 1_000.0;
                let alone = !case.faults.iter().any(|other| {
                    !std::ptr::eq(other, fault) && other.from_us <= at_us && other.until_us >= fault.from_us
                });
                let (all, alone_ones) = if drained {
                    (&mut recoveries.drained_ms, &mut recoveries.drained_alone_ms)
                } else {
                    (&mut recoveries.killed_ms, &mut recoveries.killed_alone_ms)
                };
                all.push(took_ms);
                if alone {
                    alone_ones.push(took_ms);
                }
            }
        }
        for times in [
            &mut recoveries.killed_ms,
            &mut recoveries.killed_alone_ms,
            &mut recoveries.drained_ms,
            &mut recoveries.drained_alone_ms,
        ] {
            times.sort_by(f64::total_cmp);
        }
        recoveries
    }
}

/// Returns a quantile of sorted times.
pub fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    sorted.get((last as f64 * q).ceil() as usize).copied()
}
