//! Database connections of graph imports and exports, separate from those of other requests.

use std::sync::Arc;
use std::time::Duration;

use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::problem::Problem;

/// Imports and exports of this process at a time.
const MAX_TRANSFERS: u32 = 4;
/// What one more is told to wait.
const RETRY_AFTER_S: u64 = 5;
/// The merge of a large import takes longer than any other statement may.
const STATEMENT_LIMIT: Duration = Duration::from_secs(600);
/// Connections that are not used are closed after this.
const IDLE_LIMIT: Duration = Duration::from_secs(60);

/// The connections of imports and exports.
pub struct Transfers {
    pub(crate) pool: PgPool,
    slots: Arc<Semaphore>,
}

impl Transfers {
    /// Connections like those of `usual`, apart from them.
    pub fn new(usual: &PgPool) -> Self {
        let limit = format!("{}ms", STATEMENT_LIMIT.as_millis());
        let options = usual
            .connect_options()
            .as_ref()
            .clone()
            // An import waits for the one before it.
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
