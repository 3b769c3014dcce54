//! What the API and the worker must agree on.
//!
//! # Layout
//! - `ids` `clock` `config` `db` `telemetry` `auth`             the ground
//! - `projects` `conversations` `messages` `agents` `runs` `tool_calls`   nouns: types and their SQL
//! - `queue`     the job queue            - `events`   the log of a conversation
//! - `wakeup`    the bus of hints         - `graph`    the knowledge graph
//! - `commands`  verbs: one transaction each, over several nouns
pub mod graph;
