//! Integration tests: one binary, one private PostgreSQL, a fresh database for each test. Each file is a part of the product;
//! each test is a sentence.

use rejoin_tests::support;

mod attacks;
mod audit;
mod audit_chain;
mod auth;
mod bench;
mod browser;
mod chat;
mod conversations;
mod crash;
mod definitions;
mod event_rows;
mod fleet;
mod fuzz;
mod graph;
mod graph_api;
mod graph_transfer;
mod history;
mod identity;
mod layout;
mod limits;
mod migrations;
mod model_choice;
mod models;
mod oidc;
mod oidc_provider;
mod openapi;
mod queue;
mod queue_batches;
mod queue_model;
mod rates;
mod sse;
mod stress;
mod walls;
mod writer;
