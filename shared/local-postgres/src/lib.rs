//! A private PostgreSQL: located, initialized, started and stopped, ending with its owner.
//!
//! `rejoin dev` and the integration tests start one. It listens on a unix socket that only we and root can reach, on no
//! TCP port, and keeps its data in a directory of the caller's choice. It also works as root, where PostgreSQL itself
//! refuses to run: the server then runs as another user.
//!
//! - `binaries`  locates the server's programs
//! - `packaged`  a server that was installed with this program
//! - `data_dir`  the directories: lock, cluster, socket
//! - `setup`     what a server is started with
//! - `process`   signals and users
//!
//! Invariant: no server outlives the process that started it, even when that is killed with SIGKILL.
use std::{
    path::{Path, PathBuf},
    process::{Child, ExitStatus},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use rejoin_egress::watchdog::Watchdog;
use tokio::time::{Instant, sleep};

use self::process::Signal;
use self::setup::Setup;

pub mod binaries;
mod data_dir;
mod packaged;
pub mod process;
mod setup;

const SUPERUSER: &str = "rejoin";
/// Timeout from the start of the program to its first answer, including crash recovery.
const START_LIMIT: Duration = Duration::from_secs(60);
/// Timeout of a fast shutdown, before an immediate one.
const STOP_LIMIT: Duration = Duration::from_secs(20);
/// Timeout of an immediate shutdown, before the server is killed.
const QUIT_LIMIT: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The options of a server.
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    /// Created if missing; reused with its data at the next start.
    pub data_dir: PathBuf,
    /// Created at the first start. Letters, digits and `_`.
    pub database: String,
    /// `false`: a crash of the machine may lose everything (a crash of the server nothing). For tests.
    pub durable: bool,
    /// Removes the data directory at the end, also when the owner is killed.
    pub ephemeral: bool,
    /// PostgreSQL settings by name; they override ours.
    pub extra_settings: Vec<(String, String)>,
    /// Starts as a streaming standby of this server (its socket's directory), instead of a new cluster.
    pub standby_of: Option<PathBuf>,
    /// The folder of the server's programs. None: the first server found on this machine.
    pub programs: Option<PathBuf>,
}

impl PostgresOptions {
    /// A persistent database, as used by `rejoin dev`.
    pub fn durable(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            data_dir: data_dir.into(),
            database: "rejoin".to_owned(),
            durable: true,
            ephemeral: false,
            extra_settings: Vec::new(),
            standby_of: None,
            programs: None,
        }
    }

    /// A fast, temporary database, removed with its owner.
    pub fn ephemeral() -> Self {
        let name = format!("rejoin-pg-{}", uuid::Uuid::now_v7().simple());
        Self {
            durable: false,
            ephemeral: true,
            ..Self::durable(std::env::temp_dir().join(name))
        }
    }
}

/// A running private PostgreSQL. Dropping it stops the server and waits for its end.
#[derive(Debug)]
pub struct PrivatePostgres {
    setup: Arc<Setup>,
    /// std's child, not tokio's: tests share one server among short-lived runtimes.
    server: Mutex<Option<Child>>,
    watchdog: Watchdog,
}

impl PrivatePostgres {
    /// Finds the programs, creates the cluster if there is none, starts it, and waits until the database responds.
    ///
    /// # Errors
    /// No usable server on this machine (the message explains the options), the directory is in use, or the server does
    /// not start within a minute (the message ends with its log).
    pub async fn start(options: PostgresOptions) -> Result<Self> {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        ensure!(
            !options.database.is_empty() && options.database.chars().all(plain),
            "a database name may contain only letters, digits and _: {:?}",
            options.database
        );
        let setup = tokio::task::spawn_blocking(move || Setup::prepare(options))
            .await
            .context("the setup of PostgreSQL ended early")??;
        let watchdog = Watchdog::start().context("starting the watchdog failed")?;
        let postgres = Self {
            setup: Arc::new(setup),
            server: Mutex::new(None),
            watchdog,
        };
        postgres.launch().await?;
        Ok(postgres)
    }

    /// Returns the URL of the database, in a form accepted by sqlx, tokio-postgres and libpq: the host is the socket's
    /// directory, percent-encoded. It contains no shell metacharacters.
    pub fn url(&self) -> String {
        self.admin_url(&self.setup.options.database)
    }

    /// The same server, another database. The user is a superuser.
    pub fn admin_url(&self, database: &str) -> String {
        let host = self.setup.place.socket_dir.to_string_lossy().replace('/', "%2F");
        let port = match self.setup.port() {
            setup::DEFAULT_PORT => String::new(),
            port => format!(":{port}"),
        };
        format!("postgres://{SUPERUSER}@{host}{port}/{database}")
    }

    /// Returns the directory of its socket.
    pub fn socket_dir(&self) -> &Path {
        &self.setup.place.socket_dir
    }

    /// Returns the server's process id, while it runs.
    pub fn pid(&self) -> Option<u32> {
        let mut server = self.server();
        let child = server.as_mut()?;
        // After it was reaped, it no longer exists.
        matches!(child.try_wait(), Ok(None)).then(|| child.id())
    }

    /// Returns the directory of the data; differs from the requested one if the server's user can't reach that.
    pub fn cluster_dir(&self) -> &Path {
        &self.setup.place.cluster
    }

    pub fn log_file(&self) -> &Path {
        &self.setup.place.log
    }

    /// Returns the server's major version.
    pub fn major(&self) -> u32 {
        self.setup.binaries.major
    }

    /// Fast shutdown: rolls back open transactions, writes a checkpoint, exits. [`Self::restart`] starts it again.
    ///
    /// # Errors
    /// The process can't be signalled.
    pub async fn stop(&self) -> Result<()> {
        self.end(&[
            (Signal::Interrupt, STOP_LIMIT),
            (Signal::Quit, QUIT_LIMIT),
            (Signal::Kill, QUIT_LIMIT),
        ])
        .await?;
        if self.setup.options.ephemeral {
            self.setup.remove_everything();
            self.watchdog.keep();
        }
        Ok(())
    }

    /// Immediate shutdown: like a crash for its clients, with recovery at the next start.
    ///
    /// # Errors
    /// The process can't be signalled.
    pub async fn stop_immediate(&self) -> Result<()> {
        self.end(&[(Signal::Quit, QUIT_LIMIT), (Signal::Kill, QUIT_LIMIT)])
            .await
    }

    /// Stops it (fast) if it runs, and starts it again on the same data, at the same URL.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn restart(&self) -> Result<()> {
        self.end(&[
            (Signal::Interrupt, STOP_LIMIT),
            (Signal::Quit, QUIT_LIMIT),
            (Signal::Kill, QUIT_LIMIT),
        ])
        .await?;
        self.launch().await
    }

    /// Returns when the server is not running, with its exit status if it ended by itself.
    pub async fn exited(&self) -> Option<ExitStatus> {
        loop {
            match self.server().as_mut().map(Child::try_wait) {
                None => return None,
                Some(Ok(Some(status))) => return Some(status),
                Some(Ok(None)) => {}
                Some(Err(error)) => tracing::warn!(%error, "supervising PostgreSQL failed"),
            }
            sleep(LOOK_EVERY * 10).await;
        }
    }

    /// Starts the program and waits for its first response.
    async fn launch(&self) -> Result<()> {
        let give_up = Instant::now() + START_LIMIT;
        let setup = &self.setup;
        setup.place.make_socket_dir()?;
        // Not the socket's directory of a durable one: the next owner may already use it when this watchdog ends.
        if setup.options.ephemeral {
            setup
                .place
                .everything()
                .iter()
                .for_each(|dir| self.watchdog.remove(dir));
        }
        let mut log_start = self.spawn()?;
        loop {
            let error = match setup.first_answer().await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            let ended = self.server().as_mut().map(Child::try_wait).transpose()?.flatten();
            if let Some(status) = ended {
                self.forget();
                let tail = setup.log_tail(log_start);
                // After a SIGKILL of the server, its children take a moment to exit.
                let not_yet = tail.contains("is still in use") || tail.contains("\"postmaster.pid\" already exists");
                if !not_yet || Instant::now() > give_up {
                    bail!(
                        "PostgreSQL ended during startup ({status}); its log {}:\n{tail}",
                        self.log_file().display()
                    );
                }
                sleep(LOOK_EVERY * 10).await;
                log_start = self.spawn()?;
            } else if Instant::now() > give_up {
                let tail = setup.log_tail(log_start);
                self.stop_immediate().await?;
                return Err(error).with_context(|| {
                    format!(
                        "PostgreSQL does not respond after {START_LIMIT:?}; its log {}:\n{tail}",
                        self.log_file().display()
                    )
                });
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// Returns the position in the log where the new server's lines begin.
    fn spawn(&self) -> Result<u64> {
        let (mut command, log_start) = self.setup.command()?;
        let child = command.spawn().context("starting postgres failed")?;
        self.watchdog
            .guard(child.id(), Signal::Interrupt.name(), Signal::Quit.name());
        *self.server() = Some(child);
        Ok(log_start)
    }

    /// Sends each signal in turn, until the server ends within that signal's timeout.
    async fn end(&self, signals: &[(Signal, Duration)]) -> Result<()> {
        for (signal, limit) in signals {
            // An ended server has no process to signal: its id may be reused.
            let Some(pid) = self.pid() else { break };
            process::send(pid, *signal).with_context(|| format!("sending {} to PostgreSQL failed", signal.name()))?;
            if tokio::time::timeout(*limit, self.exited()).await.is_ok() {
                break;
            }
            tracing::warn!(pid, signal = signal.name(), "PostgreSQL did not stop in time");
        }
        self.forget();
        Ok(())
    }

    fn forget(&self) {
        if let Some(child) = self.server().take() {
            self.watchdog.forget(child.id());
        }
        self.setup.place.remove_socket_dir();
    }

    fn server(&self) -> MutexGuard<'_, Option<Child>> {
        // No await while it is held, and the child stays valid after a panic.
        self.server.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Drop for PrivatePostgres {
    fn drop(&mut self) {
        let server = self.server.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(mut server) = server.take() {
            // Blocking, so that the directory is free when the owner continues. The watchdog stops the server: fast,
            // then, after a timeout, immediately.
            self.watchdog.release();
            if let Err(error) = server.wait() {
                tracing::warn!(%error, "waiting for PostgreSQL to stop failed");
            }
            self.setup.place.remove_socket_dir();
            if self.setup.options.ephemeral {
                self.setup.remove_everything();
            }
        }
    }
}

#[cfg(test)]
mod tests;
