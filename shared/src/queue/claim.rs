//! Claiming: `queue.claim` in batches. It commits at once; no transaction is open while a job runs.

use std::time::Duration;

use deadpool_postgres::Pool;
use serde_json::Value;
use uuid::Uuid;

/// A job that this worker may run until its lease ends, as long as nobody has a higher attempt.
#[derive(Debug, Clone)]
pub struct ClaimedJob {
    pub id: i64,
    pub queue: String,
    pub kind: String,
    pub run_id: Option<Uuid>,
    pub project_id: Uuid,
    pub payload: Value,
    pub attempt: i32,
    pub max_attempts: i32,
    pub last_error: Option<String>,
}

/// Claims up to `limit` due jobs, beginning with the project after `after` (the one that was served last).
pub async fn claim(
    pool: &Pool,
    queue: &str,
    worker_id: Uuid,
    lease: Duration,
    limit: usize,
    after: Uuid,
) -> Result<Vec<ClaimedJob>, super::settle::HotError> {
    let client = pool.get().await?;
    let statement = client
        .prepare_cached(
            "select id, queue, kind, run_id, project_id, payload, attempt, max_attempts, last_error
             from queue.claim($1, $2, make_interval(secs => $3), $4, $5)",
        )
        .await?;
    let rows = client
        .query(
            &statement,
            &[
                &queue,
                &worker_id,
                &lease.as_secs_f64(),
                &i32::try_from(limit).unwrap_or(i32::MAX),
                &after,
            ],
        )
        .await?;
    Ok(rows
        .into_iter()
        .map(|row| ClaimedJob {
            id: row.get(0),
            queue: row.get(1),
            kind: row.get(2),
            run_id: row.get(3),
            project_id: row.get(4),
            payload: row.get(5),
            attempt: row.get(6),
            max_attempts: row.get(7),
            last_error: row.get(8),
        })
        .collect())
}
