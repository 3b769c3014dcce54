//! `rejoin api`: one API process of a fleet.
use anyhow::{Result, bail};

use crate::{args::Global, exit::Exit, out::Out};

/// Serve the HTTP API, the event streams and the UI: one process of a fleet.
///
/// Stateless: any number of them serve the same database, behind any balancer. On SIGTERM it drains: readers are
/// told to go elsewhere with their cursor, and nothing is lost. Needs a migrated database (`rejoin migrate up`).
///
/// Examples:
///   rejoin api --bind 0.0.0.0:7420
///   DATABASE_URL=postgres://rejoin@db.internal/rejoin rejoin api
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Where to listen. Port 0 takes a free one.
    #[arg(long, env = "REJOIN_BIND", default_value = "127.0.0.1:7420", value_name = "ADDRESS")]
    pub bind: std::net::SocketAddr,
}

/// # Errors
/// As the message says.
pub async fn run(_global: &Global, _args: Args, _out: Out) -> Result<Exit> {
    bail!("`rejoin api` is not there yet")
}
