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
use rejoin_runs::contexts::Context;
use rejoin_runs::runs::Run;
use rejoin_runs::tool_calls::CallStatus;
use rejoin_types::events::{Event, Kind, Operation, ToolStatus};

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

    fn is_one_statement(&self) -> bool {
        true
    }

    fn committed(&self) {
        self.seen.committed();
    }
}

impl ToolStarted<'_> {
    async fn try_apply(&self, db: &mut PgConnection) -> Result<Option<(bool, Wake)>, sqlx::Error> {
        let run = self.run;
        let mut events = Vec::new();
        if self.publish {
            events.push(run.event(started(self.call_id, self.tool, self.input)));
            events.extend(self.operation.map(|operation| run.event(operation_event(operation))));
        }
        let (types, data) = log::columns(&events);
        let recorded = sqlx::query!(
            r#"select seq, may_act as "may_act!" from kb.start_tool_call($1, $2, $3, $4, $5, $6, $7, $8, $9)"#,
            run.id,
            self.attempt,
            run.log_id,
            run.root_run_id,
            self.seen.last(),
            self.id,
            &types,
            &data,
            !rejoin_faults::enabled(Fault::CancelIgnored)
        )
        .fetch_optional(db)
        .await?;
        Ok(recorded.map(|recorded| {
            self.seen.appended(recorded.seq.unwrap_or_default());
            let wake = if recorded.may_act && self.publish {
                Wake::log(run.log_id)
            } else {
                Wake::default()
            };
            (recorded.may_act, wake)
        }))
    }
}

/// The event of a call that begins to act.
pub(super) fn started(call_id: &str, tool: &str, input: &Value) -> Kind {
    Kind::McpTool {
        call_id: call_id.to_owned(),
        tool: tool.to_owned(),
        status: ToolStatus::Started,
        input: Some(input.clone()),
        result: None,
        error: None,
        duration_ms: None,
    }
}

fn operation_event(operation: &Operation) -> Kind {
    let operation = operation.clone();
    Kind::Operation { operation }
}

/// Records the ends of calls of a step: success, failure, or unknown outcome. They are all recorded, in this order, or none.
#[derive(Debug)]
pub struct ToolsEnded<'a> {
    pub run: &'a Run,
    pub attempt: i32,
    /// What the attempt has seen of the log: appended events must follow it.
    pub seen: &'a Seen,
    pub step_number: i32,
    /// If one of them has set a context, it is the only one.
    pub calls: &'a [EndedCall<'a>],
    /// Whether anything is published.
    pub publish: bool,
}

/// The end of a call.
#[derive(Debug)]
pub struct EndedCall<'a> {
    pub id: Uuid,
    /// The row of the `tool_result` message, made by the caller.
    pub message_id: Uuid,
    pub call_id: &'a str,
    pub tool: &'a str,
    pub status: CallStatus,
    pub output: Option<&'a Value>,
    /// The part of the result that is published.
    pub published: Option<&'a Value>,
    pub error: Option<&'a str>,
    pub duration_ms: i64,
    /// The stored `tool_result` message for the model.
    pub result_message: Value,
    /// Whether to publish the call's start first: it never acted (unknown tool, bad arguments, doom loop), so its start
    /// was not published, and readers must see every call begin before it ends.
    pub announce: Option<&'a Value>,
    /// The operation shown to users.
    pub operation: Option<&'a Operation>,
    /// Further events to publish.
    pub events: Vec<Kind>,
    /// The conversation's new context, if the call changed it.
    pub context: Option<&'a Context>,
}

/// The outcome of [`ToolsEnded`].
#[derive(Debug)]
pub struct EndRecorded {
    /// Whether the run has pending steering messages.
    pub has_pending: bool,
    pub wake: Wake,
}

impl Command for ToolsEnded<'_> {
    type Output = EndRecorded;
    type Error = FencedError;

    async fn apply(&self, db: &mut PgConnection) -> Result<EndRecorded, FencedError> {
        let failed = FencedError::database("storing the tool's result");
        self.try_apply(db).await.map_err(failed)?.ok_or(FencedError::LeaseLost)
    }

    fn is_one_statement(&self) -> bool {
        true
    }

    fn committed(&self) {
        self.seen.committed();
    }
}

impl ToolsEnded<'_> {
    async fn try_apply(&self, db: &mut PgConnection) -> Result<Option<EndRecorded>, sqlx::Error> {
        let run = self.run;
        let calls = || self.calls.iter();
        let events: Vec<(i32, Event)> = (1..)
            .zip(calls().filter(|_| self.publish))
            .flat_map(|(nth, call)| call.published(run).into_iter().map(move |event| (nth, event)))
            .collect();
        let (of_calls, events): (Vec<i32>, Vec<Event>) = events.into_iter().unzip();
        let (types, data) = log::columns(&events);
        let context = calls().find_map(|call| call.context).filter(|_| self.publish);
        let recorded = sqlx::query!(
            r#"select seq as "seq!", has_pending as "has_pending!"
               from kb.end_tool_calls($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)"#,
            run.id,
            self.attempt,
            rejoin_queue::RUN_MAX_ATTEMPTS,
            run.log_id,
            run.root_run_id,
            self.seen.last(),
            self.step_number,
            &calls().map(|call| call.id).collect::<Vec<_>>(),
            &calls().map(|call| call.status.as_str()).collect::<Vec<_>>() as &[&str],
            &calls().map(|call| call.output).collect::<Vec<_>>() as &[Option<&Value>],
            &calls().map(|call| call.error).collect::<Vec<_>>() as &[Option<&str>],
            &calls()
                .map(|call| i32::try_from(call.duration_ms).unwrap_or(i32::MAX))
                .collect::<Vec<_>>(),
            &calls()
                .map(|call| call.operation.map(|operation| json!(operation)))
                .collect::<Vec<_>>() as &[Option<Value>],
            &calls().map(|call| call.message_id).collect::<Vec<_>>(),
            &calls().map(|call| &call.result_message).collect::<Vec<_>>() as &[&Value],
            &types,
            &data,
            &of_calls,
            context.map(Context::to_json) as _,
            run.conversation_id
        )
        .fetch_optional(db)
        .await?;
        Ok(recorded.map(|recorded| {
            self.seen.appended(recorded.seq);
            EndRecorded {
                has_pending: recorded.has_pending,
                wake: if events.is_empty() {
                    Wake::default()
                } else {
                    Wake::log(run.log_id)
                },
            }
        }))
    }
}

impl EndedCall<'_> {
    /// The events in order. The last one, of a call that sets the context of a conversation, is published only if the
    /// focus changes.
    fn published(&self, run: &Run) -> Vec<Event> {
        let announced = self.announce.map(|input| started(self.call_id, self.tool, input));
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
            result: self.published.cloned(),
            error: self.error.map(str::to_owned),
            duration_ms: Some(self.duration_ms),
        };
        let in_conversation = self.context.filter(|_| run.conversation_id.is_some());
        let focus = in_conversation.map(|context| Kind::FocusChanged {
            focus: context.focus.as_ref().map(|focus| json!(focus)),
        });
        announced
            .into_iter()
            .chain([ended])
            .chain(self.operation.map(operation_event))
            .chain(self.events.iter().cloned())
            .chain(focus)
            .map(|kind| run.event(kind))
            .collect()
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
