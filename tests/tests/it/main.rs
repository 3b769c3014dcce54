//! Integration tests: one binary, one private PostgreSQL, a fresh database for each test. Each folder is a subject, each file a part of
//! it, each test a sentence. `make test ARGS="--test it chat::"` runs one subject.

use rejoin_tests::support;

mod agents;
mod calendar;
mod chat;
mod clients;
mod consoles;
mod data_sources;
mod events;
mod files;
mod graph;
mod identity;
mod mcp;
mod models;
mod operations;
mod plans;
mod queue;
mod reliability;
mod repository;
mod security;
mod tasks;
mod web_tools;
mod webhooks;
mod work;
