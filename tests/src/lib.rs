//! Support of the integration tests: real components, only the model is scripted.
//!
//! - `support`       a fresh migrated database for each test, in one private PostgreSQL for the whole binary
//! - `waiting`       waiting for conditions
//! - `app`           the whole product: API, workers, scripted model
//! - `client`        a minimal HTTP client
//! - `chat_page`     a chat page of the AI SDK, without a browser
//! - `tools`         tools controlled by tests
//! - `issuer`        a fake identity provider with valid and forged tokens
//! - `embedding_server`  a fake embedding server
//! - `mcp`           MCP servers: third-party ones, and a misbehaving one
//! - `sources`       databases used as data sources
//! - `object_store`  a real S3 server
//! - `nats`          a real NATS server
//! - `collector`     a real collector of traces
//! - `counted`       counts of SQL statements
//! - `bigquery`      a fake of BigQuery's API and of Google's service account tokens
//! - `google`        a fake Google Calendar
//! - `web`           fake sites and search providers
//! - `pgbouncer`     a real PgBouncer in transaction mode
//! - `pooled`        the tests' APIs and workers through that, if `REJOIN_TEST_POOLER` asks for it
//! - `documents`     commands of the manual, which tests execute
//! - `statements`    what a process sends to its database
//! - `ports`         free ports for programs that get their address from a test
//! - `needs`         required programs: missing ones fail in CI, and skip tests elsewhere
//! - `requirements`  the tables of requirements, and their checks
//! - `fuzzing`       fuzz targets
//! - `files`         files, and what the model received of them
//! - `graph_api`     the graph over HTTP
//! - `jobs`          jobs of the queue
//! - `projects`      projects of the work graph
//! - `replies`       replies that start agents and plans
//! - `members`       members of the project, and runs on their behalf
//! - `plans`         plans of agents
//! - `refusals`      commands of the program that refuse to work
//! - `model_server`  a scripted model server with OpenAI's protocol
//! - `openai_clients` OpenAI's own clients
//! - `a2a_clients`   A2A's own clients

pub mod a2a_clients;
pub mod app;
pub mod bigquery;
pub mod chat_page;
pub mod client;
pub mod collector;
pub mod counted;
pub mod documents;
pub mod embedding_server;
pub mod files;
pub mod fuzzing;
pub mod google;
pub mod graph_api;
pub mod issuer;
pub mod jobs;
pub mod mcp;
pub mod members;
pub mod model_server;
pub mod nats;
pub mod needs;
pub mod object_store;
pub mod openai_clients;
pub mod pgbouncer;
pub mod plans;
pub mod pooled;
pub mod ports;
pub mod projects;
pub mod refusals;
pub mod replies;
pub mod requirements;
pub mod sources;
pub mod statements;
pub mod support;
pub mod tools;
pub mod waiting;
pub mod web;
