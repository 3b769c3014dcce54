//! Throughput of a project's runs: starts and ends per minute, over all of its users.

use chrono::{DateTime, Utc};
use sqlx::PgExecutor;

/// Minutes that are looked back on, the one that has just begun among them.
pub const MINUTES: i32 = 60;

/// A minute, or all of them.
#[derive(Debug, Clone)]
pub struct Pace {
    /// When it began. None: all minutes together.
    pub minute: Option<DateTime<Utc>>,
    pub started: i64,
    pub completed: i64,
    pub failed: i64,
    pub cancelled: i64,
    /// How long those that started had waited for a worker [seconds]; None: none has.
    pub waited_p50_s: Option<f64>,
    pub waited_p95_s: Option<f64>,
    /// How long those that ended took from then on [seconds]; None: none has.
    pub took_p50_s: Option<f64>,
    pub took_p95_s: Option<f64>,
}

/// All minutes together first, then each, the oldest first. Of the project that the transaction is for.
pub async fn pace(db: impl PgExecutor<'_>) -> Result<Vec<Pace>, sqlx::Error> {
    sqlx::query_as!(
        Pace,
        r#"select minute, started as "started!", completed as "completed!", failed as "failed!", cancelled as "cancelled!",
                  waited_p50_s, waited_p95_s, took_p50_s, took_p95_s
           from kb.run_pace($1)"#,
        MINUTES
    )
    .fetch_all(db)
    .await
}
