//! The wake-up bus: hints that there is new data. A hint may be lost, duplicated or late, so every waiter also polls
//! within [`crate::config::POLL_INTERVAL`]. The table is the truth.
//!
//! - `postgres`  LISTEN/NOTIFY over its own connections, coalesced, after commit
//! - `poll`      no hints between processes: for poolers or engines without LISTEN

pub mod poll;
pub mod postgres;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;
use uuid::Uuid;

use crate::config::BusKind;
use crate::db::Db;

/// A bundle of hints. Ids only: what they stand for is read from the tables.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wake {
    /// Queues that have a claimable job.
    #[serde(rename = "j", default, skip_serializing_if = "BTreeSet::is_empty")]
    pub queues: BTreeSet<String>,
    /// Logs that have new events.
    #[serde(rename = "l", default, skip_serializing_if = "BTreeSet::is_empty")]
    pub logs: BTreeSet<Uuid>,
    /// Runs that somebody asked to cancel.
    #[serde(rename = "c", default, skip_serializing_if = "BTreeSet::is_empty")]
    pub cancels: BTreeSet<Uuid>,
    /// Projects whose tools have changed.
    #[serde(rename = "t", default, skip_serializing_if = "BTreeSet::is_empty")]
    pub tools: BTreeSet<Uuid>,
    /// Projects of which keys were revoked.
    #[serde(rename = "k", default, skip_serializing_if = "BTreeSet::is_empty")]
    pub keys: BTreeSet<Uuid>,
    /// Too many to name, or some may have been missed: look at everything.
    #[serde(rename = "a", default, skip_serializing_if = "std::ops::Not::not")]
    pub all: bool,
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

    pub fn tools(project: Uuid) -> Self {
        Self {
            tools: BTreeSet::from([project]),
            ..Self::default()
        }
    }

    pub fn keys(project: Uuid) -> Self {
        Self {
            keys: BTreeSet::from([project]),
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
        self.tools.extend(other.tools);
        self.keys.extend(other.keys);
        self.all |= other.all;
    }

    pub fn and(mut self, other: Wake) -> Self {
        self.merge(other);
        self
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A bus. Cheap to share; lives as long as its process.
pub trait Bus: Send + Sync {
    /// Sends a hint to every process, this one included. Never blocks and never fails: a hint that can't be sent is lost.
    /// To be called after the commit that it tells of.
    fn publish(&self, wake: Wake);
    /// Hints from now on. A receiver that lags has missed some: it must look at everything.
    fn subscribe(&self) -> broadcast::Receiver<Arc<Wake>>;
    /// Whether hints of other processes are heard just now.
    fn hearing(&self) -> Hearing {
        Hearing::Off
    }
}

/// Whether a process hears hints of others. If not, it finds out by looking, as ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hearing {
    /// The bus has no wire.
    Off,
    /// The connection is there, and hears itself.
    Listening,
    /// The connection is gone, and is being made anew.
    Lost,
}

pub type SharedBus = Arc<dyn Bus>;

/// Starts the bus of this process.
pub fn start(kind: BusKind, db: &Db) -> SharedBus {
    match kind {
        BusKind::Postgres => Arc::new(postgres::PostgresBus::start(db.clone())),
        BusKind::Poll => Arc::new(poll::PollBus::new()),
    }
}

/// The next hint; [`Wake::everything`] where some were missed. Pends for ever once the bus has ended.
pub async fn next(receiver: &mut broadcast::Receiver<Arc<Wake>>) -> Arc<Wake> {
    match receiver.recv().await {
        Ok(wake) => wake,
        Err(broadcast::error::RecvError::Lagged(_)) => Arc::new(Wake::everything()),
        Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
    }
}
