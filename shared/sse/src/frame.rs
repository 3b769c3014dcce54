//! Frames of the native dialect: data only, one line of JSON each.

use std::borrow::Cow;

use bytes::Bytes;
use rejoin_event_log::rows::StoredEvent;
use rejoin_event_log::snapshot::Snapshot;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

/// First in every stream: the client's delay before it reconnects.
pub const RETRY: &[u8] = b"retry: 2000\n\n";
/// A comment, which every client of server-sent events ignores.
pub const COMMENT: &[u8] = b":\n\n";
/// Sent during silence, so that no intermediary considers the connection dead.
pub const HEARTBEAT: &[u8] = b":hb\n\n";
/// The server is stopping: reconnect elsewhere.
pub const GOAWAY: &[u8] = b"data: {\"type\":\"goaway\"}\n\n";

/// An event, rendered once and shared by all of its readers.
#[derive(Debug, Clone)]
pub struct Frame {
    pub seq: i64,
    /// The run whose readers see it.
    pub run_id: Option<Uuid>,
    /// The run whose turn it ends, or the sub-agent that it ends.
    pub done_of: Option<Uuid>,
    pub bytes: Bytes,
}

/// The origin of an event.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Origin {
    run_id: Option<Uuid>,
    parent_run_id: Option<Uuid>,
    /// The status in a sub-agent's event.
    status: Option<String>,
}

/// A piece of an answer.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Token<'a> {
    #[serde(borrow)]
    pub token: Cow<'a, str>,
    pub run_id: Option<&'a str>,
    pub parent_run_id: Option<&'a str>,
}

/// How the JSON of an event with a piece of an answer begins: events are written with their type first.
const TOKEN: &[u8] = br#"{"type":"token","#;

/// What precedes the JSON of a numbered frame.
const DATA: &[u8] = b"\ndata: ";

impl Frame {
    pub fn of(event: &StoredEvent) -> Self {
        let origin = || serde_json::from_slice::<Origin>(&event.data).unwrap_or_default();
        let done_of = match event.kind.as_str() {
            "done" => origin().run_id.or(event.run_id),
            "sub_agent" => Some(origin())
                .filter(|origin| origin.status.as_deref() != Some("started"))
                .and_then(|origin| origin.run_id),
            _ => None,
        };
        Self {
            seq: event.seq,
            run_id: event.run_id,
            done_of,
            bytes: numbered(event.seq, &event.data),
        }
    }

    /// Returns whether it comes from this run itself or from its descendants. Parses the JSON: only the few readers of
    /// a sub-agent ask.
    pub fn comes_from(&self, run: Uuid) -> bool {
        let origin: Origin = self.parse().unwrap_or_default();
        origin.run_id == Some(run) || origin.parent_run_id == Some(run)
    }

    /// Returns the event. None: it is unreadable.
    pub fn json(&self) -> Option<Value> {
        self.parse()
    }

    /// Returns the piece of an answer. None: it is another event, or not written as usual.
    pub fn token(&self) -> Option<Token<'_>> {
        let data = self.data();
        data.starts_with(TOKEN).then(|| serde_json::from_slice(data).ok())?
    }

    /// Returns the JSON text of the event.
    pub fn data(&self) -> &[u8] {
        let at = self.bytes.windows(DATA.len()).position(|bytes| bytes == DATA);
        at.map_or(&[][..], |at| &self.bytes[at + DATA.len()..]).trim_ascii_end()
    }

    fn parse<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_slice(self.data()).ok()
    }
}

/// Returns a frame that moves its reader's cursor to `seq`.
fn numbered(seq: i64, data: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(data.len() + 32);
    out.extend_from_slice(format!("id: {seq}\ndata: ").as_bytes());
    // Line ends in JSON text are white space between tokens, and would end the frame's line.
    out.extend(
        data.iter()
            .map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }),
    );
    out.extend_from_slice(b"\n\n");
    out.into()
}

/// A frame about the connection, without a number.
#[derive(Debug, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ConnectionFrame {
    /// The stream has begun.
    Open {},
    /// All events that the log had when the reader connected have been sent; the following ones are live.
    CaughtUp {
        /// The number of the last one of them.
        through: i64,
    },
    /// The server is shutting down: reconnect with the cursor.
    Goaway {},
    /// Retention has removed the events between the cursor and `oldest`. A `snapshot` follows.
    Gap {
        /// The reader's cursor.
        after: i64,
        /// The number of the oldest event that the log has.
        oldest: i64,
    },
    /// The log was taken back before the cursor: the database was restored, or a failover lost its last commits. Discard everything; a `snapshot`
    /// follows.
    Rewound {
        /// The reader's cursor.
        after: i64,
        /// The number of the last event that the log has now.
        last: i64,
    },
}

/// The past has been sent, up to this number.
pub fn caught_up(through: i64) -> Bytes {
    unnumbered(&ConnectionFrame::CaughtUp { through })
}

/// Events between the cursor and `oldest` were deleted.
pub fn gap(after: i64, oldest: i64) -> Bytes {
    unnumbered(&ConnectionFrame::Gap { after, oldest })
}

/// The log was taken back before the cursor, and ends at `last` now.
pub fn rewound(after: i64, last: i64) -> Bytes {
    unnumbered(&ConnectionFrame::Rewound { after, last })
}

/// The state at a number, to which the reader's cursor moves.
pub fn snapshot(snapshot: &Snapshot) -> Bytes {
    numbered(
        snapshot.through,
        &serde_json::to_vec(snapshot).expect("a snapshot is plain data"),
    )
}

fn unnumbered(frame: &ConnectionFrame) -> Bytes {
    let data = serde_json::to_string(frame).expect("a frame is plain data");
    format!("data: {data}\n\n").into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(kind: &str, data: &str) -> StoredEvent {
        StoredEvent {
            seq: 42,
            run_id: Some(Uuid::nil()),
            kind: kind.into(),
            data: Bytes::copy_from_slice(data.as_bytes()),
        }
    }

    #[test]
    fn an_event_is_one_frame_as_the_wire_shows_it() {
        let frame = Frame::of(&event("token", r#"{"type":"token","token":"Hel"}"#));
        assert_eq!(frame.bytes, "id: 42\ndata: {\"type\":\"token\",\"token\":\"Hel\"}\n\n");
        assert_eq!(frame.done_of, None);
    }

    #[test]
    fn line_ends_between_tokens_do_not_end_the_frame() {
        let frame = Frame::of(&event("token", "{\"type\":\"token\",\r\n\"token\":\"a\"}"));
        assert_eq!(frame.bytes, "id: 42\ndata: {\"type\":\"token\",  \"token\":\"a\"}\n\n");
    }

    #[test]
    fn a_sub_agents_done_is_not_the_roots() {
        let child = Uuid::now_v7();
        let frame = Frame::of(&event("done", &json!({"type": "done", "runId": child}).to_string()));
        assert_eq!(frame.done_of, Some(child));
        assert!(frame.comes_from(child) && !frame.comes_from(Uuid::nil()));
    }
}
