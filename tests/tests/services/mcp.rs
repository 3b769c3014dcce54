//! MCP in both directions: servers that agents use, and the endpoint `/mcp` that other programs use.

mod accounts;
mod clients;
mod conformance;
mod elicitation;
mod endpoint;
mod hostile;
mod inspector;
mod methods;
mod oauth;
mod questions;
mod revisions;
mod servers;
mod settings;
