//! Other people's client packages, unmodified, at the API's dialects: answers, tools, questions, errors, and what a client shows after cuts
//! and crashes.

mod a2a;
mod ag_ui;
mod ag_ui_failures;
mod ag_ui_logs;
mod ai_sdk;
mod durable_streams;
mod killed_api;
mod one_log;
mod openai;
mod openapi;
mod random_logs;
mod webhooks;
