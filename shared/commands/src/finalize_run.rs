//! The steps shared by all ends of a run: its last events, its row, and resuming its waiting parent or task.
//!
//! A turn ends with exactly one `done`. The end of a sub-agent does not end the turn: readers receive `sub_agent`, and
//! the turn continues.

use sqlx::PgConnection;
use uuid::Uuid;

use super::run_end::RunEnd;
use super::schedule_tasks;
use rejoin_event_log::wakeup::Wake;
use rejoin_faults::Fault;
use rejoin_runs::run_dependencies;
use rejoin_runs::runs::{Run, RunState};
use rejoin_types::events::{Event, Kind};

impl RunEnd<'_> {
    /// The event that precedes all others of the end.
    pub fn error_event(&self, run: &Run) -> Option<Event> {
        let error = self.error.filter(|_| !run.is_sub_agent())?;
        Some(run.event(Kind::Error {
            error: error.message.clone(),
            code: error.code.clone(),
            retryable: error.retryable,
        }))
    }

    /// The last event.
    pub fn last_event(&self, run: &Run) -> Event {
        run.event(if run.is_sub_agent() {
            Kind::SubAgent {
                status: self.status.as_str().to_owned(),
                task: None,
                summary: (!self.text.is_empty()).then(|| self.text.to_owned()),
                error: self.error.map(|error| error.message.clone()),
                code: self.error.map(|error| error.code.clone()),
                usage: Some(self.usage.clone()),
            }
        } else {
            Kind::Done {
                status: self.status,
                final_message_id: self.final_message_id,
                usage: Some(self.usage.clone()),
            }
        })
    }

    /// Writes the end to the run's row, and resumes the waiting parent. `seq` is the last event's number; the caller
    /// holds the log's lock.
    pub async fn write(&self, db: &mut PgConnection, run: &Run, attempt: i32, seq: i64) -> Result<Wake, sqlx::Error> {
        sqlx::query!(
            "update kb.agent_runs
             set state = $2, attempt = $3, finished_at = now(), done_seq = $4, safe_seq = $4, final_message_id = $5,
                 summary = $6, error = $7, error_code = $8, usage = $9, waiting_since = null
             where id = $1",
            run.id,
            RunState::from(self.status).as_str(),
            attempt,
            seq,
            self.final_message_id as Option<Uuid>,
            (!self.text.is_empty()).then_some(self.text),
            self.error.map(|error| error.message.as_str()),
            self.error.map(|error| error.code.as_str()),
            self.usage
        )
        .execute(&mut *db)
        .await?;
        if run.task_id.is_some() {
            return schedule_tasks::run_ended(db, run, self).await;
        }
        match run.parent_run_id {
            Some(_) if rejoin_faults::enabled(Fault::ParentSleeps) => Ok(Wake::default()),
            Some(parent) => run_dependencies::wake_if_met(db, parent).await,
            None => Ok(Wake::default()),
        }
    }
}
