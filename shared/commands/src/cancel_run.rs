//! Cancels a run and everything that it started, by a state plus a wake-up. A run held by a worker is asked to stop and
//! ends itself. A waiting run is resumed to end itself, once its sub-agents have ended. A queued run ends immediately.

use sqlx::PgConnection;
use uuid::Uuid;

use super::answer_question::Ending;
use super::run_end::RunEnd;
use super::{Command, EndRemoteCall, RemoteEnd, answer_question};
use rejoin_event_log::log;
use rejoin_event_log::wakeup::Wake;
use rejoin_queue::settle;
use rejoin_runs::run_query;
use rejoin_runs::runs::{Run, RunState};
use rejoin_runs::{questions, remote_calls, run_dependencies};
use rejoin_types::events::DoneStatus;

#[derive(Debug)]
pub struct CancelRun {
    pub run_id: Uuid,
}

impl Command for CancelRun {
    type Output = Wake;
    type Error = sqlx::Error;

    /// Idempotent: an ended or ending run stays unchanged. Returns the wake-ups to send after the commit.
    async fn apply(&self, db: &mut PgConnection) -> Result<Wake, sqlx::Error> {
        let Some(log_id) = sqlx::query_scalar!("select log_id from kb.agent_runs where id = $1", self.run_id)
            .fetch_optional(&mut *db)
            .await?
        else {
            return Ok(Wake::default());
        };
        log::lock(db, log_id).await?;
        let mut asked = run_query!(
            r#"with recursive tree as (
                   select id from kb.agent_runs where id = $1
                   union all
                   select c.id from kb.agent_runs c join tree t on c.parent_run_id = t.id)
               update kb.agent_runs r set cancel_requested_at = coalesce(cancel_requested_at, now())
               where r.id in (select id from tree) and r.state in ('queued', 'running', 'waiting')
               returning"#,
            "",
            self.run_id
        )
        .fetch_all(&mut *db)
        .await?;
        // The deepest first: their parents then find them ended, if they end here.
        asked.sort_by_key(|run| std::cmp::Reverse(run.depth));
        let mut wake = Wake::default();
        for run in &asked {
            wake.merge(stop(db, run).await?);
        }
        Ok(wake)
    }

    async fn happened(&self, db: &mut PgConnection, _: &Wake) -> Result<bool, sqlx::Error> {
        // Idempotent: asking again has no further effect.
        let _ = db;
        Ok(false)
    }
}

/// Cancels one run of the tree.
async fn stop(db: &mut PgConnection, run: &Run) -> Result<Wake, sqlx::Error> {
    if run.state() == RunState::Waiting {
        let mut wake = Wake::default();
        for question in questions::pending_of_run(&mut *db, run.id).await? {
            wake.merge(answer_question::close(db, run, question, Ending::cancelled()).await?);
        }
        wake.merge(cancel_calls(db, run).await?);
        wake.merge(run_dependencies::wake_if_met(db, run.id).await?);
        return Ok(wake);
    }
    let job = sqlx::query!(
        "select id, attempt, state from queue.jobs where run_id = $1 for update",
        run.id
    )
    .fetch_optional(&mut *db)
    .await?;
    let has_begun = run.state() == RunState::Running || run.safe_seq.is_some();
    if job.is_some() && has_begun {
        // It has begun: a worker ends it, with its partial work. Between two attempts: now, without the backoff.
        sqlx::query!(
            "update queue.jobs set run_at = least(run_at, now()) where run_id = $1 and state = 'available'",
            run.id
        )
        .execute(&mut *db)
        .await?;
        let wake = cancel_calls(db, run).await?;
        return Ok(wake
            .and(Wake::cancel(run.id))
            .and(Wake::queue(rejoin_queue::DEFAULT_QUEUE)));
    }
    if job.as_ref().is_some_and(|job| job.state == "running") {
        // Claimed, but not begun yet.
        return Ok(Wake::cancel(run.id));
    }
    let end = RunEnd {
        status: DoneStatus::Cancelled,
        text: "",
        error: None,
        usage: &run.usage,
        final_message_id: None,
    };
    let seq = log::append(db, run.log_id, Some(run.root_run_id), &[end.last_event(run)]).await?;
    let mut wake = end.write(db, run, run.attempt, seq).await?;
    if let Some(job) = job {
        // Settling takes running jobs only: take a lease for this transaction.
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
            // No job waits behind a held one.
            sqlx::query!("delete from queue.jobs where id = $1 and held", job.id)
                .execute(&mut *db)
                .await?;
        }
    }
    wake.merge(Wake::log(run.log_id).and(Wake::queue(rejoin_queue::DEFAULT_QUEUE)));
    Ok(wake)
}

/// Cancels the calls of users' programs that a run waits for.
async fn cancel_calls(db: &mut PgConnection, run: &Run) -> Result<Wake, sqlx::Error> {
    let mut wake = Wake::default();
    for call in remote_calls::open_of_run(&mut *db, run.id).await? {
        let cancel = EndRemoteCall {
            id: call,
            attempt: None,
            end: RemoteEnd::Cancelled,
        };
        wake.merge(cancel.apply(db).await?.map(|ended| ended.wake).unwrap_or_default());
    }
    Ok(wake)
}
