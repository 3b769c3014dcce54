//! Daily usage of workspaces with a quota. Refreshed periodically: each process admits requests in between.

use std::time::Duration;

use rejoin_http::caller::Caller;
use rejoin_http::problem::Problem;
use rejoin_identity::workspaces::{self, Exhausted, Used};
use sqlx::PgPool;
use uuid::Uuid;

/// How long a workspace's usage is cached.
const CACHE_LIFETIME: Duration = Duration::from_secs(5);
/// Maximum number of cached workspaces.
const CACHED_WORKSPACES: u64 = 10_000;

pub struct Quotas {
    used: moka::future::Cache<Uuid, Used>,
}

impl Quotas {
    pub fn new() -> Self {
        Self {
            used: moka::future::Cache::builder()
                .max_capacity(CACHED_WORKSPACES)
                .time_to_live(CACHE_LIFETIME)
                .build(),
        }
    }

    /// Returns the exhausted quota of the caller's workspace, if any.
    pub async fn exhausted(&self, db: &PgPool, caller: &Caller) -> Result<Option<Exhausted>, Problem> {
        if caller.quota.is_none() {
            return Ok(None);
        }
        let workspace = caller.workspace_id;
        let used = match self.used.get(&workspace).await {
            Some(used) => used,
            None => {
                let used = workspaces::used_today(db, workspace).await?;
                self.used.insert(workspace, used).await;
                used
            }
        };
        Ok(caller.quota.exhausted(used))
    }
}

impl Default for Quotas {
    fn default() -> Self {
        Self::new()
    }
}
