//! Ends a turn: the assistant's message, the run's state, `done` (after `error`, if any) and the job, in ONE
//! transaction (invariants I1, I2, I4). A sub-agent's end has no message and no `done`; it resumes the waiting parent
//! (I12).

use serde_json::{Value, json};
use sqlx::PgConnection;

use super::run_end::RunEnd;
use super::{Command, FencedError, wire_time};
use rejoin_event_log::log;
use rejoin_event_log::stream::Seen;
use rejoin_event_log::wakeup::Wake;
use rejoin_faults::Fault;
use rejoin_queue::{fencing, settle};
use rejoin_runs::contexts::Context;
use rejoin_runs::messages::{self, NewMessage, Role};
use rejoin_runs::runs::Run;
use rejoin_runs::{compressions, contexts, conversations, steering};
use rejoin_types::events::{DoneStatus, Kind, MessageBody};
use rejoin_types::ids;

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
    pub status: DoneStatus,
    /// The reply's text; if not completed, the partial text. Empty: no message is stored.
    pub text: &'a str,
    pub citations: &'a [Value],
    /// Set if failed, or if a limit ended the run.
    pub error: Option<&'a RunError>,
    pub usage: &'a Value,
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

    async fn happened(&self, db: &mut PgConnection, _: &Finished) -> Result<bool, sqlx::Error> {
        let ended = sqlx::query_scalar!(
            r#"select exists (select from kb.agent_runs where id = $1 and attempt = $2 and finished_at is not null) as "ended!""#,
            self.run.id,
            self.attempt
        );
        ended.fetch_one(db).await
    }

    fn committed(&self) {
        self.seen.committed();
    }
}

impl FinishRun<'_> {
    async fn try_apply(&self, db: &mut PgConnection) -> Result<Option<Finished>, sqlx::Error> {
        let run = self.run;
        let Some(job_id) = fencing::fence(db, run.id, self.attempt).await? else {
            return Ok(None);
        };
        if self.status == DoneStatus::Completed {
            // Steering takes this lock, too.
            log::lock(db, run.log_id).await?;
            if steering::has_pending(db, run.id).await? {
                return Ok(Some(Finished::HasPending));
            }
        }
        let message = match run.conversation_id {
            Some(conversation_id) if !self.text.is_empty() && !run.is_sub_agent() => {
                Some((ids::new(), conversation_id))
            }
            Some(_) | None => None,
        };
        let end = RunEnd {
            status: self.status,
            text: self.text,
            error: self.error,
            usage: self.usage,
            final_message_id: message.map(|(id, _)| id),
        };
        let mut events = Vec::from_iter(end.error_event(run));
        let citations = (!self.citations.is_empty()).then(|| json!(self.citations));
        let known = sqlx::query!(
            r#"select now() as "now!", (select context from kb.agent_runs where id = $1) as context"#,
            run.id
        )
        .fetch_one(&mut *db)
        .await?;
        if let Some(output) = self.output.filter(|_| !run.is_sub_agent()) {
            let output = output.clone();
            events.push(run.event(Kind::Output { output }));
        }
        let mut message_at = 0;
        if let Some((id, _)) = message {
            message_at = events.len();
            let message = MessageBody {
                id,
                role: Role::Assistant.as_str().to_owned(),
                content: self.text.to_owned(),
                created_at: wire_time(known.now),
                attached_context: None,
                attachments: Vec::new(),
                citations: citations.clone(),
            };
            events.push(run.event(Kind::Message { message }));
        }
        let about = Context::stored(known.context.as_ref()).filter(|_| !run.is_sub_agent());
        if let (Some(conversation_id), Some(context)) = (run.conversation_id, about) {
            let last_turn = contexts::conclude(db, conversation_id, run.id, &run.input, &context).await?;
            if let Some(tokens) = self.usage["contextTokens"].as_u64() {
                let compressed = compressions::newest(&mut *db, conversation_id).await?;
                let usage = contexts::usage(tokens, compressed.map(|compressed| compressed.to_json()).as_ref());
                let usage = contexts::with_window(usage, run.model.as_deref());
                events.push(run.event(Kind::ContextUsage { usage }));
            }
            events.push(run.event(Kind::LastTurnContext { context: last_turn }));
        }
        if rejoin_faults::enabled(Fault::DoneTwice) {
            events.push(end.last_event(run));
        }
        events.push(end.last_event(run));
        let behind = i64::try_from(events.len() - 1 - message_at).unwrap_or_default();
        let done_seq = log::append(db, run.log_id, Some(run.root_run_id), &events).await?;
        if !self.seen.follows(done_seq, events.len()) {
            return Ok(None);
        }

        if let Some((id, conversation_id)) = message {
            let retrieval_context = json!({ "agent_run_id": run.id });
            let metadata = match self.status {
                DoneStatus::Completed => self
                    .output
                    .map_or_else(|| json!({}), |output| json!({ "output": output })),
                DoneStatus::Failed | DoneStatus::Cancelled | DoneStatus::Paused => json!({ "partial": true }),
            };
            let new_message = NewMessage {
                id,
                conversation_id,
                role: Role::Assistant,
                content: self.text,
                citations: citations.as_ref(),
                retrieval_context: Some(&retrieval_context),
                metadata: &metadata,
                seq: done_seq - behind,
            };
            messages::insert(db, new_message).await?;
            conversations::touch(db, conversation_id).await?;
        }
        let mut wake = end.write(db, run, self.attempt, done_seq).await?;
        let job_state = match self.status {
            DoneStatus::Completed | DoneStatus::Paused => "completed",
            DoneStatus::Failed => "failed",
            DoneStatus::Cancelled => "cancelled",
        };
        let error = self.error.map(|error| error.message.as_str());
        let Some(lets_go) = settle::settle_one(db, job_id, self.attempt, job_state, error).await? else {
            return Ok(None);
        };
        wake.merge(Wake::log(run.log_id));
        if lets_go {
            // The conversation's next message is claimable from now on.
            wake.merge(Wake::queue(rejoin_queue::DEFAULT_QUEUE));
        }
        Ok(Some(Finished::Ended(wake)))
    }
}
