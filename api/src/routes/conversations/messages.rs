//! The messages of a conversation, on request with the results of tools.

use std::collections::HashMap;

use axum::Json;
use axum::extract::State;
use chrono::{DateTime, Utc};
use rejoin_chat::answers::AnswerBody;
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Read};
use rejoin_http::extract::{PageParams, Params, Segments, page};
use rejoin_http::problem::{Problem, Refused};
use rejoin_http::visible;
use rejoin_runs::answers;
use rejoin_runs::attachments;
use rejoin_runs::messages::{self, ChatMessage};
use rejoin_runs::runs::part::Part;
use rejoin_runs::tool_calls::{self, CallOfTurn};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sqlx::PgConnection;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use crate::state::{AppState, Routes};

/// Maximum number of tool results on one page of messages.
pub const TOOL_MESSAGES_MAX: i64 = 1_000;

pub(super) fn routes() -> Routes {
    Routes::new().routes(routes!(list_messages))
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
    /// For an assistant's message: the run that wrote it, its agent and model, and what it used
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<AnswerBody>,
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
            answer: None,
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
            answer: None,
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
    let mut bodies = Vec::with_capacity(messages.len());
    for message in messages {
        let (id, seq) = (message.id, message.seq);
        bodies.push(MessageBody::of(conversation_id, message));
        let calls = of_turn.remove(&id).unwrap_or_default();
        bodies.extend(
            calls
                .into_iter()
                .map(|call| MessageBody::of_tool(conversation_id, seq, call)),
        );
    }
    Ok(bodies)
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
    let ids: Vec<Uuid> = rows.iter().map(|row| row.id).collect();
    let mut answers = answers::of_messages(&mut *db, id, &ids).await?;
    let mut items: Vec<MessageBody> = match include {
        Some(_) => with_tools(&mut db, id, rows).await?,
        None => rows.into_iter().map(|row| MessageBody::of(id, row)).collect(),
    };
    for item in &mut items {
        item.answer = answers.remove(&item.id).map(AnswerBody::from);
    }
    Ok(Json(MessagePage { items, next_cursor }))
}
