//! Pools of sqlx connections. Each connection is checked when it is new (`session`), and tested before its use where its server may be gone.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection as _, PgConnection, PgPool};
use tokio::time::timeout;

use crate::connection_loss::{self, ConnectionLoss};
use crate::follow::{self, Follower};
use crate::password::PasswordError;
use crate::servers::{self, Servers};
use crate::session::Session;
use crate::startup::Startup;

/// Timeout of waiting for a connection; the error becomes a 503.
pub(crate) const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection of the pool may have been unused to be lent without a test, if no connection was lost meanwhile. `begin` replaces
/// one that was lost all the same.
const UNTESTED: Duration = Duration::from_secs(1);
/// Timeout of a test where there are other servers: a machine that has disappeared does not answer.
const TEST_LIMIT: Duration = Duration::from_secs(5);
/// Idle time after which connections are closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(600);

/// What the connections of a process's pools have in common.
#[derive(Clone)]
pub(crate) struct Pools {
    pub(crate) servers: Arc<Servers>,
    pub(crate) startup: Startup,
    pub(crate) session: Session,
    pub(crate) loss: ConnectionLoss,
}

/// A pool besides that of [`Db`](crate::Db).
pub struct SeparatePool {
    pub pool: PgPool,
    /// Keeps the pool's options current for as long as it is used.
    _follower: Option<Follower>,
}

impl Pools {
    /// Creates the pool, which connects lazily. Its options are kept current while the follower, if there is one, is held.
    pub(crate) fn create(&self, max_connections: u32) -> Result<(PgPool, Option<Follower>), PasswordError> {
        let options = PgPoolOptions::new()
            .max_connections(max_connections)
            .idle_timeout(IDLE_TIMEOUT);
        let connect = self.servers.sqlx_now(&self.startup)?;
        Ok(self.create_with(options, connect))
    }

    /// A pool for statements that may take up to `limit`.
    pub(crate) fn slow(&self, name: &str, max_connections: u32, idle: Duration, limit: Duration) -> SeparatePool {
        let slow = Self {
            startup: self.startup.named(name).with_timeout(limit),
            session: self.session.without_timeouts(self.servers.must_write()),
            ..self.clone()
        };
        let options = PgPoolOptions::new().max_connections(max_connections).idle_timeout(idle);
        // The follower adds a password that changes.
        let connect = self.servers.sqlx(self.servers.current(), &slow.startup, None);
        let (pool, follower) = slow.create_with(options, connect);
        SeparatePool {
            pool,
            _follower: follower,
        }
    }

    fn create_with(&self, options: PgPoolOptions, connect: PgConnectOptions) -> (PgPool, Option<Follower>) {
        let (checked, loss) = (self.session.clone(), self.loss.clone());
        let must_write = self.servers.are_several() && self.servers.must_write();
        let pool = options
            .acquire_timeout(ACQUIRE_TIMEOUT)
            .after_connect(move |connection, _| {
                let session = checked.clone();
                Box::pin(async move { session.check(connection).await })
            })
            .test_before_acquire(false)
            .before_acquire(move |connection, about| {
                let is_doubtful = loss.is_since(about.idle_for)
                    || (must_write && connection_loss::is_read_only_since(about.idle_for));
                let is_trusted = about.idle_for < UNTESTED && !is_doubtful;
                Box::pin(async move {
                    if is_trusted {
                        return Ok(true);
                    }
                    if must_write {
                        return accepts_writes(connection).await;
                    }
                    connection.ping().await.map(|()| true)
                })
            })
            .connect_lazy_with(connect);
        let follower = follow::start(&self.servers, &self.startup, &pool, &self.loss);
        (pool, follower)
    }
}

async fn accepts_writes(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    match timeout(TEST_LIMIT, servers::is_read_only(connection)).await {
        Ok(read_only) => read_only.map(|read_only| !read_only),
        Err(_) => Err(sqlx::Error::Io(io::ErrorKind::TimedOut.into())),
    }
}
