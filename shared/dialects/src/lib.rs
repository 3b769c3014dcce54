//! The wire formats of other programs' clients, over the same log: what they send, and what they are sent. No database, no HTTP: the
//! routes are in `api`. A folder per dialect: its requests, and its renderer, a fold of a run's events.
//!
//! # Layout
//! - `a2a`        A2A
//! - `ag_ui`      AG-UI
//! - `ai_sdk`     the AI SDK's UI message stream
//! - `openai`     OpenAI's Responses and Chat Completions
//! - `pieces`     a text that is written in pieces
//! - `shown_text` the text of a step that a client without retraction has been shown

pub mod a2a;
pub mod ag_ui;
pub mod ai_sdk;
pub mod openai;
mod pieces;
pub mod shown_text;
