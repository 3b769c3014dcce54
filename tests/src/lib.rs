//! What the integration tests stand on: real parts, only the model is scripted.
//!
//! - `support`       a fresh migrated database for each test, in one private PostgreSQL for the whole binary
//! - `app`           the whole product: API, workers, scripted model
//! - `client`        a plain client of the wire
//! - `tools`         tools that tests hold by the hand
//! - `issuer`        an identity provider that makes genuine tokens and forged ones
//! - `embedding_server`  a stand-in that makes vectors by a list of words
//! - `mcp`           MCP servers: other people's, and one that misbehaves
//! - `sources`       databases that are asked as data sources
//! - `object_store`  a server that speaks S3
//! - `bigquery`      a double of BigQuery's API and of Google's tokens for service accounts
//! - `google`        a stand-in for Google Calendar
//! - `web`           sites and search providers
//! - `needs`         programs that a machine may lack: a failure in CI, skipped elsewhere
//! - `requirements`  the tables of requirements, and what they name
//! - `fuzzing`       what fuzzers feed with any bytes
//! - `model_server`  a scripted model server that speaks OpenAI's protocol
//! - `providers`     a strict stand-in of model providers, in four protocols

pub mod app;
pub mod bigquery;
pub mod client;
pub mod embedding_server;
pub mod fuzzing;
pub mod google;
pub mod issuer;
pub mod mcp;
pub mod model_server;
pub mod needs;
pub mod object_store;
pub mod providers;
pub mod requirements;
pub mod sources;
pub mod support;
pub mod tools;
pub mod web;
