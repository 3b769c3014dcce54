//! Data sources: databases of others, which a project's people and agents may ask. Imports crates of `shared/` only; the API's routes and the
//! workers' tools ask through [`Sources`]. What is stored of a source is in `rejoin_integrations::data_sources`.
//!
//! # Layout
//! - `sources`     the open sources of a process: concurrency, timeouts, and the guard before every query; `join`:
//!   queries over several of them
//! - `guard`       the query guard of read-only sources
//! - `source`      the trait, results and their limits, errors
//! - `postgresql` `mysql` `sqlite` `duckdb` `mongodb` `bigquery`   one file per kind
//! - `folders`     locations of a project's files
//! - `tools` `run_console`   tools of agents; `record_pattern` records successful queries; `model_answers`: limits and errors of
//!   both
//! - `transport` `idle_connections` connecting to servers; idle connections

pub mod bigquery;
pub mod duckdb;
pub mod extension;
pub mod folders;
pub mod guard;
pub mod idle_connections;
mod model_answers;
pub mod mongodb;
pub mod mysql;
pub mod postgresql;
mod record_pattern;
pub mod run_console;
pub mod source;
pub mod sources;
pub mod sqlite;
pub mod tools;
pub mod transport;

pub use source::SourceError;
pub use sources::{Answer, Ask, Opened, SourceArgs, Sources};
