//! Claims jobs: `queue.claim` in batches. It commits immediately; no transaction is open while a job runs.

use std::time::Duration;

use chrono::{DateTime, Utc};
use deadpool_postgres::Pool;
use serde_json::Value;
use tokio::time::Instant;
use uuid::Uuid;

use super::claim_cursor::{ClaimCursor, LowWatermarks};

/// A claimed job: this worker may run it until its lease ends, as long as no higher attempt exists.
#[derive(Debug, Clone)]
pub struct ClaimedJob {
    pub id: i64,
    pub queue: String,
    pub kind: String,
    pub run_id: Option<Uuid>,
    pub workspace_id: Uuid,
    pub payload: Value,
    pub attempt: i32,
    pub max_attempts: i32,
    pub last_error: Option<String>,
    /// How long it had been due when it was claimed, by the database's clock.
    pub waited: Duration,
    /// When its claim was answered, by this process's clock.
    pub claimed_at: Instant,
}

/// A claimed job and its position in its lane.
struct Claimed {
    job: ClaimedJob,
    priority: i16,
    run_at: DateTime<Utc>,
    claimed_at: DateTime<Utc>,
}

/// Claims up to `limit` due jobs of a queue.
pub async fn claim(
    pool: &Pool,
    queue: &str,
    worker_id: Uuid,
    lease: Duration,
    limit: usize,
    cursor: &mut ClaimCursor,
) -> Result<Vec<ClaimedJob>, rejoin_db::PgError> {
    let client = pool.get().await?;
    let statement = client
        .prepare_cached(
            "select id, queue, kind, run_id, project_id, payload, attempt, max_attempts, last_error, priority, run_at, claimed_at
             from queue.claim($1, $2, make_interval(secs => $3), $4, $5, $6, $7, $8, $9)",
        )
        .await?;
    let began = Instant::now();
    let is_full_scan = cursor.is_full_scan_due();
    let low_watermarks = if is_full_scan {
        LowWatermarks::default()
    } else {
        cursor.low_watermarks()
    };
    let rows = client
        .query(
            &statement,
            &[
                &queue,
                &worker_id,
                &lease.as_secs_f64(),
                &i32::try_from(limit).unwrap_or(i32::MAX),
                &cursor.last_workspace(),
                &low_watermarks.workspaces,
                &low_watermarks.priorities,
                &low_watermarks.run_ats,
                &low_watermarks.ids,
            ],
        )
        .await;
    let rows = match rows {
        Ok(rows) => rows,
        Err(error) => {
            cursor.clear();
            return Err(error.into());
        }
    };
    let answered_at = Instant::now();
    let mut claimed: Vec<Claimed> = rows
        .into_iter()
        .map(|row| {
            let (run_at, claimed_at): (DateTime<Utc>, DateTime<Utc>) = (row.get(10), row.get(11));
            let job = ClaimedJob {
                id: row.get(0),
                queue: row.get(1),
                kind: row.get(2),
                run_id: row.get(3),
                workspace_id: row.get(4),
                payload: row.get(5),
                attempt: row.get(6),
                max_attempts: row.get(7),
                last_error: row.get(8),
                // Negative if it was made due in this very moment.
                waited: (claimed_at - run_at).to_std().unwrap_or_default(),
                claimed_at: answered_at,
            };
            Claimed {
                job,
                priority: row.get(9),
                run_at,
                claimed_at,
            }
        })
        .collect();
    // The server returns them in table order.
    claimed.sort_unstable_by_key(|c| {
        (
            cursor.round_robin_key(c.job.workspace_id),
            c.priority,
            c.run_at,
            c.job.id,
        )
    });
    if is_full_scan {
        cursor.record_full_scan(began);
    }
    for c in &claimed {
        cursor.record_claimed((c.job.workspace_id, c.priority), (c.run_at, c.job.id), c.claimed_at);
    }
    if claimed.len() < limit {
        cursor.record_drained();
    }
    Ok(claimed.into_iter().map(|claimed| claimed.job).collect())
}
