//! The wake-up bus: hints that there is new data. A hint may be lost, duplicated or late, so every waiter also polls
//! within [`rejoin_db::config::POLL_INTERVAL`]. The table is the truth.
//!
//! - `postgres`  LISTEN/NOTIFY over its own connections, after commit
//! - `nats`      the same hints over a NATS server
//! - `remote`    what these two share
//! - `poll`      no hints between processes: for poolers or engines without LISTEN
//! - `outbox`    gathers hints, and sends them together
//! - `payload`   hints as texts
//! - `carried`   events that come with a hint, encrypted

pub mod carried;
pub mod nats;
mod outbox;
mod payload;
pub mod poll;
pub mod postgres;
mod remote;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;
use uuid::Uuid;

use carried::CarriedRow;
use nats::BusError;
use poll::PollBus;
use rejoin_db::Db;
use rejoin_db::config::{BusKind, DatabaseArgs};

/// A bundle of hints. The data are read from the tables, unless the hint carries them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wake {
    /// Queues with a claimable job.
    #[serde(rename = "j", default, skip_serializing_if = "BTreeSet::is_empty")]
    pub queues: BTreeSet<String>,
    /// Logs with new events, beside those of `rows`: [`Wake::all_logs`].
    #[serde(rename = "l", default, skip_serializing_if = "BTreeSet::is_empty")]
    pub logs: BTreeSet<Uuid>,
    /// Runs with a requested cancellation.
    #[serde(rename = "c", default, skip_serializing_if = "BTreeSet::is_empty")]
    pub cancels: BTreeSet<Uuid>,
    /// Runs of which a call of a user's program has ended.
    #[serde(rename = "r", default, skip_serializing_if = "BTreeSet::is_empty")]
    pub returns: BTreeSet<Uuid>,
    /// Projects whose tools have changed.
    #[serde(rename = "t", default, skip_serializing_if = "BTreeSet::is_empty")]
    pub tools: BTreeSet<Uuid>,
    /// Projects with revoked keys.
    #[serde(rename = "k", default, skip_serializing_if = "BTreeSet::is_empty")]
    pub keys: BTreeSet<Uuid>,
    /// Too many to list, or some may have been missed: poll everything.
    #[serde(rename = "a", default, skip_serializing_if = "std::ops::Not::not")]
    pub all: bool,
    /// New events, those of each log in their order. Readers that do not follow on these read the log.
    #[serde(skip)]
    pub rows: Vec<CarriedRow>,
    /// The same on their way between processes, encrypted.
    #[serde(rename = "e", default, skip_serializing_if = "Option::is_none")]
    pub sealed: Option<String>,
}

impl Wake {
    pub fn queue(queue: impl Into<String>) -> Self {
        Self {
            queues: BTreeSet::from([queue.into()]),
            ..Self::default()
        }
    }

    pub fn log(log: Uuid) -> Self {
        Self {
            logs: BTreeSet::from([log]),
            ..Self::default()
        }
    }

    pub fn cancel(run: Uuid) -> Self {
        Self {
            cancels: BTreeSet::from([run]),
            ..Self::default()
        }
    }

    pub fn returned(run: Uuid) -> Self {
        Self {
            returns: BTreeSet::from([run]),
            ..Self::default()
        }
    }

    pub fn tools(workspace: Uuid) -> Self {
        Self {
            tools: BTreeSet::from([workspace]),
            ..Self::default()
        }
    }

    pub fn keys(workspace: Uuid) -> Self {
        Self {
            keys: BTreeSet::from([workspace]),
            ..Self::default()
        }
    }

    pub fn everything() -> Self {
        Self {
            all: true,
            ..Self::default()
        }
    }

    pub fn merge(&mut self, other: Wake) {
        self.queues.extend(other.queues);
        self.logs.extend(other.logs);
        self.cancels.extend(other.cancels);
        self.returns.extend(other.returns);
        self.tools.extend(other.tools);
        self.keys.extend(other.keys);
        self.all |= other.all;
        self.rows.extend(other.rows);
        if self.rows.len() > carried::MAX_ROWS {
            self.carry_nothing();
        }
    }

    /// Leaves it to readers to read what it carries.
    pub fn carry_nothing(&mut self) {
        self.logs.extend(self.rows.drain(..).map(|row| row.log_id));
    }

    /// Logs with new events, which may be listed twice.
    pub fn all_logs(&self) -> impl Iterator<Item = Uuid> {
        let carried = self.rows.iter().map(|row| row.log_id);
        self.logs.iter().copied().chain(carried)
    }

    /// Returns whether work waits for it: jobs, ended calls, cancellations.
    pub fn is_urgent(&self) -> bool {
        !(self.queues.is_empty() && self.returns.is_empty() && self.cancels.is_empty())
    }

    /// Returns the number of its ids.
    pub fn ids(&self) -> usize {
        self.logs.len() + self.cancels.len() + self.returns.len() + self.tools.len() + self.keys.len()
    }

    pub fn and(mut self, other: Wake) -> Self {
        self.merge(other);
        self
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A wake-up bus. Cheap to share; lives as long as its process.
pub trait Bus: Send + Sync {
    /// Sends a hint to every process, including this one. Never blocks and never fails: a hint that can't be sent is
    /// lost. Call it after the commit that it announces.
    fn publish(&self, wake: Wake);
    /// Subscribes to hints from now on. A lagging receiver has missed some: it must poll everything.
    fn subscribe(&self) -> broadcast::Receiver<Arc<Wake>>;
    /// Returns whether hints of other processes arrive at present.
    fn hearing(&self) -> Hearing {
        Hearing::Off
    }
}

/// Whether a process receives others' hints. If not, it polls, as always.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hearing {
    /// The bus has no connection.
    Off,
    /// The connection is up, and receives its own probes.
    Listening,
    /// The connection is lost, and is being reopened.
    Lost,
}

pub type SharedBus = Arc<dyn Bus>;

/// Starts the bus that is configured. Its server need not be up.
///
/// # Errors
/// The settings of NATS are invalid.
pub async fn start(args: &DatabaseArgs, db: &Db) -> Result<SharedBus, BusError> {
    start_with_session(args, db, String::new()).await
}

/// The same. Each session of PostgreSQL that listens executes `first` before it is [`Hearing::Listening`]: to take locks that end with it.
/// Only [`BusKind::Postgres`] has such sessions.
///
/// # Errors
/// As [`start`].
pub async fn start_with_session(args: &DatabaseArgs, db: &Db, first: String) -> Result<SharedBus, BusError> {
    let bus: SharedBus = match args.bus {
        BusKind::Postgres => Arc::new(postgres::start(db.clone(), first)),
        BusKind::Nats => Arc::new(nats::start(&args.nats, db.clone()).await?),
        BusKind::Poll => Arc::new(PollBus::new()),
    };
    Ok(bus)
}

/// Starts the bus over LISTEN/NOTIFY, whatever is configured.
pub fn over_postgres(db: &Db) -> SharedBus {
    Arc::new(postgres::start(db.clone(), String::new()))
}

/// Returns a bus without hints.
pub fn polling() -> SharedBus {
    Arc::new(PollBus::new())
}

/// Returns the next hint; [`Wake::everything`] if some were missed. Pends forever once the bus has ended.
pub async fn next(receiver: &mut broadcast::Receiver<Arc<Wake>>) -> Arc<Wake> {
    match receiver.recv().await {
        Ok(wake) => wake,
        Err(broadcast::error::RecvError::Lagged(_)) => Arc::new(Wake::everything()),
        Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
    }
}
