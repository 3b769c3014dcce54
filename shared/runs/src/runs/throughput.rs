//! Throughput of a workspace's runs: starts and ends per minute, over all of its users.

use chrono::{DateTime, Utc};
use sqlx::PgExecutor;

/// The number of minutes covered, including the current one.
pub const MINUTES: i32 = 60;

/// Throughput of one minute, or of all.
#[derive(Debug, Clone)]
pub struct Throughput {
    /// The start of the minute. None: all minutes together.
    pub minute: Option<DateTime<Utc>>,
    pub started: i64,
    pub completed: i64,
    pub failed: i64,
    pub cancelled: i64,
    /// Median waiting time of started runs, in seconds; None: none started.
    pub waited_p50_s: Option<f64>,
    pub waited_p95_s: Option<f64>,
    /// Median duration of ended runs, in seconds; None: none ended.
    pub took_p50_s: Option<f64>,
    pub took_p95_s: Option<f64>,
}

/// Returns all minutes together first, then each, oldest first. For the transaction's workspace.
pub async fn per_minute(db: impl PgExecutor<'_>) -> Result<Vec<Throughput>, sqlx::Error> {
    sqlx::query_as!(
        Throughput,
        r#"select minute, started as "started!", completed as "completed!", failed as "failed!", cancelled as "cancelled!",
                  waited_p50_s, waited_p95_s, took_p50_s, took_p95_s
           from kb.run_pace($1)"#,
        MINUTES
    )
    .fetch_all(db)
    .await
}
