//! A model's answer is stored before anything of it is acted upon: the assistant's message, the calls that it asked for as
//! `pending`, the counters, and the `usage` event. From here on a new attempt does not ask the model again.

use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

use super::{Command, FencedError};
use crate::events::kinds::{Event, Kind};
use crate::events::log;
use crate::queue::settle;
use crate::runs::Run;
use crate::wakeup::Wake;
use crate::{ids, run_messages, tool_calls};

/// A call that the model asked for.
#[derive(Debug)]
pub struct AskedCall<'a> {
    /// The row's id, made by the caller.
    pub id: Uuid,
    pub call_id: &'a str,
    pub tool_name: &'a str,
    pub input: &'a Value,
}

#[derive(Debug)]
pub struct RecordStep<'a> {
    pub run: &'a Run,
    pub attempt: i32,
    /// The row of the assistant's message, made by the caller.
    pub message_id: Uuid,
    /// 1 for the first model call of the run.
    pub step_number: i32,
    /// Messages that the executor put in before the model was asked in this step (limits): (role, content).
    pub injected: &'a [(&'static str, Value)],
    pub assistant: &'a Value,
    pub calls: &'a [AskedCall<'a>],
    /// The `usage` event: sums over the run.
    pub usage: Kind,
    /// The same, as the run stores it.
    pub usage_json: &'a Value,
}

impl Command for RecordStep<'_> {
    type Output = Wake;
    type Error = FencedError;

    async fn apply(&self, db: &mut PgConnection) -> Result<Wake, FencedError> {
        let failed = FencedError::database("storing the step");
        self.try_apply(db).await.map_err(failed)?.ok_or(FencedError::LeaseLost)
    }

    async fn happened(&self, db: &mut PgConnection, _: &Wake) -> Result<bool, sqlx::Error> {
        let known = sqlx::query_scalar!(
            r#"select exists (select from kb.agent_run_messages where id = $1) as "there!""#,
            self.message_id
        );
        known.fetch_one(db).await
    }
}

impl RecordStep<'_> {
    async fn try_apply(&self, db: &mut PgConnection) -> Result<Option<Wake>, sqlx::Error> {
        let run = self.run;
        if settle::fence_progress(db, run.id, self.attempt).await?.is_none() {
            return Ok(None);
        }
        for (role, content) in self.injected {
            run_messages::append(db, run.id, ids::new(), role, content, self.step_number).await?;
        }
        run_messages::append(
            db,
            run.id,
            self.message_id,
            "assistant",
            self.assistant,
            self.step_number,
        )
        .await?;
        for (position, call) in (0..).zip(self.calls) {
            tool_calls::insert(
                db,
                call.id,
                run.id,
                self.message_id,
                call.call_id,
                self.step_number,
                position,
                call.tool_name,
                call.input,
            )
            .await?;
        }
        let seq = log::append(
            db,
            run.log_id,
            Some(run.root_run_id),
            &[Event::of(run.id, self.usage.clone())],
        )
        .await?;
        sqlx::query!(
            "update kb.agent_runs
             set step_count = $2, total_steps = greatest(total_steps, $2), usage = $3, safe_seq = $4
             where id = $1",
            run.id,
            self.step_number,
            self.usage_json,
            seq
        )
        .execute(db)
        .await?;
        Ok(Some(Wake::log(run.log_id)))
    }
}
