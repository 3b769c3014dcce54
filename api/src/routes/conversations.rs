//! Conversations, their messages, and their events. Other owners' conversations are invisible.

use std::collections::HashMap;

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
use rejoin_http::extract::{Body, PageParams, Params, Segments, cursor, page};
use rejoin_http::problem::{BodyRefused, Problem, Refused};
use rejoin_http::visible;
use rejoin_identity::audit::Actor;
use rejoin_runs::agents;
use rejoin_runs::attachments;
use rejoin_runs::consoles::attached;
use rejoin_runs::contexts;
use rejoin_runs::conversations::{self, Conversation};
use rejoin_runs::messages::{self, ChatMessage};
use rejoin_runs::runs::part::Part;
use rejoin_runs::tool_calls::{self, CallOfTurn};
use rejoin_sse::start::{StreamParams, StreamSource};
use rejoin_types::ids;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sqlx::PgConnection;
use tracing::warn;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::prewarm::warm;
use super::tickets::Follower;
use crate::state::{AppState, Routes};

/// Maximum length of a title, in characters.
const TITLE_MAX_CHARS: usize = 500;
/// Maximum length of a search text, in characters.
const SEARCH_MAX_CHARS: usize = 200;
/// Maximum number of tool results on one page of messages.
pub const TOOL_MESSAGES_MAX: i64 = 1_000;
/// The title of a conversation without title and messages.
pub const UNTITLED: &str = "New conversation";

pub fn routes() -> Routes {
    Routes::new()
        .routes(routes!(list, create))
        .routes(routes!(get, update, delete))
        .routes(routes!(list_messages))
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

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MessageBody {
    pub id: Uuid,
    pub conversation_id: Uuid,
    /// `user`, `assistant` or `system`; with `include=tools` also `tool`: a tool's result or error
    pub role: String,
    pub content: String,
    pub citations: Option<Value>,
    /// For an assistant's message: the run that wrote it
    pub retrieval_context: Option<Value>,
    /// Context that the client sent with a user's message
    pub attached_context: Option<Value>,
    /// All attachments of the message: consoles, databases and files, each {id, type, title, content, metadata,
    /// timestamp}; for an uploaded file also fileId, mediaType, sizeBytes and url
    #[schema(value_type = Vec<Object>)]
    pub attachments: Vec<Value>,
    pub metadata: Value,
    /// Sequence number of its event; for a tool's result, that of the message of its turn
    pub seq: i64,
    pub created_at: DateTime<Utc>,
    /// The same as `createdAt`
    pub timestamp: DateTime<Utc>,
    /// For a tool's result: the call that it answers
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// For a tool's result: the tool's name
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
}

impl MessageBody {
    fn of_tool(conversation_id: Uuid, seq: i64, call: CallOfTurn) -> Self {
        let content = match (call.error, call.output) {
            (Some(error), _) => error,
            (None, Some(Value::String(text))) => text,
            (None, output) => output.unwrap_or_default().to_string(),
        };
        let source = Part::stored(call.part.as_ref()).map_or("agent", |part| part.source());
        Self {
            id: call.id,
            conversation_id,
            role: "tool".to_owned(),
            content,
            citations: None,
            retrieval_context: None,
            attached_context: None,
            attachments: Vec::new(),
            metadata: json!({"runId": call.run_id, "status": call.status, "source": source}),
            seq,
            created_at: call.created_at,
            timestamp: call.created_at,
            tool_call_id: Some(call.call_id),
            tool_name: Some(call.tool_name),
        }
    }

    pub fn of(conversation_id: Uuid, message: ChatMessage) -> Self {
        Self {
            attachments: attachments::listed(&message.metadata, message.created_at),
            timestamp: message.created_at,
            id: message.id,
            conversation_id,
            role: message.role,
            content: message.content,
            citations: message.citations,
            retrieval_context: message.retrieval_context,
            attached_context: message.metadata.get("attachedContext").cloned(),
            metadata: message.metadata,
            seq: message.seq,
            created_at: message.created_at,
            tool_call_id: None,
            tool_name: None,
        }
    }
}

/// Adds the tool results of the messages' turns: each after the message of its turn.
pub async fn with_tools(
    db: &mut PgConnection,
    conversation_id: Uuid,
    messages: Vec<ChatMessage>,
) -> Result<Vec<MessageBody>, sqlx::Error> {
    let ids: Vec<Uuid> = messages.iter().map(|message| message.id).collect();
    let mut of_turn: HashMap<Uuid, Vec<CallOfTurn>> = HashMap::new();
    for call in tool_calls::of_turns(db, conversation_id, &ids, TOOL_MESSAGES_MAX).await? {
        of_turn.entry(call.message_id).or_default().push(call);
    }
    let mut told = Vec::with_capacity(messages.len());
    for message in messages {
        let (id, seq) = (message.id, message.seq);
        told.push(MessageBody::of(conversation_id, message));
        let calls = of_turn.remove(&id).unwrap_or_default();
        told.extend(
            calls
                .into_iter()
                .map(|call| MessageBody::of_tool(conversation_id, seq, call)),
        );
    }
    Ok(told)
}

/// What a page of messages includes.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct IncludeParams {
    /// `tools`: include the results of tools, as messages with the role `tool` after the message of their turn; they do
    /// not count towards `limit`
    #[param(pattern = "^tools$")]
    pub include: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MessagePage {
    pub items: Vec<MessageBody>,
    pub next_cursor: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewConversation {
    #[schema(pattern = r"\S", max_length = 500)]
    pub title: Option<String>,
    /// The conversation's agent, which it keeps; null: plain chat
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
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct SearchParams {
    /// Text that the title or a message contains, ignoring case. A page of search results may be short or empty and
    /// still have a `nextCursor`, because each request searches at most 1,000 conversations
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
#[utoipa::path(get, path = "/api/conversations", tag = "conversations", params(PageParams, SearchParams),
    responses((status = 200, description = "A page", body = ConversationPage), Refused))]
async fn list(
    State(state): State<AppState>,
    caller: Caller<Read>,
    Params(params): Params<PageParams>,
    Params(search): Params<SearchParams>,
) -> Result<Json<ConversationPage>, Problem> {
    let limit = params.limit(&state)?;
    if let Some(text) = &search.q {
        if text.trim().is_empty() || text.chars().count() > SEARCH_MAX_CHARS || text.contains('\0') {
            let detail = format!("q must have 1 to {SEARCH_MAX_CHARS} characters and no NUL");
            return Err(Problem::bad_request("invalid_query", detail));
        }
        let mut db = caller.begin(&state).await?;
        let found = conversations::search(&mut db, caller.owner(), text.trim(), params.after()?, limit).await?;
        return Ok(Json(ConversationPage {
            items: found.conversations.into_iter().map(ConversationBody::from).collect(),
            next_cursor: found.next.map(|next| cursor(&next)),
        }));
    }
    let rows = conversations::list(
        &mut *caller.begin(&state).await?,
        caller.owner(),
        params.after()?,
        limit + 1,
    )
    .await?;
    let (items, next_cursor) = page(rows, limit, |row| (row.updated_at, row.id), ConversationBody::from);
    Ok(Json(ConversationPage { items, next_cursor }))
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
                Ok(id) => agents::get(&mut tx, caller.project_id, id).await?,
                Err(_) => None,
            };
            let missing = || {
                Problem::bad_request(
                    "agent_definition_not_found",
                    format!("Agent definition {text} was not found"),
                )
            };
            Some(found.filter(agents::AgentDefinition::is_open).ok_or_else(missing)?.id)
        }
    };
    let id = ids::new();
    let title = request.title.as_deref().unwrap_or(UNTITLED);
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
    let conversation = visible::conversation(&state, &caller, id).await?.into();
    let mut db = caller.begin(&state).await?;
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

/// Change a conversation's title, metadata or subject
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
    let (title, metadata) = (patch.title.as_deref(), patch.metadata.as_ref());
    let mut tx = caller.begin(&state).await?;
    let updated = conversations::update(&mut *tx, caller.owner(), id, title, metadata).await?;
    let updated = updated.ok_or_else(visible::conversation_not_found)?;
    let has_changed = contexts::patch_conversation(&mut tx, id, context_patch).await?;
    tx.commit().await?;
    if has_changed {
        state.bus.publish(Wake::log(id));
        // Prefetches the model's context while the user still types. The change takes effect even if that fails.
        if let Err(problem) = warm::warm(&state, &caller, id).await {
            warn!(?problem, "prefetching the conversation's new subject failed");
        }
    }
    Ok(Json(updated.into()))
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

/// List the messages of a conversation in the order of their events
#[utoipa::path(get, path = "/api/conversations/{id}/messages", tag = "conversations",
    params(PageParams, IncludeParams, ("id" = Uuid, Path, description = "The conversation")),
    responses((status = 200, description = "A page", body = MessagePage), Refused))]
async fn list_messages(
    State(state): State<AppState>,
    caller: Caller<Read>,
    Segments(id): Segments<Uuid>,
    Params(params): Params<PageParams>,
    Params(IncludeParams { include }): Params<IncludeParams>,
) -> Result<Json<MessagePage>, Problem> {
    if let Some(other) = include.as_deref().filter(|include| *include != "tools") {
        let detail = format!("include={other} is not supported; use tools");
        return Err(Problem::bad_request("invalid_query", detail));
    }
    let limit = params.limit(&state)?;
    let after = params.after()?.unwrap_or(0);
    visible::conversation(&state, &caller, id).await?;
    let mut db = caller.begin(&state).await?;
    let rows = messages::list(&mut *db, id, after, limit + 1).await?;
    let (rows, next_cursor) = page(rows, limit, |row| row.seq, |row| row);
    let items = match include {
        Some(_) => with_tools(&mut db, id, rows).await?,
        None => rows.into_iter().map(|row| MessageBody::of(id, row)).collect(),
    };
    Ok(Json(MessagePage { items, next_cursor }))
}

/// Stream the events of all runs of a conversation, without end
#[utoipa::path(get, path = "/api/conversations/{id}/events", tag = "conversations",
    params(StreamParams, ("id" = Uuid, Path, description = "The conversation"),
        ("Last-Event-ID" = Option<String>, Header, description = "The number of the last event that the reader \
            received")),
    responses(
        (status = 200, description = "Events", body = String, content_type = "text/event-stream"),
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
