//! The wire formats of other programs' clients, over the same log: what they send, and what they are sent. No database, no HTTP: the
//! routes are in `api`. A folder per dialect: its requests, and its renderer, a fold of a run's events.
//!
//! # Layout
//! - `ag_ui`      AG-UI
//! - `ai_sdk`     the AI SDK's UI message stream
//! - `openai`     OpenAI's Responses and Chat Completions
//! - `shown_text` the text of a step that a client without retraction has been shown

pub mod ag_ui;
pub mod ai_sdk;
pub mod openai;
pub mod shown_text;
