//! Stores a user's message with the run that will answer it, its job, and the log's `message` event (invariants I1,
//! I8). If a run of the conversation waits for an answer, the message is that answer, and the run resumes.
//!
//! - `from_client` what clients of other programs bring along: earlier messages, tools, instructions

mod from_client;

pub use from_client::{HISTORY_MAX, HistoryMessage};

use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

use super::steer_run::With;
use super::{CancelRun, Command, Idempotency, answer_question, wire_time};
use rejoin_event_log::log;
use rejoin_event_log::wakeup::Wake;
use rejoin_faults::Fault;
use rejoin_files::AttachError;
use rejoin_identity::workspaces::Exhausted;
use rejoin_models::answering::Environment;
use rejoin_models::choice::ModelChoice;
use rejoin_models::reads::{Reads, Unreadable};
use rejoin_runs::agent_assignment::{self, Assignment, RoutingOutcome};
use rejoin_runs::agents::AgentDefinition;
use rejoin_runs::client_tools::{self, ClientTool};
use rejoin_runs::consoles::attached::{self, Attached};
use rejoin_runs::conversations;
use rejoin_runs::messages::Role;
use rejoin_runs::run_query;
use rejoin_runs::{agents, runs};
use rejoin_types::events::{Event, Kind, MessageBody};
use rejoin_types::file_ref::FileRef;
use rejoin_types::ids;
use rejoin_types::owner::Owner;

/// The `flow_type` of definitions that call a language model.
const SINGLE: &str = "single";

/// The handling of a message while a run of its conversation is active.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnBusy {
    /// It answers the active run's question; without a question, it is queued.
    #[default]
    Answer,
    /// It is queued, in order.
    Enqueue,
    /// It is refused.
    Reject,
    /// The active runs are cancelled; then it is processed.
    Interrupt,
}

#[derive(Debug, Clone)]
pub struct PostMessage {
    pub owner: Owner,
    /// None: a new conversation.
    pub conversation_id: Option<Uuid>,
    /// The client's own name of the conversation: the owner's conversation with this name is found or created.
    pub client_thread: Option<String>,
    /// For a new conversation only; an existing one keeps its agent.
    pub agent_definition_id: Option<Uuid>,
    pub message: String,
    /// For a new conversation only: the messages before this one.
    pub history: Vec<HistoryMessage>,
    /// System text for this turn, after the agent's own prompt.
    pub instructions: Option<String>,
    /// Functions that the client executes: a call of one is answered by
    /// [`answer_client_tool`](crate::answer_client_tool).
    pub client_tools: Vec<ClientTool>,
    /// Names of tools that extensions may give to the agent: those of the client's tools must differ.
    pub extension_tools: Vec<String>,
    pub attached_context: Option<Value>,
    /// Files of the user attached to the message, without duplicates.
    pub files: Vec<Uuid>,
    /// Maximum size of these together, in bytes.
    pub max_files_bytes: u64,
    /// The known environment of the answering model: files that it does not accept are refused.
    pub models: Environment,
    /// Consoles that the user has open; the first one is pinned to the conversation, if none is.
    pub consoles: Vec<Attached>,
    pub idempotency: Option<Idempotency>,
    pub on_busy: OnBusy,
    /// The JSON Schema that the answer must match.
    pub output_schema: Option<Value>,
    /// The model that the user has chosen for this turn, with its provider; none: the agent's.
    pub model: Option<String>,
    /// Set if the workspace's quota is exhausted: nothing new is stored then.
    pub exhausted: Option<Exhausted>,
    /// The span that starts the run, as `traceparent`.
    pub traceparent: Option<String>,
}

/// An accepted message.
#[derive(Debug, Clone, PartialEq)]
pub struct Posted {
    pub conversation_id: Uuid,
    pub message_id: Uuid,
    pub run_id: Uuid,
    /// The log's number just before the message: a reader that starts here sees the whole turn.
    pub cursor: i64,
    /// False: an earlier request with the same key created this run.
    pub fresh: bool,
    /// How the conversation's agent was assigned, if the request named none.
    pub routed: Option<Assignment>,
    /// Wake-ups to send after the commit.
    pub wake: Wake,
}

#[derive(Debug, thiserror::Error)]
pub enum PostError {
    #[error("there is no such conversation")]
    ConversationNotFound,
    #[error("there is no such agent definition")]
    DefinitionNotFound,
    #[error("a run of this conversation is active")]
    Busy { run_id: Uuid },
    #[error("the idempotency key was already used with another body")]
    KeyReused,
    #[error("the project has used up its quota")]
    Exhausted(Exhausted),
    /// A part of the request is not accepted; `detail` is for the client.
    #[error("{detail}")]
    Unfit { code: &'static str, detail: String },
    #[error(transparent)]
    Files(AttachError),
    #[error(transparent)]
    Unreadable(Box<Unreadable>),
    #[error("storing the message failed")]
    Database(#[from] sqlx::Error),
}

impl From<AttachError> for PostError {
    fn from(error: AttachError) -> Self {
        match error {
            AttachError::Database(error) => Self::Database(error),
            AttachError::NotFound(_) | AttachError::TooLarge { .. } => Self::Files(error),
        }
    }
}

impl Command for PostMessage {
    type Output = Posted;
    type Error = PostError;

    async fn apply(&self, db: &mut PgConnection) -> Result<Posted, PostError> {
        self.check_client_parts()?;
        let (message_id, run_id) = (ids::new(), ids::new());
        if let Some(idempotency) = &self.idempotency
            && let Some(earlier) = idempotency.claim(db, self.owner, run_id).await?
        {
            // The run has no conversation: the key belongs to another kind of request.
            let (Some(conversation_id), Some(message_id)) = (earlier.conversation_id, earlier.message_id) else {
                return Err(PostError::KeyReused);
            };
            return Ok(Posted {
                conversation_id,
                message_id,
                run_id: earlier.run_id,
                cursor: earlier.cursor,
                fresh: false,
                routed: None,
                wake: Wake::default(),
            });
        }

        let attachments = rejoin_files::for_message(db, self.owner, &self.files, self.max_files_bytes).await?;
        let place = match self.place(db, &attachments).await? {
            Found::Place(place) => place,
            // A question belongs to an existing turn: its answer starts no new one.
            Found::Answered(posted) => return Ok(posted),
        };
        let Place {
            conversation_id,
            definition_id,
            outcome,
            mut wake,
            now,
        } = place;
        self.check_tool_names(db, definition_id).await?;

        if !attachments.is_empty() {
            let definition = match definition_id {
                Some(id) => agents::get(db, self.owner.workspace_id, id).await?,
                None => None,
            };
            let models = match &self.model {
                Some(model) => self.models.answering(Some(&ModelChoice::named(model.as_str()))),
                None => answering(&self.models, definition.as_ref()),
            };
            self.readable(&attachments, &models)?;
        }
        if !self.consoles.is_empty() {
            attached::attach(db, self.owner, conversation_id, &self.consoles).await?;
        }
        let message = MessageBody {
            id: message_id,
            role: Role::User.as_str().to_owned(),
            content: self.message.clone(),
            created_at: wire_time(now),
            attached_context: self.attached_context.clone(),
            attachments: attachments.clone(),
            citations: None,
        };
        let event = Event::of(run_id, Kind::Message { message });
        let mut metadata = match &self.attached_context {
            Some(context) => json!({ "attachedContext": context }),
            None => json!({}),
        };
        if !attachments.is_empty() {
            metadata["attachments"] = json!(attachments);
        }
        let concurrency_key =
            (!rejoin_faults::enabled(Fault::RunsSideBySide)).then(|| rejoin_queue::conversation_key(conversation_id));
        let seq = sqlx::query_scalar!(
            r#"select kb.post_message($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15) as "seq!""#,
            conversation_id,
            self.owner.workspace_id,
            self.owner.user_id,
            message_id,
            self.message,
            metadata,
            event.to_json(),
            run_id,
            definition_id as _,
            self.output_schema.as_ref() as _,
            rejoin_queue::KIND_RUN,
            rejoin_queue::DEFAULT_QUEUE,
            rejoin_queue::RUN_MAX_ATTEMPTS,
            concurrency_key as _,
            self.traceparent.as_deref() as _
        )
        .fetch_one(&mut *db)
        .await?;
        rejoin_files::name_in(db, message_id, &attachments).await?;
        client_tools::insert(db, run_id, &self.client_tools, self.instructions.as_deref()).await?;
        if let Some(model) = &self.model {
            runs::request_model(db, run_id, model).await?;
        }
        agent_assignment::record(db, self.owner.workspace_id, run_id, &outcome).await?;
        if let Some(idempotency) = &self.idempotency {
            idempotency
                .stands_for(db, self.owner, conversation_id, message_id, run_id, seq - 1)
                .await?;
        }
        wake.merge(Wake::queue(rejoin_queue::DEFAULT_QUEUE).and(Wake::log(conversation_id)));
        Ok(Posted {
            conversation_id,
            message_id,
            run_id,
            cursor: seq - 1,
            fresh: true,
            routed: outcome.routed(),
            wake,
        })
    }

    async fn happened(&self, db: &mut PgConnection, posted: &Posted) -> Result<bool, sqlx::Error> {
        // By its message: the run may be older.
        let known = sqlx::query_scalar!(
            r#"select exists (select from kb.chat_messages where id = $1) as "there!""#,
            posted.message_id
        );
        known.fetch_one(db).await
    }
}

/// Where the message is stored.
struct Place {
    conversation_id: Uuid,
    definition_id: Option<Uuid>,
    outcome: RoutingOutcome,
    wake: Wake,
    /// The transaction's time.
    now: DateTime<Utc>,
}

enum Found {
    Place(Place),
    /// It was the answer to questions of a run that waits.
    Answered(Posted),
}

impl PostMessage {
    /// A message with nothing attached, to a new conversation.
    pub fn new(owner: Owner, message: impl Into<String>) -> Self {
        Self {
            owner,
            conversation_id: None,
            client_thread: None,
            agent_definition_id: None,
            message: message.into(),
            history: Vec::new(),
            instructions: None,
            client_tools: Vec::new(),
            extension_tools: Vec::new(),
            attached_context: None,
            files: Vec::new(),
            max_files_bytes: 0,
            models: Environment::default(),
            consoles: Vec::new(),
            idempotency: None,
            on_busy: OnBusy::default(),
            output_schema: None,
            model: None,
            exhausted: None,
            traceparent: None,
        }
    }

    /// Finds or creates the conversation.
    async fn place(&self, db: &mut PgConnection, attachments: &[FileRef]) -> Result<Found, PostError> {
        if let Some(id) = self.named(db).await? {
            return self.join(db, id, attachments).await;
        }
        if let Some(place) = self.begin(db).await? {
            return Ok(Found::Place(place));
        }
        // A concurrent message has created it.
        let id = self.named(db).await?.ok_or(PostError::ConversationNotFound)?;
        self.join(db, id, attachments).await
    }

    /// Creates the conversation. None: a concurrent message has created one with the client's name of it.
    async fn begin(&self, db: &mut PgConnection) -> Result<Option<Place>, PostError> {
        self.within_quota()?;
        if let Some(id) = self.agent_definition_id {
            let known = agents::get(db, self.owner.workspace_id, id).await?;
            known
                .filter(agents::AgentDefinition::is_open)
                .ok_or(PostError::DefinitionNotFound)?;
        }
        let id = ids::new();
        let mut outcome = RoutingOutcome::NotConfigured;
        if self.agent_definition_id.is_none() {
            let context = self.attached_context.as_ref();
            outcome = agent_assignment::assign(db, self.owner, id, &self.message, &self.consoles, context).await?;
        }
        let definition_id = self.agent_definition_id.or(outcome.agent());
        let title = conversations::title_of(self.first_words());
        let made = match &self.client_thread {
            None => Some(conversations::create(db, id, self.owner, &title, definition_id, &json!({})).await?),
            Some(thread) => conversations::create_in_thread(db, id, self.owner, &title, definition_id, thread).await?,
        };
        let Some(now) = made else {
            return Ok(None);
        };
        self.store_history(db, id).await?;
        Ok(Some(Place {
            conversation_id: id,
            definition_id,
            outcome,
            wake: Wake::default(),
            now,
        }))
    }

    /// Takes the message's place in an existing conversation.
    async fn join(&self, db: &mut PgConnection, id: Uuid, attachments: &[FileRef]) -> Result<Found, PostError> {
        let found = conversations::get(db, self.owner, id)
            .await?
            .ok_or(PostError::ConversationNotFound)?;
        // Posts to one conversation are serialized from here on, so that jobs and events have the same order.
        log::lock(db, id).await?.ok_or(PostError::ConversationNotFound)?;
        if self.on_busy == OnBusy::Answer
            && let Some(posted) = self.reply(db, id, attachments).await?
        {
            return Ok(Found::Answered(posted));
        }
        self.within_quota()?;
        let mut wake = Wake::default();
        match self.on_busy {
            OnBusy::Answer | OnBusy::Enqueue => {}
            OnBusy::Reject => {
                if let Some(active) = runs::active_of_conversation(db, id).await?.first() {
                    return Err(PostError::Busy { run_id: *active });
                }
            }
            OnBusy::Interrupt => {
                for active in runs::active_of_conversation(db, id).await? {
                    wake.merge(CancelRun { run_id: active }.apply(db).await?);
                }
            }
        }
        let now = conversations::touch(db, id).await?;
        Ok(Found::Place(Place {
            conversation_id: id,
            definition_id: found.agent_definition_id,
            outcome: RoutingOutcome::NotConfigured,
            wake,
            now,
        }))
    }

    fn within_quota(&self) -> Result<(), PostError> {
        self.exhausted
            .map_or(Ok(()), |exhausted| Err(PostError::Exhausted(exhausted)))
    }

    /// Refuses files that none of these models accepts. Without models it refuses none: the answering model is unknown
    /// here, and the run checks.
    fn readable(&self, attachments: &[FileRef], models: &[String]) -> Result<(), PostError> {
        let mut refused = None;
        for model in models {
            let reads = Reads::of(model);
            match attachments.iter().try_for_each(|file| reads.check(file)) {
                Ok(()) => return Ok(()),
                // The last model is the likeliest.
                Err(unreadable) => refused = Some(unreadable),
            }
        }
        refused.map_or(Ok(()), |unreadable| Err(PostError::Unreadable(Box::new(unreadable))))
    }

    /// Answers questions of the conversation's waiting runs. None: the message answers nothing.
    async fn reply(
        &self,
        db: &mut PgConnection,
        conversation_id: Uuid,
        attachments: &[FileRef],
    ) -> Result<Option<Posted>, PostError> {
        let with = With {
            context: self.attached_context.as_ref(),
            files: attachments,
        };
        let replied = answer_question::reply(db, conversation_id, &self.message, with, self.owner.user_id).await?;
        let Some(reply) = replied else {
            return Ok(None);
        };
        if !attachments.is_empty() {
            self.readable(attachments, &asked_by(db, &self.models, reply.asking).await?)?;
        }
        if !self.consoles.is_empty() {
            attached::attach(db, self.owner, conversation_id, &self.consoles).await?;
        }
        let cursor = reply.seq - 1;
        if let Some(idempotency) = &self.idempotency {
            idempotency
                .stands_for(db, self.owner, conversation_id, reply.message_id, reply.run_id, cursor)
                .await?;
        }
        Ok(Some(Posted {
            conversation_id,
            message_id: reply.message_id,
            run_id: reply.run_id,
            cursor,
            fresh: true,
            routed: None,
            wake: reply.wake,
        }))
    }
}

/// The models that may answer a message of the conversation.
fn answering(models: &Environment, definition: Option<&AgentDefinition>) -> Vec<String> {
    match definition {
        // A flow calls no model.
        Some(definition) if definition.flow_type != SINGLE => vec![format!("flow:{}", definition.flow_type)],
        Some(definition) => models.answering(definition.model.as_ref()),
        None => models.answering(None),
    }
}

/// The model of a run that waits for an answer; none if it may have changed models.
async fn asked_by(db: &mut PgConnection, models: &Environment, run_id: Uuid) -> Result<Vec<String>, sqlx::Error> {
    let run = run_query!("select", "from kb.agent_runs where id = $1", run_id)
        .fetch_one(&mut *db)
        .await?;
    let Some(model) = run.model.filter(|model| models.is_known(model)) else {
        return Ok(Vec::new());
    };
    let definition = match run.agent_definition_id {
        Some(id) => agents::get(db, run.workspace_id, id).await?,
        None => None,
    };
    let may_change = definition
        .and_then(|definition| definition.model)
        .is_some_and(|model| !model.fallback_models.is_empty());
    Ok(if may_change { Vec::new() } else { vec![model] })
}
