//! AG-UI 1.0, the protocol between agents and pages: `RunAgentInput` in, events out.
//!
//! A client's thread is a conversation, and its run is one response: the part of a run of ours from a message, or from the answers to its
//! questions, to its end or its next question. Words that a `reset` discards are taken back by `MESSAGES_SNAPSHOT`.
//!
//! # Layout
//! - `request`   what a client sends
//! - `interrupts` questions of a run as interrupts, and their answers
//! - `turn`      the messages of a run, folded from its events
//! - `open`      what is open in a client's stream; writes events in an order that the protocol allows
//! - `frames`    the events of a response, as JSON texts
//! - `renderer`  the fold of a run's events to the client's
//! - `routes`    the endpoints

mod frames;
pub mod interrupts;
mod open;
mod renderer;
pub mod request;
pub mod routes;
mod turn;

#[cfg(test)]
mod tests;

pub use renderer::{AgUi, AgUiRenderer, Begin, thread_at_rest};
pub use turn::REPEATED;

/// The version of the protocol that the events are of.
pub const PROTOCOL_VERSION: &str = "1.0";
/// The key of our part of the client's state.
pub const STATE_KEY: &str = "rejoin";
