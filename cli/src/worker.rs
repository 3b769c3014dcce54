//! `rejoin worker`: one worker process of a fleet.
use anyhow::{Context, Result};
use rejoin_db::Role;
use rejoin_worker::WorkerConfig;

use crate::{
    exit::Exit,
    fleet::{self, FleetArgs},
    global::Global,
    out::Out,
};

/// Claim jobs from the queue and run agents: one process of a fleet.
///
/// Stateless: start as many as the load requires, on any machine that can reach the database. If one is killed, its
/// runs continue elsewhere within seconds. On SIGTERM it drains: its runs are handed to other workers at once. API keys
/// of model providers are read from their usual variables (OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY,
/// OLLAMA_HOST).
///
/// Examples:
///   rejoin worker
///   rejoin worker --slots 64 --queues default,slow
///   rejoin worker --metrics 127.0.0.1:9464 --log-json
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(flatten)]
    pub config: WorkerConfig,
    #[command(flatten)]
    pub fleet: FleetArgs,
}

/// # Errors
/// The schema is missing, or a setting is invalid.
pub async fn run(_global: &Global, args: Args, _out: Out) -> Result<Exit> {
    let ending = fleet::begin(&args.fleet)?;
    let work = async {
        if fleet::schema_is_ready(&args.config.database, Role::Worker, &args.fleet, &ending.drain).await? {
            let worked = rejoin_worker::work(args.config, ending.drain.clone()).await;
            worked.context("the worker failed")?;
        }
        Ok(())
    };
    ending.work(work).await
}
