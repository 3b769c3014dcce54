//! What keeps the queue honest: any worker may call these, at any time and any number at once. One idempotent path each,
//! triggered by a timer.

use sqlx::PgPool;
use uuid::Uuid;

use crate::sabotage::{self, Break};

/// Rows that one call looks at.
const BATCH: i64 = 500;
/// Finished jobs that one statement of retention removes, and how many statements a round of it has.
const RETENTION_BATCH: i64 = 5_000;
const MAX_BATCHES: u32 = 200;
/// A worker's row is removed after this long without a heartbeat.
const WORKER_GONE_S: f64 = 60.0;

/// A job whose last attempt was lost: its run must be told to have failed.
#[derive(Debug, Clone)]
pub struct DeadJob {
    pub id: i64,
    pub run_id: Option<Uuid>,
    pub attempt: i32,
    pub kind: String,
}

/// Puts jobs with an expired lease back. The first losses in a row cost no wait (a crashed worker's runs go on at once); from
/// the third on it backs off, since the job itself may be what kills workers. Returns how many.
pub async fn expired(db: &PgPool) -> Result<u64, sqlx::Error> {
    if sabotage::is(Break::NoSweep) {
        return Ok(0);
    }
    if sabotage::is(Break::SweepWithoutBump) {
        sqlx::query("update queue.jobs set attempt = attempt - 1 where state = 'running' and lease_until < now()")
            .execute(db)
            .await?;
    }
    let done = sqlx::query!(
        "update queue.jobs
         set state = 'available', lease_until = null, worker_id = null,
             losses = least(losses + 1, 100),
             run_at = now() + case when losses < 2 then interval '0' else least(interval '1 second' * 2 ^ (losses - 2), interval '1 minute') end,
             last_error = format('attempt %s: the lease expired; its worker died or hung', attempt)
         where id = any(array(
             select id from queue.jobs
             where state = 'running' and lease_until < now() and attempt < max_attempts
             order by id limit $1 for update skip locked))",
        BATCH
    )
    .execute(db)
    .await?;
    Ok(done.rows_affected())
}

/// Jobs whose lease expired on their last attempt.
pub async fn dead(db: &PgPool) -> Result<Vec<DeadJob>, sqlx::Error> {
    sqlx::query_as!(
        DeadJob,
        "select id, run_id, attempt, kind from queue.jobs
         where state = 'running' and lease_until < now() and attempt >= max_attempts
         order by id limit $1",
        BATCH
    )
    .fetch_all(db)
    .await
}

/// Lets held jobs go whose key has no head (an enqueue by foreign code, a manual delete). Returns how many.
pub async fn stranded(db: &PgPool) -> Result<usize, sqlx::Error> {
    let released = sqlx::query_scalar!(
        "select queue.release(array(
             select distinct h.concurrency_key from queue.jobs h
             where h.held and not exists (select from queue.jobs a where a.concurrency_key = h.concurrency_key and not a.held)
             limit $1))",
        BATCH
    )
    .fetch_all(db)
    .await?;
    Ok(released.len())
}

/// Removes finished jobs by age, dead ones by an age of their own, and the rows of workers that are gone. Returns how many jobs. In
/// bounded statements, so that none holds its snapshot for long.
pub async fn retention(db: &PgPool, keep_finished_s: f64, keep_dead_s: f64) -> Result<u64, sqlx::Error> {
    sqlx::query!(
        "delete from queue.workers where seen_at < now() - make_interval(secs => $1)",
        WORKER_GONE_S
    )
    .execute(db)
    .await?;
    let mut removed = 0;
    for _ in 0..MAX_BATCHES {
        let done = sqlx::query!(
            "delete from queue.finished_jobs
             where ctid = any(array(
                 select ctid from queue.finished_jobs
                 where finished_at < now() - make_interval(secs => $1::float8) and state <> 'failed'
                 limit $3 for update skip locked))
                or ctid = any(array(
                 select ctid from queue.finished_jobs
                 where finished_at < now() - make_interval(secs => $2::float8) and state = 'failed'
                 limit $3 for update skip locked))",
            keep_finished_s,
            keep_dead_s,
            RETENTION_BATCH
        )
        .execute(db)
        .await?
        .rows_affected();
        removed += done;
        if done < RETENTION_BATCH.unsigned_abs() {
            break;
        }
    }
    Ok(removed)
}
