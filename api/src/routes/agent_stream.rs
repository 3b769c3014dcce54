//! `/api/agent/stream`: the agent endpoint in the dialect of earlier chat pages, over the same conversations, log and
//! cursors as `/api/chat/stream`: a session is a conversation.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::header::ACCEPT;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use rejoin_chat::posting::{self, ChatParams, ChatRequest};
use rejoin_data_sources::routes::consoles::AttachedConsole;
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Read, Write};
use rejoin_http::extract::{Body, PageParams, Params, page};
use rejoin_http::problem::{BodyRefused, Problem, Refused};
use rejoin_http::visible;
use rejoin_runs::attachments::Attachment;
use rejoin_runs::consoles::attached;
use rejoin_runs::conversations::Conversation;
use rejoin_runs::{agents, conversations, messages};
use rejoin_sse::dialects::Dialect;
use rejoin_sse::start::{self, StreamParams, StreamSource};
use rejoin_work_graph::{Kind, entities};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sqlx::PgConnection;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::conversations::ConversationBody;
use super::conversations::messages::{MessageBody, with_tools};
use crate::state::{AppState, Routes};

/// Maximum number of earlier messages in a request.
const HISTORY_MAX: usize = 100;
/// Maximum number of messages in a fetched session, newest first.
const MESSAGES: i64 = 200;
/// The header that lists the ignored fields of a request.
const IGNORED_FIELDS: HeaderName = HeaderName::from_static("x-ignored-fields");
/// Maximum number of names in that header, and maximum length of one, in bytes.
const IGNORED_NAMED_MAX: usize = 20;
const IGNORED_NAME_MAX_BYTES: usize = 64;

pub fn routes() -> Routes {
    Routes::new().routes(routes!(post_message, sessions))
}

/// A message to send. Fields about the user's current page are stored with the message. Unknown fields are ignored and
/// listed in the response header `x-ignored-fields`, because earlier chat clients sent more than this endpoint needs
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentRequest {
    /// The user's message
    #[schema(pattern = r"\S")]
    pub message: String,
    /// The project; default: the caller's project
    #[serde(alias = "workspace_id")]
    pub workspace_id: Option<Uuid>,
    /// The session; null: a new session
    #[serde(alias = "session_id")]
    pub session_id: Option<String>,
    /// Agent of a new session
    #[serde(alias = "agent_definition_id")]
    pub agent_definition_id: Option<String>,
    #[schema(value_type = Option<Vec<Object>>)]
    pub consoles: Option<Value>,
    #[serde(alias = "console_id")]
    pub console_id: Option<String>,
    #[serde(alias = "context_type")]
    pub context_type: Option<String>,
    #[serde(alias = "project_focus")]
    #[schema(value_type = Option<Object>)]
    pub project_focus: Option<Value>,
    /// The project, or an entity of it, that the user is viewing
    #[serde(alias = "entity_id")]
    pub entity_id: Option<Uuid>,
    /// The type of that entity, such as `project` or `task`
    #[serde(alias = "ontology_entity_type")]
    pub ontology_entity_type: Option<String>,
    /// Accepted but not used: earlier messages as the client has them, at most 100. The server stores the history
    /// itself
    #[serde(alias = "conversation_history")]
    #[schema(value_type = Option<Vec<Object>>, max_items = 100)]
    pub conversation_history: Option<Vec<Value>>,
    /// Accepted but not used: the client's summary of the previous turn. The server stores its own
    #[serde(alias = "last_turn_context")]
    #[schema(value_type = Option<Object>)]
    pub last_turn_context: Option<Value>,
    /// Idempotency key of this turn: posting it again returns the same run
    #[serde(alias = "stream_run_id")]
    pub stream_run_id: Option<String>,
    /// Attachments, as in `/api/chat/stream`
    #[serde(alias = "attached_context")]
    #[schema(value_type = Option<Vec<Object>>)]
    pub attached_context: Option<Vec<Attachment>>,
    /// Files of the message, as in `/api/chat/stream`
    pub attachments: Option<Vec<posting::AttachedFile>>,
    #[serde(flatten)]
    #[schema(ignore)]
    pub ignored: BTreeMap<String, IgnoredAny>,
}

impl AgentRequest {
    /// Returns the names of ignored fields, as a header's value.
    fn ignored_fields(&self) -> Option<HeaderValue> {
        let is_name = |name: &&String| {
            name.len() <= IGNORED_NAME_MAX_BYTES && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b',')
        };
        let names: Vec<&str> = self
            .ignored
            .keys()
            .filter(is_name)
            .take(IGNORED_NAMED_MAX)
            .map(String::as_str)
            .collect();
        let value = HeaderValue::try_from(names.join(", ")).ok();
        value.filter(|value| !value.is_empty())
    }
}

/// A session: a conversation, with the field names of earlier chat clients
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionBody {
    #[serde(flatten)]
    pub conversation: ConversationBody,
    /// The conversation's id, which its events and cursors use as well
    pub thread_id: Uuid,
    /// The name of the session's agent; null: none
    pub active_agent: Option<String>,
}

/// Returns the sessions of these conversations, each with its agent's name.
async fn named(db: &mut PgConnection, conversations: Vec<Conversation>) -> Result<Vec<SessionBody>, Problem> {
    let ids: Vec<Uuid> = conversations.iter().filter_map(|one| one.agent_definition_id).collect();
    let names = agents::names(&mut *db, &ids).await?;
    let session = |conversation: Conversation| SessionBody {
        thread_id: conversation.id,
        active_agent: conversation.agent_definition_id.and_then(|id| names.get(&id).cloned()),
        conversation: conversation.into(),
    };
    Ok(conversations.into_iter().map(session).collect())
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct SessionParams {
    /// Include the session's messages or, with `Accept: text/event-stream`, its events
    #[serde(alias = "session_id")]
    pub session_id: Option<Uuid>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionPage {
    pub sessions: Vec<SessionBody>,
    pub next_cursor: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionDetail {
    pub session: SessionBody,
    /// The newest 200 messages of users and agents in order, and the results of tools with the role `tool`
    pub messages: Vec<MessageBody>,
    pub attached_console: Option<AttachedConsole>,
}

/// Send a message and stream the turn that answers it, in the format of the agent endpoint
#[utoipa::path(post, path = "/api/agent/stream", tag = "agent stream", request_body = AgentRequest,
    params(ChatParams, ("Idempotency-Key" = Option<String>, Header, description = "The same key and body return the \
        same run")),
    responses(
        (status = 200, description = "The turn's events, until its `done`", body = String, content_type = "text/event-stream"),
        (status = 202, description = "Accepted (with `Accept: application/json`)", body = posting::Accepted),
        (status = 409, description = "A run of the session is active, and onBusy=reject", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        (status = 410, description = "The key's run was streamed long ago; its events are no longer stored", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The idempotency key was already used with another body", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused, BodyRefused))]
async fn post_message(
    State(state): State<AppState>,
    caller: Caller<Write>,
    headers: HeaderMap,
    Params(params): Params<ChatParams>,
    Body(request): Body<AgentRequest>,
) -> Result<Response, Problem> {
    if let Some(project) = request.workspace_id {
        caller.in_workspace(project)?;
    }
    let count = request.conversation_history.as_ref().map_or(0, Vec::len);
    if count > HISTORY_MAX {
        let detail = format!(
            "conversation_history has {count} messages; the maximum is {HISTORY_MAX}. The server stores the history \
            itself, so it can be omitted"
        );
        return Err(Problem::bad_request("history_too_long", detail));
    }
    let ignored = request.ignored_fields();
    let project_focus = match (request.project_focus, request.entity_id) {
        (None, Some(id)) => Some(focus_on(&state, &caller, id, request.ontology_entity_type.as_deref()).await?),
        (focus, _) => focus,
    };
    let request = ChatRequest {
        message: request.message,
        conversation_id: request.session_id,
        agent_definition_id: request.agent_definition_id,
        context_type: request.context_type,
        project_focus,
        consoles: request.consoles,
        console_id: request.console_id,
        client_turn_id: request.stream_run_id,
        attached_context: request.attached_context,
        attachments: request.attachments,
        output_schema: None,
        model: None,
    };
    let mut response = posting::take(&state, &caller, &headers, &params, request, Dialect::AgentStream).await?;
    if let Some(names) = ignored {
        response.headers_mut().insert(IGNORED_FIELDS, names);
    }
    Ok(response)
}

/// Returns the focus on an entity of the work graph: its project, and the entity itself unless it is a project.
async fn focus_on(state: &AppState, caller: &Caller, id: Uuid, named: Option<&str>) -> Result<Value, Problem> {
    let mut db = caller.begin(state).await?;
    let found = match entities::get_any(&mut db, caller.workspace_id, id).await {
        Ok(entity) => Some(entity),
        Err(rejoin_graph::Error::NotFound { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    match found.filter(|entity| named.is_none_or(|named| named == entity.kind.as_str())) {
        Some(entity) if entity.kind == Kind::Project => Ok(json!({ "projectId": id })),
        Some(entity) => Ok(json!({
            "projectId": entity.project, "focusType": entity.kind.as_str(), "focusEntityId": id,
        })),
        // A project outside the work graph: the focus only narrows what tools may access.
        None if matches!(named, None | Some("project")) => Ok(json!({ "projectId": id })),
        None => {
            let detail = format!(
                "There is no {} {id}. Pass the id and type of an entity of the work graph, or omit entityId.",
                named.unwrap_or("entity")
            );
            Err(Problem::bad_request("entity_not_found", detail))
        }
    }
}

/// List the caller's sessions, or get one session or its events
#[utoipa::path(get, path = "/api/agent/stream", tag = "agent stream",
    params(PageParams, SessionParams, ("after" = Option<String>, Query, description = "The number of the last event \
        that the reader received, or `now`"),
        ("Last-Event-ID" = Option<String>, Header, description = "The number of the last event that the reader \
            received")),
    responses((status = 200, description = "A page of sessions, or one session (or its events, as `text/event-stream`)", body = SessionPage), Refused))]
async fn sessions(
    State(state): State<AppState>,
    caller: Caller<Read>,
    headers: HeaderMap,
    Params(params): Params<PageParams>,
    Params(stream): Params<StreamParams>,
    Params(session): Params<SessionParams>,
) -> Result<Response, Problem> {
    let Some(id) = session.session_id else {
        let limit = params.limit(&state)?;
        let mut db = caller.begin(&state).await?;
        let rows = conversations::list(&mut *db, caller.owner(), params.after()?, limit + 1).await?;
        let (rows, next_cursor) = page(rows, limit, |row| (row.updated_at, row.id), |row| row);
        let sessions = named(&mut db, rows).await?;
        return Ok(Json(SessionPage { sessions, next_cursor }).into_response());
    };
    if wants_events(&headers) {
        let permit = start::admit(&state.streams, &caller)?;
        let params = StreamParams {
            after: stream.after,
            ..StreamParams::default()
        };
        let start = params.start(&headers)?;
        let source = StreamSource::Conversation(id);
        return start::open(
            &state.streams,
            permit,
            caller.owner(),
            source,
            start,
            &params,
            Dialect::AgentStream,
        )
        .await;
    }
    let conversation = visible::conversation(&state, &caller, id).await?;
    let mut db = caller.begin(&state).await?;
    let newest = messages::newest(&mut *db, id, MESSAGES).await?;
    let console = attached::pinned(&mut db, caller.owner(), id).await?;
    Ok(Json(SessionDetail {
        session: named(&mut db, vec![conversation])
            .await?
            .pop()
            .ok_or_else(Problem::internal)?,
        messages: with_tools(&mut db, id, newest).await?,
        attached_console: console.map(Into::into),
    })
    .into_response())
}

fn wants_events(headers: &HeaderMap) -> bool {
    let accepts = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    headers.contains_key("last-event-id") || accepts.into_iter().any(|value| value.contains("text/event-stream"))
}
