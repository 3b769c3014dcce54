//! Records what a running call waits for, as soon as its tool has asked its user: whatever becomes of the worker, the questions are asked. And
//! that it waits for nothing again, before the call is made with the answers: whatever becomes of the worker then, it may have acted (invariant
//! I7).

use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

use super::{Command, FencedError};
use rejoin_event_log::wakeup::Wake;
use rejoin_queue::fencing;
use rejoin_runs::runs::Run;
use rejoin_runs::tool_calls;

#[derive(Debug)]
pub struct RecordInput<'a> {
    pub run: &'a Run,
    pub attempt: i32,
    /// The row of the call.
    pub id: Uuid,
    /// An [`AwaitedInput`](rejoin_runs::forms::AwaitedInput). None: the call is about to be made with the answers.
    pub awaited: Option<&'a Value>,
}

impl Command for RecordInput<'_> {
    type Output = (bool, Wake);
    type Error = FencedError;

    /// False: the run was cancelled, and the call must not be made with the answers (invariant I13).
    async fn apply(&self, db: &mut PgConnection) -> Result<(bool, Wake), FencedError> {
        let failed = FencedError::database("recording what a tool asks");
        let recorded = self.try_apply(db).await.map_err(failed)?;
        recorded
            .map(|goes_on| (goes_on, Wake::default()))
            .ok_or(FencedError::LeaseLost)
    }
}

impl RecordInput<'_> {
    async fn try_apply(&self, db: &mut PgConnection) -> Result<Option<bool>, sqlx::Error> {
        if fencing::fence_progress(db, self.run.id, self.attempt).await?.is_none() {
            return Ok(None);
        }
        let is_cancelled = sqlx::query_scalar!(
            r#"select cancel_requested_at is not null as "cancelled!" from kb.agent_runs where id = $1 for no key update"#,
            self.run.id
        )
        .fetch_one(&mut *db)
        .await?;
        if self.awaited.is_none() && is_cancelled {
            return Ok(Some(false));
        }
        tool_calls::await_input(db, self.id, self.awaited).await?;
        Ok(Some(true))
    }
}
