//! The text of an object: a line of JSON per event, in order, compressed with Zstandard. `data` is the text that was appended, byte for
//! byte, so that each reader gets what it would have got from the table.

use std::borrow::Cow;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use rejoin_event_log::archive::{ArchiveError, Part};
use rejoin_event_log::rows::StoredEvent;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

/// The level of compression: the library's default.
const LEVEL: i32 = 3;

/// A row of `stream.events`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) first_seq: Option<i64>,
    pub(crate) seq: i64,
    pub(crate) run_id: Option<Uuid>,
    pub(crate) kind: String,
    pub(crate) data: String,
    pub(crate) created_at: DateTime<Utc>,
}

/// An event in an object.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    seq: i64,
    run_id: Option<Uuid>,
    #[serde(rename = "type")]
    kind: Cow<'a, str>,
    created_at: DateTime<Utc>,
    data: Cow<'a, str>,
}

/// Why rows can't be an object.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    #[error("the log has no event {0}, though it has later ones")]
    Gap(i64),
    #[error("writing an object's text failed")]
    Json(#[from] serde_json::Error),
    #[error("compressing an object failed")]
    Compression(#[from] std::io::Error),
}

/// The text of an object.
#[derive(Debug)]
pub(crate) struct Text {
    pub(crate) bytes: Vec<u8>,
    pub(crate) first_seq: i64,
    pub(crate) last_seq: i64,
    pub(crate) sha256: Vec<u8>,
}

/// Writes rows, which follow on the event `after` and on each other, as text.
pub(crate) fn text_of(rows: &[Row], after: i64) -> Result<Text, FormatError> {
    let mut bytes = Vec::new();
    let mut last_seq = after;
    for row in rows {
        let first_seq = row.first_seq.unwrap_or(row.seq);
        let events: Vec<&str> = match row.first_seq {
            Some(_) => row.data.split('\n').collect(),
            None => vec![row.data.as_str()],
        };
        for (seq, data) in (first_seq..).zip(&events) {
            if seq != last_seq + 1 {
                return Err(FormatError::Gap(last_seq + 1));
            }
            last_seq = seq;
            let line = Line {
                seq,
                run_id: row.run_id,
                kind: Cow::Borrowed(&row.kind),
                created_at: row.created_at,
                data: Cow::Borrowed(data),
            };
            serde_json::to_writer(&mut bytes, &line)?;
            bytes.push(b'\n');
        }
        if last_seq != row.seq {
            return Err(FormatError::Gap(last_seq + 1));
        }
    }
    Ok(Text {
        sha256: Sha256::digest(&bytes).to_vec(),
        bytes,
        first_seq: after + 1,
        last_seq,
    })
}

/// Compresses a text to an object.
pub(crate) fn compress(text: &Text) -> Result<Vec<u8>, FormatError> {
    Ok(zstd::bulk::compress(&text.bytes, LEVEL)?)
}

/// Returns the events of an object.
///
/// # Errors
/// Its text is not the one that was archived.
pub(crate) fn events_of(part: &Part, object: &[u8]) -> Result<Vec<StoredEvent>, ArchiveError> {
    let damaged = || ArchiveError::Damaged(part.name.clone());
    let text_bytes = usize::try_from(part.text_bytes).map_err(|_| damaged())?;
    let text = zstd::bulk::decompress(object, text_bytes).map_err(|_| damaged())?;
    if Sha256::digest(&text).to_vec() != part.sha256 {
        return Err(damaged());
    }
    let mut events = Vec::new();
    for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let line: Line<'_> = serde_json::from_slice(line).map_err(|_| damaged())?;
        events.push(StoredEvent {
            seq: line.seq,
            run_id: line.run_id,
            kind: line.kind.into_owned(),
            data: Bytes::from(line.data.into_owned()),
        });
    }
    let is_whole = events.iter().map(|event| event.seq).eq(part.first_seq..=part.last_seq);
    is_whole.then_some(events).ok_or_else(damaged)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(first_seq: Option<i64>, seq: i64, data: &str) -> Row {
        Row {
            first_seq,
            seq,
            run_id: Some(Uuid::from_u128(7)),
            kind: "token".to_owned(),
            data: data.to_owned(),
            created_at: DateTime::from_timestamp(1_700_000_000, 123_000).unwrap(),
        }
    }

    fn part(text: &Text) -> Part {
        Part {
            name: "here".to_owned(),
            first_seq: text.first_seq,
            last_seq: text.last_seq,
            sha256: text.sha256.clone(),
            text_bytes: i64::try_from(text.bytes.len()).unwrap(),
        }
    }

    #[test]
    fn events_come_back_as_they_were_appended() {
        // Another program's event may have line ends.
        let rows = [
            row(None, 4, r#"{"a": 1}"#),
            row(Some(5), 7, "x\ny\nü\"\\"),
            row(None, 8, "one\nevent\n"),
        ];
        let text = text_of(&rows, 3).unwrap();
        let object = compress(&text).unwrap();
        let part = part(&text);
        let events = events_of(&part, &object).unwrap();
        let read: Vec<(i64, &[u8])> = events.iter().map(|event| (event.seq, &event.data[..])).collect();
        let written: [(i64, &[u8]); 5] = [
            (4, br#"{"a": 1}"#),
            (5, b"x"),
            (6, b"y"),
            (7, "ü\"\\".as_bytes()),
            (8, b"one\nevent\n"),
        ];
        assert_eq!(read, written);
        assert!(events.iter().all(|event| event.run_id == Some(Uuid::from_u128(7))));
    }

    #[test]
    fn another_object_is_not_taken_for_the_archived_one() {
        let text = text_of(&[row(None, 1, "a"), row(None, 2, "b")], 0).unwrap();
        let other = text_of(&[row(None, 1, "a"), row(None, 2, "c")], 0).unwrap();
        let part = part(&text);
        assert!(events_of(&part, &compress(&text).unwrap()).is_ok());
        let damaged = compress(&other).unwrap();
        let cut = &compress(&text).unwrap()[..20];
        for object in [&damaged[..], cut, b"", b"what"] {
            assert!(matches!(events_of(&part, object), Err(ArchiveError::Damaged(_))));
        }
    }

    #[test]
    fn rows_with_a_gap_are_not_archived() {
        for rows in [
            vec![row(None, 2, "a")],
            vec![row(None, 1, "a"), row(None, 3, "c")],
            vec![row(Some(1), 3, "a\nb")],
        ] {
            assert!(matches!(text_of(&rows, 0), Err(FormatError::Gap(_))), "{rows:?}");
        }
    }
}
