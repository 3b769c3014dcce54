//! `rejoin runs`: look at runs, cancel one.
use anyhow::{Result, bail};
use clap::Subcommand;

use crate::{args::Global, exit::Exit, out::Out};

/// Look at runs, with their messages and tool calls, or cancel one.
///
/// Examples:
///   rejoin runs list --limit 20
///   rejoin runs show 0192f0c1-…
///   rejoin runs cancel 0192f0c1-…
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(subcommand)]
    pub action: Action,
}

#[derive(Debug, Subcommand)]
pub enum Action {
    /// The newest runs of the project.
    List {
        /// At most this many.
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=100))]
        limit: u16,
        /// Only runs in this state: queued, running, waiting, paused, completed, failed, cancelled.
        #[arg(long)]
        state: Option<String>,
        /// The project; needed if the key opens several.
        #[arg(long, value_name = "ID")]
        project: Option<String>,
    },
    /// One run: its state, its messages, its tool calls.
    Show { run: String },
    /// Stop a run at its next await point. Doing it twice does no harm.
    Cancel { run: String },
}

/// # Errors
/// As the message says.
pub async fn run(_global: &Global, _args: Args, _out: Out) -> Result<Exit> {
    bail!("`rejoin runs` is not there yet")
}
