//! The log of a conversation: append-only events with a gapless number.
//!
//! # Layout
//! - `log`        append (within a command's transaction), read, the tail's one query for many logs
//! - `reader`     what readers see: rows, and archived events
//! - `archive`    old events that are objects in a store
//! - `group_commit` the one writer of a worker process: one transaction for the events of all its runs
//! - `batch`      the contents of one flush: by log, with waiting deltas merged
//! - `rows`       storage format: one event per row, or several consecutive ones
//! - `epochs`     recognizes that the database went back to an earlier state
//! - `snapshot`   the state up to a number, folded from messages and the running turn's events
//! - `compaction` packs the deltas of ended runs into few rows
//! - `retention`  deletes old events
//! - `upkeep`     the progress of these two
//! - `wakeup`     the wake-up bus: LISTEN/NOTIFY, NATS, or polling
//!
//! What an event of the product says is `rejoin_types::events`; other programs append any JSON.
//!
//! A log's seq is 1..n without a gap and commit-ordered (invariant I2), because the row lock of `stream.logs` is held
//! from number allocation until the commit.
//!
//! Its README says how a program uses it without the rest of Rejoin; `examples/` do so.

pub mod archive;
mod batch;
pub mod compaction;
pub mod epochs;
pub mod group_commit;
pub mod log;
pub mod reader;
pub mod retention;
pub mod rows;
pub mod snapshot;
pub mod stream;
mod upkeep;
pub mod wakeup;

pub use group_commit::EventWriter;
