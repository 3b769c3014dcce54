//! The log of a conversation: append-only events with a gapless number.
//!
//! - `kinds`      the events of the wire
//! - `log`        append (within a command's transaction), read, the tail's one query for many logs
//! - `writer`     group commit: the one writer of a worker process
//! - `snapshot`   the state up to a number, folded from messages and the running turn's events
//! - `retention`  old events leave
//!
//! A log's seq is 1..n without a gap and commit-ordered (invariant I2), since the row lock of `stream.logs` is held from taking
//! the numbers until the commit.

pub mod kinds;
pub mod log;
pub mod retention;
pub mod snapshot;
pub mod writer;

pub use kinds::{Event, Kind};
pub use writer::EventWriter;
