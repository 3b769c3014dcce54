//! Settings shared by all processes. Each is a command-line option and an environment variable; settings of one process
//! live in its crate.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use rejoin_faults::Fault;

/// Where the database is, and how much of it a process may use.
#[derive(Debug, Clone, Args)]
pub struct DatabaseArgs {
    /// PostgreSQL connection URL, e.g. postgres://user:password@host/rejoin
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    pub database_url: String,

    /// Maximum number of connections for commands and queries
    #[arg(long, env = "REJOIN_DB_CONNECTIONS", default_value_t = 10)]
    pub db_connections: u32,

    /// Maximum number of connections for the hot paths (event appends, claims, the tail)
    #[arg(long, env = "REJOIN_DB_HOT_CONNECTIONS", default_value_t = 6)]
    pub db_hot_connections: usize,

    /// Statement timeout, in milliseconds
    #[arg(long, env = "REJOIN_DB_STATEMENT_TIMEOUT_MS", default_value_t = 30_000)]
    pub db_statement_timeout_ms: u64,

    /// Lock timeout, in milliseconds
    #[arg(long, env = "REJOIN_DB_LOCK_TIMEOUT_MS", default_value_t = 10_000)]
    pub db_lock_timeout_ms: u64,

    /// How processes notify each other about new data
    #[arg(long, env = "REJOIN_BUS", value_enum, default_value_t = BusKind::Postgres)]
    pub bus: BusKind,

    #[command(flatten)]
    pub nats: NatsArgs,
}

impl DatabaseArgs {
    /// The defaults, for a database at `url`.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            database_url: url.into(),
            db_connections: 10,
            db_hot_connections: 6,
            db_statement_timeout_ms: 30_000,
            db_lock_timeout_ms: 10_000,
            bus: BusKind::Postgres,
            nats: NatsArgs::default(),
        }
    }
}

/// The servers of the wake-up bus `nats`.
#[derive(Debug, Clone, Args)]
pub struct NatsArgs {
    /// URLs of the NATS servers, for --bus nats: nats://HOST:4222, or tls://HOST:4222 for TLS, separated by commas. User and password, or
    /// a token, may be part of the first one, percent-encoded
    #[arg(long, env = "REJOIN_NATS_URL", hide_env_values = true)]
    pub nats_url: Option<Secret>,

    /// Token for the NATS servers
    #[arg(long, env = "REJOIN_NATS_TOKEN", hide_env_values = true)]
    pub nats_token: Option<Secret>,

    /// Credentials file for the NATS servers, with a user's JWT and seed
    #[arg(long, env = "REJOIN_NATS_CREDENTIALS")]
    pub nats_credentials: Option<PathBuf>,

    /// Prefix of the NATS subjects. Installations that share servers need different ones
    #[arg(long, env = "REJOIN_NATS_SUBJECT", default_value = NATS_SUBJECT)]
    pub nats_subject: String,
}

impl Default for NatsArgs {
    fn default() -> Self {
        Self {
            nats_url: None,
            nats_token: None,
            nats_credentials: None,
            nats_subject: NATS_SUBJECT.to_owned(),
        }
    }
}

/// The default prefix of the NATS subjects.
const NATS_SUBJECT: &str = "rejoin";

/// The wake-up bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BusKind {
    /// LISTEN/NOTIFY: requires a direct connection (no transaction pooler)
    Postgres,
    /// A NATS server (REJOIN_NATS_URL): no connection for LISTEN
    Nats,
    /// No wake-ups: processes poll, at least once a second
    Poll,
}

/// Polling interval of everything that waits for a wake-up: a lost wake-up costs at most this (invariant I11).
pub const POLL_INTERVAL: Duration = Duration::from_millis(800);

/// Returns [`POLL_INTERVAL`], or the injected fault's.
pub fn poll_interval() -> Duration {
    const NEVER: Duration = Duration::from_secs(3_600);
    if rejoin_faults::enabled(Fault::NoPoll) {
        NEVER
    } else {
        POLL_INTERVAL
    }
}

/// A secret setting. Its `Debug` does not show the value.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::str::FromStr for Secret {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self::new(text))
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}
