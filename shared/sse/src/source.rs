//! Database queries of the hub and its readers. A trait, so that `model` can answer from its own table.

use std::collections::HashMap;
use std::error::Error;

use async_trait::async_trait;
use rejoin_db::Db;
use rejoin_event_log::epochs;
use rejoin_event_log::reader::{LogEnd, LogReader};
use rejoin_event_log::rows::StoredEvent;
use rejoin_identity::auth::{self, SessionBasis};
use uuid::Uuid;

/// The database could not be queried. Retried in any case.
pub type Failed = Box<dyn Error + Send + Sync>;

/// A log and the number after which to continue.
pub type Cursor = (Uuid, i64);

/// The ends of logs, and the epoch of the database in which they were read.
#[derive(Debug)]
pub struct Ends {
    pub epoch: Uuid,
    /// Of each log that exists.
    pub logs: Vec<LogEnd>,
}

#[async_trait]
pub trait Source: Send + Sync {
    /// Returns new events of many logs, with the log's index in `cursors`, in order per log and at most
    /// [`TAIL_PAGE`](rejoin_event_log::log::TAIL_PAGE) rows each.
    async fn news(&self, cursors: &[Cursor]) -> Result<Vec<(usize, StoredEvent)>, Failed>;
    /// Returns a page of one log's past.
    async fn page(&self, log_id: Uuid, after: i64) -> Result<Vec<StoredEvent>, Failed>;
    /// Returns which of these are still valid.
    async fn still_valid(&self, bases: &[SessionBasis]) -> Result<Vec<SessionBasis>, Failed>;
    /// Returns the last number of each existing log. If the epoch `known` has ended, the number up to which the log's events are those of that
    /// epoch.
    async fn ends(&self, logs: &[Uuid], known: Option<Uuid>) -> Result<Ends, Failed>;
}

/// The logs of a database and of the archive, and the database of the readers' credentials.
pub struct LogSource {
    identity: Db,
    logs: LogReader,
}

impl LogSource {
    pub fn new(identity: Db, logs: LogReader) -> Self {
        Self { identity, logs }
    }
}

#[async_trait]
impl Source for LogSource {
    async fn news(&self, cursors: &[Cursor]) -> Result<Vec<(usize, StoredEvent)>, Failed> {
        Ok(self.logs.tail(cursors).await?)
    }

    async fn page(&self, log_id: Uuid, after: i64) -> Result<Vec<StoredEvent>, Failed> {
        Ok(self.logs.read(log_id, after).await?)
    }

    async fn still_valid(&self, bases: &[SessionBasis]) -> Result<Vec<SessionBasis>, Failed> {
        Ok(auth::still_valid(&self.identity.pool_sqlx, bases).await?)
    }

    async fn ends(&self, logs: &[Uuid], known: Option<Uuid>) -> Result<Ends, Failed> {
        let pool = self.logs.pool();
        let epoch = epochs::current(pool).await?;
        let mut ends = self.logs.ends(logs).await?;
        if let Some(known) = known.filter(|known| *known != epoch) {
            let common: HashMap<Uuid, i64> = epochs::common_ends(pool, logs, known).await?.into_iter().collect();
            for end in &mut ends {
                end.last_seq = common.get(&end.log_id).copied().unwrap_or_default();
            }
        }
        Ok(Ends { epoch, logs: ends })
    }
}
