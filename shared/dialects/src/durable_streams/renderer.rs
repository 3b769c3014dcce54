//! Server-sent events of the protocol: each event of the log is a `data` event, followed by a `control` event with the next offset.

use rejoin_sse::dialects::Renderer;
use serde_json::{Value, json};

use super::offset;

/// The events of a stream.
pub(super) struct DataAndControl {
    /// The cursor that the client has.
    cursor: Option<String>,
    /// Whether all that the log had when the connection began was sent. What follows is sent as soon as it is there.
    is_up_to_date: bool,
}

impl DataAndControl {
    pub fn new(cursor: Option<String>) -> Self {
        Self {
            cursor,
            is_up_to_date: false,
        }
    }

    fn data(&self, seq: i64, event: &Value, out: &mut Vec<u8>) {
        out.extend_from_slice(b"event: data\ndata: [");
        out.extend_from_slice(&message(seq, event.to_string().as_bytes()));
        out.extend_from_slice(b"]\n\n");
    }

    fn control(&self, seq: i64, out: &mut Vec<u8>) {
        let mut control = json!({
            "streamNextOffset": offset::of(seq),
            "streamCursor": offset::cursor(self.cursor.as_deref()),
        });
        if self.is_up_to_date {
            control["upToDate"] = json!(true);
        }
        write_control(&control, out);
    }
}

impl Renderer for DataAndControl {
    fn render(&mut self, seq: i64, event: &Value, out: &mut Vec<u8>) {
        self.data(seq, event, out);
        self.control(seq, out);
    }

    fn render_last(&mut self, seq: i64, event: &Value, out: &mut Vec<u8>) {
        self.data(seq, event, out);
        out.extend_from_slice(&closed(seq));
    }

    fn caught_up(&mut self, through: i64, out: &mut Vec<u8>) -> bool {
        self.is_up_to_date = true;
        self.control(through, out);
        false
    }
}

/// Returns the event after which nothing follows.
pub(super) fn closed(seq: i64) -> Vec<u8> {
    let mut out = Vec::new();
    let control = json!({ "streamNextOffset": offset::of(seq), "upToDate": true, "streamClosed": true });
    write_control(&control, &mut out);
    out
}

fn write_control(control: &Value, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("event: control\ndata: {control}\n\n").as_bytes());
}

/// Returns the stream's message for an event: its JSON object, with its number as `seq`.
pub(super) fn message(seq: i64, event: &[u8]) -> Vec<u8> {
    let fields = event.trim_ascii().strip_prefix(b"{").unwrap_or_default();
    let mut out = format!("{{\"seq\":{seq},").into_bytes();
    out.extend_from_slice(fields);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn controls(out: &[u8]) -> Vec<Value> {
        let text = String::from_utf8(out.to_vec()).expect("UTF-8");
        let controls = text
            .split("\n\n")
            .filter_map(|event| event.strip_prefix("event: control\ndata: "));
        controls.map(|json| serde_json::from_str(json).expect("JSON")).collect()
    }

    #[test]
    fn a_message_is_the_event_with_its_number() {
        let message = message(7, br#"{"type":"token","token":"a"}"#);
        assert_eq!(message, br#"{"seq":7,"type":"token","token":"a"}"#);
    }

    #[test]
    fn each_event_is_followed_by_its_control_event() {
        let mut renderer = DataAndControl::new(None);
        let mut out = Vec::new();
        renderer.render(1, &json!({ "type": "token" }), &mut out);
        assert!(out.starts_with(b"event: data\ndata: [{\"seq\":1,\"type\":\"token\"}]\n\nevent: control\n"));
        renderer.caught_up(1, &mut out);
        renderer.render(2, &json!({ "type": "token" }), &mut out);
        renderer.render_last(3, &json!({ "type": "done" }), &mut out);
        let controls = controls(&out);
        let offsets: Vec<&str> = controls
            .iter()
            .filter_map(|control| control["streamNextOffset"].as_str())
            .collect();
        assert_eq!(offsets, [offset::of(1), offset::of(1), offset::of(2), offset::of(3)]);
        let up_to_date: Vec<bool> = controls.iter().map(|control| control["upToDate"] == true).collect();
        assert_eq!(up_to_date, [false, true, true, true]);
        let closed: Vec<bool> = controls.iter().map(|control| control["streamClosed"] == true).collect();
        assert_eq!(closed, [false, false, false, true]);
        assert!(controls[..3].iter().all(|control| control["streamCursor"].is_string()));
    }
}
