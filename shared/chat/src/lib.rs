//! Receives users' messages and files over HTTP, and answers a message with the stream of its turn. The native endpoints are here; those of
//! other programs' clients are in `dialects`, over the same functions. Called by `dialects` and `api`.
//!
//! # Layout
//! - `settings` options of messages and files
//! - `state`    what the handlers share
//! - `posting`  posts a message and streams its turn
//! - `trigger`  runs outside conversations
//! - `files`    callers' uploads, and files made by tools
//! - `answers`  how an answer came about
//! - `conversations` what users do with conversations besides talking: find, arrange, branch, share, export, rate
//! - `quotas`   quotas of workspaces

pub mod answers;
mod conversations;
pub mod files;
pub mod posting;
mod quotas;
mod settings;
mod state;
pub mod trigger;

pub use conversations::workspace_of_link;
pub use settings::{ChatArgs, WordsMode};
pub use state::{ChatState, Routes};

/// The native endpoints.
pub fn routes() -> Routes {
    Routes::new()
        .merge(posting::routes())
        .merge(files::routes())
        .merge(conversations::routes())
        .merge(trigger::routes())
}
