//! Daily usage of projects with a quota. Refreshed periodically: each process admits requests in between.

use std::time::Duration;

use rejoin_http::caller::Caller;
use rejoin_http::problem::Problem;
use rejoin_identity::projects::{self, Exhausted, Used};
use sqlx::PgPool;
use uuid::Uuid;

/// How long a project's usage is cached.
const CACHE_LIFETIME: Duration = Duration::from_secs(5);
/// Maximum number of cached projects.
const CACHE_PROJECTS: u64 = 10_000;

pub struct Quotas {
    used: moka::future::Cache<Uuid, Used>,
}

impl Quotas {
    pub fn new() -> Self {
        Self {
            used: moka::future::Cache::builder()
                .max_capacity(CACHE_PROJECTS)
                .time_to_live(CACHE_LIFETIME)
                .build(),
        }
    }

    /// Returns the exhausted quota of the caller's project, if any.
    pub async fn exhausted(&self, db: &PgPool, caller: &Caller) -> Result<Option<Exhausted>, Problem> {
        if caller.quota.is_none() {
            return Ok(None);
        }
        let project = caller.project_id;
        let used = match self.used.get(&project).await {
            Some(used) => used,
            None => {
                let used = projects::used_today(db, project).await?;
                self.used.insert(project, used).await;
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
