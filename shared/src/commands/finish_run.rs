//! The end of a turn: the assistant's message, the run's state, `done` (after `error`, where there is one) and the job, in ONE
//! transaction (invariants I1, I2, I4).

use serde_json::{Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

use super::{Command, FencedError, wire_time};
use crate::events::kinds::{DoneStatus, Event, Kind, MessageBody};
use crate::events::log;
use crate::messages::{self, NewMessage, Role};
use crate::queue::{self, settle};
use crate::runs::{Run, RunState};
use crate::sabotage::{self, Break};
use crate::wakeup::Wake;
use crate::{conversations, ids};

/// Why a run failed, as clients are told.
#[derive(Debug, Clone, PartialEq)]
pub struct RunError {
    /// Stable word.
    pub code: String,
    pub message: String,
    /// Whether posting the same again may succeed.
    pub retryable: bool,
}

#[derive(Debug)]
pub struct FinishRun<'a> {
    pub run: &'a Run,
    pub attempt: i32,
    pub status: DoneStatus,
    /// The reply's text; with a status other than completed, what there was of it. Empty: no message is stored.
    pub text: &'a str,
    pub citations: &'a [Value],
    /// With `failed`, and where a limit ended the run.
    pub error: Option<&'a RunError>,
    pub usage: &'a Value,
}

impl Command for FinishRun<'_> {
    type Output = Wake;
    type Error = FencedError;

    async fn apply(&self, db: &mut PgConnection) -> Result<Wake, FencedError> {
        let failed = FencedError::database("finishing the run");
        self.try_apply(db).await.map_err(failed)?.ok_or(FencedError::LeaseLost)
    }

    async fn happened(&self, db: &mut PgConnection, _: &Wake) -> Result<bool, sqlx::Error> {
        let ended = sqlx::query_scalar!(
            r#"select exists (select from kb.agent_runs where id = $1 and attempt = $2 and finished_at is not null) as "ended!""#,
            self.run.id,
            self.attempt
        );
        ended.fetch_one(db).await
    }
}

impl FinishRun<'_> {
    async fn try_apply(&self, db: &mut PgConnection) -> Result<Option<Wake>, sqlx::Error> {
        let run = self.run;
        let Some(job_id) = settle::fence(db, run.id, self.attempt).await? else {
            return Ok(None);
        };
        let mut events = Vec::new();
        if let Some(error) = self.error {
            let kind = Kind::Error {
                error: error.message.clone(),
                code: error.code.clone(),
                retryable: error.retryable,
            };
            events.push(Event::of(run.id, kind));
        }
        let message = match run.conversation_id {
            Some(conversation_id) if !self.text.is_empty() => Some((ids::new(), conversation_id)),
            Some(_) | None => None,
        };
        let citations = (!self.citations.is_empty()).then(|| json!(self.citations));
        if let Some((id, _)) = message {
            let now = sqlx::query_scalar!(r#"select now() as "now!""#)
                .fetch_one(&mut *db)
                .await?;
            let message = MessageBody {
                id,
                role: Role::Assistant.as_str().to_owned(),
                content: self.text.to_owned(),
                created_at: wire_time(now),
                attached_context: None,
                citations: citations.clone(),
            };
            events.push(Event::of(run.id, Kind::Message { message }));
        }
        let final_message_id = message.map(|(id, _)| id);
        let done = Kind::Done {
            status: self.status,
            final_message_id,
            usage: Some(self.usage.clone()),
        };
        if sabotage::is(Break::DoneTwice) {
            events.push(Event::of(run.id, done.clone()));
        }
        events.push(Event::of(run.id, done));
        let done_seq = log::append(db, run.log_id, Some(run.root_run_id), &events).await?;

        if let Some((id, conversation_id)) = message {
            let retrieval_context = json!({ "agent_run_id": run.id });
            let metadata = match self.status {
                DoneStatus::Completed => json!({}),
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
                seq: done_seq - 1,
            };
            messages::insert(db, new_message).await?;
            conversations::touch(db, conversation_id).await?;
        }
        let (state, job_state) = match self.status {
            DoneStatus::Completed => (RunState::Completed, "completed"),
            DoneStatus::Failed => (RunState::Failed, "failed"),
            DoneStatus::Cancelled => (RunState::Cancelled, "cancelled"),
            DoneStatus::Paused => (RunState::Paused, "completed"),
        };
        sqlx::query!(
            "update kb.agent_runs
             set state = $2, attempt = $3, finished_at = now(), done_seq = $4, safe_seq = $4, final_message_id = $5,
                 summary = $6, error = $7, error_code = $8, usage = $9
             where id = $1",
            run.id,
            state.as_str(),
            self.attempt,
            done_seq,
            final_message_id as Option<Uuid>,
            (!self.text.is_empty()).then_some(self.text),
            self.error.map(|error| error.message.as_str()),
            self.error.map(|error| error.code.as_str()),
            self.usage
        )
        .execute(&mut *db)
        .await?;
        let error = self.error.map(|error| error.message.as_str());
        let Some(lets_go) = settle::settle_one(db, job_id, self.attempt, job_state, error).await? else {
            return Ok(None);
        };
        let mut wake = Wake::log(run.log_id);
        if lets_go {
            // The conversation's next message is claimable now.
            wake.merge(Wake::queue(queue::DEFAULT_QUEUE));
        }
        Ok(Some(wake))
    }
}
