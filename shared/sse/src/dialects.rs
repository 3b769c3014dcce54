//! Dialects: other formats of the same events, over the same log and the same cursor. The native one is `frame`; those of other
//! programs' clients are renderers, in the crate `dialects`.
//!
//! Invariant: what a reader sees of an event depends on the log alone, never on when or where its connection began.

use bytes::Bytes;
use serde_json::Value;

use super::frame::{self, Frame};

mod agent_stream;

/// Renders the events of one run for one reader, from the run's first event on, in order. Its state is a fold of these events: a reader
/// that resumes is shown what follows its cursor by folding the events before it silently.
pub trait Renderer: Send {
    /// Appends the frames of the event with this number. None: the dialect has nothing for it.
    fn render(&mut self, seq: i64, event: &Value, out: &mut Vec<u8>);
}

/// A reader's event format.
#[derive(Default)]
pub enum Dialect {
    #[default]
    Native,
    /// The dialect of `/api/agent/stream`.
    AgentStream,
    /// Another one, by its renderer.
    Rendered {
        renderer: Box<dyn Renderer>,
        /// Events through this number are folded, but not shown.
        silent_through: i64,
    },
}

impl Dialect {
    /// Returns the event's frames. Empty: the dialect has no such event.
    pub fn render(&mut self, frame: &Frame) -> Bytes {
        match self {
            Dialect::Native => frame.bytes.clone(),
            Dialect::AgentStream => agent_stream::render(frame),
            Dialect::Rendered {
                renderer,
                silent_through,
            } => {
                let mut out = Vec::new();
                if let Some(event) = frame.json() {
                    renderer.render(frame.seq, &event, &mut out);
                }
                if frame.seq <= *silent_through {
                    out.clear();
                }
                out.into()
            }
        }
    }

    /// Returns what precedes all events. A connection's first bytes are sent at once, so that its client sees that it is open.
    pub(super) fn opening(&self) -> Bytes {
        Bytes::from_static(match self {
            Dialect::Rendered { .. } => frame::COMMENT,
            Dialect::Native | Dialect::AgentStream => frame::RETRY,
        })
    }

    /// Whether its clients know frames that are about the connection: `caught_up`, `goaway`.
    pub(super) fn has_connection_frames(&self) -> bool {
        !matches!(self, Dialect::Rendered { .. })
    }
}
