//! Chunks of the UI message stream, as frames of server-sent events: data only.

use serde::Serialize;

/// What follows the last chunk.
const DONE: &[u8] = b"data: [DONE]\n\n";

/// Frames that wait to be sent.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    frames: Vec<u8>,
    /// Number of parts with text begun so far, for their ids.
    parts: u32,
}

impl Chunks {
    pub fn push(&mut self, chunk: &impl Serialize) {
        self.frames.extend_from_slice(b"data: ");
        serde_json::to_writer(&mut self.frames, chunk).expect("a chunk is plain data");
        self.frames.extend_from_slice(b"\n\n");
    }

    pub fn end(&mut self) {
        self.frames.extend_from_slice(DONE);
    }

    pub fn next_part_id(&mut self, name: &str) -> String {
        self.parts += 1;
        format!("{name}-{}", self.parts)
    }

    /// Forgets what was not sent.
    pub fn clear(&mut self) {
        self.frames.clear();
    }

    pub fn send(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.frames);
    }
}
