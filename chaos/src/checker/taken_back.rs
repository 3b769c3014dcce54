//! I3 where acknowledged commits may be lost: a failover may take back the last events of a log, or all of it, but never behind a reader's back. Each reader is
//! followed from connection to connection, as a client would: it keeps what it gets, and discards it only when it is notified. At the end it has
//! exactly what the log has, and it got no event for another one in between. Readers that had everything come back at the end.

use std::collections::HashMap;

use super::Case;
use super::case::Event;
use crate::evidence::{Heard, Session, Target};

pub(super) fn check(case: &Case) -> Vec<String> {
    let mut readers: HashMap<&str, Vec<&Session>> = HashMap::new();
    for session in &case.sessions {
        readers.entry(&session.reader).or_default().push(session);
    }
    readers
        .into_iter()
        .filter_map(|(reader, sessions)| {
            let what = differs(case, &sessions).err()?;
            Some(format!("{reader} of {:?}: {what}", sessions.first()?.target))
        })
        .collect()
}

/// What a reader has.
#[derive(Default)]
struct Kept<'a> {
    /// The number after which its events begin.
    base: i64,
    events: Vec<&'a Heard>,
    /// The log is gone.
    is_gone: bool,
}

impl<'a> Kept<'a> {
    /// Follows a connection.
    ///
    /// # Errors
    /// It can't be one of this reader.
    fn follow(&mut self, session: &'a Session) -> Result<(), String> {
        match session.status {
            200 | 204 | 429 | 503 => {}
            400 | 404 if session.taken_back => {}
            status => return Err(format!("status {status} after {:?}", session.after)),
        }
        if session.taken_back {
            *self = Self {
                is_gone: session.status == 404,
                ..Self::default()
            };
        }
        if let Some(snapshot) = &session.snapshot {
            *self = Self {
                base: snapshot.through,
                ..Self::default()
            };
        } else if let Some(after) = session.after.filter(|_| !session.taken_back) {
            // A restless reader goes back, also before its snapshot, and gets the same again: or others, if its log has lost those.
            self.events.retain(|heard| heard.seq <= after);
            self.base = self.base.min(after);
        }
        for heard in &session.heard {
            let last = self.last();
            let is_next = match session.target {
                Target::Conversation(_) => heard.seq == last + 1,
                // A run's readers see its own events: their numbers have gaps for other turns.
                Target::Run(_) => heard.seq > last,
            };
            if !is_next {
                return Err(format!("received {} after {last}", heard.seq));
            }
            self.events.push(heard);
        }
        Ok(())
    }

    fn last(&self) -> i64 {
        self.events.last().map_or(self.base, |heard| heard.seq)
    }
}

/// # Errors
/// How what a reader has at the end differs from the log, or which connection is impossible.
fn differs(case: &Case, sessions: &[&Session]) -> Result<(), String> {
    let mut kept = Kept::default();
    for session in sessions {
        kept.follow(session)?;
    }
    let Some(last) = sessions.last() else { return Ok(()) };
    if !last.faithful_end {
        return Err("never came to the end of its log".to_owned());
    }
    let log = case.log_of(last.target);
    if kept.is_gone {
        return if is_there(case, last.target) {
            Err("was notified that it is gone, and it is there".to_owned())
        } else {
            Ok(())
        };
    }
    let expected: Vec<&Event> = log.into_iter().filter(|event| event.seq > kept.base).collect();
    for (heard, event) in kept.events.iter().zip(&expected) {
        if (heard.seq, &heard.data) != (event.seq, &event.data) {
            return Err(format!(
                "has {} {} without a notice, where the log has {} {}",
                heard.seq, heard.data, event.seq, event.data
            ));
        }
    }
    if kept.events.len() != expected.len() {
        return Err(format!(
            "has {} events after {} without a notice, where the log has {}",
            kept.events.len(),
            kept.base,
            expected.len()
        ));
    }
    Ok(())
}

fn is_there(case: &Case, target: Target) -> bool {
    match target {
        Target::Conversation(id) => case.logs.contains_key(&id),
        Target::Run(id) => case.runs.contains_key(&id),
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::evidence::Snapshot;

    const LOG: Target = Target::Conversation(Uuid::nil());

    fn session(after: Option<i64>, seqs: &[i64]) -> Session {
        Session {
            reader: "reader".to_owned(),
            user: 0,
            target: LOG,
            after,
            from_snapshot: false,
            api: 0,
            status: 200,
            opened_us: 0,
            heard: seqs
                .iter()
                .map(|seq| Heard {
                    seq: *seq,
                    data: seq.to_string(),
                    at_us: 0,
                })
                .collect(),
            snapshot: None,
            taken_back: false,
            slow: false,
            faithful_end: false,
        }
    }

    /// The numbers that a reader has after these connections.
    fn kept(sessions: &[Session]) -> Result<Vec<i64>, String> {
        let mut kept = Kept::default();
        for session in sessions {
            kept.follow(session)?;
        }
        Ok(kept.events.iter().map(|heard| heard.seq).collect())
    }

    #[test]
    fn a_reader_keeps_all_it_gets_until_it_is_notified() {
        let first = session(Some(0), &[1, 2, 3]);
        assert_eq!(kept(&[first.clone(), session(Some(3), &[4])]), Ok(vec![1, 2, 3, 4]));
        assert_eq!(
            kept(&[first.clone(), session(Some(1), &[2])]),
            Ok(vec![1, 2]),
            "it went back"
        );
        let refused = Session {
            status: 400,
            taken_back: true,
            ..session(Some(3), &[])
        };
        let snapshot = Session {
            snapshot: Some(Snapshot { through: 2, text: None }),
            ..session(None, &[3])
        };
        assert_eq!(kept(&[first.clone(), refused.clone()]), Ok(Vec::new()));
        let both = [first, refused, snapshot];
        assert_eq!(kept(&both), Ok(vec![3]));
        let [first, refused, snapshot] = both;
        let back = session(Some(0), &[1, 2]);
        assert_eq!(
            kept(&[first, refused, snapshot, back]),
            Ok(vec![1, 2]),
            "before its snapshot"
        );
    }

    #[test]
    fn gaps_repetitions_and_bare_refusals_are_violations() {
        let first = session(Some(0), &[1, 2]);
        assert!(kept(&[first.clone(), session(Some(2), &[4])]).is_err());
        assert!(kept(&[first.clone(), session(Some(2), &[2])]).is_err());
        let refused = Session {
            status: 400,
            ..session(Some(2), &[])
        };
        assert!(kept(&[first, refused]).is_err());
    }
}
