//! Ends a call of a remote tool: its job, its record, and the wait of its run, in one function of the database, which may be repeated.

use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

use super::Command;
use rejoin_event_log::wakeup::Wake;
use rejoin_faults::Fault;
use rejoin_runs::remote_calls::RemoteStatus;

/// Why and how a call ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RemoteEnd<'a> {
    Completed(&'a Value),
    /// The text is for the model.
    Failed(&'a str),
    /// It may have taken effect, and is not repeated. The text is for the model.
    OutcomeUnknown(&'a str),
    /// Its run does not want the result.
    Cancelled,
}

impl RemoteEnd<'_> {
    fn status(self) -> RemoteStatus {
        match self {
            Self::Completed(_) => RemoteStatus::Completed,
            Self::Failed(_) => RemoteStatus::Error,
            Self::OutcomeUnknown(_) => RemoteStatus::OutcomeUnknown,
            Self::Cancelled => RemoteStatus::Cancelled,
        }
    }
}

#[derive(Debug)]
pub struct EndRemoteCall<'a> {
    pub id: Uuid,
    /// The attempt that has the call. None: whatever attempt has it.
    pub attempt: Option<i32>,
    pub end: RemoteEnd<'a>,
}

/// A call that has ended, now or by an earlier execution.
#[derive(Debug, Clone, PartialEq)]
pub struct EndedRemoteCall {
    pub status: String,
    /// Wake-ups to send after the commit.
    pub wake: Wake,
}

impl EndedRemoteCall {
    /// `resumed`: whether its run was suspended, and is queued again. Otherwise a worker may hold the run.
    pub fn of(status: String, resumed: bool, run_id: Option<Uuid>) -> Self {
        let wake = match run_id {
            Some(_) if resumed => Wake::queue(rejoin_queue::DEFAULT_QUEUE),
            Some(run_id) => Wake::returned(run_id),
            None => Wake::default(),
        };
        Self { status, wake }
    }
}

impl Command for EndRemoteCall<'_> {
    /// None: there is no such call, or another attempt has it.
    type Output = Option<EndedRemoteCall>;
    type Error = sqlx::Error;

    async fn apply(&self, db: &mut PgConnection) -> Result<Self::Output, sqlx::Error> {
        let (output, error) = match self.end {
            RemoteEnd::Completed(output) => (Some(output), None),
            RemoteEnd::Failed(error) | RemoteEnd::OutcomeUnknown(error) => (None, Some(error)),
            RemoteEnd::Cancelled => (None, None),
        };
        let attempt = if rejoin_faults::enabled(Fault::StaleResultAccepted) {
            None
        } else {
            self.attempt
        };
        let ended = sqlx::query!(
            r#"select status as "status!", resumed as "resumed!", run_id from kb.end_remote_call($1, $2, $3, $4, $5)"#,
            self.id,
            attempt as _,
            self.end.status().as_str(),
            output as _,
            error as _
        )
        .fetch_optional(db)
        .await?;
        Ok(ended.map(|ended| EndedRemoteCall::of(ended.status, ended.resumed, ended.run_id)))
    }

    fn is_one_statement(&self) -> bool {
        true
    }
}
