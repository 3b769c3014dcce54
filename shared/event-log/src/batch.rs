//! The contents of one flush of the writer: the events of many runs, grouped by log, each log's in `append` order.
//!
//! Waiting deltas are merged into one event: a `token` is a piece of the reply of any length. Only neighbours of one
//! log are merged, and only if they differ in nothing but their text, so that no event overtakes another.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;
use uuid::Uuid;

use super::stream::RunStream;
use rejoin_types::events::{Event, TextSpan};

/// Approximate maximum size of one flush, in bytes of JSON: bounds memory even with long events.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// An event waiting to be written.
#[derive(Debug)]
pub(super) struct Pending {
    pub kind: &'static str,
    pub data: String,
    /// The position of its text, if it is a delta.
    pub text: Option<TextSpan>,
}

impl Pending {
    pub fn of(event: &Event) -> Self {
        let data = event.to_json();
        let text = event.text_span(&data);
        Self {
            kind: event.kind.name(),
            data,
            text,
        }
    }

    /// An event of another program. Its text has no line end: JSON that is made from a value has none.
    pub fn of_json(kind: &'static str, data: &Value) -> Self {
        Self {
            kind,
            data: data.to_string(),
            text: None,
        }
    }

    /// Appends `next`'s text to this one's, if both are deltas that differ in nothing else.
    fn absorb(&mut self, next: &Pending, max_bytes: usize) -> bool {
        let (Some(mine), Some(other)) = (self.text, next.text) else {
            return false;
        };
        let (before, _, after) = mine.split(&self.data);
        let (other_before, text, other_after) = other.split(&next.data);
        if mine.len() + text.len() > max_bytes || before != other_before || after != other_after {
            return false;
        }
        self.data.insert_str(mine.end, text);
        self.text = Some(mine.longer_by(text.len()));
        true
    }
}

/// The events of one log.
#[derive(Debug)]
pub(super) struct OfLog {
    pub log_id: Uuid,
    /// The streams of the events: one, unless several runs share the log.
    pub streams: Vec<Arc<RunStream>>,
    /// Events, each with the index of its stream.
    pub events: Vec<(usize, Pending)>,
}

#[derive(Debug, Default)]
pub(super) struct Batch {
    pub logs: Vec<OfLog>,
    index: HashMap<Uuid, usize>,
    events: usize,
    bytes: usize,
}

impl Batch {
    /// Adds an event, or merges it into the log's last one if that stays within `max_delta_bytes` of text.
    pub fn take(&mut self, stream: Arc<RunStream>, event: Pending, max_delta_bytes: usize) {
        let at = *self.index.entry(stream.log_id).or_insert_with(|| {
            self.logs.push(OfLog {
                log_id: stream.log_id,
                streams: Vec::new(),
                events: Vec::new(),
            });
            self.logs.len() - 1
        });
        let log = &mut self.logs[at];
        let known = log.streams.iter().position(|known| Arc::ptr_eq(known, &stream));
        let of = known.unwrap_or_else(|| {
            log.streams.push(stream);
            log.streams.len() - 1
        });
        if let Some((last_of, last)) = log.events.last_mut()
            && *last_of == of
        {
            let before = last.data.len();
            if last.absorb(&event, max_delta_bytes) {
                self.bytes += last.data.len() - before;
                return;
            }
        }
        self.bytes += event.data.len();
        log.events.push((of, event));
        self.events += 1;
    }

    pub fn is_empty(&self) -> bool {
        self.events == 0
    }

    pub fn has(&self, log_id: Uuid) -> bool {
        self.index.contains_key(&log_id)
    }

    fn remove(&mut self, at: usize) -> OfLog {
        let log = self.logs.swap_remove(at);
        self.index.remove(&log.log_id);
        if let Some(moved) = self.logs.get(at) {
            self.index.insert(moved.log_id, at);
        }
        self.events -= log.events.len();
        self.bytes -= log.events.iter().map(|(_, event)| event.data.len()).sum::<usize>();
        log
    }

    /// Takes the events of a stream back, at most `max_events`. None: there are more, or other streams have events in its log.
    pub fn take_back(&mut self, stream: &Arc<RunStream>, max_events: usize) -> Option<Vec<Pending>> {
        let Some(&at) = self.index.get(&stream.log_id) else {
            return Some(Vec::new());
        };
        let log = &self.logs[at];
        let is_alone = log.streams.iter().all(|other| Arc::ptr_eq(other, stream));
        if !is_alone || log.events.len() > max_events {
            return None;
        }
        let events = self.remove(at).events.into_iter();
        Some(events.map(|(_, event)| event).collect())
    }

    /// The number of events.
    pub fn len(&self) -> usize {
        self.events
    }

    /// Returns whether it is full, with at most `max_events` per flush.
    pub fn is_full(&self, max_events: usize) -> bool {
        self.events >= max_events || self.bytes >= MAX_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rejoin_types::events::Kind;
    use tokio_util::sync::CancellationToken;

    fn stream(log_id: Uuid) -> Arc<RunStream> {
        let run_id = Uuid::now_v7();
        Arc::new(RunStream {
            log_id,
            root_run_id: run_id,
            run_id,
            attempt: 1,
            lost: CancellationToken::new(),
            seen: Default::default(),
        })
    }

    fn token(of: &RunStream, text: &str) -> Event {
        Event::of(of.run_id, Kind::Token { token: text.into() })
    }

    fn reasoning(of: &RunStream, text: &str) -> Event {
        Event::of(of.run_id, Kind::Reasoning { text: text.into() })
    }

    fn batch(events: &[(&Arc<RunStream>, Event)], max_delta_bytes: usize) -> Vec<Vec<Event>> {
        let mut batch = Batch::default();
        for (stream, event) in events {
            batch.take((*stream).clone(), Pending::of(event), max_delta_bytes);
        }
        let read = |event: &(usize, Pending)| serde_json::from_str(&event.1.data).expect("it is JSON");
        batch
            .logs
            .iter()
            .map(|log| log.events.iter().map(read).collect())
            .collect()
    }

    #[test]
    fn neighbouring_deltas_become_one_whatever_they_hold() {
        let run = stream(Uuid::now_v7());
        let texts = [
            "He said: \"",
            "C:\\",
            "\u{1}\n",
            "",
            "Grüße, 世界 🦀",
            "\",\"runId\":\"",
        ];
        let events: Vec<_> = texts.iter().map(|text| (&run, token(&run, text))).collect();
        assert_eq!(batch(&events, 1_000), [[token(&run, &texts.concat())]]);
    }

    #[test]
    fn another_kind_another_run_or_another_step_ends_a_delta() {
        let log = Uuid::now_v7();
        let (a, b) = (stream(log), stream(log));
        let of_step = |step| Event {
            step_number: Some(step),
            ..token(&a, "s")
        };
        let events = [
            (&a, token(&a, "1")),
            (&a, token(&a, "2")),
            (&b, token(&b, "3")),
            (&a, token(&a, "4")),
            (&a, reasoning(&a, "5")),
            (&a, reasoning(&a, "6")),
            (&a, token(&a, "7")),
            (&a, of_step(1)),
            (&a, of_step(1)),
            (&a, of_step(2)),
        ];
        let merged = [
            token(&a, "12"),
            token(&b, "3"),
            token(&a, "4"),
            reasoning(&a, "56"),
            token(&a, "7"),
            Event {
                step_number: Some(1),
                ..token(&a, "ss")
            },
            of_step(2),
        ];
        assert_eq!(batch(&events, 1_000), [merged]);
    }

    #[test]
    fn few_events_of_a_stream_alone_in_its_log_are_taken_back() {
        let (a, b, other) = (stream(Uuid::now_v7()), stream(Uuid::now_v7()), stream(Uuid::now_v7()));
        let beside_b = Arc::new(RunStream {
            run_id: Uuid::now_v7(),
            ..(*b).clone()
        });
        let mut batch = Batch::default();
        for of in [&a, &b, &beside_b, &other] {
            for _ in 0..3 {
                batch.take((*of).clone(), Pending::of(&token(of, "x")), 0);
            }
        }
        assert!(batch.take_back(&a, 2).is_none(), "more than two");
        assert!(batch.take_back(&b, 9).is_none(), "its log has events of another run");
        assert_eq!(batch.take_back(&a, 3).expect("they are alone").len(), 3);
        assert_eq!(batch.take_back(&a, 3).expect("none is left").len(), 0);
        assert_eq!(batch.len(), 9);
        assert!(batch.has(other.log_id) && !batch.has(a.log_id));
        batch.take(other.clone(), Pending::of(&token(&other, "y")), 0);
        let of_other = batch.logs.iter().find(|log| log.log_id == other.log_id);
        assert_eq!(of_other.expect("it is there").events.len(), 4, "the index follows");
        // An empty batch that counts as full would never be written.
        let mut merged = Batch::default();
        for _ in 0..3 {
            merged.take(a.clone(), Pending::of(&token(&a, "merged")), 1_000);
        }
        assert!(merged.bytes > 0);
        assert_eq!(merged.take_back(&a, 3).expect("they are alone").len(), 1);
        assert_eq!((merged.len(), merged.bytes), (0, 0));
    }

    #[test]
    fn logs_are_kept_apart_and_a_delta_is_bounded() {
        let (a, b) = (stream(Uuid::now_v7()), stream(Uuid::now_v7()));
        let events: Vec<_> = (0..6)
            .flat_map(|_| [(&a, token(&a, "ab")), (&b, token(&b, "c"))])
            .collect();
        let of_a = [token(&a, "abab"), token(&a, "abab"), token(&a, "abab")];
        let of_b = [token(&b, "cccc"), token(&b, "cc")];
        assert_eq!(batch(&events, 4), [of_a.to_vec(), of_b.to_vec()]);
        assert_eq!(batch(&events, 0)[0].len(), 6, "merging is switched off");
    }
}
