//! Data sources: external databases, which a project's users and agents may query. Imports `rejoin-shared` alone; the
//! API's routes and the workers' tools query through [`Sources`]. The stored settings of a source are in
//! `rejoin_shared::data_sources`.
//!
//! # Layout
//! - `sources`     the open sources of a process: concurrency, timeouts, and the guard before every query; `join`:
//!   queries over several of them
//! - `guard`       the query guard of read-only sources
//! - `source`      the trait, results and their limits, errors
//! - `postgresql` `mysql` `sqlite` `duckdb` `mongodb` `bigquery`   one file per kind
//! - `folders`     locations of a project's files
//! - `tools` `run_console`   tools of agents; `learn` records successful queries; `model_answers`: limits and errors of
//!   both
//! - `reach` `idle`  connecting to servers; idle connections

pub mod bigquery;
pub mod duckdb;
pub mod folders;
pub mod guard;
pub mod idle;
mod learn;
mod model_answers;
pub mod mongodb;
pub mod mysql;
pub mod postgresql;
pub mod reach;
pub mod run_console;
pub mod source;
pub mod sources;
pub mod sqlite;
pub mod tools;

pub use source::SourceError;
pub use sources::{Answer, Ask, Opened, SourceArgs, Sources};
