//! Data sources: databases of others, which a project's people and agents may ask. Imports crates of `shared/` only; the API's routes and the
//! workers' tools ask through [`Sources`]. What is stored of a source is in `rejoin_integrations::data_sources`.
//!
//! # Layout
//! - `sources`     the open ones of a process: places, time, and the guard before every query; `join`: questions to several of them
//! - `guard`       the first wall: what of SQL passes a read-only source
//! - `source`      the trait, answers and their bounds, what may go wrong
//! - `postgresql` `mysql` `sqlite` `duckdb` `mongodb` `bigquery`   one file a kind
//! - `folders`     where the files of a project may be
//! - `tools` `run_console`   what agents are given; `learn` remembers what answered; `model_answers`: bounds and errors of both
//! - `reach` `idle`  how servers are reached; connections that wait for the next question

pub mod bigquery;
pub mod duckdb;
pub mod extension;
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
