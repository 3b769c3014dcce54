//! Resumes a paused run: a new turn of the same run with its messages verbatim, fresh step and time limits, and
//! continued counters.

use serde_json::json;
use sqlx::PgConnection;
use uuid::Uuid;

use super::steer_run::With;
use super::{Command, CommandError, steer_run};
use rejoin_event_log::log;
use rejoin_event_log::wakeup::Wake;
use rejoin_queue::NewJob;
use rejoin_runs::run_messages;
use rejoin_runs::run_query;
use rejoin_runs::runs::resuming::{MAX_TOTAL_STEPS, may_be_resumed};
use rejoin_runs::runs::{Run, RunState};
use rejoin_types::ids;

#[derive(Debug)]
pub struct ResumeRun<'a> {
    pub run_id: Uuid,
    /// A message to the resumed run.
    pub message: Option<&'a str>,
    pub user_id: Option<Uuid>,
}

/// A resumed run.
#[derive(Debug)]
pub struct Resumed {
    /// A reader that starts after this number sees the whole new turn.
    pub cursor: i64,
    pub wake: Wake,
}

#[derive(Debug, thiserror::Error)]
pub enum ResumeError {
    #[error("there is no such run")]
    NotFound,
    #[error("{0}")]
    NotPaused(String),
    /// Its parent resumes it, with `spawn_agents`.
    #[error("a sub-agent can be resumed only by the agent that started it")]
    SubAgent,
    #[error("resuming the run failed")]
    Database(#[from] sqlx::Error),
}

impl CommandError for ResumeError {
    fn database(&self) -> Option<&sqlx::Error> {
        match self {
            ResumeError::Database(error) => Some(error),
            ResumeError::NotFound | ResumeError::NotPaused(_) | ResumeError::SubAgent => None,
        }
    }
}

impl Command for ResumeRun<'_> {
    type Output = Resumed;
    type Error = ResumeError;

    async fn apply(&self, db: &mut PgConnection) -> Result<Resumed, ResumeError> {
        let log_id = sqlx::query_scalar!("select log_id from kb.agent_runs where id = $1", self.run_id)
            .fetch_optional(&mut *db)
            .await?
            .ok_or(ResumeError::NotFound)?;
        log::lock(db, log_id).await?;
        let run = run_query!("select", "from kb.agent_runs where id = $1 for update", self.run_id)
            .fetch_one(&mut *db)
            .await?;
        if run.is_sub_agent() {
            return Err(ResumeError::SubAgent);
        }
        may_be_resumed(&run).map_err(ResumeError::NotPaused)?;
        let cursor = sqlx::query_scalar!("select last_seq from stream.log_ends where log_id = $1", log_id)
            .fetch_one(&mut *db)
            .await?
            .unwrap_or_default();
        let mut wake = Wake::queue(rejoin_queue::DEFAULT_QUEUE);
        if let Some(message) = self.message {
            steer_run::tell(db, &run, message, With::default(), &[]).await?;
            wake.merge(Wake::log(log_id));
        }
        reopen(db, &run, self.message).await?;
        let job = NewJob {
            workspace_id: run.workspace_id,
            run_id: Some(run.id),
            concurrency_key: run.conversation_id.map(rejoin_queue::conversation_key),
            max_attempts: rejoin_queue::RUN_MAX_ATTEMPTS,
            attempt: run.attempt,
            ..NewJob::new(rejoin_queue::KIND_RUN, json!({}))
        };
        rejoin_queue::enqueue(db, &job).await?;
        Ok(Resumed { cursor, wake })
    }

    async fn happened(&self, db: &mut PgConnection, _: &Resumed) -> Result<bool, sqlx::Error> {
        let is_paused = sqlx::query_scalar!(
            r#"select exists (select from kb.agent_runs where id = $1 and state = $2) as "paused!""#,
            self.run_id,
            RunState::Paused.as_str()
        );
        Ok(!is_paused.fetch_one(db).await?)
    }
}

/// Resets a paused run to the beginning of a turn, with a continuation prompt that states its progress.
pub(super) async fn reopen(db: &mut PgConnection, run: &Run, message: Option<&str>) -> Result<(), sqlx::Error> {
    let steps = run.step_count;
    let left = MAX_TOTAL_STEPS - run.total_steps;
    let mut prompt = format!(
        "You were paused after {steps} steps and continue now; you have {left} steps left in total. Everything above \
        is what you have done so far: do not repeat it."
    );
    if let Some(message) = message {
        prompt.push_str("\n\n");
        prompt.push_str(message);
    }
    let content = json!({ "kind": "user", "text": prompt });
    run_messages::append(db, run.id, ids::new(), "user", &content, steps).await?;
    // The clocks of its turn and tree restart: time before the resumption does not count.
    sqlx::query!(
        "update kb.agent_runs
         set state = 'queued', turn_step = step_count, safe_seq = null, finished_at = null, cancel_requested_at = null,
             error = null, error_code = null, final_message_id = null,
             waited_s = greatest(extract(epoch from now() - started_at), 0)::float8,
             person_s = greatest(extract(epoch from now() - started_at), 0)::float8
         where id = $1",
        run.id
    )
    .execute(db)
    .await?;
    Ok(())
}
