//! A2A 1.0, the protocol between agents: messages in, tasks out.
//!
//! A client's task is a run of ours, and its context is a conversation. The answer is an artifact of the task. Words that a `reset` discards
//! are taken back by the artifact's replacement.
//!
//! # Layout
//! - `request`  what a client sends
//! - `fold`     a task, folded from the events of its run
//! - `update`   what an event changes for a client
//! - `parts`    parts of messages and artifacts
//! - `renderer` the task, or the updates of it, as a client reads them
//! - `push`     where a client has the states of a task sent
//! - `notification` what is sent there
//! - `envelope` what a binding puts around a result
//! - `state`    the states of a task
//! - `errors`   errors of both bindings
//! - `routes`   the endpoints

pub mod envelope;
pub mod errors;
mod fold;
pub mod notification;
mod parts;
pub mod push;
mod renderer;
pub mod request;
pub mod routes;
pub mod state;
mod update;

#[cfg(test)]
mod tests;

pub use fold::Context;
pub use renderer::{Begin, Form, TaskRenderer};

/// The version of the protocol.
pub const VERSION: &str = "1.0";
/// The field of a message's attached context that holds what came with it.
pub const FIELD: &str = "a2a";
