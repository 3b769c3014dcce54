//! Database connections of graph imports and exports, separate from those of other requests.

use std::sync::Arc;
use std::time::Duration;

use rejoin_http::problem::Problem;
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

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
    pub(crate) pool: PgPool,
    slots: Arc<Semaphore>,
}

impl Transfers {
    /// Connections with the settings of `usual`, in a separate pool.
    pub fn new(usual: &PgPool) -> Self {
        let limit = format!("{}ms", STATEMENT_LIMIT.as_millis());
        let options = usual
            .connect_options()
            .as_ref()
            .clone()
            // An import waits for the previous one.
            .options([("statement_timeout", limit.clone()), ("lock_timeout", limit)]);
        let pool = PgPoolOptions::new()
            .max_connections(MAX_TRANSFERS)
            .idle_timeout(IDLE_LIMIT)
            .connect_lazy_with(options);
        Self {
            pool,
            slots: Arc::new(Semaphore::new(MAX_TRANSFERS as usize)),
        }
    }

    pub(crate) fn admit(&self) -> Result<OwnedSemaphorePermit, Problem> {
        let slot = self.slots.clone().try_acquire_owned();
        slot.map_err(|_| Problem::too_many("too many imports and exports are active on this server", RETRY_AFTER_S))
    }
}
