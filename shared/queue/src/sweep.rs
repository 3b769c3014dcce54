//! The queue's sweeps. Any worker may call them at any time, concurrently: each is idempotent and triggered by a timer.

use std::time::Duration;

use chrono::{DateTime, Utc};
use sqlx::PgPool;
use tokio::time::Instant;
use uuid::Uuid;

use rejoin_faults::Fault;

/// Maximum number of rows per call.
const BATCH: i64 = 500;
/// Number of finished jobs removed per retention statement, and of statements per round.
const RETENTION_BATCH: i64 = 5_000;
const MAX_BATCHES: u32 = 200;
/// Time without a heartbeat after which a worker's row is removed, in seconds.
const WORKER_GONE_S: f64 = 60.0;

/// A job whose last attempt was lost: its run must be failed.
#[derive(Debug, Clone)]
pub struct DeadJob {
    pub id: i64,
    pub run_id: Option<Uuid>,
    pub attempt: i32,
    pub kind: String,
}

/// A sweeper's view of the database's availability, which decides whether an expired lease says anything about its
/// worker: while the database was unreachable, no worker could renew. A sweep acts only after the database has
/// responded to this process for a whole heartbeat interval, by when each live worker has renewed. A process knows
/// nothing about the time before its start.
#[derive(Debug)]
pub struct AvailabilityWatch {
    heartbeat: Duration,
    /// The start of uninterrupted availability. None: the last response was an error.
    since: Option<Instant>,
    answered_at: Instant,
}

impl AvailabilityWatch {
    pub fn new(heartbeat: Duration) -> Self {
        let now = Instant::now();
        Self {
            heartbeat,
            since: Some(now),
            answered_at: now,
        }
    }

    /// Queries the database, and returns until when, by its clock, a sweep may act. None: not yet. A statement delayed
    /// by a stalled server acts on outdated data; by the server's clock it arrives too late, and does nothing.
    pub async fn sweep_deadline(&mut self, db: &PgPool) -> Result<Option<DateTime<Utc>>, sqlx::Error> {
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
        self.record_answer();
        let is_settled = self.since.is_some_and(|since| since.elapsed() >= self.heartbeat);
        Ok(is_settled.then(|| now + self.heartbeat))
    }

    /// Records a response of the database. A gap longer than a heartbeat interval counts as an outage; leases outlast
    /// shorter ones.
    pub fn record_answer(&mut self) {
        let now = Instant::now();
        let paused = now - self.answered_at > self.heartbeat + PAUSE;
        self.since = self.since.filter(|_| !paused).or(Some(now));
        self.answered_at = now;
    }
}

/// Interval between two polls of one sweeper.
const PAUSE: Duration = Duration::from_secs(1);

/// Makes jobs with an expired lease available again, if the database executes it before `until` by its own clock.
/// Returns their number.
pub async fn expired(db: &PgPool, until: DateTime<Utc>) -> Result<u64, sqlx::Error> {
    if rejoin_faults::enabled(Fault::NoSweep) {
        return Ok(0);
    }
    if rejoin_faults::enabled(Fault::SweepWithoutBump) {
        sqlx::query("update queue.jobs set attempt = attempt - 1 where state = 'running' and lease_until < now()")
            .execute(db)
            .await?;
    }
    release_lost(db, None, until).await
}

/// Makes lost jobs available again: those of dead workers, or, without `workers`, those with an expired lease. The first
/// consecutive losses cause no delay (a crashed worker's runs continue immediately); from the third on it backs off, since
/// the job itself may kill workers. Jobs on their last attempt are left to [`dead`].
pub(crate) async fn release_lost(
    db: &PgPool,
    workers: Option<&[Uuid]>,
    until: DateTime<Utc>,
) -> Result<u64, sqlx::Error> {
    let cause = if workers.is_some() {
        "its worker died"
    } else {
        "the lease expired; its worker died or hung"
    };
    let done = sqlx::query!(
        "update queue.jobs
         set state = 'available', lease_until = null, worker_id = null,
             losses = least(losses + 1, 100),
             run_at = now() + case when losses < 2 then interval '0' else least(interval '1 second' * 2 ^ (losses - 2), interval '1 minute') end,
             last_error = format('attempt %s: %s', attempt, $4::text)
         where id = any(array(
             select id from queue.jobs
             where state = 'running' and attempt < max_attempts and clock_timestamp() < $2
               and case when $3::uuid[] is null then lease_until < now() else worker_id = any($3) end
             order by id limit $1 for update skip locked))",
        BATCH,
        until,
        workers as _,
        cause
    )
    .execute(db)
    .await?;
    Ok(done.rows_affected())
}

/// Returns jobs whose lease expired on their last attempt, if the database executes it before `until` by its own clock.
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

/// Releases held jobs whose key has no head (an enqueue by foreign code, a manual delete). Returns their number.
pub async fn orphaned_keys(db: &PgPool) -> Result<usize, sqlx::Error> {
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

/// Removes finished jobs by age, dead ones by a separate age, and the rows of stopped workers. Returns the number of
/// jobs. In bounded statements, so that none holds its snapshot for long.
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
