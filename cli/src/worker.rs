//! `rejoin worker`: one worker process of a fleet.
use anyhow::{Result, bail};

use crate::{args::Global, exit::Exit, out::Out};

/// Claim jobs from the queue and run agents: one process of a fleet.
///
/// Stateless: start as many as the load needs, on any machine that reaches the database. Kill one, and its runs go
/// on elsewhere within seconds. On SIGTERM it drains: runs are handed over at once.
///
/// Examples:
///   rejoin worker
///   rejoin worker --slots 64
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// How many runs it works on at the same time.
    #[arg(long, env = "REJOIN_SLOTS", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..), value_name = "N")]
    pub slots: u16,
}

/// # Errors
/// As the message says.
pub async fn run(_global: &Global, _args: Args, _out: Out) -> Result<Exit> {
    bail!("`rejoin worker` is not there yet")
}
