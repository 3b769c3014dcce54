//! Storage format of events: a row of `stream.events` is one event, or several consecutive ones of the same log, kind
//! and readers. A packed row has the number of its last event, so that "the first row after this cursor" finds the next
//! event in both cases.
//!
//! The writer packs what it flushes together, compaction packs ended runs; readers expand rows here, so that a cursor
//! sees the same events in either format.

use std::borrow::Cow;

use bytes::Bytes;
use uuid::Uuid;

/// A stored event: `data` is its JSON text on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    pub seq: i64,
    /// The run whose readers see it.
    pub run_id: Option<Uuid>,
    pub kind: String,
    pub data: Bytes,
}

/// Separates the events of a packed row. Our JSON texts contain no line ends; events appended by other programs may,
/// and are not packed.
pub(super) const SEPARATOR: &str = "\n";

/// Maximum text size of a packed row, in bytes. PostgreSQL compresses it (from 2 kB on) eightfold, hardly less than
/// longer rows, and at no more CPU time than uncompressed rows take. Reading one event reads the whole row.
pub(super) const MAX_BYTES: usize = 8 * 1024;

/// A row as read from the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StoredRow {
    /// None: one event.
    pub first_seq: Option<i64>,
    pub seq: i64,
    pub run_id: Option<Uuid>,
    pub kind: String,
    pub data: Bytes,
}

impl StoredRow {
    /// The row's events after `after`.
    pub fn expand(self, after: i64, out: &mut Vec<StoredEvent>) {
        let Some(first_seq) = self.first_seq else {
            out.push(StoredEvent {
                seq: self.seq,
                run_id: self.run_id,
                kind: self.kind,
                data: self.data,
            });
            return;
        };
        let lines = self.data.split(|byte| *byte == b'\n');
        for (seq, line) in (first_seq..).zip(lines).filter(|(seq, _)| *seq > after) {
            out.push(StoredEvent {
                seq,
                run_id: self.run_id,
                kind: self.kind.clone(),
                data: self.data.slice_ref(line),
            });
        }
    }
}

/// Columns of the rows inserted by a flush. The events of a log are pushed in their order.
#[derive(Default)]
pub(super) struct NewRows<'a> {
    pub logs: Vec<Uuid>,
    pub first_seqs: Vec<Option<i64>>,
    pub seqs: Vec<i64>,
    pub runs: Vec<Uuid>,
    pub types: Vec<&'static str>,
    pub data: Vec<Cow<'a, str>>,
}

impl<'a> NewRows<'a> {
    /// Adds an event, to the last row if it fits there.
    pub fn push(&mut self, log_id: Uuid, seq: i64, run_id: Uuid, kind: &'static str, data: &'a str) {
        if let (Some(last_log), Some(first), Some(last_seq), Some(last_run), Some(last_kind), Some(last)) = (
            self.logs.last(),
            self.first_seqs.last_mut(),
            self.seqs.last_mut(),
            self.runs.last(),
            self.types.last(),
            self.data.last_mut(),
        ) && *last_log == log_id
            && *last_run == run_id
            && *last_kind == kind
            && *last_seq + 1 == seq
            && last.len() + SEPARATOR.len() + data.len() <= MAX_BYTES
        {
            first.get_or_insert(*last_seq);
            *last_seq = seq;
            let packed = last.to_mut();
            packed.push_str(SEPARATOR);
            packed.push_str(data);
            return;
        }
        self.logs.push(log_id);
        self.first_seqs.push(None);
        self.seqs.push(seq);
        self.runs.push(run_id);
        self.types.push(kind);
        self.data.push(Cow::Borrowed(data));
    }

    pub fn is_empty(&self) -> bool {
        self.seqs.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(rows: &NewRows, after: i64) -> Vec<(i64, String, String)> {
        let mut events = Vec::new();
        for i in 0..rows.seqs.len() {
            let row = StoredRow {
                first_seq: rows.first_seqs[i],
                seq: rows.seqs[i],
                run_id: Some(rows.runs[i]),
                kind: rows.types[i].to_owned(),
                data: Bytes::copy_from_slice(rows.data[i].as_bytes()),
            };
            if row.seq > after {
                row.expand(after, &mut events);
            }
        }
        let text = |data: &Bytes| String::from_utf8(data.to_vec()).expect("it was text");
        events
            .iter()
            .map(|event| (event.seq, event.kind.clone(), text(&event.data)))
            .collect()
    }

    #[test]
    fn what_was_packed_reads_as_it_was_written_from_every_cursor() {
        let (log, run, long) = (Uuid::now_v7(), Uuid::now_v7(), "x".repeat(MAX_BYTES - 10));
        let events = [
            (8, "token", "a"),
            (9, "token", "b"),
            (10, "token", "c"),
            (11, "usage", "d"),
            (12, "token", "e"),
            (13, "token", &long),
            (14, "token", "too much"),
            (15, "token", "g"),
        ];
        let mut rows = NewRows::default();
        for (seq, kind, data) in events {
            rows.push(log, seq, run, kind, data);
        }
        assert_eq!(rows.first_seqs, [Some(8), None, Some(12), Some(14)]);
        assert_eq!(rows.seqs, [10, 11, 13, 15]);
        for after in 7..=15 {
            let left: Vec<_> = events
                .iter()
                .filter(|(seq, _, _)| *seq > after)
                .map(|(seq, kind, data)| (*seq, (*kind).to_owned(), (*data).to_owned()))
                .collect();
            assert_eq!(read(&rows, after), left, "after {after}");
        }
    }

    #[test]
    fn rows_are_of_one_log_one_tree_and_without_a_gap() {
        let [a, b] = [Uuid::now_v7(), Uuid::now_v7()];
        let mut rows = NewRows::default();
        for (log, seq, run) in [(a, 1, a), (b, 2, a), (b, 3, b), (b, 5, b)] {
            rows.push(log, seq, run, "token", "t");
        }
        assert_eq!(rows.first_seqs, [None; 4]);
    }
}
