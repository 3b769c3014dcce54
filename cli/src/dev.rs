//! `rejoin dev`: everything on one machine, with one command.
//!
//! - `postgres`   a private PostgreSQL (the integration tests start theirs with it, too)
//! - `supervise`  the API and the workers, as child processes
//! - `watchdog`   ends all of them when this process ends, however it ends
//! - `process`    signals and users
use std::path::PathBuf;

use anyhow::{Result, bail};

use crate::{args::Global, exit::Exit, out::Out};

pub mod postgres;
pub mod process;
pub mod supervise;
pub mod watchdog;

/// Everything on this machine: a private PostgreSQL, the API with its UI, workers, a demo project.
///
/// PostgreSQL is found or fetched (see `rejoin doctor`), unless DATABASE_URL names one. API and workers are child
/// processes: kill a worker and watch its runs go on. With --json, ONE line on stdout says that all is ready:
/// {"url","apiKey","projectId","userId","databaseUrl","pids":{"api","workers","postgres"}}. Ctrl-C drains and stops
/// all that was started; a second one does not wait.
///
/// Examples:
///   rejoin dev
///   rejoin dev --port 8000 --workers 4
///   rejoin dev --json --data-dir "$(mktemp -d)"
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The API's port on 127.0.0.1. 0 takes a free one.
    #[arg(long, env = "REJOIN_PORT", default_value_t = 7420, value_name = "PORT")]
    pub port: u16,
    /// How many worker processes.
    #[arg(long, default_value_t = 2, value_name = "N")]
    pub workers: u16,
    /// Where the private PostgreSQL keeps its data. Remove it to start afresh.
    #[arg(long, env = "REJOIN_DATA_DIR", value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
}

/// # Errors
/// As the message says.
pub async fn run(_global: &Global, _args: Args, _out: Out) -> Result<Exit> {
    bail!("`rejoin dev` is not there yet")
}
