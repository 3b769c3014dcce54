//! I3: every reader, from every cursor, reads the identical suffix: each connection received the log from its cursor
//! on, verbatim, and a reader that stayed has received it to its end. Where commits may be lost: `taken_back`.

use std::collections::{HashMap, HashSet};

use super::case::{Event, text_of};
use super::{Case, taken_back};
use crate::evidence::{Session, Target};

pub(super) fn check(case: &Case) -> Vec<String> {
    if case.notes.may_lose_commits {
        return taken_back::check(case);
    }
    let mut wrong = Vec::new();
    let mut logs: HashMap<Target, Vec<&Event>> = HashMap::new();
    let (mut all, mut arrived) = (HashSet::new(), HashSet::new());
    for session in &case.sessions {
        let log = logs
            .entry(session.target)
            .or_insert_with(|| case.log_of(session.target));
        all.insert(&session.reader);
        if session.faithful_end {
            arrived.insert(&session.reader);
        }
        wrong.extend(differs(session, log).map(|what| {
            format!(
                "{} of {:?} at API {}, after {:?}: {what}",
                session.reader, session.target, session.api, session.after
            )
        }));
    }
    let lost: Vec<_> = all.difference(&arrived).collect();
    wrong.extend(
        lost.into_iter()
            .map(|reader| format!("{reader} never came to the end of its log")),
    );
    wrong
}

/// Returns how a connection's events differ from its part of the log.
fn differs(session: &Session, log: &[&Event]) -> Option<String> {
    if session.taken_back {
        return Some("it was notified that the log was taken back".to_owned());
    }
    match session.status {
        // No or late response: the reader retries. 404 would mean another user's.
        200 | 204 | 429 | 503 => {}
        status => return Some(format!("status {status}")),
    }
    let mut from = session.after.unwrap_or_default();
    if let Some(snapshot) = &session.snapshot {
        from = snapshot.through;
        let before: Vec<&Event> = log
            .iter()
            .copied()
            .filter(|event| event.seq <= snapshot.through)
            .collect();
        // No text yet; a run's reader may have no other text, either.
        if let Some(text) = snapshot.text.as_ref().filter(|text| !text.is_empty())
            && !running_texts(&before).contains(text)
        {
            return Some(format!(
                "the snapshot through {from} says {text:?}, which no turn had said by then"
            ));
        }
    }
    // A run's readers see its own events: their numbers have gaps for other turns.
    let expected = log.iter().filter(|event| event.seq > from);
    for (heard, event) in session.heard.iter().zip(expected) {
        if heard.seq != event.seq {
            return Some(format!("heard {} where {} was next", heard.seq, event.seq));
        }
        if heard.data != event.data {
            return Some(format!(
                "event {}: heard {}, the log has {}",
                heard.seq, heard.data, event.data
            ));
        }
    }
    let left = log.iter().filter(|event| event.seq > from).count();
    (session.heard.len() > left).then(|| format!("heard {} events where the log has {left}", session.heard.len()))
}

/// Returns the texts of the turns still active after these events.
fn running_texts(events: &[&Event]) -> Vec<String> {
    let over: HashSet<_> = events
        .iter()
        .filter(|event| event.kind == "done")
        .filter_map(|event| event.run_id)
        .collect();
    let open: HashSet<_> = events
        .iter()
        .filter_map(|event| event.run_id)
        .filter(|run| !over.contains(run))
        .collect();
    open.into_iter()
        .map(|run| {
            let of_run: Vec<&Event> = events
                .iter()
                .copied()
                .filter(|event| event.run_id == Some(run))
                .collect();
            text_of(run, &of_run)
        })
        .collect()
}
