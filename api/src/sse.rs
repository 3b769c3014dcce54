//! Streams of events to any number of readers.
//!
//! - `frame`   what goes over the wire, rendered once per event
//! - `dialects`  the same events as other clients spell them
//! - `tail`    the live end of each log that somebody follows: ONE query for all of them, whenever something is new
//! - `ring`    the newest events of one log, and who waits for the next
//! - `reader`  a cursor and a filter: reads the past from the table, then the ring
//! - `delivery` a stream that has begun, written to its socket without the server library
//! - `start`   where a reader begins, and the answers that are no stream (204, 400, 410)
//! - `streams` the open streams: how many a user has, whose keys and logs are gone
//! - `socket`  connections that are cut when their peer takes nothing
//! - `source`  what hub and readers ask the database
//! - `ground`  locks, atomics and time, which the tests of `model` exchange
//!
//! Invariants: reading changes nothing; what a reader holds is bounded (I10): one page, one chunk, one connection's buffers.

pub mod delivery;
pub mod dialects;
pub mod frame;
mod ground;
#[cfg(test)]
mod model;
pub mod reader;
pub mod ring;
pub mod socket;
pub mod source;
pub mod start;
pub mod streams;
pub mod tail;
