//! The second database, and the commands of an operator who moves projects to it and back.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rejoin_cli::dev::postgres::PrivatePostgres;
use rejoin_egress::watchdog::Watchdog;
use sqlx::PgPool;
use tokio::process::Command;
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::fleet::Place;
use crate::{servers, witness};

/// The cell's name.
pub const CELL: &str = "b";
/// The environment variable with the URL of the cell.
const URL_VARIABLE: &str = "CHAOS_CELL_URL";
/// How long an API uses what it knows of projects' places, in milliseconds; and how long a move waits for all of them to notice the hold.
const STALE_MS: &str = "1000";
const SETTLE_MS: &str = "1500";
/// How long a move waits for running jobs, before it takes their leases.
const WAIT_S: &str = "2";
/// Timeout of a command.
const COMMAND_LIMIT: Duration = Duration::from_secs(120);

/// A database to which projects move, with its server.
pub struct Cell {
    pub place: Place,
    /// Bypasses all faults.
    pub db: PgPool,
    /// Taken by a move during which requests wait in their transactions.
    pub writers: Mutex<()>,
    server: PrivatePostgres,
    /// Additional environment of commands.
    environment: Vec<(String, String)>,
    directory_url: std::sync::OnceLock<String>,
}

/// How a command ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    Well,
    /// Before its end.
    Killed,
    /// With this error.
    Failed(String),
}

/// The environment by which an API serves the projects of the cell, behind this URL.
pub fn environment_of_api(url: &str) -> Vec<(String, String)> {
    let variables = [
        ("REJOIN_CELLS", "true"),
        ("REJOIN_CELLS_REFRESH_MS", "200"),
        ("REJOIN_CELLS_STALE_MS", STALE_MS),
        (URL_VARIABLE, url),
    ];
    variables
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec()
}

impl Cell {
    /// Starts a migrated server.
    pub async fn start(watchdog: &Arc<Watchdog>, environment: &[(String, String)]) -> Result<Self> {
        let server = servers::single().await?;
        let db = PgPool::connect(&server.url()).await?;
        witness::install(&db).await?;
        Ok(Self {
            place: Place::of(&server, watchdog.clone())?,
            db,
            writers: Mutex::default(),
            server,
            environment: environment.to_vec(),
            directory_url: std::sync::OnceLock::new(),
        })
    }

    /// Makes it a cell of this directory.
    pub async fn join(&self, directory_url: &str) -> Result<()> {
        self.directory_url.get_or_init(|| directory_url.to_owned());
        let source = format!("env:{URL_VARIABLE}");
        match self.command(&["add", CELL, "--url-from", &source], None).await? {
            Ended::Well => Ok(()),
            ended => bail!("the cell was not added: {ended:?}"),
        }
    }

    /// Moves a project, or continues its move.
    pub async fn move_project(&self, project: &str, to: &str, kill_after: Option<Duration>) -> Result<Ended> {
        let command = [
            "move",
            project,
            to,
            "--settle-ms",
            SETTLE_MS,
            "--wait-s",
            WAIT_S,
            "--interrupt",
        ];
        self.command(&command, kill_after).await
    }

    /// Executes `rejoin cells`. `kill_after`: then it is killed, unless it has ended.
    pub async fn command(&self, arguments: &[&str], kill_after: Option<Duration>) -> Result<Ended> {
        let directory_url = self.directory_url.get().context("the cell has joined")?;
        let child = Command::new(std::env::current_exe().context("our own path")?)
            .arg("rejoin-cells")
            .args(arguments)
            .env("DATABASE_URL", directory_url)
            .env(URL_VARIABLE, self.server.url())
            .envs(self.environment.iter().cloned())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("can't start a command")?;
        match timeout(kill_after.unwrap_or(COMMAND_LIMIT), child.wait_with_output()).await {
            Ok(output) => {
                let output = output?;
                let said = String::from_utf8_lossy(&output.stderr);
                let last = said.lines().rfind(|line| !line.trim().is_empty());
                Ok(if output.status.success() {
                    Ended::Well
                } else {
                    Ended::Failed(last.unwrap_or_default().to_owned())
                })
            }
            // It is killed with its handle.
            Err(_) if kill_after.is_some() => Ok(Ended::Killed),
            Err(_) => bail!(
                "`cells {}` took longer than {} s",
                arguments.join(" "),
                COMMAND_LIMIT.as_secs()
            ),
        }
    }
}
