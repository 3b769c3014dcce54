//! The database servers of a run: a private PostgreSQL, with or without a synchronous standby, or a Patroni cluster.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, bail};
use rejoin_cli::dev::postgres::{PostgresOptions, PrivatePostgres};
use rejoin_egress::watchdog::Watchdog;
use sqlx::{Connection as _, PgConnection};
use tokio::sync::{Mutex, MutexGuard};

use crate::cluster::{Cluster, Replication, SUPERUSER};
use crate::fleet::Place;
use crate::proxy::Upstream;

/// The database of the product in a cluster.
const DATABASE: &str = "rejoin";

/// Which servers a run has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Single,
    WithStandby,
    /// Two: the directory, and a cell with projects (`cell`).
    WithCell,
    Patroni(Replication),
}

impl Kind {
    /// Whether commits that were acknowledged may be gone after a fault.
    pub fn may_lose_commits(self) -> bool {
        self == Self::Patroni(Replication::Asynchronous)
    }
}

/// Private servers.
pub struct Pair {
    pub primary: PrivatePostgres,
    pub standby: Option<PrivatePostgres>,
}

pub enum Servers {
    /// The lock's holder may change them.
    Private(Box<Mutex<Pair>>),
    Patroni(Box<Cluster>),
}

impl Servers {
    /// Starts the servers, with a migrated database. `logs`: where a cluster's programs write. The manual's commands for operators are executed on a cluster with
    /// its settings.
    ///
    /// # Errors
    /// A server's program is missing or does not start.
    pub async fn start(kind: Kind, logs: &Path, watchdog: &Arc<Watchdog>) -> Result<Self> {
        if let Kind::Patroni(replication) = kind {
            let cluster = Cluster::start(replication, logs, watchdog).await?;
            let mut connection = PgConnection::connect(&cluster.url("postgres")).await?;
            sqlx::raw_sql("create database rejoin").execute(&mut connection).await?;
            rejoin_cli::migrate::up(&cluster.url(DATABASE)).await?;
            if replication == Replication::Synchronous {
                cluster.operate().await?;
            }
            return Ok(Self::Patroni(Box::new(cluster)));
        }
        let pair = pair(kind == Kind::WithStandby).await?;
        Ok(Self::Private(Box::new(Mutex::new(pair))))
    }

    /// Returns where processes find the current primary.
    pub async fn place(&self, watchdog: &Arc<Watchdog>) -> Result<Place> {
        match self {
            Self::Private(pair) => Place::of(&pair.lock().await.primary, watchdog.clone()),
            Self::Patroni(cluster) => Ok(Place {
                upstream: Upstream::Address(cluster.address),
                user: SUPERUSER.to_owned(),
                database: DATABASE.to_owned(),
                watchdog: watchdog.clone(),
            }),
        }
    }

    /// Returns the private servers, which nothing else changes meanwhile.
    ///
    /// # Errors
    /// The database is a cluster.
    pub async fn private(&self) -> Result<MutexGuard<'_, Pair>> {
        match self {
            Self::Private(pair) => Ok(pair.lock().await),
            Self::Patroni(_) => bail!("the database is a Patroni cluster, not a private server"),
        }
    }

    /// Returns the cluster.
    ///
    /// # Errors
    /// The database is a private server.
    pub fn cluster(&self) -> Result<&Cluster> {
        match self {
            Self::Private(_) => bail!("the database is a private server, not a Patroni cluster"),
            Self::Patroni(cluster) => Ok(cluster),
        }
    }

    /// Returns PostgreSQL's major version.
    pub async fn major(&self) -> u32 {
        match self {
            Self::Private(pair) => pair.lock().await.primary.major(),
            Self::Patroni(cluster) => cluster.major,
        }
    }

    /// Ends a cluster. (Private servers end with their owner.)
    pub async fn end(&self) {
        if let Self::Patroni(cluster) = self {
            cluster.end().await;
        }
    }
}

/// Settings of private servers.
fn settings() -> Vec<(String, String)> {
    vec![
        ("max_connections".into(), "300".into()),
        // When an event became visible: its transaction may have begun long before.
        ("track_commit_timestamp".into(), "on".into()),
    ]
}

/// A migrated private server.
///
/// # Errors
/// PostgreSQL is missing or does not start.
pub async fn single() -> Result<PrivatePostgres> {
    let options = PostgresOptions {
        extra_settings: settings(),
        ..PostgresOptions::ephemeral()
    };
    let server = PrivatePostgres::start(options).await?;
    rejoin_cli::migrate::up(&server.url()).await?;
    Ok(server)
}

/// A migrated private server, and its standby.
async fn pair(with_standby: bool) -> Result<Pair> {
    let primary = single().await?;
    if !with_standby {
        return Ok(Pair { primary, standby: None });
    }
    let options = PostgresOptions {
        extra_settings: settings(),
        standby_of: Some(primary.socket_dir().to_owned()),
        ..PostgresOptions::ephemeral()
    };
    let standby = PrivatePostgres::start(options).await?;
    // After this a commit is acknowledged once the standby has it.
    let mut connection = PgConnection::connect(&primary.url()).await?;
    for change in [
        "alter system set synchronous_standby_names = '*'",
        "select pg_reload_conf()",
    ] {
        sqlx::query(change).execute(&mut connection).await?;
    }
    Ok(Pair {
        primary,
        standby: Some(standby),
    })
}
