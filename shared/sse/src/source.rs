//! Database queries of the hub and its readers. A trait, so that `model` can answer from its own table.

use std::error::Error;

use async_trait::async_trait;
use rejoin_db::Db;
use rejoin_event_log::log;
use rejoin_event_log::rows::StoredEvent;
use rejoin_identity::auth::{self, SessionBasis};
use uuid::Uuid;

/// The database could not be queried. Retried in any case.
pub type Failed = Box<dyn Error + Send + Sync>;

/// A log and the number after which to continue.
pub type Cursor = (Uuid, i64);

#[async_trait]
pub trait Source: Send + Sync {
    /// Returns new events of many logs, with the log's index in `cursors`, in order per log and at most
    /// [`log::TAIL_PAGE`] rows each.
    async fn news(&self, cursors: &[Cursor]) -> Result<Vec<(usize, StoredEvent)>, Failed>;
    /// Returns a page of one log's past.
    async fn page(&self, log_id: Uuid, after: i64) -> Result<Vec<StoredEvent>, Failed>;
    /// Returns which of these are still valid.
    async fn still_valid(&self, bases: &[SessionBasis]) -> Result<Vec<SessionBasis>, Failed>;
    /// Returns the last number of each existing log.
    async fn ends(&self, logs: &[Uuid]) -> Result<Vec<Cursor>, Failed>;
}

#[async_trait]
impl Source for Db {
    async fn news(&self, cursors: &[Cursor]) -> Result<Vec<(usize, StoredEvent)>, Failed> {
        Ok(log::tail(&self.pool_pg, cursors).await?)
    }

    async fn page(&self, log_id: Uuid, after: i64) -> Result<Vec<StoredEvent>, Failed> {
        Ok(log::read(&self.pool_pg, log_id, after).await?)
    }

    async fn still_valid(&self, bases: &[SessionBasis]) -> Result<Vec<SessionBasis>, Failed> {
        Ok(auth::still_valid(&self.pool_sqlx, bases).await?)
    }

    async fn ends(&self, logs: &[Uuid]) -> Result<Vec<Cursor>, Failed> {
        Ok(log::ends(&self.pool_pg, logs).await?)
    }
}
