//! Presence: each worker holds an advisory lock in the session of its wake-up bus, so that the others learn of its death at once.
//!
//! PostgreSQL frees the lock when the session ends, and a session ends as soon as the operating system closes the socket of a process that
//! has died. Leases are still needed for workers that hang, and for machines that disappear without a word. A wrong guess (a worker
//! that lives, but whose session broke) costs its runs a reset, nothing more: each write is fenced by its attempt.

use std::collections::HashSet;
use std::time::Duration;

use chrono::{DateTime, Utc};
use rejoin_faults::Fault;
use sqlx::PgPool;
use tokio::time::Instant;
use uuid::Uuid;

/// The first key of the lock; the second is a hash of the worker's id. Two workers with the same hash hold the same lock, since it is
/// shared: the death of one is then noticed by its leases only. Chosen at random.
const LOCK_CLASS: i32 = 0x524a_574b;

/// Interval between two looks at the locks. A worker is gone if its lock is free twice in a row: a session that broke is
/// reopened within that time.
pub const LOOK_EVERY: Duration = Duration::from_millis(300);
/// A gap between two looks after which this process was itself cut off or paused.
const STALLED: Duration = Duration::from_secs(2);

/// Returns the statement by which the session of a worker's wake-up bus takes the lock. Shared, so that a new session of
/// the worker does not wait for the end of its old one.
pub fn lock_statement(worker_id: Uuid) -> String {
    format!("select pg_advisory_lock_shared({LOCK_CLASS}, hashtext('{worker_id}'))")
}

/// Workers that are gone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gone {
    pub workers: Vec<Uuid>,
    /// Until when, by the database's clock, their jobs may be released.
    pub until: DateTime<Utc>,
}

/// A worker's view of the other workers' locks.
///
/// Free locks mean nothing where the sessions of living workers may have broken, too: for a heartbeat interval after a start of
/// PostgreSQL, after a broken session of this process, and after a query that failed or came late.
#[derive(Debug)]
pub struct PresenceWatch {
    worker_id: Uuid,
    heartbeat: Duration,
    /// Workers whose lock was free at the last look.
    suspects: HashSet<Uuid>,
    looked_at: Option<Instant>,
    disturbed_at: Option<Instant>,
}

impl PresenceWatch {
    /// `worker_id` is the watching worker.
    pub fn new(worker_id: Uuid, heartbeat: Duration) -> Self {
        Self {
            worker_id,
            heartbeat,
            suspects: HashSet::new(),
            looked_at: None,
            disturbed_at: None,
        }
    }

    /// Looks at the locks, and returns the workers that are gone. `connected`: whether this process' own session is up.
    pub async fn look(&mut self, db: &PgPool, connected: bool) -> Result<Option<Gone>, sqlx::Error> {
        let asked = sqlx::query!(
            r#"select clock_timestamp() as "now!",
                      extract(epoch from clock_timestamp() - pg_postmaster_start_time())::float8 as "up_s!",
                      array(select w.id from queue.workers w
                            where w.session_lock and w.id <> $1
                              and pg_try_advisory_xact_lock($2, hashtext(w.id::text))) as "free!""#,
            self.worker_id,
            LOCK_CLASS
        )
        .fetch_one(db)
        .await;
        let now = Instant::now();
        let is_late = self.looked_at.replace(now).is_some_and(|at| now - at > STALLED);
        if asked.is_err() || is_late || !connected {
            self.disturbed_at = Some(now);
        }
        let row = asked?;
        let is_settled = self.disturbed_at.is_none_or(|at| now - at >= self.heartbeat);
        if !is_settled || row.up_s < self.heartbeat.as_secs_f64() || rejoin_faults::enabled(Fault::NoSweep) {
            self.suspects.clear();
            return Ok(None);
        }
        let free: HashSet<Uuid> = row.free.into_iter().collect();
        let workers: Vec<Uuid> = free.intersection(&self.suspects).copied().collect();
        self.suspects = free;
        Ok((!workers.is_empty()).then(|| Gone {
            workers,
            until: row.now + STALLED,
        }))
    }
}

/// Makes the jobs of workers that are gone available again, as [`crate::sweep::expired`] does, if the database executes it in
/// time. Jobs on their last attempt wait for the end of their lease. Returns the number of jobs.
pub async fn release(db: &PgPool, gone: &Gone) -> Result<u64, sqlx::Error> {
    let done = sqlx::query!(
        "update queue.jobs
         set state = 'available', lease_until = null, worker_id = null,
             losses = least(losses + 1, 100),
             run_at = now() + case when losses < 2 then interval '0' else least(interval '1 second' * 2 ^ (losses - 2), interval '1 minute') end,
             last_error = format('attempt %s: its worker died', attempt)
         where id = any(array(
             select id from queue.jobs
             where state = 'running' and worker_id = any($1) and attempt < max_attempts and clock_timestamp() < $2
             order by id limit 500 for update skip locked))",
        &gone.workers,
        gone.until
    )
    .execute(db)
    .await?;
    Ok(done.rows_affected())
}
