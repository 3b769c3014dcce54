//! The frames of a stream of Responses.

use serde::Serialize;
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

/// A piece of a text. Most events are such, so it is written without the tree that the others are built as.
#[derive(Serialize)]
pub(super) struct TextDelta<'a> {
    pub r#type: &'static str,
    pub sequence_number: i64,
    pub item_id: &'a str,
    pub output_index: usize,
    pub content_index: usize,
    pub delta: &'a str,
    pub logprobs: [(); 0],
}

impl Frames<'_> {
    pub fn send(&mut self, kind: &str, mut event: Value) {
        if let Some(number) = self.next_number() {
            event["type"] = json!(kind);
            event["sequence_number"] = json!(number);
            self.write(kind, &event);
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

    pub fn write(&mut self, kind: &str, event: &impl Serialize) {
        for part in ["event: ", kind, "\ndata: "] {
            self.out.extend_from_slice(part.as_bytes());
        }
        serde_json::to_writer(&mut *self.out, event).expect("an event is plain data");
        self.out.extend_from_slice(b"\n\n");
    }
}
