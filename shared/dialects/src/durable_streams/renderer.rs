//! Server-sent events of the protocol: each event of the log is a `data` event, followed by a `control` event with the next offset.
//!
//! The `control` of the last event that the log had when the connection began says that the reader is up to date. Which event that is is known
//! only after it: until then, the `control` of an event waits for what follows.

use std::io::Write as _;

use rejoin_sse::dialects::Renderer;
use serde_json::{Value, json};

use super::offset;

/// The events of a stream.
pub(super) struct DataAndControl {
    /// The cursor that the client has.
    cursor: Option<String>,
    /// Whether all that the log had when the connection began was sent. What follows is sent as soon as it is there.
    is_up_to_date: bool,
    /// The event whose `control` is not written yet.
    awaits_control: Option<i64>,
}

impl DataAndControl {
    pub fn new(cursor: Option<String>) -> Self {
        Self {
            cursor,
            is_up_to_date: false,
            awaits_control: None,
        }
    }

    fn data(&mut self, seq: i64, event: &[u8], out: &mut Vec<u8>) {
        self.finish(out);
        out.extend_from_slice(b"event: data\ndata: [");
        write_message(seq, event, out);
        out.extend_from_slice(b"]\n\n");
    }

    /// Writes the `control` that waits: events follow the one that it is about.
    fn finish(&mut self, out: &mut Vec<u8>) {
        if let Some(seq) = self.awaits_control.take() {
            self.control(seq, out);
        }
    }

    fn control(&self, seq: i64, out: &mut Vec<u8>) {
        // Offsets and cursors are digits: nothing in them is escaped.
        let (offset, cursor) = (offset::of(seq), offset::cursor(self.cursor.as_deref()));
        let up_to_date = if self.is_up_to_date { ",\"upToDate\":true" } else { "" };
        // Writing to memory can't fail.
        let _ = write!(
            out,
            "event: control\ndata: {{\"streamNextOffset\":\"{offset}\",\"streamCursor\":\"{cursor}\"{up_to_date}}}\n\n"
        );
    }

    fn write(&mut self, seq: i64, event: &[u8], is_last: bool, out: &mut Vec<u8>) {
        self.data(seq, event, out);
        if is_last {
            out.extend_from_slice(&closed(seq));
            return;
        }
        self.awaits_control = Some(seq);
        if self.is_up_to_date {
            self.finish(out);
        }
    }
}

impl Renderer for DataAndControl {
    fn render(&mut self, seq: i64, event: &Value, out: &mut Vec<u8>) {
        self.write(seq, event.to_string().as_bytes(), false, out);
    }

    fn render_last(&mut self, seq: i64, event: &Value, out: &mut Vec<u8>) {
        self.write(seq, event.to_string().as_bytes(), true, out);
    }

    fn render_text(&mut self, seq: i64, event: &[u8], is_last: bool, out: &mut Vec<u8>) -> bool {
        self.write(seq, event, is_last, out);
        true
    }

    fn caught_up(&mut self, through: i64, out: &mut Vec<u8>) -> bool {
        self.is_up_to_date = true;
        self.awaits_control = None;
        self.control(through, out);
        false
    }

    fn interrupted(&mut self, out: &mut Vec<u8>) {
        self.finish(out);
    }
}

/// Returns the event after which nothing follows.
pub(super) fn closed(seq: i64) -> Vec<u8> {
    let mut out = Vec::new();
    let control = json!({ "streamNextOffset": offset::of(seq), "upToDate": true, "streamClosed": true });
    // Writing to memory can't fail.
    let _ = write!(out, "event: control\ndata: {control}\n\n");
    out
}

/// Returns the stream's message for an event: its JSON object, with its number as `seq`.
pub(super) fn message(seq: i64, event: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(event.len() + 32);
    write_message(seq, event, &mut out);
    out
}

fn write_message(seq: i64, event: &[u8], out: &mut Vec<u8>) {
    let fields = event.trim_ascii().strip_prefix(b"{").unwrap_or_default();
    // Writing to memory can't fail.
    let _ = write!(out, "{{\"seq\":{seq},");
    out.extend_from_slice(fields);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_the_event_with_its_number() {
        let message = message(7, br#"{"type":"token","token":"a"}"#);
        assert_eq!(message, br#"{"seq":7,"type":"token","token":"a"}"#);
    }

    /// Offset, `upToDate` and `streamClosed` of each control event, and the number of data events before it.
    fn shape(out: &[u8]) -> Vec<(String, bool, bool, usize)> {
        let text = String::from_utf8(out.to_vec()).expect("UTF-8");
        let mut data = 0;
        let mut shape = Vec::new();
        for event in text.split_terminator("\n\n") {
            match event.strip_prefix("event: control\ndata: ") {
                Some(json) => {
                    let control: Value = serde_json::from_str(json).expect("JSON");
                    let offset = control["streamNextOffset"].as_str().expect("an offset").to_owned();
                    let is_closed = control["streamClosed"] == true;
                    assert!(is_closed || control["streamCursor"].is_string());
                    shape.push((offset, control["upToDate"] == true, is_closed, data));
                }
                None => data += 1,
            }
        }
        shape
    }

    #[test]
    fn each_event_is_followed_by_its_control_event() {
        let mut renderer = DataAndControl::new(None);
        let mut out = Vec::new();
        renderer.render(1, &json!({ "type": "token" }), &mut out);
        renderer.render(2, &json!({ "type": "token" }), &mut out);
        assert!(out.starts_with(b"event: data\ndata: [{\"seq\":1,\"type\":\"token\"}]\n\nevent: control\n"));
        renderer.caught_up(2, &mut out);
        renderer.render(3, &json!({ "type": "token" }), &mut out);
        renderer.render_last(4, &json!({ "type": "done" }), &mut out);
        let expected = [
            (offset::of(1), false, false, 1),
            (offset::of(2), true, false, 2),
            (offset::of(3), true, false, 3),
            (offset::of(4), true, true, 4),
        ];
        assert_eq!(shape(&out), expected);
    }

    #[test]
    fn a_hidden_last_event_still_ends_with_one_control_event() {
        let mut renderer = DataAndControl::new(None);
        let mut out = Vec::new();
        renderer.render(1, &json!({ "type": "token" }), &mut out);
        renderer.caught_up(5, &mut out);
        assert_eq!(shape(&out), [(offset::of(5), true, false, 1)]);
        let mut empty = Vec::new();
        DataAndControl::new(None).caught_up(0, &mut empty);
        assert_eq!(shape(&empty), [(offset::of(0), true, false, 0)]);
    }

    #[test]
    fn a_connection_that_ends_has_its_last_events_control_event() {
        let mut renderer = DataAndControl::new(None);
        let mut out = Vec::new();
        renderer.render(1, &json!({ "type": "token" }), &mut out);
        assert_eq!(shape(&out), []);
        renderer.interrupted(&mut out);
        assert_eq!(shape(&out), [(offset::of(1), false, false, 1)]);
    }
}
