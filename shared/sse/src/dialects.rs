//! Dialects: other formats of the same events, over the same log and the same cursor. One file per dialect; the native
//! one is `frame`.
//!
//! Invariant: the last frame of an event carries the event's number, so that a reader may resume with it in any
//! dialect.

use bytes::Bytes;

use super::frame::Frame;

mod agent_stream;

/// A reader's event format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dialect {
    #[default]
    Native,
    /// The dialect of `/api/agent/stream`.
    AgentStream,
}

impl Dialect {
    /// Returns the event's frames. Empty: the dialect has no such event.
    pub fn render(self, frame: &Frame) -> Bytes {
        match self {
            Dialect::Native => frame.bytes.clone(),
            Dialect::AgentStream => agent_stream::render(frame),
        }
    }
}
