//! Dialects: other formats of the same events, over the same log and the same cursor. The native one is `frame`; those of other
//! programs' clients are renderers, in the crate `dialects`.
//!
//! Invariant: what a reader sees of an event depends on the log alone, never on when or where its connection began.

use std::cell::RefCell;

use bytes::Bytes;
use serde_json::Value;

use super::frame::{self, Frame, Token};

mod agent_stream;

/// A larger buffer is not kept, in bytes.
const KEPT_BUFFER_BYTES: usize = 64 * 1024;

thread_local! {
    /// Where events are rendered: what is sent is allocated once, with its size.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Renders the events of one run for one reader, from the run's first event on, in order. Its state is a fold of these events: a reader
/// that resumes is shown what follows its cursor by folding the events before it silently.
pub trait Renderer: Send {
    /// Appends the frames of the event with this number; nothing if the dialect has no such event.
    fn render(&mut self, seq: i64, event: &Value, out: &mut Vec<u8>);

    /// The same for the event after which the response ends, because the run has ended.
    fn render_last(&mut self, seq: i64, event: &Value, out: &mut Vec<u8>) {
        self.render(seq, event, out);
    }

    /// The same from the event's JSON text, where that is all that the dialect needs. False: it is not.
    fn render_text(&mut self, _seq: i64, _event: &[u8], _is_last: bool, _out: &mut Vec<u8>) -> bool {
        false
    }

    /// The same for a piece of an answer, without the tree of its JSON: most events are such. False: it is rendered from that.
    fn render_token(&mut self, _seq: i64, _token: &Token<'_>, _out: &mut Vec<u8>) -> bool {
        false
    }

    /// Whether the event rendered last ends the response, though not the run: in some dialects a run that waits for its client ends the
    /// response, and the client's next request continues it.
    fn is_over(&self) -> bool {
        false
    }

    /// All events that the log had when the connection began were rendered; `through` is the number of the last one. A renderer that shows the
    /// state so far, rather than each event of the past, shows it now. True: the response ends with it. Not called if the run's end was among
    /// these events.
    fn caught_up(&mut self, _through: i64, _out: &mut Vec<u8>) -> bool {
        false
    }

    /// The server closes the connection before the end of the run. Appends the last frames.
    fn interrupted(&mut self, _out: &mut Vec<u8>) {}
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
    /// Returns the event's frames. Empty: the dialect has no such event. `is_last`: the run ends with it.
    pub fn render(&mut self, frame: &Frame, is_last: bool) -> Bytes {
        match self {
            Dialect::Native => frame.bytes.clone(),
            Dialect::AgentStream => agent_stream::render(frame),
            Dialect::Rendered {
                renderer,
                silent_through,
            } => BUFFER.with_borrow_mut(|out| {
                out.clear();
                let is_rendered = renderer.render_text(frame.seq, frame.data(), is_last, out)
                    || frame
                        .token()
                        .is_some_and(|token| renderer.render_token(frame.seq, &token, out));
                if !is_rendered && let Some(event) = frame.json() {
                    if is_last {
                        renderer.render_last(frame.seq, &event, out);
                    } else {
                        renderer.render(frame.seq, &event, out);
                    }
                }
                let rendered = if frame.seq <= *silent_through {
                    Bytes::new()
                } else {
                    Bytes::copy_from_slice(out)
                };
                if out.capacity() > KEPT_BUFFER_BYTES {
                    *out = Vec::new();
                }
                rendered
            }),
        }
    }

    /// Returns whether the response ends with the event of this number, which was rendered last. An event that was only folded ends nothing:
    /// the reader came for what follows it.
    pub(super) fn ends_with(&self, seq: i64) -> bool {
        match self {
            Dialect::Native | Dialect::AgentStream => false,
            Dialect::Rendered {
                renderer,
                silent_through,
            } => seq > *silent_through && renderer.is_over(),
        }
    }

    /// Returns what precedes all events. A connection's first bytes are sent at once, so that its client sees that it is open.
    pub(super) fn opening(&self) -> Bytes {
        Bytes::from_static(match self {
            Dialect::Rendered { .. } => frame::COMMENT,
            Dialect::Native | Dialect::AgentStream => frame::RETRY,
        })
    }

    /// Returns what a reader at `cursor` is sent when it reaches the present, and whether its response ends there.
    pub(super) fn caught_up(&mut self, cursor: i64) -> (Bytes, bool) {
        match self {
            Dialect::Native | Dialect::AgentStream => (frame::caught_up(cursor), false),
            Dialect::Rendered { renderer, .. } => {
                let mut out = Vec::new();
                let is_over = renderer.caught_up(cursor, &mut out);
                (out.into(), is_over)
            }
        }
    }

    /// Returns the last frames of a connection that the server closes.
    pub(super) fn goaway(&mut self) -> Bytes {
        match self {
            Dialect::Native | Dialect::AgentStream => Bytes::from_static(frame::GOAWAY),
            Dialect::Rendered { renderer, .. } => {
                let mut out = Vec::new();
                renderer.interrupted(&mut out);
                out.into()
            }
        }
    }
}
