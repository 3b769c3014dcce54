//! Remote tools: functions in users' own programs, in any language. A program connects to the API over HTTP, announces its tools, takes calls
//! and returns their results (docs/reference/worker-protocol.md). It needs no access to the database.
//!
//! # Layout
//! - `settings`      settings
//! - `announcement`  what a worker announces
//! - `agents`        agents that it announces
//! - `registrations` workers and their tools: rows of `kb.remote_workers` and `kb.remote_tools`
//! - `calls`         calls of a worker: claim, renew, progress, retry
//! - `steps`         steps of durable functions, and signals to them
//! - `records`       steps and outputs of several calls, in one statement
//! - `texts`         text of answers and events of programs, before the end of their call
//! - `waiting`       claims that wait for a call
//! - `tool`          a registered tool, as agents and MCP clients get it
//! - `extension`     the tools of a workspace, and the sweeps
//! - `routes`        HTTP endpoints
//!
//! The calls themselves are records of the engine: `rejoin_runs::remote_calls`.

pub mod agents;
pub mod announcement;
pub mod calls;
pub mod extension;
pub mod records;
pub mod registrations;
pub mod routes;
pub mod settings;
pub mod steps;
pub mod texts;
mod tool;
pub mod waiting;

pub use settings::RemoteToolArgs;
