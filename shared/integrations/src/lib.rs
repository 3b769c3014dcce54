//! What a workspace is connected to: its settings and their sealed secrets. Who talks to the other side is elsewhere (`mcp-client`, the
//! extensions).
//!
//! # Layout
//! - `data_sources`   databases that a workspace's people and agents may query
//! - `query_patterns` queries that answered questions, learned from runs
//! - `mcp`            MCP servers of a workspace, and what they offer
//! - `web_settings`   what agents may do on the web
//! - `google_tokens`  sealed tokens of linked Google calendars
//! - `webhook_secrets` sealed secrets of webhooks
//! - `key_rotation`   seals every data key again under another master key

pub mod data_sources;
pub mod google_tokens;
pub mod key_rotation;
pub mod mcp;
pub mod query_patterns;
pub mod web_settings;
pub mod webhook_secrets;
