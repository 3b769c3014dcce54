//! The log of a conversation: append-only events with a gapless number.
//!
//! # Layout
//! - `log`        append (within a command's transaction), read, the tail's one query for many logs
//! - `writer`     group commit: the one writer of a worker process
//! - `batch`      what one of its flushes takes: by log, with deltas merged that wait together
//! - `rows`       how events are stored: one a row, or several that follow one another
//! - `snapshot`   the state up to a number, folded from messages and the running turn's events
//! - `compaction` the deltas of runs that are over move into few rows
//! - `retention`  old events leave
//! - `upkeep`     where these two stand
//! - `wakeup`     the wake-up bus: LISTEN/NOTIFY, or polling
//!
//! What an event says is `rejoin_types::events`.
//!
//! A log's seq is 1..n without a gap and commit-ordered (invariant I2), since the row lock of `stream.logs` is held from taking
//! the numbers until the commit.

mod batch;
pub mod compaction;
pub mod log;
pub mod retention;
pub mod rows;
pub mod snapshot;
pub mod stream;
mod upkeep;
pub mod wakeup;
pub mod writer;

pub use writer::EventWriter;
