//! The engine that API and worker share: nouns with their SQL, the queue, the event log, the wake-up bus, and the
//! commands. Imports no other workspace member, no axum and no HTTP client.
//!
//! # Layout
//! - `ids` `digest` `schemas` `config` `db` `row_security` `outage` `text` `net` `telemetry` `owner` `access` `auth`
//!   `identities` `keys` `sessions`   foundations
//! - `projects` `conversations` `messages` `agents` `runs` `run_messages` `tool_calls`   nouns: types and their SQL
//! - `attachments` attachments of a message: consoles, databases, texts
//! - `files`     uploads and tool outputs, with their content
//! - `prompts` `feedback`   instructions to all agents; feedback on answers
//! - `reception` assigns an agent to a new conversation: `routing`, with signals from the database
//! - `consoles`  texts that users and agents edit together, versioned
//! - `contexts`  the context of a conversation: its type, and its focus in the work graph
//! - `compressions` summaries of long conversations
//! - `plans`     agents' plans; their steps run as the tasks of a DAG
//! - `tasks`     DAGs of tasks: specs, rows, their objects in the graph, agent selection
//! - `emergent` `discussions`   graph types by which agents coordinate; their discussions
//! - `makers`    the user on whose behalf runs, DAGs and schedules work, and their current rights
//! - `schedules` starts agents and DAGs by the clock
//! - `waits` `questions` `inbox` `prices`   suspended runs, questions to users, steering messages, costs
//! - `queue`     the job queue: enqueue, claim, heartbeat, settle, sweep, stats
//! - `events`    the log of a conversation: kinds, append, read, group commit, snapshot, retention
//! - `wakeup`    the wake-up bus: `postgres` (LISTEN/NOTIFY) or `poll`
//! - `graph`     the knowledge graph
//! - `routing`   chooses the agent of a new conversation by rules
//! - `sabotage`  fault injection, only in builds for the checker of `chaos/`
//! - `walls`     transactions scoped by row-level security
//! - `audit`     the audit log: a hash chain, appended in the audited transaction
//! - `secrets`   encrypted secrets under master keys that the database never sees; `key_rotation` re-encrypts them
//! - `tools`     tools of models: the trait, argument schemas, the tools over the graph
//! - `data_sources` external databases that a project's users and agents may query
//! - `query_patterns` queries that answered questions, learned from runs
//! - `google_tokens` encrypted tokens of calendars linked with Google
//! - `web_settings` settings of agents' web access
//! - `tokens`    estimates token counts
//! - `models`    the catalogue of models: prices, limits, abilities, retirement
//! - `mcp`       MCP servers of a project, and the tools that they offer
//! - `watchdog`  ends child processes with their owner
//! - `outputs`   answers that match a JSON Schema
//! - `work`      the work graph: projects with their tasks, goals, plans and documents
//! - `products`  products that a project has installed by manifests
//! - `horizon`   finds what blocks VACUUM
//! - `commands`  verbs: one transaction each, over several nouns
//!
//! Imports go one way: commands -> nouns -> ids, config, db. Tables and their columns: `migrations/`.

pub mod access;
pub mod agents;
pub mod attachments;
pub mod audit;
pub mod auth;
pub mod commands;
pub mod compressions;
pub mod config;
pub mod consoles;
pub mod contexts;
pub mod conversations;
pub mod data_sources;
pub mod db;
pub mod digest;
pub mod discussions;
pub mod emergent;
pub mod events;
pub mod feedback;
pub mod files;
pub mod google_tokens;
pub mod graph;
pub mod horizon;
pub mod identities;
pub mod ids;
pub mod inbox;
pub mod key_rotation;
pub mod keys;
pub mod makers;
pub mod mcp;
pub mod messages;
pub mod models;
pub mod net;
pub mod outage;
pub mod outputs;
pub mod owner;
pub mod plans;
pub mod prices;
pub mod products;
pub mod projects;
pub mod prompts;
pub mod query_patterns;
pub mod questions;
pub mod queue;
pub mod reception;
pub mod routing;
pub mod row_security;
pub mod run_messages;
pub mod runs;
pub mod sabotage;
pub mod schedules;
pub mod schemas;
pub mod secrets;
pub mod sessions;
pub mod sign_in;
pub mod tasks;
pub mod telemetry;
pub mod text;
pub mod tokens;
pub mod tool_calls;
pub mod tools;
pub mod waits;
pub mod wakeup;
pub mod walls;
pub mod watchdog;
pub mod web_settings;
pub mod work;
