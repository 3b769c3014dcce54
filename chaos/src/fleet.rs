//! The processes of a chaos run: real ones, each with a proxy between it and PostgreSQL, each with its output in a
//! file.
//!
//! A member of the fleet may be killed, suspended, drained and restarted by one fault at a time (its lock). None
//! outlives us, by the watchdog.

use std::fs::OpenOptions;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rejoin_cli::dev::postgres::PrivatePostgres;
use rejoin_cli::dev::process::{self, Signal};
use rejoin_egress::watchdog::Watchdog;
use sqlx::PgPool;
use tokio::time::Instant;

use crate::proxy::{Proxy, Upstream};

/// Timeout of a process asked to stop, reported as a failure.
const LEAVE_LIMIT: Duration = Duration::from_secs(40);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The role of a process.
#[derive(Debug, Clone)]
pub enum Role {
    Api { listen: SocketAddr },
    Worker { ledger: PathBuf },
}

/// The settings of processes.
#[derive(Debug, Clone)]
pub struct Settings {
    pub lease: Duration,
    /// The folder of processes' output.
    pub logs: PathBuf,
    pub model_url: String,
    /// Additional environment.
    pub environment: Vec<(String, String)>,
    /// Another build of this program, as in a rolling upgrade: each process begins with it, and changes its build whenever it is drained.
    pub other_build: Option<PathBuf>,
}

/// A process of the fleet, and its successors.
pub struct Member {
    pub name: String,
    pub role: Role,
    pub proxy: Proxy,
    /// Bypasses all faults, on the process's database.
    pub db: PgPool,
    database_url: String,
    /// Of an API with cells: the proxy before the cell, and the environment that leads there.
    cell: Option<(Proxy, Vec<(String, String)>)>,
    settings: Settings,
    watchdog: Arc<Watchdog>,
    /// Whether the next process is of the other build, if there is one.
    runs_other: AtomicBool,
    /// Locked by a fault on the process.
    pub process: tokio::sync::Mutex<Option<Child>>,
}

impl Member {
    pub async fn new(name: String, role: Role, place: &Place, db: &PgPool, settings: &Settings) -> Result<Self> {
        let proxy = Proxy::start(place.upstream.clone()).await?;
        Ok(Self {
            database_url: place.url(&proxy),
            db: db.clone(),
            cell: None,
            name,
            role,
            proxy,
            settings: settings.clone(),
            watchdog: place.watchdog.clone(),
            runs_other: AtomicBool::new(true),
            process: tokio::sync::Mutex::new(None),
        })
    }

    /// Lets an API serve the projects of this cell, too. `environment`: for the cell's URL.
    pub async fn with_cell(mut self, cell: &Place, environment: fn(&str) -> Vec<(String, String)>) -> Result<Self> {
        let proxy = Proxy::start(cell.upstream.clone()).await?;
        let environment = environment(&cell.url(&proxy));
        self.cell = Some((proxy, environment));
        Ok(self)
    }

    /// The proxies before its databases.
    pub fn proxies(&self) -> impl Iterator<Item = &Proxy> {
        std::iter::once(&self.proxy).chain(self.cell.iter().map(|(proxy, _)| proxy))
    }

    /// Starts a process, if there is none.
    pub fn start(&self, process: &mut Option<Child>) -> Result<()> {
        self.start_with(process, &[])
    }

    /// The same with additional environment. (Not under another program, which would be killed instead.)
    pub fn start_with(&self, process: &mut Option<Child>, environment: &[(&str, &str)]) -> Result<()> {
        if process.is_some() {
            return Ok(());
        }
        let mut command = Command::new(self.program()?);
        match &self.role {
            Role::Api { listen } => command.args(["api", "--listen", &listen.to_string()]),
            Role::Worker { ledger } => command.arg("worker").arg("--ledger").arg(ledger),
        };
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.settings.logs.join(&self.name))
            .with_context(|| format!("no log for {}", self.name))?;
        let lease_ms = self.settings.lease.as_millis();
        command
            .env("DATABASE_URL", &self.database_url)
            .env("REJOIN_EMBEDDINGS", "off")
            .env("OPENAI_BASE_URL", &self.settings.model_url)
            .env("OPENAI_API_KEY", "scripted")
            .env("REJOIN_MODEL", "openai:scripted")
            .env("REJOIN_LEASE_MS", lease_ms.to_string())
            .env("REJOIN_HEARTBEAT_MS", (lease_ms / 3).to_string())
            .env("REJOIN_DRAIN_GRACE_MS", "0")
            .env("REJOIN_RATE_PER_S", "100000")
            .env("REJOIN_USER_RATE_PER_S", "100000")
            .env("REJOIN_PROJECT_RATE_PER_S", "100000")
            // Repeatedly killed runs wait longer and longer for the next attempt.
            .env("REJOIN_RUN_TIMEOUT_S", "3600")
            .envs(self.settings.environment.iter().cloned())
            .envs(self.cell.iter().flat_map(|(_, environment)| environment.iter().cloned()))
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        let child = command.spawn().with_context(|| format!("can't start {}", self.name))?;
        self.watchdog
            .guard(child.id(), Signal::Kill.name(), Signal::Kill.name());
        *process = Some(child);
        Ok(())
    }

    /// The program of its next process.
    fn program(&self) -> Result<PathBuf> {
        match &self.settings.other_build {
            Some(other) if self.runs_other.load(Ordering::Relaxed) => Ok(other.clone()),
            Some(_) | None => std::env::current_exe().context("our own path"),
        }
    }

    /// Changes the build of its next process, if there are two; returns what it will be.
    pub fn change_build(&self) -> Option<&'static str> {
        self.settings.other_build.as_ref()?;
        let ran_other = self.runs_other.fetch_xor(true, Ordering::Relaxed);
        Some(if ran_other { "this build" } else { "the other build" })
    }

    /// `kill -9`.
    pub async fn kill(&self, process: &mut Option<Child>) -> Result<()> {
        if let Some(child) = process.as_ref() {
            process::send(child.id(), Signal::Kill)?;
            self.gone(process).await?;
        }
        Ok(())
    }

    /// SIGTERM: it drains and exits. Returns the duration.
    pub async fn drain(&self, process: &mut Option<Child>) -> Result<Duration> {
        let began = Instant::now();
        if let Some(child) = process.as_ref() {
            process::send(child.id(), Signal::Terminate)?;
            self.gone(process).await?;
        }
        Ok(began.elapsed())
    }

    /// Waits until the process has ended.
    async fn gone(&self, process: &mut Option<Child>) -> Result<()> {
        let began = Instant::now();
        while let Some(child) = process.as_mut() {
            if child.try_wait()?.is_some() {
                self.watchdog.forget(child.id());
                *process = None;
            } else if began.elapsed() > LEAVE_LIMIT {
                bail!("{} did not leave within {} s", self.name, LEAVE_LIMIT.as_secs());
            } else {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        }
        Ok(())
    }

    /// Restarts a process that ended by itself, which none should; returns how.
    pub fn revive(&self, process: &mut Option<Child>) -> Result<Option<String>> {
        let Some(child) = process.as_mut() else {
            return Ok(None);
        };
        let Some(status) = child.try_wait()? else {
            return Ok(None);
        };
        self.watchdog.forget(child.id());
        *process = None;
        self.start(process)?;
        Ok(Some(format!("{} ended by itself: {status}", self.name)))
    }

    pub fn is_worker(&self) -> bool {
        matches!(self.role, Role::Worker { .. })
    }

    /// Resident memory of a running process, in bytes.
    pub async fn memory_bytes(&self) -> Option<u64> {
        let pid = self.process.lock().await.as_ref()?.id();
        memory_bytes(pid)
    }
}

/// Resident memory of a process, in bytes.
fn memory_bytes(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes * 1024)
}

/// PostgreSQL's location.
pub struct Place {
    pub upstream: Upstream,
    pub user: String,
    pub database: String,
    pub watchdog: Arc<Watchdog>,
}

impl Place {
    /// For a private server.
    pub fn of(server: &PrivatePostgres, watchdog: Arc<Watchdog>) -> Result<Self> {
        let url = server.url();
        let named = url.strip_prefix("postgres://").and_then(|rest| {
            let (user, rest) = rest.split_once('@')?;
            Some((user, rest.split_once('/')?.1))
        });
        let (user, database) = named.context("the server's URL names user and database")?;
        Ok(Self {
            upstream: socket_of(server).into(),
            user: user.to_owned(),
            database: database.to_owned(),
            watchdog,
        })
    }

    /// Returns the address of the database that a process behind this proxy is given. All of them get theirs here.
    pub fn url(&self, proxy: &Proxy) -> String {
        proxy.url(&self.user, &self.database)
    }
}

/// The socket of a private server.
pub fn socket_of(server: &PrivatePostgres) -> PathBuf {
    server.socket_dir().join(".s.PGSQL.5432")
}
