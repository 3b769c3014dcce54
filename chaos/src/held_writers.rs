//! Requests that wait in the middle of their transactions while a project moves away: each has checked that the project is not held, and
//! commits when the move has ended, unless the move waits for it.

use std::time::Duration;

use anyhow::Result;
use sqlx::{PgPool, Postgres, Transaction};
use tokio::time::{Instant, sleep, timeout_at};

use crate::evidence::{Evidence, Injected, now_us};

/// How long they wait at most: less than the time limit of a client (10 s).
const LIMIT: Duration = Duration::from_secs(8);
/// How long to wait for the first one, and how often to look.
const FIRST_LIMIT: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The lock for which they wait.
pub struct HeldWriters {
    lock: Transaction<'static, Postgres>,
    from_us: i64,
    until: Instant,
}

impl HeldWriters {
    /// Makes requests that post messages wait, by a lock that neither readers, workers nor a copy of the rows need. Returns when one waits.
    pub async fn hold(db: &PgPool) -> Result<Self> {
        // From the moment when the lock is asked for, they wait behind it.
        let from_us = now_us();
        let mut lock = rejoin_db::begin(db).await?;
        sqlx::query("lock table kb.idempotency_keys in exclusive mode")
            .execute(&mut *lock)
            .await?;
        let now = Instant::now();
        let first_by = now + FIRST_LIMIT;
        while Instant::now() < first_by {
            let one_waits: bool = sqlx::query_scalar(
                "select exists (select from pg_locks where relation = 'kb.idempotency_keys'::regclass and not granted)",
            )
            .fetch_one(db)
            .await?;
            if one_waits {
                break;
            }
            sleep(LOOK_EVERY).await;
        }
        Ok(Self {
            lock,
            from_us,
            until: now + LIMIT,
        })
    }

    /// Makes them wait until this move has ended, or until their limit. Recorded as a fault: they take the connections of others.
    pub async fn during<T>(self, moving: impl Future<Output = T>, evidence: &Evidence) -> Result<T> {
        tokio::pin!(moving);
        let ended = timeout_at(self.until, &mut moving).await;
        self.lock.rollback().await?;
        evidence.fault(&Injected {
            fault: "hold-writers".to_owned(),
            number: "F15".to_owned(),
            from_us: self.from_us,
            until_us: now_us(),
            detail: String::new(),
            worker: None,
            workspace_id: None,
        });
        match ended {
            Ok(ended) => Ok(ended),
            Err(_) => Ok(moving.await),
        }
    }
}
