//! Settings shared by all processes. Each is a command-line option and an environment variable; settings of one process
//! live in its crate.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, ValueEnum};

use rejoin_faults::Fault;

/// Where the database is, and how much of it a process may use.
#[derive(Debug, Clone, Args)]
pub struct DatabaseArgs {
    /// PostgreSQL connection URL, e.g. postgres://user:password@host/rejoin. Several servers: postgres://user@host1,host2/rejoin
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    pub database_url: String,

    /// URL of the connection that listens for wake-ups, if DATABASE_URL leads to a pooler: PostgreSQL itself
    #[arg(long, env = "REJOIN_LISTEN_URL", hide_env_values = true)]
    pub listen_url: Option<String>,

    /// URL of the connections for the hot paths, if they need another login than DATABASE_URL (see docs/operations/poolers.md)
    #[arg(long, env = "REJOIN_DB_HOT_URL", hide_env_values = true)]
    pub db_hot_url: Option<String>,

    /// The pooler between this process and PostgreSQL
    #[arg(long, env = "REJOIN_DB_POOLER", value_enum, default_value_t = Pooler::None)]
    pub db_pooler: Pooler,

    /// File with the password of the database's login; read for each new connection
    #[arg(long, env = "REJOIN_DB_PASSWORD_FILE")]
    pub db_password_file: Option<PathBuf>,

    /// Command that prints the password of the database's login; run by the shell
    #[arg(long, env = "REJOIN_DB_PASSWORD_COMMAND", hide_env_values = true)]
    pub db_password_command: Option<String>,

    /// How long the password of the command is used for new connections, in seconds
    #[arg(long, env = "REJOIN_DB_PASSWORD_SECONDS", default_value_t = 600)]
    pub db_password_seconds: u64,

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
            listen_url: None,
            db_hot_url: None,
            db_pooler: Pooler::None,
            db_password_file: None,
            db_password_command: None,
            db_password_seconds: 600,
            db_connections: 10,
            db_hot_connections: 6,
            db_statement_timeout_ms: 30_000,
            db_lock_timeout_ms: 10_000,
            bus: BusKind::Postgres,
            nats: NatsArgs::default(),
        }
    }

    /// The environment's settings, for a database at `url`. Those that can't be read have their defaults: processes of the fleet report them.
    pub fn of_environment(url: &str) -> Self {
        match Environment::try_parse_from(["rejoin", "--database-url", url]) {
            Ok(environment) => environment.database,
            Err(_) => Self::new(url),
        }
    }

    /// The URL of the connection that listens.
    pub fn listen_url(&self) -> &str {
        named(self.listen_url.as_ref()).unwrap_or(&self.database_url)
    }

    /// The URL of the hot paths.
    pub fn hot_url(&self) -> &str {
        named(self.db_hot_url.as_ref()).unwrap_or(&self.database_url)
    }

    /// Whether the listening connection has a URL besides the other connections'.
    pub fn has_listen_url(&self) -> bool {
        named(self.listen_url.as_ref()).is_some()
    }

    /// The settings that all processes of an installation need the same values of, for their metrics and for `rejoin doctor --fleet`.
    pub fn common_settings(&self) -> Vec<(&'static str, String)> {
        let bus = self.bus.to_possible_value();
        let mut settings = vec![(
            "REJOIN_BUS",
            bus.map_or_else(String::new, |bus| bus.get_name().to_owned()),
        )];
        if self.bus == BusKind::Nats {
            settings.push(("REJOIN_NATS_SUBJECT", self.nats.nats_subject.clone()));
        }
        settings
    }

    /// Checks settings of processes that listen which contradict each other. An error says what to do.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        match (self.bus, self.has_listen_url(), self.db_pooler) {
            (BusKind::Postgres, false, Pooler::Transaction) => Err(
                "LISTEN does not work through a pooler in transaction mode (REJOIN_DB_POOLER): set REJOIN_LISTEN_URL to a URL of \
                PostgreSQL itself, or REJOIN_BUS=nats or REJOIN_BUS=poll",
            ),
            (BusKind::Nats | BusKind::Poll, true, _) => {
                Err("REJOIN_LISTEN_URL is set, but only REJOIN_BUS=postgres listens: remove one of them")
            }
            (BusKind::Postgres | BusKind::Nats | BusKind::Poll, _, Pooler::None | Pooler::Transaction) => Ok(()),
        }
    }
}

/// An empty variable counts as absent.
fn named(url: Option<&String>) -> Option<&str> {
    url.map(String::as_str).filter(|url| !url.is_empty())
}

/// The settings of a command that has no options for them.
#[derive(Parser)]
struct Environment {
    #[command(flatten)]
    database: DatabaseArgs,
}

/// What is between a process and PostgreSQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Pooler {
    /// Nothing, or a pooler in session mode that passes startup options on
    None,
    /// A pooler in transaction mode, such as PgBouncer: connections send no startup options; role and settings are those of the login
    Transaction,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_the_listening_connection_fit_together() {
        let usual = DatabaseArgs::new("postgres://h/db");
        assert_eq!(usual.check(), Ok(()));
        assert_eq!(
            (usual.listen_url(), usual.hot_url()),
            ("postgres://h/db", "postgres://h/db")
        );
        let pooled = DatabaseArgs {
            db_pooler: Pooler::Transaction,
            listen_url: Some(String::new()),
            ..usual.clone()
        };
        assert!(pooled.check().unwrap_err().contains("REJOIN_LISTEN_URL"));
        let direct = DatabaseArgs {
            listen_url: Some("postgres://direct/db".to_owned()),
            ..pooled.clone()
        };
        assert_eq!((direct.check(), direct.listen_url()), (Ok(()), "postgres://direct/db"));
        let bus = BusKind::Poll;
        assert_eq!(DatabaseArgs { bus, ..pooled }.check(), Ok(()));
        assert!(DatabaseArgs { bus, ..direct }.check().is_err());
    }
}
