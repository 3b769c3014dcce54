//! `chaos worker`: `rejoin worker`, with the tools of a chaos run instead of the built-in ones.

use std::path::PathBuf;

use anyhow::Result;
use rejoin_cli::exit::Exit;
use rejoin_cli::fleet;
use rejoin_db::Role;
use rejoin_worker::Services;

use crate::tools;

#[derive(Debug, clap::Args)]
#[group(id = "chaos-worker")]
pub struct Args {
    #[command(flatten)]
    worker: rejoin_cli::worker::Args,
    /// Where the tools write what they did
    #[arg(long)]
    ledger: PathBuf,
}

/// # Errors
/// The schema is missing, or a setting is invalid.
pub async fn run(args: Args) -> Result<Exit> {
    let ending = fleet::begin(&args.worker.fleet)?;
    let config = args.worker.config;
    let work = async {
        if fleet::schema_is_ready(&config.database, Role::Worker, &args.worker.fleet, &ending.drain).await? {
            let mut services = Services::start(config).await?;
            services = services.offering(tools::registry(&args.ledger)?);
            rejoin_worker::work_with(services, ending.drain.clone()).await;
        }
        Ok(())
    };
    ending.work(work).await
}
