//! `POST /v1/chat/completions`. Its messages are the whole history, so that each request begins a conversation; a request that ends with the
//! outputs of functions continues the run that waits for them.

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use rejoin_chat::{ChatState, Routes};
use rejoin_http::REQUEST_LIMIT;
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Write};
use rejoin_http::extract::Body;
use rejoin_http::problem::Problem;
use rejoin_sse::start;
use serde_json::Value;
use tokio::time::timeout;

use super::turns::{self, Request, Target};
use super::{ErrorBody, Errors, SHOULD_RETRY, document, read, refused};
use crate::openai::chat::{Chat, Form};
use crate::openai::errors;
use crate::openai::request::ChatRequest;

pub(super) const PATH: &str = "/v1/chat/completions";

pub(super) fn routes() -> Routes {
    Routes::new().routes(routes!(create_completion))
}

/// Create a chat completion of OpenAI's protocol: an agent answers
#[utoipa::path(post, path = "/v1/chat/completions", tag = "openai", request_body = ChatRequest,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same key and body return the same completion")),
    responses(
        (status = 200, description = "The completion; with `stream`, its chunks (text/event-stream)", body = Object),
        (status = 422, description = "The idempotency key was already used with another body", body = ErrorBody),
        Errors))]
async fn create_completion(
    State(state): State<ChatState>,
    caller: Caller<Write>,
    headers: HeaderMap,
    Body(body): Body<Value>,
) -> Result<Response, Problem> {
    let request: ChatRequest = read(&body)?;
    let ask = request.ask().map_err(refused)?;
    let permit = start::admit(&state.streams, &caller)?;
    let stored = turns::take(
        &state,
        &caller,
        Request {
            headers: &headers,
            body: &body,
            ask,
            target: Target::New,
        },
    );
    let turn = timeout(REQUEST_LIMIT, stored)
        .await
        .unwrap_or_else(|_| Err(Problem::database_away()))?;
    let (words, owner, run_id) = (state.settings.dialect_words, caller.owner(), turn.id.run);
    if request.wants_stream() {
        let form = Form::Stream {
            includes_usage: request.includes_usage(),
        };
        let renderer = Box::new(Chat::new(turn.id, words, form));
        return start::open_rendered(&state.streams, permit, owner, run_id, None, renderer).await;
    }
    let renderer = Box::new(Chat::new(turn.id, words, Form::Document));
    let whole = start::whole_run(&state.streams, permit, owner, run_id, renderer).await?;
    let whole = whole.ok_or_else(Problem::draining)?;
    let Some(status) = errors::status_of_document(&whole) else {
        return Ok(document(StatusCode::OK, whole));
    };
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = document(status, whole);
    // It has failed for good: the same request again would be another run.
    response
        .headers_mut()
        .insert(SHOULD_RETRY, HeaderValue::from_static("false"));
    Ok(response)
}
