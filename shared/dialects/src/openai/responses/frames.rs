//! The frames of a stream of Responses.

use std::io::Write as _;

use serde_json::{Value, json};

use super::super::ids;

/// The frames of one event.
pub(super) struct Frames<'a> {
    pub seq: i64,
    pub index: i64,
    /// None: no frames are written.
    pub after: Option<i64>,
    pub out: &'a mut Vec<u8>,
}

/// What the frames of pieces of one text have in common. Most frames are such, so they are written without the tree that the others are built as.
#[derive(Debug)]
pub(super) struct TextDeltas {
    /// Between the number and the piece.
    middle: String,
}

impl TextDeltas {
    pub fn of(item_id: &str, output_index: usize) -> Self {
        let item_id = json!(item_id);
        Self {
            middle: format!(r#","item_id":{item_id},"output_index":{output_index},"content_index":0,"delta":"#),
        }
    }

    pub fn write(&self, number: i64, piece: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(
            b"event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":",
        );
        write!(out, "{number}").expect("a buffer takes everything");
        out.extend_from_slice(self.middle.as_bytes());
        serde_json::to_writer(&mut *out, piece).expect("a text is plain data");
        out.extend_from_slice(b",\"logprobs\":[]}\n\n");
    }
}

impl Frames<'_> {
    pub fn send(&mut self, kind: &str, mut event: Value) {
        if let Some(number) = self.next_number() {
            event["type"] = json!(kind);
            event["sequence_number"] = json!(number);
            for part in ["event: ", kind, "\ndata: "] {
                self.out.extend_from_slice(part.as_bytes());
            }
            serde_json::to_writer(&mut *self.out, &event).expect("an event is plain data");
            self.out.extend_from_slice(b"\n\n");
        }
    }

    /// The number of the next frame. None: it is not written.
    pub fn next_number(&mut self) -> Option<i64> {
        let number = ids::frame_number(self.seq, self.index);
        debug_assert!(
            self.index < ids::FRAMES_PER_EVENT,
            "an event becomes fewer frames than {}",
            ids::FRAMES_PER_EVENT
        );
        self.index += 1;
        self.after.is_some_and(|after| number > after).then_some(number)
    }
}
