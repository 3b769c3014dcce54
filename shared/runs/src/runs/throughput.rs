//! Throughput of a workspace's runs: starts and ends per minute, over all of its users.

use chrono::{DateTime, Utc};
use sqlx::PgExecutor;

/// The number of minutes covered, including the current one.
pub const MINUTES: i32 = 60;
/// Maximum number of runs whose first token is looked up, the newest: each is a lookup in a log.
pub const FIRST_TOKENS_MAX: i32 = 1_000;

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
    pub waited_p99_s: Option<f64>,
    /// Median time from the creation of started runs to their first token, in seconds; None: there was none. Without
    /// runs that were started by others.
    pub first_token_p50_s: Option<f64>,
    pub first_token_p95_s: Option<f64>,
    pub first_token_p99_s: Option<f64>,
    /// Median duration of ended runs, in seconds; None: none ended.
    pub took_p50_s: Option<f64>,
    pub took_p95_s: Option<f64>,
    pub took_p99_s: Option<f64>,
}

/// Returns all minutes together first, then each, oldest first. For the transaction's workspace.
pub async fn per_minute(db: impl PgExecutor<'_>) -> Result<Vec<Throughput>, sqlx::Error> {
    sqlx::query_as!(
        Throughput,
        r#"select minute, started as "started!", completed as "completed!", failed as "failed!", cancelled as "cancelled!",
                  waited_p50_s, waited_p95_s, waited_p99_s, first_token_p50_s, first_token_p95_s, first_token_p99_s,
                  took_p50_s, took_p95_s, took_p99_s
           from kb.run_times($1, $2)"#,
        MINUTES,
        FIRST_TOKENS_MAX
    )
    .fetch_all(db)
    .await
}
