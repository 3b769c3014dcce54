//! `/v1/conversations`: conversations and their items.

use axum::Json;
use axum::extract::State;
use rejoin_chat::{ChatState, Routes};
use rejoin_commands::DeleteConversation;
use rejoin_event_log::wakeup::Wake;
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Read, Write};
use rejoin_http::extract::{Body, Params, Segments};
use rejoin_http::problem::Problem;
use rejoin_http::visible;
use rejoin_identity::audit::Actor;
use rejoin_runs::conversations::UNTITLED;
use rejoin_runs::conversations::{self, Conversation};
use rejoin_runs::messages::{self, ChatMessage};
use rejoin_types::ids as new_ids;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;
use uuid::Uuid;

use super::responses::ItemParams;
use super::{Errors, refused};
use crate::openai::errors::Invalid;
use crate::openai::request;
use crate::openai::{ids, items};

/// Maximum number of messages of a conversation that are listed, newest first.
const LISTED_MAX: i64 = 1_000;
/// The member of a conversation's metadata that holds the protocol's.
const METADATA: &str = "openai";

pub(super) fn routes() -> Routes {
    Routes::new()
        .routes(routes!(create_conversation))
        .routes(routes!(get_conversation, update, delete_conversation))
        .routes(routes!(list_items))
}

/// A new conversation
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = OpenAiConversationRequest)]
pub(super) struct ConversationRequest {
    /// Not supported: send them with the first response
    #[schema(value_type = Option<Vec<Object>>)]
    #[serde(default)]
    pub items: Option<Vec<Value>>,
    #[schema(value_type = Option<Object>)]
    #[serde(default)]
    pub metadata: Value,
}

fn parse(id: &str) -> Result<Uuid, Problem> {
    ids::parse_conversation(id).ok_or_else(visible::conversation_not_found)
}

fn body(conversation: &Conversation) -> Value {
    let metadata = Some(&conversation.metadata[METADATA]).filter(|metadata| metadata.is_object());
    json!({
        "id": ids::conversation(conversation.id),
        "object": "conversation",
        "created_at": conversation.created_at.timestamp(),
        "metadata": metadata.cloned().unwrap_or_else(|| json!({})),
    })
}

/// Create a conversation of OpenAI's protocol. Its agent is that of its first response
#[utoipa::path(post, path = "/v1/conversations", tag = "openai", request_body = ConversationRequest,
    responses((status = 200, description = "It", body = Object), Errors))]
async fn create_conversation(
    State(state): State<ChatState>,
    caller: Caller<Write>,
    Body(request): Body<ConversationRequest>,
) -> Result<Json<Value>, Problem> {
    if request.items.is_some_and(|items| !items.is_empty()) {
        let message =
            "a conversation begins without items; send them as the input of its first response, without `conversation`";
        return Err(refused(Invalid::unsupported("items", message)));
    }
    let metadata = request::metadata(&request.metadata).map_err(refused)?;
    let id = new_ids::new();
    let mut tx = caller.begin(&state).await?;
    conversations::create(
        &mut tx,
        id,
        caller.owner(),
        UNTITLED,
        None,
        &json!({ METADATA: metadata }),
    )
    .await?;
    let made = conversations::get(&mut tx, caller.owner(), id)
        .await?
        .ok_or_else(Problem::internal)?;
    tx.commit().await?;
    Ok(Json(body(&made)))
}

/// Get a conversation of OpenAI's protocol
#[utoipa::path(get, path = "/v1/conversations/{id}", tag = "openai",
    params(("id" = String, Path, description = "The conversation")),
    responses((status = 200, description = "It", body = Object), Errors))]
async fn get_conversation(
    State(state): State<ChatState>,
    caller: Caller<Read>,
    Segments(id): Segments<String>,
) -> Result<Json<Value>, Problem> {
    Ok(Json(body(&visible::conversation(&state, &caller, parse(&id)?).await?)))
}

/// New metadata
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = OpenAiConversationUpdate)]
pub(super) struct ConversationUpdate {
    #[schema(value_type = Option<Object>)]
    #[serde(default)]
    pub metadata: Value,
}

/// Change the metadata of a conversation of OpenAI's protocol
#[utoipa::path(post, path = "/v1/conversations/{id}", tag = "openai", request_body = ConversationUpdate,
    params(("id" = String, Path, description = "The conversation")),
    responses((status = 200, description = "It", body = Object), Errors))]
async fn update(
    State(state): State<ChatState>,
    caller: Caller<Write>,
    Segments(id): Segments<String>,
    Body(update): Body<ConversationUpdate>,
) -> Result<Json<Value>, Problem> {
    let id = parse(&id)?;
    let metadata = request::metadata(&update.metadata).map_err(refused)?;
    let mut tx = caller.begin(&state).await?;
    let known = conversations::get(&mut tx, caller.owner(), id).await?;
    let mut all: Map<String, Value> = known
        .ok_or_else(visible::conversation_not_found)?
        .metadata
        .as_object()
        .cloned()
        .unwrap_or_default();
    all.insert(METADATA.to_owned(), metadata);
    let updated = conversations::update(&mut *tx, caller.owner(), id, None, Some(&Value::Object(all))).await?;
    tx.commit().await?;
    Ok(Json(body(&updated.ok_or_else(visible::conversation_not_found)?)))
}

/// Delete a conversation of OpenAI's protocol, with its responses
#[utoipa::path(delete, path = "/v1/conversations/{id}", tag = "openai",
    params(("id" = String, Path, description = "The conversation")),
    responses((status = 200, description = "Gone", body = Object), Errors))]
async fn delete_conversation(
    State(state): State<ChatState>,
    caller: Caller<Write>,
    Segments(id): Segments<String>,
) -> Result<Json<Value>, Problem> {
    caller.counts_audited()?;
    let command = DeleteConversation {
        owner: caller.owner(),
        by: Actor::caller(&caller),
        id: parse(&id)?,
    };
    if !rejoin_commands::execute_for(&state.db.pool_sqlx, caller.rls_scope(), &command).await? {
        return Err(visible::conversation_not_found());
    }
    state.bus.publish(Wake::log(command.id));
    Ok(Json(
        json!({"id": id, "object": "conversation.deleted", "deleted": true}),
    ))
}

/// List the messages of a conversation as items of OpenAI's protocol: at most the newest 1,000
#[utoipa::path(get, path = "/v1/conversations/{id}/items", tag = "openai",
    params(ItemParams, ("id" = String, Path, description = "The conversation")),
    responses((status = 200, description = "A page", body = Object), Errors))]
async fn list_items(
    State(state): State<ChatState>,
    caller: Caller<Read>,
    Segments(id): Segments<String>,
    Params(params): Params<ItemParams>,
) -> Result<Json<Value>, Problem> {
    let id = parse(&id)?;
    visible::conversation(&state, &caller, id).await?;
    let stored = messages::newest(&mut *caller.begin(&state).await?, id, LISTED_MAX).await?;
    Ok(Json(params.page(stored.iter().map(item).collect())?))
}

fn item(message: &ChatMessage) -> Value {
    items::stored_message(
        message.id,
        &message.role,
        &message.content,
        &message.metadata["attachments"],
    )
}
