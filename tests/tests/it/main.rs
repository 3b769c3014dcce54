//! Integration tests: one binary, one private PostgreSQL, a fresh database for each test. Each folder is a subject, each file a part of
//! it, each test a sentence. `it-HASH chat::`, or `make test ARGS="-p rejoin-tests --test it chat::"`, runs one subject.

use rejoin_tests::support;

mod agents {
    mod definitions;
    mod discussions;
    mod handoffs;
    mod history;
    mod limits;
    mod outputs;
    mod people;
    mod products;
    mod routing;
    mod run_history;
    pub mod run_makers;
    mod run_makers_dags;
    pub mod spawning;
    mod tool_calls;
    mod trees;
    mod triage;
    mod visibility;
}
mod calendar {
    mod entities;
    mod events;
    mod feeds;
    mod files;
    mod google;
    mod google_crashes;
    mod google_faults;
    mod operations;
}
mod chat {
    mod context_types;
    pub mod contexts;
    mod conversations;
    mod memory;
    mod prewarm;
    mod recall;
    mod replies;
    mod story;
    mod turns;
}
mod consoles {
    mod alone;
    mod edits;
    mod upkeep;
}
mod data_sources {
    mod access;
    mod bigquery;
    mod confinement;
    mod duckdb;
    mod joins;
    mod lookups;
    mod specialist_turns;
    mod specialists;
    mod stand_ins;
    mod tools;
    mod unguarded;
}
mod events {
    mod agent_stream;
    mod browser;
    mod callbacks;
    mod compaction;
    mod operations;
    mod sse;
    mod writer;
}
mod files {
    mod kept;
    mod objects;
    mod refused;
    pub mod round_trip;
}
mod graph {
    pub mod api;
    mod embeddings;
    mod focus;
    mod packs;
    mod store;
    mod tools;
    mod tools_in_runs;
    mod transfer;
}
mod identity {
    mod auth;
    mod credentials;
    mod keys;
    mod members;
    pub mod oidc;
    mod oidc_confusion;
    mod oidc_provider;
    mod sign_in;
}
mod mcp {
    mod endpoint;
    mod hostile;
    mod methods;
    mod oauth;
    mod servers;
    mod settings;
}
mod models {
    mod choice;
    mod costs;
    mod fallbacks;
    mod provider_standin;
    mod providers;
    mod streams;
    mod token_counts;
    mod vertex_credentials;
}
mod operations {
    mod bench;
    mod command_line;
    mod container;
    mod fuzz;
    mod migration_rules;
    mod migrations;
    mod overview;
}
mod plans {
    pub mod execution;
    mod launch;
    mod reviews;
}
mod queue {
    mod batches;
    mod fences;
    pub mod jobs;
    mod model;
}
mod reliability {
    mod crash;
    mod fleet;
    mod outages;
    mod stress;
}
mod repository {
    mod documents;
    mod imports;
    mod layout;
    mod openapi;
    mod requirements;
    mod tool_mapping;
    mod words;
}
mod security {
    mod attacks;
    mod audit;
    mod audit_chain;
    mod hostile_imports;
    mod injections;
    mod network;
    mod odd_text;
    mod policies;
    mod rates;
    mod rebinding;
    mod row_security;
    mod secrets;
    mod unscoped;
}
mod tasks {
    mod dags;
    mod graph;
    mod retries;
    mod rights_at_start;
    mod schedules;
}
mod web_tools {
    mod pages;
    mod search;
}
mod work {
    mod arranged;
    mod focus;
    pub mod projects;
    pub mod tools;
    mod writes;
}
