//! I5: at most one live attempt of a job, at most one active run of a conversation; a lease is taken over only after
//! its end (by the database's clock).

use std::collections::HashMap;

use uuid::Uuid;

use super::Case;
use crate::witness::Seen;

pub(super) fn check(case: &Case) -> Vec<String> {
    let mut wrong = Vec::new();
    // By conversation: the periods in which its jobs ran, in microseconds, and which job. (With several databases, ids of jobs are not unique.)
    let mut spans: HashMap<Uuid, Vec<(i64, i64, usize)>> = HashMap::new();
    for (nth, job) in case.jobs.iter().enumerate() {
        wrong.extend(attempts(job));
        // Sub-agents run concurrently.
        let top = job[0]
            .run_id
            .and_then(|run| case.runs.get(&run))
            .filter(|run| run.parent_run_id.is_none());
        let conversation = top.and_then(|run| run.conversation_id);
        let Some(conversation) = conversation else { continue };
        for pair in job.windows(2).filter(|pair| pair[0].state == "running") {
            let span = (pair[0].at.timestamp_micros(), pair[1].at.timestamp_micros(), nth);
            spans.entry(conversation).or_default().push(span);
        }
    }
    for (conversation, mut spans) in spans {
        spans.sort_unstable();
        for pair in spans.windows(2) {
            if pair[1].0 < pair[0].1 && pair[0].2 != pair[1].2 {
                wrong.push(format!(
                    "conversation {conversation}: the jobs {} and {} ran at once",
                    case.jobs[pair[0].2][0].job_id, case.jobs[pair[1].2][0].job_id
                ));
            }
        }
    }
    wrong
}

/// Returns the violations in one job's claims.
fn attempts(job: &[Seen]) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut last = None;
    let mut before: Option<&Seen> = None;
    for seen in job {
        let newly = before.is_none_or(|before| before.state != "running" || before.attempt != seen.attempt);
        if seen.state == "running" && newly && seen.worker_id.is_some() {
            if last.is_some_and(|last| seen.attempt <= last) {
                wrong.push(format!("job {}: attempt {} again", seen.job_id, seen.attempt));
            }
            if before.is_some_and(|before| before.state == "running") {
                wrong.push(format!(
                    "job {}: attempt {} began while another ran",
                    seen.job_id, seen.attempt
                ));
            }
            last = Some(seen.attempt);
        }
        let was_running = before.is_some_and(|before| before.state == "running");
        let expired = seen
            .last_error
            .as_deref()
            .is_some_and(|error| error.contains("the lease expired"));
        if was_running && seen.state == "available" && expired && seen.had_lease.is_some_and(|lease| seen.at < lease) {
            // Released by its worker after an earlier expiry: then another attempt is meant.
            let told = format!("attempt {}:", seen.attempt);
            if seen.last_error.as_deref().is_some_and(|error| error.starts_with(&told)) {
                wrong.push(format!(
                    "job {}: attempt {} lost its lease before its end",
                    seen.job_id, seen.attempt
                ));
            }
        }
        before = Some(seen);
    }
    wrong
}
