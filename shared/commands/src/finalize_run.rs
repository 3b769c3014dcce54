//! The steps shared by all ends of a run: its last events, its row, and resuming its waiting parent or task.
//!
//! A turn ends with exactly one `done`. The end of a sub-agent does not end the turn: readers receive `sub_agent`, and
//! the turn continues.

use sqlx::PgConnection;

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
            r#"select kb.end_run($1, $2, $3, $4, $5, $6, $7, $8, $9) as "ended!: ()""#,
            run.id,
            attempt,
            RunState::from(self.status).as_str(),
            seq,
            self.final_message_id,
            self.summary(),
            self.error.map(|error| error.message.as_str()),
            self.error.map(|error| error.code.as_str()),
            self.usage
        )
        .execute(&mut *db)
        .await?;
        self.wake_others(db, run).await
    }

    /// The run's summary: the answer. None: there is none.
    pub fn summary(&self) -> Option<&str> {
        (!self.text.is_empty()).then_some(self.text)
    }

    /// Resumes the waiting parent or task. The run's row has its end, and the caller holds the log's lock.
    pub async fn wake_others(&self, db: &mut PgConnection, run: &Run) -> Result<Wake, sqlx::Error> {
        if run.task_id.is_some() {
            return schedule_tasks::run_ended(db, run).await;
        }
        match run.parent_run_id {
            Some(_) if rejoin_faults::enabled(Fault::ParentSleeps) => Ok(Wake::default()),
            Some(parent) => run_dependencies::wake_if_met(db, parent).await,
            None => Ok(Wake::default()),
        }
    }
}
