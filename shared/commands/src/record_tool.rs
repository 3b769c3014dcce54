//! Records a tool call before it acts, and its end with the result (invariants I7, I13). Row, event and the run's safe
//! point share one transaction, so that readers and a new attempt agree.

use serde_json::{Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

use super::{Command, FencedError};
use rejoin_event_log::log;
use rejoin_event_log::stream::Seen;
use rejoin_event_log::wakeup::Wake;
use rejoin_faults::Fault;
use rejoin_queue::fencing;
use rejoin_runs::contexts::{self, Context};
use rejoin_runs::run_messages;
use rejoin_runs::runs::Run;
use rejoin_runs::tool_calls::{self, CallStatus};
use rejoin_types::events::{Kind, Operation, ToolStatus};
use rejoin_types::ids;

/// Records that a call begins to act.
#[derive(Debug)]
pub struct ToolStarted<'a> {
    pub run: &'a Run,
    pub attempt: i32,
    /// What the attempt has seen of the log: appended events must follow it.
    pub seen: &'a Seen,
    /// The row of the call.
    pub id: Uuid,
    pub call_id: &'a str,
    pub tool: &'a str,
    pub input: &'a Value,
    /// The operation shown to users.
    pub operation: Option<&'a Operation>,
    /// Whether it is published: not without a stream callback, and not again when a new attempt repeats the call.
    pub publish: bool,
}

impl Command for ToolStarted<'_> {
    type Output = (bool, Wake);
    type Error = FencedError;

    /// False: the run was cancelled, and the call must not act (invariant I13).
    async fn apply(&self, db: &mut PgConnection) -> Result<(bool, Wake), FencedError> {
        let failed = FencedError::database("recording the tool call");
        self.try_apply(db).await.map_err(failed)?.ok_or(FencedError::LeaseLost)
    }

    async fn happened(&self, db: &mut PgConnection, _: &(bool, Wake)) -> Result<bool, sqlx::Error> {
        // A repeated call was running before; its start must not be published twice.
        let running = sqlx::query_scalar!(
            r#"select exists (select from kb.agent_run_tool_calls where id = $1 and status = 'running') as "running!""#,
            self.id
        );
        running.fetch_one(db).await
    }

    fn committed(&self) {
        self.seen.committed();
    }
}

impl ToolStarted<'_> {
    async fn try_apply(&self, db: &mut PgConnection) -> Result<Option<(bool, Wake)>, sqlx::Error> {
        let run = self.run;
        if fencing::fence(db, run.id, self.attempt).await?.is_none() {
            return Ok(None);
        }
        log::lock(db, run.log_id).await?;
        let cancelled = sqlx::query_scalar!(
            r#"select cancel_requested_at is not null as "cancelled!" from kb.agent_runs where id = $1 for update"#,
            run.id
        )
        .fetch_one(&mut *db)
        .await?;
        if cancelled && !rejoin_faults::enabled(Fault::CancelIgnored) {
            return Ok(Some((false, Wake::default())));
        }
        tool_calls::mark_running(db, self.id).await?;
        let started = Kind::McpTool {
            call_id: self.call_id.to_owned(),
            tool: self.tool.to_owned(),
            status: ToolStatus::Started,
            input: Some(self.input.clone()),
            result: None,
            error: None,
            duration_ms: None,
        };
        if self.publish {
            let mut appender = EventAppender::of(run, self.seen);
            appender.append(db, started).await?;
            if let Some(operation) = self.operation {
                let operation = operation.clone();
                appender.append(db, Kind::Operation { operation }).await?;
            }
            if !appender.follows {
                return Ok(None);
            }
        }
        Ok(Some((true, Wake::log(run.log_id))))
    }
}

/// Records the end of a call: success, failure, or unknown outcome.
#[derive(Debug)]
pub struct ToolEnded<'a> {
    pub run: &'a Run,
    pub attempt: i32,
    /// What the attempt has seen of the log: appended events must follow it.
    pub seen: &'a Seen,
    pub step_number: i32,
    pub id: Uuid,
    pub call_id: &'a str,
    pub tool: &'a str,
    pub status: CallStatus,
    pub output: Option<&'a Value>,
    /// The part of the result that is published.
    pub told: Option<&'a Value>,
    pub error: Option<&'a str>,
    pub duration_ms: i64,
    /// The stored `tool_result` message for the model.
    pub result_message: &'a Value,
    /// Whether to publish the call's start first: it never acted (unknown tool, bad arguments, doom loop), so its start
    /// was not published, and readers must see every call begin before it ends.
    pub announce: Option<&'a Value>,
    /// The operation shown to users.
    pub operation: Option<Operation>,
    /// Further events to publish.
    pub events: Vec<Kind>,
    /// The conversation's new context, if the call changed it.
    pub context: Option<&'a Context>,
    /// Whether anything is published.
    pub publish: bool,
}

impl Command for ToolEnded<'_> {
    type Output = Wake;
    type Error = FencedError;

    async fn apply(&self, db: &mut PgConnection) -> Result<Wake, FencedError> {
        let failed = FencedError::database("storing the tool's result");
        self.try_apply(db).await.map_err(failed)?.ok_or(FencedError::LeaseLost)
    }

    async fn happened(&self, db: &mut PgConnection, _: &Wake) -> Result<bool, sqlx::Error> {
        let ended = sqlx::query_scalar!(
            r#"select exists (select from kb.agent_run_tool_calls where id = $1 and completed_at is not null) as "ended!""#,
            self.id
        );
        ended.fetch_one(db).await
    }

    fn committed(&self) {
        self.seen.committed();
    }
}

impl ToolEnded<'_> {
    async fn try_apply(&self, db: &mut PgConnection) -> Result<Option<Wake>, sqlx::Error> {
        let run = self.run;
        if fencing::fence_progress(db, run.id, self.attempt).await?.is_none() {
            return Ok(None);
        }
        let duration = i32::try_from(self.duration_ms).unwrap_or(i32::MAX);
        tool_calls::mark_ended(db, self.id, self.status, self.output, self.error, Some(duration)).await?;
        if let Some(operation) = &self.operation {
            tool_calls::set_operation(db, self.id, &json!(operation)).await?;
        }
        run_messages::append(
            db,
            run.id,
            ids::new(),
            "tool_result",
            self.result_message,
            self.step_number,
        )
        .await?;
        if !self.publish {
            return Ok(Some(Wake::default()));
        }
        let mut appender = EventAppender::of(run, self.seen);
        if let Some(input) = self.announce {
            let started = Kind::McpTool {
                call_id: self.call_id.to_owned(),
                tool: self.tool.to_owned(),
                status: ToolStatus::Started,
                input: Some(input.clone()),
                result: None,
                error: None,
                duration_ms: None,
            };
            appender.append(db, started).await?;
        }
        let status = match self.status {
            CallStatus::Completed => ToolStatus::Completed,
            CallStatus::Error | CallStatus::OutcomeUnknown | CallStatus::Pending | CallStatus::Running => {
                ToolStatus::Error
            }
        };
        let ended = Kind::McpTool {
            call_id: self.call_id.to_owned(),
            tool: self.tool.to_owned(),
            status,
            input: None,
            result: self.told.cloned(),
            error: self.error.map(str::to_owned),
            duration_ms: Some(self.duration_ms),
        };
        appender.append(db, ended).await?;
        if let Some(operation) = self.operation.clone() {
            appender.append(db, Kind::Operation { operation }).await?;
        }
        for event in &self.events {
            appender.append(db, event.clone()).await?;
        }
        if let Some(context) = self.context {
            contexts::lead_run(db, run.id, run.root_run_id, context).await?;
            if let Some(conversation_id) = run.conversation_id {
                let before = contexts::set_context(db, conversation_id, context).await?;
                if before.and_then(|before| before.focus) != context.focus {
                    let focus = context.focus.as_ref().map(|focus| json!(focus));
                    appender.append(db, Kind::FocusChanged { focus }).await?;
                }
            }
        }
        Ok(appender.follows.then(|| Wake::log(run.log_id)))
    }
}

/// The events that a command publishes, in order, and whether they follow what its attempt has seen.
struct EventAppender<'a> {
    run: &'a Run,
    seen: &'a Seen,
    follows: bool,
}

impl<'a> EventAppender<'a> {
    fn of(run: &'a Run, seen: &'a Seen) -> Self {
        let follows = true;
        Self { run, seen, follows }
    }

    async fn append(&mut self, db: &mut PgConnection, kind: Kind) -> Result<(), sqlx::Error> {
        let seq = append_and_move_safe_point(db, self.run, kind).await?;
        self.follows &= self.seen.follows(seq, 1);
        Ok(())
    }
}

/// Returns the event's number.
pub(super) async fn append_and_move_safe_point(
    db: &mut PgConnection,
    run: &Run,
    kind: Kind,
) -> Result<i64, sqlx::Error> {
    let seq = log::append(db, run.log_id, Some(run.root_run_id), &[run.event(kind)]).await?;
    sqlx::query!("update kb.agent_runs set safe_seq = $2 where id = $1", run.id, seq)
        .execute(db)
        .await?;
    Ok(seq)
}
