//! The `rejoin` binary: one file per verb, and their shared code.
//!
//! # Layout
//! - `args` `global`         the command line: verbs, and the options of all of them
//! - `exit` `out`            exit codes, output
//! - `dev`                   everything in one command: private PostgreSQL, supervision (also used by the integration
//!   tests)
//! - `api` `worker`          one process each, for fleets
//! - `init`                  a new program with tools, from a template
//! - `migrate`               the schema: up, down, status
//! - `chat` `tail` `runs`    chat, follow, show, cancel: through the API
//! - `client` `stream`       requests to the API; a log followed through every restart
//! - `transcript`            renders a reply in a terminal, every word once
//! - `queue` `keys` `projects`   for operators: directly in the database
//! - `cells`                 several databases: where projects live, and how they move
//! - `secrets` `audit`       encrypted secrets and the audit log: directly in the database, too
//! - `tasks`                 DAGs of tasks done by agents: through the API
//! - `questions`             runs' questions to users: through the API
//! - `schedules`             agents and DAGs started by the clock: through the API
//! - `sign_in`               one-time sign-in address for a browser
//! - `sources`               external databases: through the API
//! - `calendars`             the caller's calendars as files: through the API
//! - `files`                 uploads, and files made by tools: through the API
//! - `web`                   agents' web access: through the API
//! - `webhooks`              a project's webhooks and their deliveries: through the API
//! - `models`                the catalogue of models: through the API
//! - `prices`                prices of models: through the API
//! - `routing`               assignment of agents to new conversations: through the API
//! - `install`               products and their manifests: through the API
//! - `mcp`                   MCP servers of a project: through the API
//! - `graph`                 import and export of the knowledge graph
//! - `fields`                fields of the API's responses
//! - `database`              the database connection and project of these
//! - `dev_instance`          settings that `dev` leaves for the other commands
//! - `fleet`                 signals and the schema's check, before `api` and `worker` begin
//! - `doctor`                checks the installation
//! - `openapi` `completions` OpenAPI document, shell completions
use anyhow::Result;
use clap::CommandFactory;

use crate::{
    args::{Cli, Command},
    exit::Exit,
    out::Out,
};

pub mod api;
pub mod args;
pub mod audit;
pub mod calendars;
pub mod cells;
pub mod chat;
pub mod client;
pub mod completions;
pub mod database;
pub mod dev;
pub mod dev_instance;
pub mod doctor;
pub mod exit;
pub mod fields;
pub mod files;
pub mod fleet;
pub mod global;
pub mod graph;
pub mod init;
pub mod install;
pub mod keys;
pub mod mcp;
pub mod migrate;
pub mod models;
pub mod openapi;
pub mod out;
pub mod prices;
pub mod projects;
pub mod questions;
pub mod queue;
pub mod routing;
pub mod runs;
pub mod schedules;
pub mod secrets;
pub mod sign_in;
pub mod sources;
pub mod stream;
pub mod tail;
pub mod tasks;
pub mod transcript;
pub mod web;
pub mod webhooks;
pub mod worker;

/// Runs the requested verb.
///
/// # Errors
/// The verb's; `Exit::of` returns its exit code.
pub async fn run(cli: Cli) -> Result<Exit> {
    let global = &cli.global;
    let out = Out::new(global.json);
    match cli.command {
        Command::Dev(args) => dev::run(global, args, out).await,
        Command::Init(args) => init::run(global, args, out).await,
        Command::Api(args) => api::run(global, *args, out).await,
        Command::Worker(args) => worker::run(global, *args, out).await,
        Command::Migrate(args) => migrate::run(global, args, out).await,
        Command::Chat(args) => chat::run(global, args, out).await,
        Command::Tail(args) => tail::run(global, args, out).await,
        Command::Runs(args) => runs::run(global, args, out).await,
        Command::Queue(args) => queue::run(global, args, out).await,
        Command::Graph(args) => graph::run(global, args, out).await,
        Command::Mcp(args) => mcp::run(global, args, out).await,
        Command::Tasks(args) => tasks::run(global, args, out).await,
        Command::Questions(args) => questions::run(global, args, out).await,
        Command::Sources(args) => sources::run(global, args, out).await,
        Command::Calendars(args) => calendars::run(global, args, out).await,
        Command::Files(args) => files::run(global, args, out).await,
        Command::Web(args) => web::run(global, args, out).await,
        Command::Webhooks(args) => webhooks::run(global, args, out).await,
        Command::Schedules(args) => schedules::run(global, args, out).await,
        Command::Models(args) => models::run(global, args, out).await,
        Command::Prices(args) => prices::run(global, args, out).await,
        Command::Routing(args) => routing::run(global, args, out).await,
        Command::Install(args) => install::run(global, args, out).await,
        Command::Uninstall(args) => install::uninstall(global, args, out).await,
        Command::SignIn(args) => sign_in::run(global, args, out).await,
        Command::Projects(args) => projects::run(global, args, out).await,
        Command::Cells(args) => cells::run(global, args, out).await,
        Command::Keys(args) => keys::run(global, args, out).await,
        Command::Secrets(args) => secrets::run(global, args, out).await,
        Command::Audit(args) => audit::run(global, args, out).await,
        Command::Doctor(args) => doctor::run(global, args, out).await,
        Command::Openapi(args) => openapi::run(global, args, out).await,
        Command::Completions(args) => completions::run(global, args, Cli::command(), out).await,
    }
}
