//! Presence: each worker holds an advisory lock in the session of its wake-up bus, so that the others notice its death at once.
//!
//! When a process dies, the operating system closes its sockets, PostgreSQL ends the session, and the lock is free. Leases are still needed
//! for workers that hang, and for machines that lose power or network. If a living worker is considered dead because its session
//! broke, its runs continue elsewhere after a reset; the fence rejects its writes.

use std::collections::HashSet;
use std::time::Duration;

use chrono::{DateTime, Utc};
use rejoin_faults::Fault;
use sqlx::PgPool;
use tokio::time::Instant;
use uuid::Uuid;

use crate::sweep;

/// The first key of the lock; the second is a hash of the worker's id. Two workers with the same hash hold the same lock, since it is
/// shared: the death of one is then noticed by its leases only. Chosen at random.
const LOCK_CLASS: i32 = 0x524a_574b;

/// Interval between two checks of the locks. A worker is dead if its lock is free twice in a row: a broken session is
/// reopened within that time.
pub const LOOK_EVERY: Duration = Duration::from_millis(300);
/// A longer gap between two checks means that this process was itself paused or disconnected.
const STALLED: Duration = Duration::from_secs(2);

/// Returns the statement by which the session of a worker's wake-up bus takes the lock. Shared, so that a new session of
/// the worker does not wait for the end of its old one.
pub fn lock_statement(worker_id: Uuid) -> String {
    format!("select pg_advisory_lock_shared({LOCK_CLASS}, hashtext('{worker_id}'))")
}

/// Dead workers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gone {
    pub workers: Vec<Uuid>,
    /// Until when, by the database's clock, their jobs may be released.
    pub until: DateTime<Utc>,
}

/// A worker's view of the other workers' locks.
///
/// Free locks are ignored while living workers may be without a session, too: for a heartbeat interval after a start of
/// PostgreSQL, after this process lost its own session, and after a check that failed or was late.
#[derive(Debug)]
pub struct PresenceWatch {
    worker_id: Uuid,
    heartbeat: Duration,
    /// Workers whose lock was free at the last look.
    suspects: HashSet<Uuid>,
    looked_at: Option<Instant>,
    disturbed_at: Option<Instant>,
    was_connected: bool,
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
            was_connected: false,
        }
    }

    /// Checks the locks, and returns the workers that are dead. `connected`: whether this process' own session is up.
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
        // A process that has not connected yet lost nothing: its own start must not delay the runs of its predecessor.
        let is_disconnected = self.was_connected && !connected;
        self.was_connected |= connected;
        if asked.is_err() || is_late || is_disconnected {
            self.disturbed_at = Some(now);
        }
        let row = asked?;
        let is_settled = connected && self.disturbed_at.is_none_or(|at| now - at >= self.heartbeat);
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

/// Makes the jobs of dead workers available again, if the database executes it in time. Jobs on their last attempt wait until their
/// lease expires. Returns the number of jobs.
pub async fn release(db: &PgPool, gone: &Gone) -> Result<u64, sqlx::Error> {
    sweep::release_lost(db, Some(&gone.workers), gone.until).await
}
