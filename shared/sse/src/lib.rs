//! Streams of events to any number of readers, and the connections that carry them. Called by `api`.
//!
//! # Layout
//! - `settings` options of connections and streams
//! - `connections`  HTTP over accepted connections, until the drain ends
//! - `connection_limits` maximum numbers of connections
//! - `frame`   wire format, rendered once per event
//! - `schema`  its schema in the OpenAPI document
//! - `dialects`  the same events in other clients' formats
//! - `fan_out` the live end of each followed log: ONE query for all of them, whenever something is new
//! - `ring`    the newest events of one log, and the readers waiting for the next
//! - `reader`  a cursor and a filter: reads the past from the table, then the ring
//! - `delivery` a stream that has begun, written to its socket without the server library
//! - `start`   where a reader begins, and responses without a stream (204, 400, 410)
//! - `streams` the open streams: counts per user, and their revocation
//! - `resumable` streams of a library, which a client reads on at any process
//! - `socket`  closes connections whose peer does not read
//! - `source`  database queries of hub and readers
//! - `sync`    synchronization primitives, replaced in the tests of `model`
//!
//! Invariants: reading changes nothing; a reader's memory is bounded (I10): one page, one chunk, one connection's
//! buffers.

pub mod connection_limits;
pub mod connections;
pub mod delivery;
pub mod dialects;
pub mod fan_out;
pub mod frame;
#[cfg(test)]
mod model;
pub mod reader;
pub mod resumable;
pub mod ring;
pub mod schema;
pub mod settings;
pub mod socket;
pub mod source;
pub mod start;
pub mod streams;
mod sync;

pub use settings::StreamArgs;
