//! Data sources: external databases, which a workspace's users and agents may query. The API's routes and the workers' tools query
//! through [`Sources`]. The stored settings of a source are in `rejoin_integrations::data_sources`.
//!
//! # Layout
//! - `sources`     the open sources of a process: concurrency, timeouts, and the guard before every query; `drivers`:
//!   those of this build; `join`: queries over several sources
//! - `guard`       the query guard of read-only sources
//! - `source`      the trait, results and their limits, errors
//! - `postgresql` `mysql` `sqlite` `duckdb` `mongodb` `bigquery`   one driver per kind, behind the cargo feature of its
//!   name
//! - `folders`     locations of a workspace's files
//! - `tools` `run_console`   tools of agents; `record_pattern` records successful queries; `model_answers`: limits and errors of
//!   both
//! - `routes`     HTTP endpoints of data sources and consoles
//! - `transport` `idle_connections` connecting to servers; idle connections

#[cfg(feature = "bigquery")]
pub mod bigquery;
#[cfg(feature = "duckdb")]
pub mod duckdb;
pub mod extension;
pub mod folders;
pub mod guard;
pub mod idle_connections;
mod model_answers;
#[cfg(feature = "mongodb")]
pub mod mongodb;
#[cfg(feature = "mysql")]
pub mod mysql;
#[cfg(feature = "postgresql")]
pub mod postgresql;
mod record_pattern;
pub mod routes;
pub mod run_console;
pub mod source;
pub mod sources;
#[cfg(feature = "sqlite")]
pub mod sqlite;
pub mod tools;
pub mod transport;

pub use source::SourceError;
pub use sources::{Answer, Ask, Opened, SourceArgs, Sources};
