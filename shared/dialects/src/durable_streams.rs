//! Durable Streams, the read path: a conversation or a run as a stream of JSON messages, one for each event, with the protocol's offsets, long
//! polling and server-sent events. Its rules are those of <https://github.com/durable-streams/durable-streams/blob/main/PROTOCOL.md>, version
//! 1.0, sections 5.5 to 5.8, 8 and 10.
//!
//! - `offset`   positions and cursors, as text
//! - `renderer` `data` and `control` events
//! - `routes`   the endpoints
//!
//! An offset is the number of the last event before it, in 20 digits: the position that `Last-Event-ID` has in the native streams. A
//! conversation's stream stays open; a run's is closed by its `done`.

pub mod offset;
mod renderer;
pub mod routes;
