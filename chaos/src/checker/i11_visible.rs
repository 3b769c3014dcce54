//! I11: visible within a second without wake-ups: events written while all wake-ups were lost reached all connected
//! readers.

use super::Case;
use crate::faults::LOSE_WAKEUPS;

/// The promised limit.
const WITHIN_US: i64 = 1_000_000;
/// Tolerance for a machine under load.
const SLACK_US: i64 = 1_500_000;

pub(super) fn check(case: &Case) -> Vec<String> {
    let mut wrong = Vec::new();
    let lost = case.faults.iter().filter(|fault| fault.fault == LOSE_WAKEUPS);
    for window in lost {
        // Only undisturbed periods can be judged.
        let alone = !case.faults.iter().any(|other| {
            !std::ptr::eq(other, window)
                && other.from_us <= window.until_us
                && other.until_us + 5_000_000 >= window.from_us
        });
        if !alone {
            continue;
        }
        let until_us = window.until_us - WITHIN_US - SLACK_US;
        for session in case
            .sessions
            .iter()
            .filter(|session| session.opened_us < window.until_us && !session.from_snapshot)
        {
            let log = case.logs.get(&log_id(case, session));
            for heard in &session.heard {
                let Some(event) = log.and_then(|log| {
                    log.binary_search_by_key(&heard.seq, |event| event.seq)
                        .ok()
                        .map(|at| &log[at])
                }) else {
                    continue;
                };
                let due_us = event.committed_us.max(session.opened_us) + WITHIN_US + SLACK_US;
                let counts =
                    event.committed_us > window.from_us && event.committed_us < until_us && session.is_prompt();
                if counts && heard.at_us > due_us {
                    let late_ms = (heard.at_us - event.committed_us) / 1_000;
                    wrong.push(format!(
                        "{} heard {} after {late_ms} ms without wake-ups",
                        session.reader, heard.seq
                    ));
                }
            }
        }
    }
    wrong
}

fn log_id(case: &Case, session: &crate::evidence::Session) -> uuid::Uuid {
    match session.target {
        crate::evidence::Target::Conversation(id) => id,
        crate::evidence::Target::Run(id) => case.runs.get(&id).map_or(id, |run| run.log_id),
    }
}
