//! What the API and the worker must agree on: the nouns with their SQL, the queue, the log, the wake-up bus, and the
//! commands. Imports no other member, no axum and no HTTP client.
//!
//! # Layout
//! - `ids` `digest` `schemas` `config` `db` `row_security` `outage` `text` `net` `telemetry` `owner` `access` `auth` `identities` `keys` `sessions`   the ground
//! - `projects` `conversations` `messages` `agents` `runs` `run_messages` `tool_calls`   nouns: types and their SQL
//! - `attachments` what a user attaches to a message beside its words: consoles, databases, texts
//! - `file_ref` `focus`   names of files and of the thing that a conversation is about
//! - `builtin`   the tools that need nothing but the database
//! - `files`     files that users attach and tools produce, with their content
//! - `prompts` `feedback`   what people tell all agents, and what they say of answers
//! - `reception` who takes a new conversation: `routing`, with the clues that the database has
//! - `consoles`  texts that users and agents write together, with their versions
//! - `contexts`  what a conversation is about: its type, and its focus in the work graph
//! - `compressions` what was said long ago in a conversation, in few words
//! - `plans`     what agents mean to do, in steps; the tasks of a DAG while they are done
//! - `tasks`     DAGs of tasks: specs, rows, their objects in the graph, which agent gets which
//! - `emergent` `discussions`   the types by which agents work together; what they say when they settle something
//! - `makers`    in whose name runs, DAGs and schedules work, and whether they still may
//! - `schedules` when agents and DAGs are started by the clock
//! - `waits` `questions` `inbox` `prices`   what runs wait for, are asked, are told, and cost
//! - `queue`     the job queue: enqueue, claim, heartbeat, settle, sweep, stats
//! - `events`    the log of a conversation: kinds, append, read, group commit, snapshot, retention
//! - `wakeup`    the bus of hints: `postgres` (LISTEN/NOTIFY) or `poll`
//! - `graph`     the knowledge graph
//! - `routing`   which agent takes a new conversation, by what is already known
//! - `sabotage`  switches that break promises, in builds for the checker of `chaos/` only
//! - `walls`     transactions that see one user's rows only
//! - `audit`     who changed what: one chain of entries, appended within the transaction of the act
//! - `secrets`   values that the database holds only sealed, under master keys that it never sees; `key_rotation` seals all of them anew
//! - `tools`     what a model may call: the trait, schemas of arguments, the tools over the graph
//! - `data_sources` databases of others that a project's people and agents may ask
//! - `query_patterns` queries that answered questions, learned from runs
//! - `google_tokens` sealed tokens of calendars that are linked with Google's
//! - `web_settings` what agents may do on the web
//! - `tokens`    how many tokens a text has, about
//! - `models`    the catalogue of models: prices, limits, abilities, retirement
//! - `mcp`       MCP servers of a project, and what they offer
//! - `watchdog`  ends child processes with their owner
//! - `outputs`   answers that fit a JSON schema
//! - `work`      the work graph: projects with their tasks, goals, plans and documents
//! - `products`  what a project has installed by manifests
//! - `horizon`   what holds back the removal of dead rows
//! - `commands`  verbs: one transaction each, over several nouns
//!
//! Imports go one way: commands -> nouns -> ids, config, db. Tables and their columns: `migrations/`.

pub mod access;
pub mod agents;
pub mod attachments;
pub mod audit;
pub mod auth;
pub mod builtin;
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
pub mod file_ref;
pub mod files;
pub mod focus;
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
