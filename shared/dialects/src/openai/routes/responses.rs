//! `/v1/responses`: creates, reads, cancels and deletes responses.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use rejoin_chat::{ChatState, Routes};
use rejoin_commands::{CancelRun, DeleteConversation};
use rejoin_event_log::wakeup::Wake;
use rejoin_http::REQUEST_LIMIT;
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Read, Write};
use rejoin_http::extract::{Body, Params, Segments};
use rejoin_http::problem::Problem;
use rejoin_http::visible;
use rejoin_identity::audit::Actor;
use rejoin_runs::runs::Run;
use rejoin_sse::start;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::timeout;
use utoipa::IntoParams;

use super::turns::{self, Request, Target, Turn};
use super::{ErrorBody, Errors, PARAM, document, read, refused};
use crate::openai::ids::{self, ResponseId};
use crate::openai::items;
use crate::openai::request::ResponseRequest;
use crate::openai::responses::{Form, Responses};

pub(super) const PATH: &str = "/v1/responses";
pub(super) const CANCEL_PATH: &str = "/v1/responses/{id}/cancel";
/// The number that precedes all frames.
const BEGINNING: i64 = -1;
/// How long a cancellation is waited for.
const CANCEL_LIMIT: Duration = Duration::from_secs(10);
/// Default and maximum number of items in a page.
pub(super) const PAGE: usize = 20;
pub(super) const PAGE_MAX: usize = 100;

pub(super) fn routes() -> Routes {
    Routes::new()
        .routes(routes!(create_response))
        .routes(routes!(get_response, delete_response))
        .routes(routes!(cancel))
        .routes(routes!(input_items))
}

/// How to read a response
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ReadParams {
    /// Stream the response's events
    #[serde(default)]
    pub stream: Option<bool>,
    /// The `sequence_number` of the last event that the reader received
    #[param(minimum = 0)]
    pub starting_after: Option<i64>,
}

/// Which items of a list
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ItemParams {
    /// Maximum number of items in the page: 1 to 100, by default 20
    #[param(minimum = 1, maximum = 100)]
    pub limit: Option<usize>,
    /// The id of the last item of the previous page
    pub after: Option<String>,
    /// `desc` (default): the newest first; `asc`: the oldest first
    #[param(pattern = "^(asc|desc)$")]
    pub order: Option<String>,
}

impl ItemParams {
    /// Returns a page of items, which are given oldest first.
    pub fn page(&self, mut all: Vec<Value>) -> Result<Value, Problem> {
        let invalid = |detail: String| Problem::bad_request("invalid_query", detail);
        let limit = self.limit.unwrap_or(PAGE);
        if !(1..=PAGE_MAX).contains(&limit) {
            return Err(invalid(format!("limit must be between 1 and {PAGE_MAX}")).with(PARAM, json!("limit")));
        }
        match self.order.as_deref() {
            None | Some("desc") => all.reverse(),
            Some("asc") => {}
            Some(other) => {
                return Err(
                    invalid(format!("order={other} is not supported; use asc or desc")).with(PARAM, json!("order"))
                );
            }
        }
        if let Some(after) = &self.after {
            let at = all.iter().position(|item| item["id"] == after.as_str());
            let at = at.ok_or_else(|| invalid(format!("the list has no item {after}")).with(PARAM, json!("after")))?;
            all.drain(..=at);
        }
        let has_more = all.len() > limit;
        all.truncate(limit);
        Ok(items::list(all, has_more))
    }
}

fn not_found() -> Problem {
    Problem::not_found("response_not_found", "The response")
}

/// Finds a response's run, which must be the caller's.
async fn find(state: &ChatState, caller: &Caller, id: &str) -> Result<(Turn, Run), Problem> {
    let id = ResponseId::parse(id).ok_or_else(not_found)?;
    let run = visible::run(state, caller, id.run).await.map_err(|_| not_found())?;
    let turn = Turn {
        id,
        conversation_id: run.conversation_id,
    };
    Ok((turn, run))
}

fn renderer(state: &ChatState, turn: Turn, form: Form) -> Responses {
    Responses::new(turn.id, turn.conversation_id, state.settings.dialect_words, form)
}

/// Folds the response's events so far.
async fn so_far(state: &ChatState, caller: &Caller, turn: Turn) -> Result<Responses, Problem> {
    let mut renderer = renderer(state, turn, Form::Document);
    start::fold_so_far(&state.streams, caller.owner(), turn.id.run, &mut renderer).await?;
    Ok(renderer)
}

/// Returns the response as it is now.
async fn now(state: &ChatState, caller: &Caller, turn: Turn) -> Result<Value, Problem> {
    so_far(state, caller, turn).await?.document().ok_or_else(not_found)
}

/// Create a response of OpenAI's protocol: an agent answers
///
/// `sequence_number` of the events is 64 times the number of the log's event, plus the index among the event's frames.
#[utoipa::path(post, path = "/v1/responses", tag = "openai", request_body = ResponseRequest,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same key and body return the same response")),
    responses(
        (status = 200, description = "The response; with `stream`, its events (text/event-stream)", body = Object),
        (status = 422, description = "The idempotency key was already used with another body", body = ErrorBody),
        Errors))]
async fn create_response(
    State(state): State<ChatState>,
    caller: Caller<Write>,
    headers: HeaderMap,
    Body(body): Body<Value>,
) -> Result<Response, Problem> {
    let request: ResponseRequest = read(&body)?;
    let target = match (&request.previous_response_id, request.conversation_id()) {
        (Some(id), _) => Target::After(ResponseId::parse(id).ok_or_else(turns::previous_not_found)?),
        (None, Some(id)) => {
            Target::Conversation(ids::parse_conversation(id).ok_or_else(visible::conversation_not_found)?)
        }
        (None, None) => Target::New,
    };
    let ask = request.ask().map_err(refused)?;
    let returns_at_once = ask.settings.background && !request.wants_stream();
    // Before anything is stored, so that a caller without a free stream is refused.
    let permit = if returns_at_once {
        None
    } else {
        Some(start::admit(&state.streams, &caller)?)
    };
    let stored = turns::take(
        &state,
        &caller,
        Request {
            headers: &headers,
            body: &body,
            ask,
            target,
        },
    );
    let turn = timeout(REQUEST_LIMIT, stored)
        .await
        .unwrap_or_else(|_| Err(Problem::database_away()))?;
    let (owner, run_id) = (caller.owner(), turn.id.run);
    match permit {
        None => Ok(Json(now(&state, &caller, turn).await?).into_response()),
        Some(permit) if request.wants_stream() => {
            let renderer = renderer(&state, turn, Form::Stream { after: BEGINNING });
            start::open_rendered(&state.streams, permit, owner, run_id, None, Box::new(renderer)).await
        }
        Some(permit) => {
            let renderer = renderer(&state, turn, Form::Document);
            let whole = start::whole_run(&state.streams, permit, owner, run_id, Box::new(renderer)).await?;
            Ok(document(StatusCode::OK, whole.ok_or_else(Problem::draining)?))
        }
    }
}

/// Get a response of OpenAI's protocol, as it is now, or stream its events
#[utoipa::path(get, path = "/v1/responses/{id}", tag = "openai",
    params(ReadParams, ("id" = String, Path, description = "The response")),
    responses(
        (status = 200, description = "The response; with `stream`, its events (text/event-stream)", body = Object),
        (status = 410, description = "The response's events are no longer stored", body = ErrorBody),
        Errors))]
async fn get_response(
    State(state): State<ChatState>,
    caller: Caller<Read>,
    Segments(id): Segments<String>,
    Params(params): Params<ReadParams>,
) -> Result<Response, Problem> {
    let (turn, _) = find(&state, &caller, &id).await?;
    if !params.stream.unwrap_or_default() {
        return Ok(Json(now(&state, &caller, turn).await?).into_response());
    }
    if turn.id.question.is_some() {
        // A response that is not there would be a stream without an event.
        now(&state, &caller, turn).await?;
    }
    let after = params.starting_after.unwrap_or(BEGINNING);
    let permit = start::admit(&state.streams, &caller)?;
    let renderer = renderer(&state, turn, Form::Stream { after });
    let silent_through = params.starting_after.map(ids::whole_through);
    start::open_rendered(
        &state.streams,
        permit,
        caller.owner(),
        turn.id.run,
        silent_through,
        Box::new(renderer),
    )
    .await
}

/// Cancel a response of OpenAI's protocol. Idempotent: a response that has ended is unchanged
#[utoipa::path(post, path = "/v1/responses/{id}/cancel", tag = "openai",
    params(("id" = String, Path, description = "The response")),
    responses((status = 200, description = "The response", body = Object), Errors))]
async fn cancel(
    State(state): State<ChatState>,
    caller: Caller<Write>,
    Segments(id): Segments<String>,
) -> Result<Json<Value>, Problem> {
    let (turn, _) = find(&state, &caller, &id).await?;
    let permit = start::admit(&state.streams, &caller)?;
    let command = CancelRun { run_id: turn.id.run };
    let wake = rejoin_commands::execute_for(&state.db.pool_sqlx, caller.rls_scope(), &command).await?;
    state.bus.publish(wake);
    // Its worker stops it at the next await. What has come until then is the response.
    let ended = renderer(&state, turn, Form::Document);
    let ended = start::whole_run(&state.streams, permit, caller.owner(), turn.id.run, Box::new(ended));
    if let Ok(ended) = timeout(CANCEL_LIMIT, ended).await {
        ended?;
    }
    Ok(Json(now(&state, &caller, turn).await?))
}

/// Delete a response of OpenAI's protocol, with its conversation, if it is the only one there
#[utoipa::path(delete, path = "/v1/responses/{id}", tag = "openai",
    params(("id" = String, Path, description = "The response")),
    responses((status = 200, description = "Gone", body = Object), Errors))]
async fn delete_response(
    State(state): State<ChatState>,
    caller: Caller<Write>,
    Segments(id): Segments<String>,
) -> Result<Json<Value>, Problem> {
    caller.counts_audited()?;
    let (turn, run) = find(&state, &caller, &id).await?;
    let fold = so_far(&state, &caller, turn).await?;
    let is_first = turn.id.question.is_none() && fold.begins_conversation();
    let conversation_id = run.conversation_id.filter(|_| is_first).ok_or_else(not_alone)?;
    turns::must_be_last(&state, &caller, &run)
        .await
        .map_err(|_| not_alone())?;
    let command = DeleteConversation {
        owner: caller.owner(),
        by: Actor::caller(&caller),
        id: conversation_id,
    };
    if !rejoin_commands::execute_for(&state.db.pool_sqlx, caller.rls_scope(), &command).await? {
        return Err(not_found());
    }
    state.bus.publish(Wake::log(conversation_id));
    Ok(Json(json!({"id": id, "object": "response", "deleted": true})))
}

fn not_alone() -> Problem {
    let detail = "the response is a part of a conversation with others, which depend on it: delete the conversation";
    Problem::bad_request("response_not_alone", detail)
}

/// List the input items of a response of OpenAI's protocol
#[utoipa::path(get, path = "/v1/responses/{id}/input_items", tag = "openai",
    params(ItemParams, ("id" = String, Path, description = "The response")),
    responses((status = 200, description = "A page", body = Object), Errors))]
async fn input_items(
    State(state): State<ChatState>,
    caller: Caller<Read>,
    Segments(id): Segments<String>,
    Params(params): Params<ItemParams>,
) -> Result<Json<Value>, Problem> {
    let (turn, _) = find(&state, &caller, &id).await?;
    let fold = so_far(&state, &caller, turn).await?;
    let items = fold.input().ok_or_else(not_found)?.to_vec();
    Ok(Json(params.page(items)?))
}
