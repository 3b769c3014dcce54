//! Database connections of graph imports and exports, separate from those of other requests.

use std::sync::Arc;
use std::time::Duration;

use rejoin_db::{Db, SeparatePool, rls, transactions};
use rejoin_http::problem::Problem;
use sqlx::{PgPool, Postgres, Transaction};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use uuid::Uuid;

/// Maximum number of concurrent imports and exports of this process.
const MAX_TRANSFERS: u32 = 4;
/// Retry delay beyond that, in seconds.
const RETRY_AFTER_S: u64 = 5;
/// Timeout of a statement: the merge of a large import takes longer than other statements may.
const STATEMENT_LIMIT: Duration = Duration::from_secs(600);
/// Idle time after which connections are closed.
const IDLE_LIMIT: Duration = Duration::from_secs(60);

/// The database connections of imports and exports.
pub struct Transfers {
    separate: SeparatePool,
    slots: Arc<Semaphore>,
}

impl Transfers {
    /// Connections to the same database, in a separate pool.
    pub fn new(db: &Db) -> Self {
        Self {
            separate: db.slow_pool("transfers", MAX_TRANSFERS, IDLE_LIMIT, STATEMENT_LIMIT),
            slots: Arc::new(Semaphore::new(MAX_TRANSFERS as usize)),
        }
    }

    pub(crate) fn pool(&self) -> &PgPool {
        &self.separate.pool
    }

    /// Begins the transaction of an import. It has the timeouts also through a pooler. (An import waits for the previous one.)
    pub(crate) async fn begin(&self, workspace_id: Uuid) -> Result<Transaction<'static, Postgres>, sqlx::Error> {
        let limit_ms = STATEMENT_LIMIT.as_millis();
        let begin = rls::Scope::Workspace(workspace_id).begin_sql();
        let opening = format!("set local statement_timeout = {limit_ms}; set local lock_timeout = {limit_ms}; {begin}");
        transactions::begin_with(self.pool(), opening).await
    }

    pub(crate) fn admit(&self) -> Result<OwnedSemaphorePermit, Problem> {
        let slot = self.slots.clone().try_acquire_owned();
        slot.map_err(|_| Problem::too_many("too many imports and exports are active on this server", RETRY_AFTER_S))
    }
}
