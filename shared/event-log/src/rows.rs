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

/// Columns of the rows of a flush. The events of a log are pushed in their order.
#[derive(Default)]
pub(super) struct NewRows<'a> {
    /// The number of each row's stream, from 1.
    pub streams: Vec<i32>,
    /// How many events each row has.
    pub events: Vec<i32>,
    pub runs: Vec<Uuid>,
    pub types: Vec<&'static str>,
    pub data: Vec<Cow<'a, str>>,
    /// The log of each row.
    pub logs: Vec<Uuid>,
    /// The number that its last event gets if the database does not find other events in the log.
    pub seqs: Vec<i64>,
    /// The flush's id, in the first row of each stream.
    pub marks: Vec<Option<i64>>,
}

impl<'a> NewRows<'a> {
    /// Adds an event, to the last row if it fits there.
    pub fn push(&mut self, stream: i32, run_id: Uuid, kind: &'static str, data: &'a str) {
        if let (Some(last_stream), Some(events), Some(last_kind), Some(last)) = (
            self.streams.last(),
            self.events.last_mut(),
            self.types.last(),
            self.data.last_mut(),
        ) && *last_stream == stream
            && *last_kind == kind
            && last.len() + SEPARATOR.len() + data.len() <= MAX_BYTES
        {
            *events += 1;
            let packed = last.to_mut();
            packed.push_str(SEPARATOR);
            packed.push_str(data);
            return;
        }
        self.streams.push(stream);
        self.events.push(1);
        self.runs.push(run_id);
        self.types.push(kind);
        self.data.push(Cow::Borrowed(data));
    }

    /// Numbers all rows after the ends of their logs, and marks them: `logs` and `ends` are by stream. The rows of a log are neighbours.
    pub fn number(&mut self, flush_id: i64, logs: &[Uuid], ends: &[i64]) {
        let mut end = 0;
        let mut marked = vec![false; logs.len()];
        for (stream, events) in self.streams.iter().zip(&self.events) {
            let of = usize::try_from(stream - 1).unwrap_or(usize::MAX);
            let (Some(log_id), Some(log_end)) = (logs.get(of), ends.get(of)) else {
                continue;
            };
            if self.logs.last() != Some(log_id) {
                end = *log_end;
            }
            end += i64::from(*events);
            self.logs.push(*log_id);
            self.seqs.push(end);
            self.marks
                .push((!std::mem::replace(&mut marked[of], true)).then_some(flush_id));
        }
    }

    pub fn len(&self) -> usize {
        self.streams.len()
    }

    /// The row at `index`, whose last event got the number `seq`.
    pub fn stored(&self, index: usize, seq: i64) -> StoredRow {
        let before = i64::from(self.events[index]) - 1;
        StoredRow {
            first_seq: (before > 0).then_some(seq - before),
            seq,
            run_id: Some(self.runs[index]),
            kind: self.types[index].to_owned(),
            data: Bytes::copy_from_slice(self.data[index].as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(rows: &NewRows, mut seq: i64, after: i64) -> Vec<(i64, String, String)> {
        let mut events = Vec::new();
        for i in 0..rows.len() {
            seq += i64::from(rows.events[i]);
            if seq > after {
                rows.stored(i, seq).expand(after, &mut events);
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
        let (run, long) = (Uuid::now_v7(), "x".repeat(MAX_BYTES - 10));
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
        for (_, kind, data) in events {
            rows.push(1, run, kind, data);
        }
        assert_eq!(rows.events, [3, 1, 2, 2]);
        for after in 7..=15 {
            let left: Vec<_> = events
                .iter()
                .filter(|(seq, _, _)| *seq > after)
                .map(|(seq, kind, data)| (*seq, (*kind).to_owned(), (*data).to_owned()))
                .collect();
            assert_eq!(read(&rows, 7, after), left, "after {after}");
        }
    }

    #[test]
    fn the_rows_of_a_log_are_numbered_one_after_the_other() {
        let logs = [1, 1, 2].map(Uuid::from_u128);
        let mut rows = NewRows::default();
        for stream in [1, 1, 2, 1, 3] {
            rows.push(stream, logs[0], "token", "t");
        }
        rows.number(5, &logs, &[7, 7, 0]);
        assert_eq!(rows.seqs, [9, 10, 11, 1]);
        assert_eq!(rows.logs, [logs[0], logs[0], logs[0], logs[2]]);
        assert_eq!(rows.marks, [Some(5), Some(5), None, Some(5)]);
    }

    #[test]
    fn a_row_is_of_one_stream() {
        let run = Uuid::now_v7();
        let mut rows = NewRows::default();
        for stream in [1, 2, 2, 1] {
            rows.push(stream, run, "token", "t");
        }
        assert_eq!((rows.streams, rows.events), (vec![1, 2, 1], vec![1, 2, 1]));
    }
}
