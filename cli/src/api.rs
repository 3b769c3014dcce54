//! `rejoin api`: one API process of a fleet.
use std::pin::pin;

use anyhow::{Context, Result};
use rejoin_api::ApiConfig;
use rejoin_db::Role;

use crate::{
    exit::Exit,
    fleet::{self, FleetArgs},
    global::Global,
    out::Out,
};

/// Serve the HTTP API and the event streams: one process of a fleet.
///
/// Stateless: any number of API processes can share one database behind any load balancer. On SIGTERM it drains: it
/// asks readers to reconnect elsewhere with their cursor, and no event is lost. Needs a migrated database (`rejoin
/// migrate up`).
///
/// Examples:
///   rejoin api --listen 0.0.0.0:7420
///   DATABASE_URL=postgres://rejoin@db.internal/rejoin rejoin api
///   rejoin api --migrate --log-json
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(flatten)]
    pub config: ApiConfig,
    #[command(flatten)]
    pub fleet: FleetArgs,
}

/// # Errors
/// The schema is missing, or the address is in use.
pub async fn run(_global: &Global, args: Args, _out: Out) -> Result<Exit> {
    let ending = fleet::begin(&args.fleet)?;
    let listen = args.config.listen;
    let database = args.config.database.clone();
    let serve = async {
        let mut served = pin!(rejoin_api::serve(args.config, ending.drain.clone()));
        let served = tokio::select! {
            served = &mut served => served,
            // Meanwhile it responds: alive, but not ready.
            ready = fleet::schema_is_ready(&database, Role::App, &args.fleet, &ending.drain) => {
                ready?;
                served.await
            }
        };
        served.with_context(|| format!("serving the API on {listen} failed"))
    };
    ending.work(serve).await
}
