//! Integration tests: one binary, one private PostgreSQL, a fresh database for each test. Each file is a part of the product;
//! each test is a sentence.

use rejoin_tests::support;

mod auth;
mod conversations;
mod definitions;
mod history;
mod models;
mod queue;
mod sse;
mod writer;
