//! The wire formats of other programs' clients, over the same log: what they send, and what they are sent. A folder
//! per dialect: its requests, its renderer (a fold of a run's events, without database or HTTP), and its endpoints, over `chat`.
//!
//! # Layout
//! - `ag_ui`      AG-UI
//! - `ai_sdk`     the AI SDK's UI message stream
//! - `durable_streams` Durable Streams, to read
//! - `live`       for tests of renderers
//! - `openai`     OpenAI's Responses and Chat Completions
//! - `pieces`     a text that is written in pieces
//! - `shown_text` the text of a step that a client without retraction has been shown

pub mod ag_ui;
pub mod ai_sdk;
pub mod durable_streams;
#[cfg(test)]
mod live;
pub mod openai;
pub mod pieces;
pub mod shown_text;

use rejoin_chat::Routes;

/// The endpoints of all dialects.
pub fn routes() -> Routes {
    Routes::new()
        .merge(ag_ui::routes::routes())
        .merge(ai_sdk::routes::routes())
        .merge(durable_streams::routes::routes())
        .merge(openai::routes::routes())
}
