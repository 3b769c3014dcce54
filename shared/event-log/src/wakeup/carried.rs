//! Events that come with a hint, so that readers have them without a query.
//!
//! Every role that may connect to a database may LISTEN, and gets the payloads of all notifications. Carried events are therefore encrypted
//! with a key in `stream.hint_keys`, which only the roles of the product can read. Without that table, or without its row, hints carry nothing.

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::rows::{NewRows, SEPARATOR, StoredEvent, StoredRow};

/// The query for the key.
pub(super) const KEY: &str = "select key from stream.hint_keys";
/// Maximum size of the events of one commit that a hint carries, in bytes of JSON: more do not fit into a notification.
const MAX_BYTES: usize = 5_500;
/// Maximum number of rows of a hint.
pub(super) const MAX_ROWS: usize = 40;
/// What is authenticated with the events.
const PURPOSE: &[u8] = b"rejoin events of a hint 1";

/// A row of `stream.events` that comes with a hint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CarriedRow {
    pub log_id: Uuid,
    pub(crate) row: StoredRow,
}

impl CarriedRow {
    /// Returns whether a hint can carry these rows.
    pub(crate) fn fit(rows: &NewRows<'_>) -> bool {
        rows.len() <= MAX_ROWS && rows.data.iter().map(|data| data.len()).sum::<usize>() <= MAX_BYTES
    }

    /// A row of one event.
    pub fn new(log_id: Uuid, event: StoredEvent) -> Self {
        Self {
            log_id,
            row: StoredRow {
                first_seq: None,
                seq: event.seq,
                run_id: event.run_id,
                kind: event.kind,
                data: event.data,
            },
        }
    }

    /// The number of its first event.
    pub fn first_seq(&self) -> i64 {
        self.row.first_seq.unwrap_or(self.row.seq)
    }

    /// Its events after the number `after`.
    pub fn events(self, after: i64) -> Vec<StoredEvent> {
        let mut events = Vec::new();
        if self.row.seq > after {
            self.row.expand(after, &mut events);
        }
        events
    }
}

/// A row as it is encrypted.
#[derive(Serialize, Deserialize)]
struct Line<'a> {
    #[serde(rename = "l")]
    log_id: Uuid,
    #[serde(rename = "s")]
    seq: i64,
    #[serde(rename = "r", default, skip_serializing_if = "Option::is_none")]
    run_id: Option<Uuid>,
    #[serde(rename = "t")]
    kind: &'a str,
    /// The JSON texts of its events, the last of which has the number `seq`.
    #[serde(rename = "d", borrow)]
    data: Vec<&'a RawValue>,
}

/// Encrypts and decrypts what hints carry. Its nonces are random: AES-GCM-SIV stays safe should two of them be the same.
pub(super) struct Cipher(LessSafeKey);

impl Cipher {
    /// None: the key has a wrong length.
    pub(super) fn new(key: &[u8]) -> Option<Self> {
        let key = UnboundKey::new(&AES_256_GCM_SIV, key).ok()?;
        Some(Self(LessSafeKey::new(key)))
    }

    /// Returns nonce and ciphertext as base64. None: an event is not JSON, or there are no random numbers.
    pub(super) fn seal(&self, rows: &[CarriedRow]) -> Option<String> {
        let lines: Vec<Line<'_>> = rows.iter().map(line).collect::<Option<_>>()?;
        let mut sealed = serde_json::to_vec(&lines).ok()?;
        let mut nonce = [0_u8; NONCE_LEN];
        aws_lc_rs::rand::fill(&mut nonce).ok()?;
        self.0
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(PURPOSE), &mut sealed)
            .ok()?;
        Some(STANDARD_NO_PAD.encode([&nonce, sealed.as_slice()].concat()))
    }

    /// None: it was encrypted with another key, or is not from a process like this one.
    pub(super) fn open(&self, sealed: &str) -> Option<Vec<CarriedRow>> {
        let mut sealed = STANDARD_NO_PAD.decode(sealed).ok()?;
        let (nonce, text) = sealed.split_at_mut_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let text = self.0.open_in_place(nonce, Aad::from(PURPOSE), text).ok()?;
        let lines: Vec<Line<'_>> = serde_json::from_slice(text).ok()?;
        Some(lines.iter().map(row).collect())
    }
}

fn line(carried: &CarriedRow) -> Option<Line<'_>> {
    let row = &carried.row;
    let text = std::str::from_utf8(&row.data).ok()?;
    let data = match row.first_seq {
        None => vec![serde_json::from_str(text).ok()?],
        Some(_) => text
            .split(SEPARATOR)
            .map(|event| serde_json::from_str(event).ok())
            .collect::<Option<_>>()?,
    };
    Some(Line {
        log_id: carried.log_id,
        seq: row.seq,
        run_id: row.run_id,
        kind: &row.kind,
        data,
    })
}

fn row(line: &Line<'_>) -> CarriedRow {
    let texts: Vec<&str> = line.data.iter().map(|event| event.get()).collect();
    let before = i64::try_from(texts.len().saturating_sub(1)).unwrap_or_default();
    CarriedRow {
        log_id: line.log_id,
        row: StoredRow {
            first_seq: (before > 0).then_some(line.seq - before),
            seq: line.seq,
            run_id: line.run_id,
            kind: line.kind.to_owned(),
            data: Bytes::from(texts.join(SEPARATOR)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXTS: [&str; 4] = [
        r#"{"type":"token","token":"Grüße, \"世界\" 🦀"}"#,
        r#"{"type":"token", "token":"C:\\"}"#,
        r#"{"type":"token","token":""}"#,
        r#"{"type":"done"}"#,
    ];

    fn rows() -> Vec<CarriedRow> {
        let (log, run) = (Uuid::now_v7(), Uuid::now_v7());
        let mut rows = NewRows::default();
        for text in TEXTS {
            let kind = if text == TEXTS[3] { "done" } else { "token" };
            rows.push(1, run, kind, text);
        }
        assert!(CarriedRow::fit(&rows));
        let row = |(index, seq)| CarriedRow {
            log_id: log,
            row: rows.stored(index, seq),
        };
        [(0, 9), (1, 10)].map(row).to_vec()
    }

    fn cipher(key: u8) -> Cipher {
        Cipher::new(&[key; 32]).expect("32 bytes")
    }

    #[test]
    fn carried_rows_arrive_as_they_were_stored() {
        let (rows, cipher) = (rows(), cipher(1));
        assert_eq!(rows.len(), 2);
        let sealed = cipher.seal(&rows).expect("they are JSON");
        let opened = cipher.open(&sealed).expect("it is the same key");
        assert_eq!(opened, rows);
        let events: Vec<_> = opened.into_iter().flat_map(|row| row.events(7)).collect();
        let texts: Vec<_> = events.iter().map(|event| (event.seq, &event.data[..])).collect();
        let expected: Vec<_> = (8..).zip(TEXTS[1..].iter().map(|text| text.as_bytes())).collect();
        assert_eq!(texts, expected);
    }

    #[test]
    fn only_holders_of_the_key_read_what_a_hint_carries() {
        let (rows, ours) = (rows(), cipher(1));
        let sealed = ours.seal(&rows).expect("they are JSON");
        assert!(cipher(2).open(&sealed).is_none());
        assert!(ours.open("not base64!").is_none());
        assert!(ours.open("c2hvcnQ").is_none());
        let again = ours.seal(&rows).expect("they are JSON");
        assert_ne!(sealed, again, "nonces are random");
        assert!(Cipher::new(&[1; 31]).is_none());
    }
}
