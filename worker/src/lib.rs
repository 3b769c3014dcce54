//! The worker: claims jobs from the queue and runs agents. Stateless; any number of them share one database.
//!
//! # Layout
//! - `config`       settings, each an option and an environment variable
//! - `services`     shared dependencies: database, bus, event writer, models, tools
//! - `dag_scheduler` continues DAGs after the ends of their tasks' runs
//! - `downtime`     tracks database outages
//! - `poller`       claims due jobs into bounded slots; cancellation, drain
//! - `held_jobs`    the jobs that this worker holds
//! - `held_runs`    runs that wait for users' programs before they are suspended
//! - `heartbeat`    renews their leases
//! - `executor`     executes one claimed run; recovery; the outcome of the job
//! - `jobs`         handlers of other kinds of jobs, those of extensions among them
//! - `run`          the step loop: model call, tool calls, limits
//! - `flow`         definitions over sub-agents, in place of a language model
//! - `coordination` tools to find and start agents, and to ask users
//! - `compression` summarizes the older messages of a conversation
//! - `title`        writes the title of a conversation
//! - `pools`        the tools of a workspace, and their selection for an agent
//! - `mcp_accounts` users' accounts at MCP servers: their jobs, and the questions that wait for them
//! - `mcp_probe`    the job behind "test this server"
//! - `operator_port` metrics and health checks
//! - `maintenance`  sweeps: dead workers, expired leases, dead jobs, orphaned keys, retention
//!
//! The path of a token: `run/answer.rs` reads it from the model, `publish.rs` passes it to the event writer.

pub mod compression;
pub mod config;
pub mod coordination;
pub mod dag_scheduler;
pub mod downtime;
pub mod executor;
pub mod flow;
mod heartbeat;
mod held_jobs;
pub mod held_runs;
pub mod jobs;
pub mod maintenance;
pub mod mcp_accounts;
pub mod mcp_probe;
mod operator_port;
pub mod poller;
pub mod pools;
pub mod publish;
pub mod run;
pub mod services;
pub mod title;

use std::sync::Arc;

use rejoin_archive::StoreError;
use rejoin_db::ConnectError;
use rejoin_event_log::wakeup::nats::BusError;
use rejoin_files::objects::ObjectStoreError;
use rejoin_mcp_client::McpError;
use rejoin_model_client::ModelError;
use rejoin_telemetry::TelemetryError;
use tokio_util::sync::CancellationToken;
use tracing::info;

pub use config::WorkerConfig;
pub use services::Services;

use compression::CompressionHandler;
use jobs::{ExtensionJobs, Handler, Handlers};
use mcp_accounts::AccountJob;
use mcp_probe::Probe;
use title::TitleHandler;

#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Bus(#[from] BusError),
    #[error("the configuration of MCP servers is invalid")]
    Mcp(#[from] McpError),
    #[error("setting up the model providers failed: {0}")]
    Models(#[from] ModelError),
    #[error(transparent)]
    Files(#[from] ObjectStoreError),
    #[error(transparent)]
    Archive(#[from] StoreError),
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
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
    let port = operator_port::start(&services, &drain).await?;
    info!(worker = %services.worker.id, slots = services.config.slots, "working");
    work_with(services, drain).await;
    if let Some(port) = port {
        port.abort();
    }
    Ok(())
}

/// The same with the caller's services.
pub async fn work_with(services: Services, drain: CancellationToken) {
    let handlers = handlers(&services);
    work_on(services, handlers, drain).await;
}

/// The same with additional job handlers.
pub async fn work_on(services: Services, handlers: Handlers, drain: CancellationToken) {
    let sweeping = tokio::spawn(maintenance::run(services.clone(), drain.clone()));
    poller::run(services.clone(), handlers, drain).await;
    sweeping.abort();
    services.pools.connections().close().await;
    services.telemetry.flush().await;
}

/// The handlers of all kinds of jobs besides runs: the worker's own and those of extensions.
fn handlers(services: &Services) -> Handlers {
    let own: [Arc<dyn Handler>; 6] = [
        Arc::new(Probe),
        Arc::new(CompressionHandler),
        Arc::new(TitleHandler),
        Arc::new(AccountJob::Plan),
        Arc::new(AccountJob::Exchange),
        Arc::new(AccountJob::Disconnect),
    ];
    let of_extensions = services.extensions.jobs().into_iter();
    Handlers::new(
        own.into_iter()
            .chain(of_extensions.map(|handler| Arc::new(ExtensionJobs(handler)) as Arc<dyn Handler>)),
    )
}
