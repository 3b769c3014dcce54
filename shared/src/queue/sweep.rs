//! The queue's sweeps. Any worker may call them at any time, concurrently: each is idempotent and triggered by a timer.

use std::time::Duration;

use chrono::{DateTime, Utc};
use sqlx::PgPool;
use tokio::time::Instant;
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

/// What a sweeper knows of the database, which decides whether a lease that has expired says anything about its worker: while the database
/// was away, nobody could renew. A sweep acts only after the database has answered this process for a whole heartbeat, by when each worker
/// that lives has renewed. Of what was before its start, a process knows nothing.
#[derive(Debug)]
pub struct Watch {
    heartbeat: Duration,
    /// Since when it has answered without a pause. None: its last answer was an error.
    since: Option<Instant>,
    answered_at: Instant,
}

impl Watch {
    pub fn new(heartbeat: Duration) -> Self {
        let now = Instant::now();
        Self {
            heartbeat,
            since: Some(now),
            answered_at: now,
        }
    }

    /// Asks the database, and returns until when, by its clock, a sweep may act. None: not yet. A statement that reaches a server
    /// that stood still acts on what is long past; by its clock it comes too late, and does nothing.
    pub async fn look(&mut self, db: &PgPool) -> Result<Option<DateTime<Utc>>, sqlx::Error> {
        let now = sqlx::query_scalar!(r#"select clock_timestamp() as "now!""#)
            .fetch_one(db)
            .await;
        let now = match now {
            Ok(now) => now,
            Err(error) => {
                self.since = None;
                return Err(error);
            }
        };
        self.answered();
        let sees = self.since.is_some_and(|since| since.elapsed() >= self.heartbeat);
        Ok(sees.then(|| now + self.heartbeat))
    }

    /// The database has answered something just now. A pause between two answers that is longer than a heartbeat counts as an absence; leases
    /// outlive shorter ones.
    pub fn answered(&mut self) {
        let now = Instant::now();
        let paused = now - self.answered_at > self.heartbeat + PAUSE;
        self.since = self.since.filter(|_| !paused).or(Some(now));
        self.answered_at = now;
    }
}

/// Between two looks of one sweeper.
const PAUSE: Duration = Duration::from_secs(1);

/// Puts jobs with an expired lease back, if the database comes to it before `until` by its own clock. The first losses in a row cost no wait (a crashed worker's runs go on at once); from
/// the third on it backs off, since the job itself may be what kills workers. Returns how many.
pub async fn expired(db: &PgPool, until: DateTime<Utc>) -> Result<u64, sqlx::Error> {
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
             where state = 'running' and lease_until < now() and attempt < max_attempts and clock_timestamp() < $2
             order by id limit $1 for update skip locked))",
        BATCH,
        until
    )
    .execute(db)
    .await?;
    Ok(done.rows_affected())
}

/// Jobs whose lease expired on their last attempt, if the database is asked before `until` by its own clock.
pub async fn dead(db: &PgPool, until: DateTime<Utc>) -> Result<Vec<DeadJob>, sqlx::Error> {
    sqlx::query_as!(
        DeadJob,
        "select id, run_id, attempt, kind from queue.jobs
         where state = 'running' and lease_until < now() and attempt >= max_attempts and clock_timestamp() < $2
         order by id limit $1",
        BATCH,
        until
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
