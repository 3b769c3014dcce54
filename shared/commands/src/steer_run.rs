//! Sends a message to a running run. The run takes it with its next step or, if it has just given its answer, continues
//! for it.

use serde_json::{Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

use super::{Command, CommandError, wire_time};
use rejoin_event_log::log;
use rejoin_event_log::wakeup::Wake;
use rejoin_runs::messages::{self, NewMessage, Role};
use rejoin_runs::run_query;
use rejoin_runs::runs::{Run, RunState};
use rejoin_runs::{conversations, steering};
use rejoin_types::events::{Kind, MessageBody};
use rejoin_types::file_ref::FileRef;
use rejoin_types::ids;

#[derive(Debug)]
pub struct SteerRun<'a> {
    pub run_id: Uuid,
    pub message: &'a str,
    pub user_id: Option<Uuid>,
}

/// A steering message that was stored.
#[derive(Debug)]
pub struct Steered {
    pub message_id: Uuid,
    /// The number of its `message` event.
    pub seq: i64,
    pub wake: Wake,
}

#[derive(Debug, thiserror::Error)]
pub enum SteerError {
    #[error("there is no such run")]
    NotFound,
    #[error("the run has ended: {state}")]
    Ended { state: RunState },
    #[error("storing the message failed")]
    Database(#[from] sqlx::Error),
}

impl CommandError for SteerError {
    fn database(&self) -> Option<&sqlx::Error> {
        match self {
            SteerError::Database(error) => Some(error),
            SteerError::NotFound | SteerError::Ended { .. } => None,
        }
    }
}

impl Command for SteerRun<'_> {
    type Output = Steered;
    type Error = SteerError;

    async fn apply(&self, db: &mut PgConnection) -> Result<Steered, SteerError> {
        let log_id = sqlx::query_scalar!("select log_id from kb.agent_runs where id = $1", self.run_id)
            .fetch_optional(&mut *db)
            .await?
            .ok_or(SteerError::NotFound)?;
        // A run completes under this lock, and not while it has pending messages.
        log::lock(db, log_id).await?;
        let run = run_query!("select", "from kb.agent_runs where id = $1", self.run_id)
            .fetch_one(&mut *db)
            .await?;
        let state = run.state();
        if state.has_ended() || run.cancel_requested_at.is_some() {
            return Err(SteerError::Ended { state });
        }
        let (message_id, seq) = tell(db, &run, self.message, With::default(), &[]).await?;
        steering::add(db, run.id, self.message, &[], self.user_id).await?;
        Ok(Steered {
            message_id,
            seq,
            wake: Wake::log(log_id),
        })
    }

    async fn happened(&self, db: &mut PgConnection, steered: &Steered) -> Result<bool, sqlx::Error> {
        // By its event: the message may have been taken since.
        sqlx::query_scalar!(
            r#"select exists (select from stream.events e join kb.agent_runs r on r.log_id = e.log_id
                              where r.id = $1 and e.seq = $2 and strpos(e.data, $3) > 0) as "there!""#,
            self.run_id,
            steered.seq,
            steered.message_id.to_string()
        )
        .fetch_one(db)
        .await
    }
}

/// Additions to a message's text.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct With<'a> {
    /// The context attached by the client.
    pub context: Option<&'a Value>,
    pub files: &'a [FileRef],
}

/// Publishes a user's message to a run, and stores it with its conversation: with its attachments and the questions
/// that it answers. Returns its id and its event's number.
pub(super) async fn tell(
    db: &mut PgConnection,
    run: &Run,
    text: &str,
    with: With<'_>,
    answers: &[Uuid],
) -> Result<(Uuid, i64), sqlx::Error> {
    let id = ids::new();
    let now = sqlx::query_scalar!(r#"select now() as "now!""#)
        .fetch_one(&mut *db)
        .await?;
    let message = MessageBody {
        id,
        role: Role::User.as_str().to_owned(),
        content: text.to_owned(),
        created_at: wire_time(now),
        attached_context: with.context.cloned(),
        attachments: with.files.to_vec(),
        citations: None,
    };
    let seq = log::append(
        db,
        run.log_id,
        Some(run.root_run_id),
        &[run.event(Kind::Message { message })],
    )
    .await?;
    if let Some(conversation_id) = run.conversation_id.filter(|_| !run.is_sub_agent()) {
        let mut metadata = json!({ "toRun": run.id });
        if !answers.is_empty() {
            metadata["answers"] = json!(answers);
        }
        if let Some(context) = with.context {
            metadata["attachedContext"] = context.clone();
        }
        if !with.files.is_empty() {
            metadata["attachments"] = json!(with.files);
        }
        let new_message = NewMessage {
            id,
            conversation_id,
            role: Role::User,
            content: text,
            citations: None,
            retrieval_context: None,
            metadata: &metadata,
            seq,
        };
        messages::insert(db, new_message).await?;
        rejoin_files::name_in(db, id, with.files).await?;
        conversations::touch(db, conversation_id).await?;
    }
    Ok((id, seq))
}
