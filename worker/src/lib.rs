//! The worker: claims jobs from the queue and runs agents. Stateless; any number of them share one database.
//!
//! # Layout
//! - `config`       settings, each an option and an environment variable
//! - `services`     shared dependencies: database, bus, event writer, models, tools
//! - `absence`      tracks database outages
//! - `claimer`      claims due jobs into bounded slots; heartbeat, cancellation, drain
//! - `executor`     executes one claimed run; recovery; the outcome of the job
//! - `signals`      stop signals of a job: cancellation, a lost lease, a drain
//! - `jobs`         handlers of other kinds of jobs
//! - `embedding`    computes vectors of graph objects in the background
//! - `run`          the step loop: model call, tool calls, limits
//! - `models`       providers behind one trait
//! - `coordination` tools to find and start agents, and to ask users
//! - `pools`        the tools of a project, and their selection for an agent
//! - `mcp`          MCP servers: connections, calls, tool lists
//! - `google_calendar` the job that syncs a calendar with Google
//! - `web_probe`    the job behind "test the search provider"
//! - `net`          the HTTP client for URLs from a project
//! - `maintenance`  sweeps: expired leases, dead jobs, orphaned keys, retention
//!
//! The path of a token: `run/answer.rs` reads it from the model, `publish.rs` passes it to the event writer.

pub mod absence;
pub mod claimer;
pub mod compression;
pub mod config;
pub mod coordination;
pub mod embedding;
pub mod executor;
pub mod google_calendar;
pub mod jobs;
pub mod maintenance;
pub mod mcp;
pub mod models;
pub mod net;
pub mod pools;
pub mod publish;
pub mod run;
pub mod services;
pub mod signals;
pub mod web_probe;

use std::sync::Arc;

use rejoin_shared::db::ConnectError;
use rejoin_shared::files::objects::ObjectStoreError;
use tokio_util::sync::CancellationToken;
use tracing::info;

pub use config::WorkerConfig;
pub use services::Services;

use compression::Compressing;
use embedding::Embedding;
use google_calendar::GoogleCalendars;
use jobs::{Handler, Handlers};
use mcp::probe::Probe;
use web_probe::WebProbe;

#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("the configuration of MCP servers is invalid")]
    Mcp(#[from] mcp::McpError),
    #[error("setting up the model providers failed: {0}")]
    Models(#[from] models::ModelError),
    #[error(transparent)]
    Files(#[from] ObjectStoreError),
    #[error("serving metrics on {address} failed")]
    Metrics {
        address: std::net::SocketAddr,
        #[source]
        source: std::io::Error,
    },
}

/// Runs a worker until `drain` is cancelled; then running work is released and the function returns.
pub async fn work(config: WorkerConfig, drain: CancellationToken) -> Result<(), WorkerError> {
    let services = Services::start(config).await?;
    services.serve_metrics(drain.clone()).await?;
    info!(worker = %services.worker.id, slots = services.config.slots, "working");
    work_with(services, drain).await;
    Ok(())
}

/// The same with the caller's services.
pub async fn work_with(services: Services, drain: CancellationToken) {
    work_on(services, handlers(), drain).await;
}

/// The same with additional job handlers.
pub async fn work_on(services: Services, handlers: Handlers, drain: CancellationToken) {
    let sweeping = tokio::spawn(maintenance::run(services.clone(), drain.clone()));
    claimer::run(services.clone(), handlers, drain).await;
    sweeping.abort();
    services.pools.connections().close().await;
}

/// The handlers that every worker has, besides runs.
fn handlers() -> Handlers {
    Handlers::new([
        Arc::new(Probe) as Arc<dyn Handler>,
        Arc::new(Embedding),
        Arc::new(Compressing),
        Arc::new(WebProbe),
        Arc::new(GoogleCalendars),
    ])
}
