//! Ends a turn: the assistant's message, the run's state, `done` (after `error`, if any) and the job, in ONE
//! transaction (invariants I1, I2, I4). A sub-agent's end has no message and no `done`; it resumes the waiting parent
//! (I12).

use serde_json::{Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

use super::record_step::RecordStep;
use super::run_end::RunEnd;
use super::{Command, FencedError};
use rejoin_event_log::log;
use rejoin_event_log::stream::Seen;
use rejoin_event_log::wakeup::Wake;
use rejoin_faults::Fault;
use rejoin_runs::contexts::Context;
use rejoin_runs::messages::Role;
use rejoin_runs::runs::{Run, RunState};
use rejoin_runs::{compressions, contexts};
use rejoin_types::events::{DoneStatus, Event, Kind, MessageBody};
use rejoin_types::ids;

/// Maximum number of times that the run's context is read to end one turn: once, and again if a tool has changed it.
const READS_MAX: u32 = 3;

/// The reason of a failed run, as sent to clients.
#[derive(Debug, Clone, PartialEq)]
pub struct RunError {
    /// A stable code.
    pub code: String,
    pub message: String,
    /// Whether retrying the same request may succeed.
    pub retryable: bool,
}

#[derive(Debug)]
pub struct FinishRun<'a> {
    pub run: &'a Run,
    pub attempt: i32,
    /// What the attempt has seen of the log: appended events must follow it.
    pub seen: &'a Seen,
    /// The row of the assistant's message, made by the caller.
    pub message_id: Uuid,
    pub status: DoneStatus,
    /// The reply's text; if not completed, the partial text. Empty: no message is stored.
    pub text: &'a str,
    pub citations: &'a [Value],
    /// Set if failed, or if a limit ended the run.
    pub error: Option<&'a RunError>,
    pub usage: &'a Value,
    /// The step that ends the run, if it is not recorded yet: one without calls.
    pub last_step: Option<&'a RecordStep<'a>>,
    /// The structured output, if a schema requires it; `text` is the same as JSON.
    pub output: Option<&'a Value>,
}

/// The outcome of [`FinishRun`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finished {
    Ended(Wake),
    /// Not ended: a steering message arrived after the answer, and must be handled first.
    HasPending,
}

impl Command for FinishRun<'_> {
    type Output = Finished;
    type Error = FencedError;

    async fn apply(&self, db: &mut PgConnection) -> Result<Finished, FencedError> {
        let failed = FencedError::database("finishing the run");
        self.try_apply(db).await.map_err(failed)?.ok_or(FencedError::LeaseLost)
    }

    fn is_one_statement(&self) -> bool {
        // Its end resumes others otherwise.
        self.run.parent_run_id.is_none()
    }

    fn committed(&self) {
        self.seen.committed();
    }
}

/// What precedes the end in the records of the turn.
struct Ending {
    events: Vec<Event>,
    /// The number of events after the assistant's message.
    behind: i32,
    /// The turn's context for the next one, as JSON.
    last_turn: Option<String>,
}

impl FinishRun<'_> {
    async fn try_apply(&self, db: &mut PgConnection) -> Result<Option<Finished>, sqlx::Error> {
        let run = self.run;
        let end = RunEnd {
            status: self.status,
            text: self.text,
            error: self.error,
            usage: self.usage,
            final_message_id: self.stored_message().map(|(id, _)| id),
        };
        // Not in any text of the turn.
        let time_mark = ids::new().to_string();
        let mut context = run.context.clone();
        for _ in 0..READS_MAX {
            let ending = self.ending(db, &end, context.as_ref(), &time_mark).await?;
            let Some(found) = self.finish(db, &end, &ending, context.as_ref(), &time_mark).await? else {
                return Ok(None);
            };
            match found.outcome.as_str() {
                "ended" => {
                    self.seen.appended(found.seq.unwrap_or_default());
                    // The DAG of a task proceeds in the transaction that follows: with all runs that have ended by then.
                    let mut wake = match run.task_id {
                        Some(_) => Wake::default(),
                        None => end.wake_others(db, run).await?,
                    };
                    wake.merge(Wake::log(run.log_id));
                    if found.let_go {
                        // The conversation's next message is claimable from now on.
                        wake.merge(Wake::queue(rejoin_queue::DEFAULT_QUEUE));
                    }
                    return Ok(Some(Finished::Ended(wake)));
                }
                // With what it does to others.
                "repeated" => {
                    self.seen.appended(found.seq.unwrap_or_default());
                    let queue = Wake::queue(rejoin_queue::DEFAULT_QUEUE);
                    return Ok(Some(Finished::Ended(Wake::log(run.log_id).and(queue))));
                }
                "pending" => return Ok(Some(Finished::HasPending)),
                // A tool has changed the context since the caller read the run.
                _ => context = found.context,
            }
        }
        Err(sqlx::Error::Protocol(
            "the run's context changes each time it is read".to_owned(),
        ))
    }

    /// The assistant's message, and its conversation. None: none is stored.
    fn stored_message(&self) -> Option<(Uuid, Uuid)> {
        match self.run.conversation_id {
            Some(conversation_id) if !self.text.is_empty() && !self.run.is_sub_agent() => {
                Some((self.message_id, conversation_id))
            }
            Some(_) | None => None,
        }
    }

    fn citations(&self) -> Option<Value> {
        (!self.citations.is_empty()).then(|| json!(self.citations))
    }

    /// Returns the last events, with `time_mark` in place of the time, and the turn's context for the next one.
    async fn ending(
        &self,
        db: &mut PgConnection,
        end: &RunEnd<'_>,
        context: Option<&Value>,
        time_mark: &str,
    ) -> Result<Ending, sqlx::Error> {
        let run = self.run;
        let mut events = Vec::from_iter(end.error_event(run));
        if let Some(output) = self.output.filter(|_| !run.is_sub_agent()) {
            let output = output.clone();
            events.push(run.event(Kind::Output { output }));
        }
        let mut message_at = 0;
        if let Some((id, _)) = self.stored_message() {
            message_at = events.len();
            let message = MessageBody {
                id,
                role: Role::Assistant.as_str().to_owned(),
                content: self.text.to_owned(),
                created_at: time_mark.to_owned(),
                attached_context: None,
                attachments: Vec::new(),
                citations: self.citations(),
            };
            events.push(run.event(Kind::Message { message }));
        }
        let mut last_turn = None;
        let about = Context::stored(context).filter(|_| !run.is_sub_agent());
        if let (Some(conversation_id), Some(context)) = (run.conversation_id, about) {
            let concluded = contexts::conclude(db, run.id, &run.input, &context, time_mark).await?;
            last_turn = Some(concluded.to_string());
            if let Some(tokens) = self.usage["contextTokens"].as_u64() {
                let compressed = compressions::newest(&mut *db, conversation_id).await?;
                let usage = contexts::usage(tokens, compressed.map(|compressed| compressed.to_json()).as_ref());
                let usage = contexts::with_window(usage, run.model.as_deref());
                events.push(run.event(Kind::ContextUsage { usage }));
            }
            events.push(run.event(Kind::LastTurnContext { context: concluded }));
        }
        if rejoin_faults::enabled(Fault::DoneTwice) {
            events.push(end.last_event(run));
        }
        events.push(end.last_event(run));
        Ok(Ending {
            behind: i32::try_from(events.len() - 1 - message_at).unwrap_or_default(),
            events,
            last_turn,
        })
    }

    /// Ends the run in the database. None: the lease was lost.
    async fn finish(
        &self,
        db: &mut PgConnection,
        end: &RunEnd<'_>,
        ending: &Ending,
        context: Option<&Value>,
        time_mark: &str,
    ) -> Result<Option<Found>, sqlx::Error> {
        let run = self.run;
        let job_state = match self.status {
            DoneStatus::Completed | DoneStatus::Paused => "completed",
            DoneStatus::Failed => "failed",
            DoneStatus::Cancelled => "cancelled",
        };
        let metadata = match self.status {
            DoneStatus::Completed => self
                .output
                .map_or_else(|| json!({}), |output| json!({ "output": output })),
            DoneStatus::Failed | DoneStatus::Cancelled | DoneStatus::Paused => json!({ "partial": true }),
        };
        let (types, data) = log::columns(&ending.events);
        let step = self.last_step.map(|step| (step, step.columns()));
        let step = step.as_ref();
        let columns = step.map(|(_, columns)| columns);
        sqlx::query_as!(
            Found,
            r#"select outcome as "outcome!", seq, let_go as "let_go!", context
               from kb.finish_run($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22,
                                  $23, $24, $25, $26, $27, $28, $29, $30, $31, $32)"#,
            run.id,
            self.attempt,
            run.log_id,
            run.root_run_id,
            self.seen.last(),
            RunState::from(self.status).as_str(),
            job_state,
            run.conversation_id.filter(|_| !run.is_sub_agent()),
            context as _,
            end.final_message_id,
            self.text,
            self.citations() as _,
            metadata,
            ending.behind,
            &types,
            &data,
            ending.last_turn,
            time_mark,
            end.summary(),
            self.error.map(|error| error.message.as_str()),
            self.error.map(|error| error.code.as_str()),
            self.usage,
            step.map(|_| rejoin_queue::RUN_MAX_ATTEMPTS),
            step.map(|(step, _)| step.step_number),
            columns.map(|columns| columns.ids.as_slice()) as _,
            columns.map(|columns| columns.roles.as_slice()) as _,
            columns.map(|columns| columns.contents.as_slice()) as _,
            columns.map(|columns| columns.types.as_slice()) as _,
            columns.map(|columns| columns.data.as_slice()) as _,
            step.map_or(0, |(step, _)| i64::try_from(step.tokens).unwrap_or(i64::MAX)),
            step.map_or(0.0, |(step, _)| step.cost_usd),
            step.map_or(&[][..], |(step, _)| step.steering_messages)
        )
        .fetch_optional(db)
        .await
    }
}

/// What `kb.finish_run` found.
struct Found {
    outcome: String,
    seq: Option<i64>,
    let_go: bool,
    context: Option<Value>,
}
