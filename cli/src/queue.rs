//! `rejoin queue`: the job queue, for operators; straight to the database.
use anyhow::{Result, bail};
use clap::Subcommand;

use crate::{args::Global, exit::Exit, out::Out};

/// Look at the job queue, try dead jobs again, hold a queue and let it go. Talks to the database.
///
/// Examples:
///   rejoin queue stats
///   rejoin queue retry 4711
///   rejoin queue pause default
///   rejoin queue resume default
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(subcommand)]
    pub action: Action,
}

#[derive(Debug, Subcommand)]
pub enum Action {
    /// Jobs by queue and state, the age of the oldest, the workers that are alive.
    Stats,
    /// Make a dead (failed) job available again.
    Retry { job: i64 },
    /// Claim no more jobs of this queue; those that run go on.
    Pause { queue: String },
    /// Claim its jobs again.
    Resume { queue: String },
}

/// # Errors
/// As the message says.
pub async fn run(_global: &Global, _args: Args, _out: Out) -> Result<Exit> {
    bail!("`rejoin queue` is not there yet")
}
