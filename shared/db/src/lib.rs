//! Connections to PostgreSQL: one pool per driver.
//!
//! Events that a reader has seen must never be lost (I2, I3), so every commit waits for the disk, whatever the server's
//! default. Without `synchronous_commit`, a server crash could lose events that were sent and reuse their numbers.
//!
//! sqlx serves nouns and commands (queries checked at compile time); tokio-postgres serves the hot paths and LISTEN,
//! where pipelining and prepared statements pay.
//!
//! # Layout
//! - here           the pools, the outcome of a commit, transient errors
//! - `config`       settings that every process shares; secret settings
//! - `session`      what each new connection is checked for
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
mod errors;
pub mod failure_log;
pub mod rls;
pub mod row_security;
pub mod session;
pub mod telemetry;
pub mod transactions;
pub mod vacuum_blockers;

pub use errors::{PgError, is_final, is_transient, is_transient_pg, wait_until_decided};
pub use transactions::begin;

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Hook, HookError, Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{ConnectOptions, Connection, PgConnection};
use tokio_postgres::config::{Host, SslMode};
use tracing::warn;

use self::connection_loss::ConnectionLoss;
use self::session::Session;
use crate::config::DatabaseArgs;
use crate::failure_log::ErrorChain;
use crate::row_security::Lacking;

/// Timeout of waiting for a connection; the error becomes a 503.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval between attempts to reach a database that is not up yet.
const CONNECT_RETRY: Duration = Duration::from_millis(500);

/// How long a connection of the pool may have been unused to be lent without a test, if no connection was lost meanwhile. `begin` replaces
/// one that was lost all the same.
const UNTESTED: Duration = Duration::from_secs(1);

/// Planner settings of the hot paths, which only look up, by index, a few rows for each of a few keys. Their plans are
/// made once, often while a table is almost empty, or without an estimate of an array's length: no other plan may look
/// cheaper then.
const LOOK_UPS: &str = "-c plan_cache_mode=force_generic_plan -c enable_seqscan=off -c enable_hashjoin=off -c enable_mergejoin=off -c jit=off";

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
    session: Session,
}

/// The reason why a process must not work on its database.
#[derive(Debug, thiserror::Error)]
pub enum Unfit {
    #[error("the database URL is invalid: {0}")]
    Url(String),
    #[error("connecting to the database failed")]
    Connect(#[source] sqlx::Error),
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

#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("the database URL is invalid: {0}")]
    Url(String),
    #[error("connecting to the database failed")]
    Sqlx(#[from] sqlx::Error),
    #[error("connecting to the database failed")]
    Pg(#[from] tokio_postgres::Error),
    #[error("creating the connection pool failed: {0}")]
    Pool(String),
}

impl Db {
    /// Creates the pools. They connect lazily: the database need not be up yet (see [`Db::wait_until_up`]).
    pub fn connect_lazy(args: &DatabaseArgs, application: &str, role: Role) -> Result<Self, ConnectError> {
        let options = options(args, application, role).map_err(|error| ConnectError::Url(error.to_string()))?;
        let session = Session::new(args, role);
        let (checked, loss) = (session.clone(), ConnectionLoss::default());
        let connector = Connector::new(args, application, role, loss.clone())?;
        let pool_sqlx = PgPoolOptions::new()
            .max_connections(args.db_connections)
            .acquire_timeout(ACQUIRE_TIMEOUT)
            .idle_timeout(Duration::from_secs(600))
            .after_connect(move |connection, _| {
                let session = checked.clone();
                Box::pin(async move { session.check(connection).await })
            })
            .test_before_acquire(false)
            .before_acquire(move |connection, about| {
                let is_trusted = about.idle_for < UNTESTED && !loss.is_since(about.idle_for);
                Box::pin(async move {
                    if is_trusted {
                        return Ok(true);
                    }
                    connection.ping().await.map(|()| true)
                })
            })
            .connect_lazy_with(options);
        let pool_pg = connector.pool(args.db_hot_connections, &session)?;
        Ok(Self {
            pool_sqlx,
            pool_pg,
            connector,
            session,
        })
    }

    /// Returns why new connections are rejected, if they are.
    pub fn refusal(&self) -> Option<String> {
        self.session.refusal()
    }

    /// Connects once like a process of this role, and checks its requirements: the role, the commit setting, policies
    /// and grants.
    pub async fn inspect(args: &DatabaseArgs, application: &str, role: Role) -> Result<(), Unfit> {
        let options = options(args, application, role).map_err(|error| Unfit::Url(error.to_string()))?;
        let mut connection = match options.connect().await {
            Ok(connection) => connection,
            Err(error) => return Err(without_role(args, role, error).await),
        };
        match Session::new(args, role).check(&mut connection).await {
            Ok(()) => {}
            Err(sqlx::Error::Configuration(refusal)) => return Err(Unfit::Session(refusal.to_string())),
            Err(error) => return Err(Unfit::Connect(error)),
        }
        let lacking = row_security::lacking(&mut connection).await.map_err(Unfit::Connect)?;
        // Either way, the connection is not used again.
        let _ = connection.close().await;
        lacking.map_or(Ok(()), |lacking| Err(Unfit::RowSecurity(lacking)))
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

/// The connection options of sqlx.
fn options(args: &DatabaseArgs, application: &str, role: Role) -> Result<PgConnectOptions, sqlx::Error> {
    let options: PgConnectOptions = args.database_url.parse()?;
    let options = options.application_name(application).options([
        ("statement_timeout", format!("{}ms", args.db_statement_timeout_ms)),
        ("lock_timeout", format!("{}ms", args.db_lock_timeout_ms)),
        ("synchronous_commit", "on".to_owned()),
    ]);
    Ok(match role.name() {
        Some(role) => options.options([("role", role)]),
        None => options,
    })
}

/// Explains why connecting with this role failed: the role is missing, it may not be assumed, or the cause is
/// unrelated.
async fn without_role(args: &DatabaseArgs, role: Role, error: sqlx::Error) -> Unfit {
    let refused = error.as_database_error().and_then(|refusal| refusal.code());
    // "Role does not exist", "permission denied to set role".
    let (Some("22023" | "42501"), Some(name)) = (refused.as_deref(), role.name()) else {
        return Unfit::Connect(error);
    };
    let as_login = async {
        let mut connection = PgConnection::connect(&args.database_url).await?;
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

/// Creates tokio-postgres connections.
#[derive(Clone)]
pub struct Connector {
    /// Shared: handles to the database are cloned for every job.
    config: Arc<tokio_postgres::Config>,
    loss: ConnectionLoss,
}

impl Connector {
    fn new(args: &DatabaseArgs, application: &str, role: Role, loss: ConnectionLoss) -> Result<Self, ConnectError> {
        let mut config: tokio_postgres::Config = args
            .database_url
            .parse()
            .map_err(|error: tokio_postgres::Error| ConnectError::Url(error.to_string()))?;
        let role = role.name().map(|name| format!(" -c role={name}")).unwrap_or_default();
        config
            .application_name(application)
            .options(format!(
                "-c statement_timeout={} -c lock_timeout={} -c synchronous_commit=on -c idle_in_transaction_session_timeout=10s {LOOK_UPS}{role}",
                args.db_statement_timeout_ms, args.db_lock_timeout_ms
            ))
            .connect_timeout(Duration::from_secs(5))
            .keepalives_idle(Duration::from_secs(10));
        Ok(Self {
            config: Arc::new(config),
            loss,
        })
    }

    fn pool(&self, max_size: usize, session: &Session) -> Result<Pool, ConnectError> {
        let session = session.clone();
        let config = ManagerConfig {
            recycling_method: RecyclingMethod::Fast,
        };
        let manager = match self.tls() {
            Some(tls) => Manager::from_config((*self.config).clone(), tls, config),
            None => Manager::from_config((*self.config).clone(), tokio_postgres::NoTls, config),
        };
        Pool::builder(manager)
            .max_size(max_size)
            .post_create(Hook::async_fn(move |client, _| {
                let session = session.clone();
                Box::pin(async move {
                    let checked = session.check_pg(client).await;
                    checked.map_err(|error| HookError::message(ErrorChain(&error).to_string()))
                })
            }))
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(ACQUIRE_TIMEOUT))
            .create_timeout(Some(ACQUIRE_TIMEOUT))
            .build()
            .map_err(|error| ConnectError::Pool(error.to_string()))
    }

    /// Uses TLS if the URL requests it with `sslmode=require`; never on a unix socket.
    fn tls(&self) -> Option<tokio_postgres_rustls::MakeRustlsConnect> {
        let on_socket = self.config.get_hosts().iter().all(|host| matches!(host, Host::Unix(_)));
        if on_socket || self.config.get_ssl_mode() != SslMode::Require {
            return None;
        }
        let mut roots = rustls::RootCertStore::empty();
        for certificate in rustls_native_certs::load_native_certs().certs {
            // Certificates of the system's store that rustls can't parse are skipped.
            let _ = roots.add(certificate);
        }
        let config = rustls::ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Some(tokio_postgres_rustls::MakeRustlsConnect::new(config))
    }

    /// Opens a separate connection, with the stream of its notifications.
    pub async fn listen_connection(
        &self,
        mut on_notice: impl FnMut(tokio_postgres::Notification) + Send + 'static,
    ) -> Result<(tokio_postgres::Client, tokio::task::JoinHandle<()>), tokio_postgres::Error> {
        macro_rules! drive {
            ($tls:expr) => {{
                let (client, mut connection) = self.config.connect($tls).await?;
                let loss = self.loss.clone();
                let task = tokio::spawn(async move {
                    loop {
                        match futures::future::poll_fn(|cx| connection.poll_message(cx)).await {
                            Some(Ok(tokio_postgres::AsyncMessage::Notification(notice))) => on_notice(notice),
                            Some(Ok(_)) => {}
                            Some(Err(_)) | None => {
                                loss.record();
                                return;
                            }
                        }
                    }
                });
                Ok((client, task))
            }};
        }
        match self.tls() {
            Some(tls) => drive!(tls),
            None => drive!(tokio_postgres::NoTls),
        }
    }
}
