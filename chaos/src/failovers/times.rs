//! How long a fault of the cluster lasted for those who write and for those who read.

use std::collections::{HashMap, HashSet};

use uuid::Uuid;

use super::writes::Accepted;
use crate::checker::Case;
use crate::evidence::Target;
use crate::load::STEADY;

/// The times of a fault.
#[derive(Debug, Clone, PartialEq)]
pub struct Times {
    pub fault: String,
    pub detail: String,
    /// The longest time without an acknowledged write, from the fault on [ms].
    pub no_writes_ms: f64,
    /// From the fault to the next event of each reader in the middle of a turn [ms], sorted; of turns that wait for nothing outside (`load::STEADY`).
    pub resumed_ms: Vec<f64>,
}

/// An event as a reader got it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Got {
    at_us: i64,
    run_id: Option<Uuid>,
    is_done: bool,
}

/// Returns the times of all recorded faults.
pub(super) fn of(case: &Case, accepted: &[Accepted]) -> Vec<Times> {
    let accepted: Vec<i64> = accepted.iter().map(|write| write.at_us).collect();
    let readers = readers(case);
    let times = |us: i64| us as f64 / 1_000.0;
    case.faults
        .iter()
        .map(|fault| {
            let mut resumed_ms: Vec<f64> = readers
                .values()
                .filter_map(|reader| resumed_us(reader, fault.from_us))
                .map(times)
                .collect();
            resumed_ms.sort_by(f64::total_cmp);
            Times {
                fault: fault.fault.clone(),
                detail: fault.detail.clone(),
                no_writes_ms: times(longest_gap_us(&accepted, fault.from_us, fault.until_us)),
                resumed_ms,
            }
        })
        .collect()
}

/// The logs of turns that wait for nothing outside: programs and tools that fail by themselves make others wait.
fn steady(case: &Case) -> HashSet<Uuid> {
    let posts = case
        .accepted_posts()
        .filter(|(post, _, _)| STEADY.contains(&post.load.as_str()));
    posts
        .filter_map(|(_, _, run_id)| Some(case.runs.get(&run_id)?.log_id))
        .collect()
}

/// Returns the new events of each prompt reader, in order of time.
fn readers(case: &Case) -> HashMap<&str, Vec<Got>> {
    let steady = steady(case);
    let mut sessions: Vec<_> = case.sessions.iter().filter(|session| session.is_prompt()).collect();
    sessions.sort_by_key(|session| session.opened_us);
    let mut readers: HashMap<&str, (i64, Vec<Got>)> = HashMap::new();
    for session in sessions {
        let log_id = match session.target {
            Target::Conversation(id) => id,
            Target::Run(id) => case.runs.get(&id).map_or(id, |run| run.log_id),
        };
        let Some(log) = case.logs.get(&log_id).filter(|_| steady.contains(&log_id)) else {
            continue;
        };
        let (last, got) = readers.entry(session.reader.as_str()).or_default();
        for heard in &session.heard {
            // Some readers go back on purpose: what they read again is not new.
            if heard.seq <= *last {
                continue;
            }
            *last = heard.seq;
            if let Ok(at) = log.binary_search_by_key(&heard.seq, |event| event.seq) {
                got.push(Got {
                    at_us: heard.at_us,
                    run_id: log[at].run_id,
                    is_done: log[at].kind == "done",
                });
            }
        }
    }
    readers.into_iter().map(|(reader, (_, got))| (reader, got)).collect()
}

/// Returns the time from a fault to a reader's next event. None: it was not in the middle of a turn.
fn resumed_us(reader: &[Got], from_us: i64) -> Option<i64> {
    let next = reader.partition_point(|got| got.at_us <= from_us);
    let (before, after) = (reader.get(next.checked_sub(1)?)?, reader.get(next)?);
    let in_a_turn = before.run_id.is_some() && before.run_id == after.run_id && !before.is_done;
    in_a_turn.then(|| after.at_us - from_us)
}

/// Returns the longest time between two writes (sorted) that begins between `from_us` and `until_us`, and not before.
fn longest_gap_us(accepted: &[i64], from_us: i64, until_us: i64) -> i64 {
    let (mut last_us, mut longest_us) = (from_us, 0);
    let first = accepted.partition_point(|at_us| *at_us <= from_us);
    for at_us in &accepted[first..] {
        if last_us > until_us {
            break;
        }
        longest_us = longest_us.max(at_us - last_us);
        last_us = *at_us;
    }
    longest_us
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_counts_from_the_fault_on() {
        // Every 10 µs, but not from 40 to 90 and from 120 to 220.
        let accepted = [10, 20, 30, 40, 90, 100, 110, 120, 220];
        assert_eq!(
            longest_gap_us(&accepted, 50, 115),
            40,
            "from the fault to the next write"
        );
        assert_eq!(longest_gap_us(&accepted, 25, 95), 50);
        assert_eq!(longest_gap_us(&accepted, 95, 130), 100, "a gap that ends later");
        assert_eq!(longest_gap_us(&accepted, 1, 35), 10);
        assert_eq!(longest_gap_us(&[], 1, 35), 0);
    }

    #[test]
    fn readers_in_a_turn_are_resumed_others_are_not_counted() {
        let runs = [Uuid::from_u128(1), Uuid::from_u128(2)];
        let got = |at_us, run: usize, is_done| Got {
            at_us,
            run_id: Some(runs[run]),
            is_done,
        };
        let reader = [
            got(10, 0, false),
            got(20, 0, false),
            got(900, 0, false),
            got(910, 0, true),
            got(2_000, 1, false),
        ];
        assert_eq!(resumed_us(&reader, 30), Some(870));
        assert_eq!(resumed_us(&reader, 5), None, "before its first event");
        assert_eq!(resumed_us(&reader, 950), None, "between two turns");
        assert_eq!(resumed_us(&reader, 2_500), None, "after its last event");
    }
}
