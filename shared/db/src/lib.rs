//! Connections to PostgreSQL: one pool per driver.
//!
//! Events that a reader has seen must never be lost (I2, I3), so every commit waits for the disk, whatever the server's
//! default. Without `synchronous_commit`, a server crash could lose events that were sent and reuse their numbers.
//!
//! sqlx serves nouns and commands (queries checked at compile time); tokio-postgres serves the hot paths and LISTEN,
//! where pipelining and prepared statements pay.
//!
//! # Layout
//! - here           the pools, a check of a process's requirements
//! - `config`       settings that every process shares; secret settings
//! - `url`          the database URL: several servers, parameters of one driver
//! - `tls`          encryption, certificates
//! - `password`     passwords from a file or a command
//! - `servers`      the servers of a URL, and the one that is connected to as of now
//! - `startup`      what a connection asks for when it begins
//! - `session`      what each new connection is checked for
//! - `pools`        pools of sqlx
//! - `connector`    connections of tokio-postgres, and their pool
//! - `follow`       keeps the options of pools current
//! - `operators`    connections of operators' commands
//! - `transactions` how transactions begin
//! - `rls`          transactions scoped by row-level security
//! - `row_security` the policies that the database must have
//! - `failure_log`  waiting out an outage of the database
//! - `vacuum_blockers` what blocks VACUUM
//! - `telemetry`    logs of a process
//! - `errors` transient errors, and the outcome of a commit
//! - `connection_loss` which connections of a pool may be lost

pub mod config;
mod connection_loss;
mod connector;
mod errors;
pub mod failure_log;
mod follow;
pub mod operators;
mod password;
mod pools;
pub mod rls;
pub mod row_security;
mod servers;
pub mod session;
mod startup;
pub mod telemetry;
mod tls;
pub mod transactions;
mod url;
pub mod vacuum_blockers;

pub use connector::Connector;
pub use errors::{PgError, is_final, is_transient, is_transient_pg, wait_until_decided};
pub use password::PasswordError;
pub use pools::SeparatePool;
pub use transactions::begin;

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::Pool;
use sqlx::Connection as _;
use tokio::sync::mpsc;
use tracing::warn;

use self::connection_loss::ConnectionLoss;
use self::follow::Follower;
use self::pools::{ACQUIRE_TIMEOUT, Pools};
use self::servers::{Servers, ServersError};
use self::session::Session;
use self::startup::Startup;
use crate::config::{DatabaseArgs, Pooler};
use crate::failure_log::ErrorChain;
use crate::row_security::Lacking;

/// Interval between attempts to reach a database that is not up yet.
const CONNECT_RETRY: Duration = Duration::from_millis(500);
/// Timeout of a notification to oneself.
const NOTICE_LIMIT: Duration = Duration::from_secs(5);
/// The channel of such a notification.
const CHECK_CHANNEL: &str = "rejoin_check";

/// The database role of a process, independent of its login: an owner of the tables, or a member of these roles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The login role: migrations, operators' commands, tests.
    Login,
    /// The API: policies restrict what its callers see (`rls`).
    App,
    /// Workers: all workspaces, but no keys.
    Worker,
}

impl Role {
    fn name(self) -> Option<&'static str> {
        match self {
            Role::Login => None,
            Role::App => Some("rejoin_app"),
            Role::Worker => Some("rejoin_worker"),
        }
    }
}

/// The connection pools of a process.
#[derive(Clone)]
pub struct Db {
    /// For nouns and commands.
    pub pool_sqlx: sqlx::PgPool,
    /// For hot paths.
    pub pool_pg: Pool,
    connector: Connector,
    /// Shared: handles to the database are cloned for every job.
    pools: Arc<Pools>,
    /// Keeps the options of `pool_sqlx` current for as long as this is used.
    _follower: Option<Arc<Follower>>,
}

/// The reason why a process must not work on its database.
#[derive(Debug, thiserror::Error)]
pub enum Unfit {
    #[error("the database URL is invalid: {0}")]
    Url(String),
    /// Settings that contradict each other, or the password can't be got.
    #[error("{0}")]
    Settings(String),
    #[error("connecting to the database failed")]
    Connect(#[source] sqlx::Error),
    /// LISTEN, or a notification, failed.
    #[error("listening for wake-ups failed: {0}")]
    Listen(String),
    /// The properties of a new connection's session.
    #[error("{0}")]
    Session(String),
    #[error("cannot use the database role {role}: {message}. {advice}")]
    Role {
        role: &'static str,
        message: String,
        advice: &'static str,
    },
    #[error("{}. {}", .0, .0.advice())]
    RowSecurity(Lacking),
}

impl From<ServersError> for Unfit {
    fn from(error: ServersError) -> Self {
        match error {
            ServersError::Url(_) | ServersError::Tls(_) | ServersError::Driver(_) => {
                Unfit::Url(ErrorChain(&error).to_string())
            }
            ServersError::Password(_) => Unfit::Settings(ErrorChain(&error).to_string()),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("the database URL is invalid: {0}")]
    Url(String),
    /// Settings that contradict each other.
    #[error("{0}")]
    Settings(&'static str),
    #[error(transparent)]
    Password(#[from] PasswordError),
    #[error("connecting to the database failed")]
    Sqlx(#[from] sqlx::Error),
    #[error("creating the connection pool failed: {0}")]
    Pool(String),
}

impl From<ServersError> for ConnectError {
    fn from(error: ServersError) -> Self {
        match error {
            ServersError::Url(_) | ServersError::Tls(_) | ServersError::Driver(_) => {
                ConnectError::Url(ErrorChain(&error).to_string())
            }
            ServersError::Password(error) => ConnectError::Password(error),
        }
    }
}

impl Db {
    /// Creates the pools. They connect lazily: the database need not be up yet (see [`Db::wait_until_up`]). A command that gives the password
    /// runs first.
    pub fn connect_lazy(args: &DatabaseArgs, application: &str, role: Role) -> Result<Self, ConnectError> {
        args.check().map_err(ConnectError::Settings)?;
        let loss = ConnectionLoss::default();
        let startup = Startup::new(args, application, role);
        let servers = Servers::of(&args.database_url, args)?;
        let hot = Servers::of(args.hot_url(), args).map_err(|error| named("REJOIN_DB_HOT_URL", error))?;
        let session = Session::new(args, role, servers.must_write(), servers.are_several());
        let of_hot_paths = session.of_hot_paths(args, hot.must_write());
        let pool_pg = Connector::new(hot, startup.clone(), loss.clone())
            .pool(args.db_hot_connections, of_hot_paths, ACQUIRE_TIMEOUT)
            .map_err(|error| ConnectError::Pool(error.to_string()))?;
        let connector = listener(args, application, role, loss.clone())?;
        let pools = Pools {
            servers,
            startup,
            session,
            loss,
        };
        let (pool_sqlx, follower) = pools.create(args.db_connections)?;
        Ok(Self {
            pool_sqlx,
            pool_pg,
            connector,
            pools: Arc::new(pools),
            _follower: follower.map(Arc::new),
        })
    }

    /// Creates another pool of sqlx, `{application}-{name}`, for statements that may take up to `limit`. Through a pooler in transaction mode,
    /// their timeout is that of the login.
    pub fn slow_pool(&self, name: &str, max_connections: u32, idle: Duration, limit: Duration) -> SeparatePool {
        self.pools.slow(name, max_connections, idle, limit)
    }

    /// Returns why new connections are rejected, if they are.
    pub fn refusal(&self) -> Option<String> {
        self.pools.session.refusal()
    }

    /// Connects once like a process of this role, and checks its requirements: the role, the commit setting, policies
    /// and grants.
    pub async fn inspect(args: &DatabaseArgs, application: &str, role: Role) -> Result<(), Unfit> {
        args.check().map_err(|why| Unfit::Settings(why.to_owned()))?;
        let servers = Servers::of(&args.database_url, args)?;
        let startup = Startup::new(args, application, role);
        let mut connection = match servers.connect(&startup).await {
            Ok(connection) => connection,
            Err(error) => return Err(without_role(&servers, &startup, role, error).await),
        };
        match Session::new(args, role, servers.must_write(), false)
            .check(&mut connection)
            .await
        {
            Ok(()) => {}
            Err(sqlx::Error::Configuration(refusal)) => return Err(Unfit::Session(refusal.to_string())),
            Err(error) => return Err(Unfit::Connect(error)),
        }
        let lacking = row_security::lacking(&mut connection).await.map_err(Unfit::Connect)?;
        // Either way, the connection is not used again.
        let _ = connection.close().await;
        lacking.map_or(Ok(()), |lacking| Err(Unfit::RowSecurity(lacking)))
    }

    /// Connects once like the connection that listens, as its login, and checks that a notification arrives.
    pub async fn inspect_listening(args: &DatabaseArgs, application: &str) -> Result<(), Unfit> {
        let servers = Servers::of(args.listen_url(), args)?;
        let connector = Connector::new(servers, Startup::of_login(application), ConnectionLoss::default());
        let (heard, mut hearing) = mpsc::channel(1);
        let asked = async {
            let (client, task) = connector
                .listen_connection(move |_| {
                    // One is enough.
                    let _ = heard.try_send(());
                })
                .await?;
            client
                .batch_execute(&format!(
                    "listen {CHECK_CHANNEL}; select pg_notify('{CHECK_CHANNEL}', '')"
                ))
                .await?;
            let is_heard = hearing.recv().await.is_some();
            task.abort();
            Ok::<_, tokio_postgres::Error>(is_heard)
        };
        match tokio::time::timeout(NOTICE_LIMIT, asked).await {
            Ok(Ok(true)) => Ok(()),
            Ok(Err(error)) => Err(Unfit::Listen(ErrorChain(&error).to_string())),
            Ok(Ok(false)) | Err(_) => Err(Unfit::Listen(format!(
                "no notification within {} s",
                NOTICE_LIMIT.as_secs()
            ))),
        }
    }

    /// Waits until the database responds, logging now and then.
    pub async fn wait_until_up(&self) {
        let mut tries = 0_u32;
        loop {
            match sqlx::query("select 1").execute(&self.pool_sqlx).await {
                Ok(_) => return,
                Err(error) => {
                    if tries.is_multiple_of(10) {
                        warn!(error = %ErrorChain(&error), "the database does not respond yet; retrying");
                    }
                    tries += 1;
                    tokio::time::sleep(CONNECT_RETRY).await;
                }
            }
        }
    }

    /// Creates separate connections (for LISTEN).
    pub fn connector(&self) -> &Connector {
        &self.connector
    }
}

/// What the connection that listens is opened by. It is named `{application}-listen`, and always direct: with startup options.
fn listener(
    args: &DatabaseArgs,
    application: &str,
    role: Role,
    loss: ConnectionLoss,
) -> Result<Connector, ConnectError> {
    let mut args = args.clone();
    if args.has_listen_url() {
        args.db_pooler = Pooler::None;
    }
    let servers = Servers::of(args.listen_url(), &args).map_err(|error| named("REJOIN_LISTEN_URL", error))?;
    let startup = Startup::new(&args, application, role).named("listen");
    Ok(Connector::new(servers, startup, loss))
}

/// Names the setting whose URL is invalid.
fn named(setting: &str, error: ServersError) -> ConnectError {
    match ConnectError::from(error) {
        ConnectError::Url(why) => ConnectError::Url(format!("{setting}: {why}")),
        other => other,
    }
}

/// Explains why connecting with this role failed: the role is missing, it may not be assumed, or the cause is
/// unrelated.
async fn without_role(servers: &Servers, startup: &Startup, role: Role, error: sqlx::Error) -> Unfit {
    let refused = error.as_database_error().and_then(|refusal| refusal.code());
    // "Role does not exist", "permission denied to set role".
    let (Some("22023" | "42501"), Some(name)) = (refused.as_deref(), role.name()) else {
        return Unfit::Connect(error);
    };
    let as_login = async {
        let mut connection = servers.connect(&Startup::of_login(&startup.application)).await?;
        row_security::lacking(&mut connection).await
    };
    match as_login.await {
        Ok(Some(lacking)) => Unfit::RowSecurity(lacking),
        Ok(None) | Err(_) => Unfit::Role {
            role: name,
            message: error
                .as_database_error()
                .map_or_else(|| error.to_string(), |refusal| refusal.message().to_owned()),
            advice: "Grant the role to its login: grant rejoin_app, rejoin_gate to LOGIN (the API), grant \
                rejoin_worker to LOGIN (workers)",
        },
    }
}
