//! Cancelling: a state plus a wake-up. A run that a worker holds is asked to stop and ends itself; one that waits in the queue
//! is ended here and now.

use sqlx::PgConnection;
use uuid::Uuid;

use super::Command;
use crate::events::kinds::{DoneStatus, Event, Kind};
use crate::events::log;
use crate::queue::{self, settle};
use crate::runs::RunState;
use crate::wakeup::Wake;

#[derive(Debug)]
pub struct CancelRun {
    pub run_id: Uuid,
}

impl Command for CancelRun {
    type Output = Wake;
    type Error = sqlx::Error;

    /// Idempotent: a run that has ended, or is ending, stays as it is. Returns what to wake after the commit.
    async fn apply(&self, db: &mut PgConnection) -> Result<Wake, sqlx::Error> {
        let run_id = self.run_id;
        let Some(log_id) = sqlx::query_scalar!("select log_id from kb.agent_runs where id = $1", run_id)
            .fetch_optional(&mut *db)
            .await?
        else {
            return Ok(Wake::default());
        };
        log::lock(db, log_id).await?;
        let asked = sqlx::query!(
            "update kb.agent_runs set cancel_requested_at = coalesce(cancel_requested_at, now())
             where id = $1 and state in ('queued', 'running', 'waiting')
             returning state, root_run_id, usage",
            run_id
        )
        .fetch_optional(&mut *db)
        .await?;
        let Some(run) = asked else { return Ok(Wake::default()) };

        let job = sqlx::query!(
            "select id, attempt, state from queue.jobs where run_id = $1 for update",
            run_id
        )
        .fetch_optional(&mut *db)
        .await?;
        if job.is_some() && run.state == RunState::Running.as_str() {
            // It has begun: a worker ends it, with whatever was half done. Between two attempts: now, not after the backoff.
            sqlx::query!(
                "update queue.jobs set run_at = least(run_at, now()) where run_id = $1 and state = 'available'",
                run_id
            )
            .execute(&mut *db)
            .await?;
            return Ok(Wake::cancel(run_id).and(Wake::queue(queue::DEFAULT_QUEUE)));
        }
        if job.as_ref().is_some_and(|job| job.state == "running") {
            // Claimed, and about to begin.
            return Ok(Wake::cancel(run_id));
        }
        let done = Event::of(
            run_id,
            Kind::Done {
                status: DoneStatus::Cancelled,
                final_message_id: None,
                usage: Some(run.usage),
            },
        );
        let seq = log::append(db, log_id, Some(run.root_run_id), &[done]).await?;
        sqlx::query!(
            "update kb.agent_runs set state = 'cancelled', finished_at = now(), done_seq = $2 where id = $1",
            run_id,
            seq
        )
        .execute(&mut *db)
        .await?;
        if let Some(job) = job {
            // Settling takes running jobs only: a lease for the length of this transaction.
            sqlx::query!(
                "update queue.jobs set state = 'running', lease_until = now(), held = false where id = $1 and not held",
                job.id
            )
            .execute(&mut *db)
            .await?;
            if settle::settle_one(db, job.id, job.attempt, "cancelled", None)
                .await?
                .is_none()
            {
                // A held job has nothing behind it that waits for it alone.
                sqlx::query!("delete from queue.jobs where id = $1 and held", job.id)
                    .execute(&mut *db)
                    .await?;
            }
        }
        Ok(Wake::log(log_id).and(Wake::queue(queue::DEFAULT_QUEUE)))
    }

    async fn happened(&self, db: &mut PgConnection, _: &Wake) -> Result<bool, sqlx::Error> {
        // Idempotent: asking again asks for nothing more.
        let _ = db;
        Ok(false)
    }
}
