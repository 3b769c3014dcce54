//! Suspended runs, which wait for sub-agents, tasks, a user or a user's program, and their resumption.
//!
//! The job of a suspended run stays, due at `infinity`: no worker holds it, it keeps its conversation, and its fencing
//! number continues. Everything that may end a wait calls [`wake_if_met`] in its own transaction.
//!
//! Invariant (I12): everything here holds the lock of the log that a tree of runs shares. Of two children that end at
//! the same moment, the later one finds the earlier one ended: the parent is resumed exactly once.

use sqlx::PgConnection;
use uuid::Uuid;

use rejoin_event_log::wakeup::Wake;

/// What a run waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RunDependencies {
    /// Number of active sub-agents.
    pub agents: i64,
    /// Number of unanswered questions.
    pub questions: i64,
    /// Number of unfinished task DAGs.
    pub dags: i64,
    /// Number of calls that users' programs have not answered.
    pub calls: i64,
    /// A suspended call of a user's program waits for the run.
    pub has_due_steps: bool,
}

impl RunDependencies {
    /// Returns whether the run can go on.
    pub fn are_met(self) -> bool {
        self == Self::default() || self.has_due_steps
    }
}

pub async fn of_run(db: &mut PgConnection, run_id: Uuid) -> Result<RunDependencies, sqlx::Error> {
    sqlx::query_as!(
        RunDependencies,
        r#"select (select count(*) from kb.agent_runs
                   where parent_run_id = $1 and state in ('queued', 'running', 'waiting')) as "agents!",
                  (select count(*) from kb.questions where run_id = $1 and status = 'pending') as "questions!",
                  (select count(*) from kb.task_dags where waiting_run_id = $1 and state in ('active', 'paused')) as "dags!",
                  (select count(*) from kb.remote_calls where run_id = $1 and status in ('waiting', 'running', 'suspended')) as "calls!",
                  kb.has_due_steps($1) as "has_due_steps!""#,
        run_id
    )
    .fetch_one(db)
    .await
}

/// Suspends a run; the caller has fenced `attempt`. The job has all its attempts again when it is resumed: waiting is
/// no failure.
pub async fn suspend(db: &mut PgConnection, run_id: Uuid, attempt: i32) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update kb.agent_runs set state = 'waiting', waiting_since = now() where id = $1",
        run_id
    )
    .execute(&mut *db)
    .await?;
    sqlx::query!(
        "update queue.jobs
         set state = 'available', run_at = 'infinity', lease_until = null, worker_id = null, losses = 0,
             max_attempts = greatest(max_attempts, attempt + $3)
         where run_id = $1 and attempt = $2",
        run_id,
        attempt,
        rejoin_queue::RUN_MAX_ATTEMPTS
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Resumes a run that waits for nothing more; any other stays unchanged.
pub async fn wake_if_met(db: &mut PgConnection, run_id: Uuid) -> Result<Wake, sqlx::Error> {
    let resumed = sqlx::query_scalar!(r#"select kb.resume_if_met($1) as "resumed!""#, run_id)
        .fetch_one(db)
        .await?;
    Ok(if resumed {
        Wake::queue(rejoin_queue::DEFAULT_QUEUE)
    } else {
        Wake::default()
    })
}
