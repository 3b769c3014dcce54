//! The event log and its streams: what is written, how it is stored, and what readers receive.

mod agent_stream;
mod browser;
mod callbacks;
mod compaction;
mod connections;
mod hints;
mod hints_over_nats;
mod operations;
mod run_streams;
mod schema;
mod sse;
mod writer;
