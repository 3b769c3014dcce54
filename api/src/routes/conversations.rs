//! Conversations, their messages, and their events. Other owners' conversations are invisible.
//!
//! - `messages`  the messages of a conversation
//! - `marks`     how the caller has arranged a conversation
//!
//! Folders, bulk changes, branches, links and exports are in `rejoin_chat`.

mod marks;
pub(super) mod messages;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::Response;
use chrono::{DateTime, Utc};
use rejoin_commands::DeleteConversation;
use rejoin_data_sources::routes::consoles::AttachedConsole;
use rejoin_event_log::wakeup::Wake;
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Read, Write};
use rejoin_http::extract::{Body, PageParams, Params, Segments, cursor, page, present, search_text};
use rejoin_http::problem::{BodyRefused, Problem, Refused};
use rejoin_http::visible;
use rejoin_identity::audit::Actor;
use rejoin_runs::agents;
use rejoin_runs::consoles::attached;
use rejoin_runs::contexts;
use rejoin_runs::conversation_lists::{self, Arrangement, InFolder, Listed, Marks, Pinned, Place, ReadMark};
use rejoin_runs::conversations::{self, Conversation, Position};
use rejoin_runs::folders;
use rejoin_sse::schema::StreamEvent;
use rejoin_sse::start::{StreamParams, StreamSource};
use rejoin_types::ids;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sqlx::PgConnection;
use tracing::warn;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use self::marks::{ArrangedParams, ConversationMarks};
use super::prewarm::warm;
use super::tickets::Follower;
use crate::state::{AppState, Routes};

/// Maximum length of a title, in characters.
const TITLE_MAX_CHARS: usize = 500;

pub fn routes() -> Routes {
    Routes::new()
        .routes(routes!(list, create))
        .routes(routes!(get, update, delete))
        .merge(messages::routes())
        .routes(routes!(events))
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConversationBody {
    pub id: Uuid,
    pub title: String,
    pub agent_definition_id: Option<Uuid>,
    pub metadata: Value,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
    /// How it is arranged, and how it stands; absent in responses to a turn
    #[serde(skip_serializing_if = "Option::is_none")]
    pub marks: Option<ConversationMarks>,
}

impl ConversationBody {
    fn with(conversation: Conversation, marks: Option<Marks>) -> Self {
        Self {
            marks: marks.map(ConversationMarks::from),
            ..Self::from(conversation)
        }
    }
}

impl From<Conversation> for ConversationBody {
    fn from(conversation: Conversation) -> Self {
        Self {
            id: conversation.id,
            title: conversation.title,
            agent_definition_id: conversation.agent_definition_id,
            metadata: conversation.metadata,
            created_at: conversation.created_at,
            updated_at: conversation.updated_at,
            marks: None,
        }
    }
}

/// A conversation with its subject and console.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConversationDetail {
    #[serde(flatten)]
    pub conversation: ConversationBody,
    /// The pinned console
    pub attached_console: Option<AttachedConsole>,
    /// The subject of the conversation; absent if it was never set
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_type: Option<String>,
    /// The project, and optionally one entity of it, that the conversation is about
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub project_focus: Option<Value>,
    /// Subject of the newest turn, as the server determined it
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub last_turn_context: Option<Value>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConversationPage {
    pub items: Vec<ConversationBody>,
    pub next_cursor: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewConversation {
    #[schema(pattern = r"\S", max_length = 500)]
    pub title: Option<String>,
    /// The conversation's agent; null: plain chat
    pub agent_definition_id: Option<String>,
    pub metadata: Option<Value>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConversationPatch {
    #[schema(pattern = r"\S", max_length = 500)]
    pub title: Option<String>,
    pub metadata: Option<Value>,
    /// The new subject of the conversation: a context type
    pub context_type: Option<String>,
    /// {projectId, projectName, focusType?, focusEntityId?}
    #[schema(value_type = Option<Object>)]
    pub project_focus: Option<Value>,
    pub pinned: Option<bool>,
    pub archived: Option<bool>,
    /// Its folder; null: none
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<Uuid>)]
    pub folder_id: Option<Option<Uuid>>,
    /// Sequence number of the last message that the user has read; 0: none was read
    #[schema(minimum = 0)]
    pub last_read_seq: Option<i64>,
    /// The agent that answers from the next message on. A change of the agent ends the stay with a version
    pub agent_definition_id: Option<Uuid>,
    /// The version of its agent that it stays with; null: the newest
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<i32>)]
    pub agent_version: Option<Option<i32>>,
}

impl ConversationPatch {
    fn arrangement(&self) -> Result<Arrangement, Problem> {
        let read = match self.last_read_seq {
            Some(seq) if seq < 0 => {
                return Err(Problem::bad_request(
                    "invalid_last_read_seq",
                    "lastReadSeq must not be negative",
                ));
            }
            Some(seq) => Some(ReadMark::Through(seq)),
            None => None,
        };
        Ok(Arrangement {
            pinned: self.pinned,
            archived: self.archived,
            folder: self
                .folder_id
                .map(|folder| folder.map_or(InFolder::None, InFolder::Folder)),
            read,
        })
    }

    /// Returns whether the conversation itself changes, which counts as using it.
    fn changes_content(&self) -> bool {
        self.title.is_some()
            || self.metadata.is_some()
            || self.context_type.is_some()
            || self.project_focus.is_some()
            || self.agent_definition_id.is_some()
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct SearchParams {
    /// Text that the title or a message contains, ignoring case. A page of search results may be short or empty and
    /// still have a `nextCursor`, because each request searches about 10,000 messages of at most 1,000 conversations
    #[param(min_length = 1, max_length = 200)]
    pub q: Option<String>,
}

fn check(title: Option<&str>, metadata: Option<&Value>) -> Result<(), Problem> {
    if title.is_some_and(|title| title.trim().is_empty() || title.chars().count() > TITLE_MAX_CHARS) {
        let detail = format!("title must have 1 to {TITLE_MAX_CHARS} characters");
        return Err(Problem::bad_request("invalid_title", detail));
    }
    if metadata.is_some_and(|metadata| !metadata.is_object()) {
        return Err(Problem::bad_request("invalid_metadata", "metadata must be an object"));
    }
    Ok(())
}

/// List the caller's conversations, most recently used first; with `q`, those that contain a text
///
/// `GET /api/messages/search` finds messages by their words.
#[utoipa::path(get, path = "/api/conversations", tag = "conversations", params(PageParams, SearchParams, ArrangedParams),
    responses((status = 200, description = "A page", body = ConversationPage), Refused))]
async fn list(
    State(state): State<AppState>,
    caller: Caller<Read>,
    Params(params): Params<PageParams>,
    Params(search): Params<SearchParams>,
    Params(arranged): Params<ArrangedParams>,
) -> Result<Json<ConversationPage>, Problem> {
    let limit = params.limit(&state)?;
    if let Some(text) = &search.q {
        if arranged.is_given() {
            let detail = "q cannot be combined with a filter or an order; GET /api/messages/search has filters";
            return Err(Problem::bad_request("invalid_query", detail));
        }
        let text = search_text(text)?;
        let mut db = caller.begin(&state).await?;
        let found = conversations::search(&mut db, caller.owner(), text, params.after()?, limit).await?;
        return Ok(Json(ConversationPage {
            items: with_marks(&mut db, &caller, found.conversations).await?,
            next_cursor: found.next.map(|next| cursor(&next)),
        }));
    }
    let filter = arranged.filter()?;
    // A list by time alone has the cursors that it always had.
    let after: Option<Place> = if filter.priority_first {
        params.after()?
    } else {
        params.after()?.map(|(at, id): Position| (0, at, id))
    };
    let mut db = caller.begin(&state).await?;
    let rows = conversation_lists::list(&mut *db, caller.owner(), &filter, after, limit + 1).await?;
    let (rows, next_cursor) = if filter.priority_first {
        let place = |row: &Listed| (row.priority, row.conversation.updated_at, row.conversation.id);
        page(rows, limit, place, |row| row.conversation)
    } else {
        let place = |row: &Listed| (row.conversation.updated_at, row.conversation.id);
        page(rows, limit, place, |row| row.conversation)
    };
    let items = with_marks(&mut db, &caller, rows).await?;
    Ok(Json(ConversationPage { items, next_cursor }))
}

async fn with_marks(
    db: &mut PgConnection,
    caller: &Caller,
    rows: Vec<Conversation>,
) -> Result<Vec<ConversationBody>, Problem> {
    let ids: Vec<Uuid> = rows.iter().map(|row| row.id).collect();
    let mut marks = conversation_lists::marks(db, caller.owner(), &ids).await?;
    let bodies = rows.into_iter().map(|row| {
        let of = marks.remove(&row.id);
        ConversationBody::with(row, of)
    });
    Ok(bodies.collect())
}

fn agent_not_found(id: &str) -> Problem {
    Problem::bad_request(
        "agent_definition_not_found",
        format!("Agent definition {id} was not found"),
    )
}

/// Create a conversation without a message
#[utoipa::path(post, path = "/api/conversations", tag = "conversations", request_body = NewConversation,
    responses((status = 201, description = "Made", body = ConversationBody), Refused, BodyRefused))]
async fn create(
    State(state): State<AppState>,
    caller: Caller<Write>,
    Body(request): Body<NewConversation>,
) -> Result<
    (
        StatusCode,
        [(axum::http::HeaderName, String); 1],
        Json<ConversationBody>,
    ),
    Problem,
> {
    check(request.title.as_deref(), request.metadata.as_ref())?;
    let mut tx = caller.begin(&state).await?;
    let agent_definition_id = match &request.agent_definition_id {
        None => None,
        Some(text) => {
            let found = match text.parse() {
                Ok(id) => agents::get(&mut tx, caller.workspace_id, id).await?,
                Err(_) => None,
            };
            let open = found.filter(agents::AgentDefinition::is_open);
            Some(open.ok_or_else(|| agent_not_found(text))?.id)
        }
    };
    let id = ids::new();
    let title = request.title.as_deref().unwrap_or(conversations::UNTITLED);
    let metadata = request.metadata.unwrap_or_else(|| json!({}));
    conversations::create(&mut tx, id, caller.owner(), title, agent_definition_id, &metadata).await?;
    let made = conversations::get(&mut tx, caller.owner(), id)
        .await?
        .ok_or_else(Problem::internal)?;
    tx.commit().await?;
    Ok((
        StatusCode::CREATED,
        [(LOCATION, format!("/api/conversations/{id}"))],
        Json(made.into()),
    ))
}

/// Get a conversation, with the console that it works on
#[utoipa::path(get, path = "/api/conversations/{id}", tag = "conversations",
    params(("id" = Uuid, Path, description = "The conversation")),
    responses((status = 200, description = "It", body = ConversationDetail), Refused))]
async fn get(
    State(state): State<AppState>,
    caller: Caller<Read>,
    Segments(id): Segments<Uuid>,
) -> Result<Json<ConversationDetail>, Problem> {
    let conversation = visible::conversation(&state, &caller, id).await?;
    let mut db = caller.begin(&state).await?;
    let marks = conversation_lists::marks(&mut *db, caller.owner(), &[id])
        .await?
        .remove(&id);
    let conversation = ConversationBody::with(conversation, marks);
    let console = attached::pinned(&mut db, caller.owner(), id).await?;
    let (context, last_turn_context) = contexts::of_conversation(&mut *db, id).await?;
    Ok(Json(ConversationDetail {
        conversation,
        attached_console: console.map(Into::into),
        context_type: context.as_ref().map(|context| context.context_type.as_str().to_owned()),
        project_focus: context.and_then(|context| context.focus).map(|focus| json!(focus)),
        last_turn_context,
    }))
}

/// Change a conversation's title, metadata, subject or agent, or how it is arranged
#[utoipa::path(patch, path = "/api/conversations/{id}", tag = "conversations", request_body = ConversationPatch,
    params(("id" = Uuid, Path, description = "The conversation")),
    responses((status = 200, description = "The updated conversation", body = ConversationBody), Refused, BodyRefused))]
async fn update(
    State(state): State<AppState>,
    caller: Caller<Write>,
    Segments(id): Segments<Uuid>,
    Body(patch): Body<ConversationPatch>,
) -> Result<Json<ConversationBody>, Problem> {
    check(patch.title.as_deref(), patch.metadata.as_ref())?;
    let context_patch = contexts::ContextPatch::of(patch.context_type.as_deref(), patch.project_focus.as_ref())
        .map_err(|fault| Problem::bad_request("invalid_context", fault))?;
    let arrangement = patch.arrangement()?;
    let (title, metadata) = (patch.title.as_deref(), patch.metadata.as_ref());
    let mut tx = caller.begin(&state).await?;
    let found = conversations::get(&mut tx, caller.owner(), id).await?;
    let mut updated = found.ok_or_else(visible::conversation_not_found)?;
    // First: it locks the log, which comes before the conversation in the order of locks.
    let has_changed = contexts::patch_conversation(&mut tx, id, context_patch).await?;
    if let Some(agent) = patch.agent_definition_id {
        let known = agents::get(&mut tx, caller.workspace_id, agent).await?;
        let known = known.filter(agents::AgentDefinition::is_open);
        known.ok_or_else(|| agent_not_found(&agent.to_string()))?;
        conversations::set_agent(&mut *tx, id, agent).await?;
    }
    let is_arranged = !arrangement.is_empty() || patch.agent_version.is_some();
    if patch.changes_content() || !is_arranged {
        updated = conversations::update(&mut *tx, caller.owner(), id, title, metadata)
            .await?
            .ok_or_else(visible::conversation_not_found)?;
    }
    arrange(&mut tx, &caller, id, &arrangement, patch.agent_version).await?;
    let marks = conversation_lists::marks(&mut *tx, caller.owner(), &[id])
        .await?
        .remove(&id);
    tx.commit().await?;
    if has_changed {
        state.bus.publish(Wake::log(id));
        // Prefetches the model's context while the user still types. The change takes effect even if that fails.
        if let Err(problem) = warm::warm(&state, &caller, id).await {
            warn!(?problem, "prefetching the conversation's new subject failed");
        }
    }
    Ok(Json(ConversationBody::with(updated, marks)))
}

/// Arranges a conversation, and sets the version of its agent (None: unchanged).
async fn arrange(
    db: &mut PgConnection,
    caller: &Caller,
    id: Uuid,
    arrangement: &Arrangement,
    version: Option<Option<i32>>,
) -> Result<(), Problem> {
    if let Some(InFolder::Folder(folder)) = arrangement.folder
        && !folders::lock(db, caller.owner(), folder).await?
    {
        return Err(Problem::not_found("folder_not_found", "The folder"));
    }
    if !arrangement.is_empty() {
        conversation_lists::arrange(db, caller.owner(), &[id], arrangement).await?;
    }
    let Some(version) = version else { return Ok(()) };
    match conversation_lists::stay_with(db, caller.owner(), id, version).await? {
        Pinned::Done => Ok(()),
        Pinned::NoVersion => Err(Problem::bad_request(
            "agent_version_not_found",
            "the conversation's agent has no such version, or the conversation has no agent",
        )),
        Pinned::NoConversation => Err(visible::conversation_not_found()),
    }
}

/// Delete a conversation with its messages, runs and events
#[utoipa::path(delete, path = "/api/conversations/{id}", tag = "conversations",
    params(("id" = Uuid, Path, description = "The conversation")),
    responses((status = 204, description = "Gone"), Refused))]
async fn delete(
    State(state): State<AppState>,
    caller: Caller<Write>,
    Segments(id): Segments<Uuid>,
) -> Result<StatusCode, Problem> {
    caller.counts_audited()?;
    let command = DeleteConversation {
        owner: caller.owner(),
        by: Actor::caller(&caller),
        id,
    };
    if !rejoin_commands::execute_for(&state.db.pool_sqlx, caller.rls_scope(), &command).await? {
        return Err(visible::conversation_not_found());
    }
    state.bus.publish(Wake::log(id));
    Ok(StatusCode::NO_CONTENT)
}

/// Stream the events of all runs of a conversation, without end
#[utoipa::path(get, path = "/api/conversations/{id}/events", tag = "conversations",
    params(StreamParams, ("id" = Uuid, Path, description = "The conversation"),
        ("Last-Event-ID" = Option<String>, Header, description = "The number of the last event that the reader \
            received")),
    responses(
        (status = 200, description = "Events", body = StreamEvent, content_type = "text/event-stream"),
        (status = 410, description = "The events after the cursor are no longer stored", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused))]
async fn events(
    State(state): State<AppState>,
    follower: Follower,
    Segments(id): Segments<Uuid>,
    Params(params): Params<StreamParams>,
) -> Result<Response, Problem> {
    follower
        .follow(&state, id, StreamSource::Conversation(id), &params)
        .await
}
