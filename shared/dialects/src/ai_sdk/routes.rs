//! `/api/ai/chat`: chats of the AI SDK's `useChat`, over the same conversations and logs as `/api/chat/stream`. A chat is a conversation that
//! its client has named.
//!
//! - `answers` the client's answers to calls that wait for it
//! - `sent`    a user's message

mod answers;
mod sent;

use std::collections::BTreeSet;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use rejoin_chat::{ChatState, Routes};
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Read, Write};
use rejoin_http::extract::{Body, Params, Segments};
use rejoin_http::problem::{BodyRefused, Problem, ProblemBody, Refused};
use rejoin_runs::{client_tools, conversations, messages, runs};
use rejoin_sse::start;
use serde::{Deserialize, Serialize};
use sqlx::PgConnection;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use crate::ai_sdk::{self, ChatBody, Refusal, StoredMessage, Turn, UiMessages};

pub const STREAM_PATH: &str = "/api/ai/chat/{id}/stream";
/// Maximum number of stored messages in a chat's list, newest first.
const MESSAGES_MAX: i64 = 200;

pub fn routes() -> Routes {
    Routes::new()
        .routes(routes!(post))
        .routes(routes!(get))
        .routes(routes!(resume))
}

fn refused(refusal: Refusal) -> Problem {
    Problem::bad_request(refusal.code, refusal.detail)
}

/// Returns the conversation of a chat: the one of that name or, failing that, of that id.
async fn find(db: &mut PgConnection, caller: &Caller, id: &str) -> Result<Option<Uuid>, Problem> {
    ai_sdk::request::check_chat_id(id).map_err(refused)?;
    let found = conversations::by_thread_or_id(db, caller.owner(), id).await?;
    Ok(found.map(|found| found.id))
}

/// Adds the protocol's header, and those of every chat.
fn with_headers(mut response: Response, conversation_id: Uuid, run_id: Uuid) -> Response {
    let headers = response.headers_mut();
    headers.insert(
        HeaderName::from_static(ai_sdk::STREAM_HEADER),
        HeaderValue::from_static(ai_sdk::STREAM_VERSION),
    );
    for (name, id) in [("x-conversation-id", conversation_id), ("x-run-id", run_id)] {
        headers.insert(
            name,
            HeaderValue::try_from(id.to_string()).expect("an id is a header value"),
        );
    }
    response
}

/// Returns the names of the tools that the client of this run executes.
async fn tools_of(db: &mut PgConnection, run_id: Uuid) -> Result<BTreeSet<String>, Problem> {
    let options = client_tools::of_run(db, run_id).await?;
    Ok(options.client_tools.into_iter().map(|tool| tool.name).collect())
}

/// Send a chat's newest message and stream its answer, in the AI SDK's UI message stream
///
/// If the newest message is the assistant's: send its tool outputs and approvals, and stream how the turn continues.
#[utoipa::path(post, path = "/api/ai/chat", tag = "AI SDK", request_body = ChatBody,
    responses(
        (status = 200, description = "The chunks of the answer, until `[DONE]`", body = String, content_type = "text/event-stream"),
        (status = 404, description = "The agent, or the chat whose calls are answered, was not found", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "No call waits for these answers", body = ProblemBody, content_type = "application/problem+json"),
        (status = 410, description = "The message was answered long ago; its events are no longer stored", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The message's id was already used for another message", body = ProblemBody, content_type = "application/problem+json"),
        Refused, BodyRefused))]
async fn post(
    State(state): State<ChatState>,
    caller: Caller<Write>,
    Body(body): Body<ChatBody>,
) -> Result<Response, Problem> {
    match body.turn().map_err(refused)? {
        Turn::Message(message) => sent::post(&state, &caller, body, message).await,
        Turn::Answers(given) => answers::post(&state, &caller, &body.id, given).await,
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct ResumeParams {
    /// The id of the newest message that the page has, as `GET /api/ai/chat/{id}` listed it. If it is the user's, and its turn has ended
    /// since, that turn is streamed instead of 204. Ids that the page made itself, or none, are ignored
    after: Option<String>,
}

/// Stream the active turn of a chat, from its beginning
#[utoipa::path(get, path = STREAM_PATH, tag = "AI SDK",
    params(ResumeParams, ("id" = String, Path, description = "The client's id of the chat", max_length = 255)),
    responses(
        (status = 200, description = "The chunks of the answer, until `[DONE]`", body = String, content_type = "text/event-stream"),
        (status = 204, description = "No turn is active, or there is no such chat"),
        Refused))]
async fn resume(
    State(state): State<ChatState>,
    caller: Caller<Read>,
    Segments(id): Segments<String>,
    Params(params): Params<ResumeParams>,
) -> Result<Response, Problem> {
    let mut db = caller.begin(&state).await?;
    let Some(conversation_id) = find(&mut db, &caller, &id).await? else {
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    // The oldest one is running; those after it wait.
    let active = runs::active_of_conversation(&mut db, conversation_id).await?;
    let after = params.after.and_then(|id| id.parse::<Uuid>().ok());
    let run_id = match (active.first(), after) {
        (Some(active), _) => Some(*active),
        (None, Some(message_id)) => run_that_answered(&mut db, conversation_id, message_id).await?,
        (None, None) => None,
    };
    let Some(run_id) = run_id else {
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    let tools = tools_of(&mut db, run_id).await?;
    drop(db);
    let permit = start::admit(&state.streams, &caller)?;
    let renderer = Box::new(UiMessages::replay(state.settings.dialect_words, tools));
    let response = start::open_rendered(&state.streams, permit, caller.owner(), run_id, None, renderer).await?;
    Ok(with_headers(response, conversation_id, run_id))
}

/// Returns the run whose answer is the newest message, if it answers this one: a page that listed the messages before that answer was stored
/// lacks it.
async fn run_that_answered(
    db: &mut PgConnection,
    conversation_id: Uuid,
    message_id: Uuid,
) -> Result<Option<Uuid>, Problem> {
    let newest = messages::newest(db, conversation_id, 2).await?;
    let [asked, answer] = newest.as_slice() else {
        return Ok(None);
    };
    let run_id = answer
        .retrieval_context
        .as_ref()
        .map(|context| &context["agent_run_id"]);
    Ok(run_id
        .filter(|_| asked.id == message_id)
        .and_then(|id| id.as_str()?.parse().ok()))
}

/// The stored messages of a chat
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UiChatBody {
    pub id: String,
    /// At most the newest 200, in order
    pub messages: Vec<StoredMessage>,
}

/// Get the stored messages of a chat, as `useChat` takes them
#[utoipa::path(get, path = "/api/ai/chat/{id}", tag = "AI SDK",
    params(("id" = String, Path, description = "The client's id of the chat", max_length = 255)),
    responses((status = 200, description = "Them; none for an unknown chat", body = UiChatBody), Refused))]
async fn get(
    State(state): State<ChatState>,
    caller: Caller<Read>,
    Segments(id): Segments<String>,
) -> Result<Json<UiChatBody>, Problem> {
    let mut db = caller.begin(&state).await?;
    let messages = match find(&mut db, &caller, &id).await? {
        Some(conversation_id) => messages::newest(&mut *db, conversation_id, MESSAGES_MAX).await?,
        None => Vec::new(),
    };
    let messages = messages.into_iter().map(|message| {
        let files = rejoin_files::of_metadata(&message.metadata);
        StoredMessage::of(message.id, &message.role, message.content, &files)
    });
    Ok(Json(UiChatBody {
        messages: messages.collect(),
        id,
    }))
}
