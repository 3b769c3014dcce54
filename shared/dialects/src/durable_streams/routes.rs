//! `/api/durable-streams`: reads of conversations and runs by clients of Durable Streams.

use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use rejoin_chat::{ChatState, Routes};
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Read};
use rejoin_http::extract::{Params, Segments};
use rejoin_http::problem::{Problem, ProblemBody, Refused};
use rejoin_sse::schema::StreamEvent;
use rejoin_sse::start::{self, EventPage, Start, StreamSource};
use serde::Deserialize;
use utoipa::IntoParams;
use uuid::Uuid;

use super::offset;
use super::renderer::{DataAndControl, closed, message};

/// How long a long poll waits for an event.
const LONG_POLL: Duration = Duration::from_secs(20);
/// Events do not change: a part of the past may be kept by the reader's own cache (section 10.1).
const CACHEABLE: &str = "private, max-age=60, stale-while-revalidate=300";
const NO_STORE: &str = "no-store";
/// `no-cache`, too, for proxies that know nothing else.
const OF_EVENTS: &str = "no-cache, no-store, no-transform";
/// What the response depends on besides the URL.
const VARIES: &str = "authorization, cookie, x-project-id";

const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
const NEXT_OFFSET: HeaderName = HeaderName::from_static("stream-next-offset");
const CURSOR: HeaderName = HeaderName::from_static("stream-cursor");
const UP_TO_DATE: HeaderName = HeaderName::from_static("stream-up-to-date");
const CLOSED: HeaderName = HeaderName::from_static("stream-closed");

pub fn routes() -> Routes {
    Routes::new()
        .routes(routes!(read_conversation, head_conversation))
        .routes(routes!(read_run, head_run))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct ReadParams {
    /// Position after which to read: `-1` (the beginning, the default), `now`, or a `Stream-Next-Offset` of an earlier response
    #[param(pattern = "^(-1|now|[0-9]{20})$")]
    offset: Option<String>,
    /// `long-poll` or `sse`: wait for events. Without it: what there is
    #[param(pattern = "^(long-poll|sse)$")]
    live: Option<String>,
    /// The newest `Stream-Cursor` that the client has
    cursor: Option<String>,
}

/// How a reader waits for events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Live {
    No,
    LongPoll,
    Sse,
}

impl ReadParams {
    fn start(&self) -> Result<Start, Problem> {
        match self.offset.as_deref() {
            None => Ok(Start::Beginning),
            Some(text) => offset::parse(text).ok_or_else(|| {
                Problem::bad_request(
                    "offset_malformed",
                    "an offset is -1, now, or the Stream-Next-Offset of an earlier response",
                )
            }),
        }
    }

    fn live(&self) -> Result<Live, Problem> {
        let live = match self.live.as_deref() {
            None => return Ok(Live::No),
            Some("long-poll") => Live::LongPoll,
            Some("sse") => Live::Sse,
            Some(other) => {
                let detail = format!("live={other} is not supported; use long-poll or sse");
                return Err(Problem::bad_request("invalid_query", detail));
            }
        };
        match self.offset {
            Some(_) => Ok(live),
            None => Err(Problem::bad_request("invalid_query", "a live read needs an offset")),
        }
    }
}

/// Read a conversation's events as a durable stream
///
/// The stream is never closed: later turns append to it.
#[utoipa::path(get, path = "/api/durable-streams/conversations/{id}", tag = "Durable Streams",
    params(ReadParams, ("id" = Uuid, Path, description = "The conversation")),
    responses(
        (status = 200, description = "The events after the offset, as a JSON array; each has its number as `seq`. With `live=sse`: `data` and `control` events", body = Vec<StreamEvent>),
        (status = 204, description = "With `live=long-poll`: no event has arrived"),
        (status = 304, description = "The client has them (`If-None-Match`)"),
        (status = 410, description = "The events after the offset are no longer stored", body = ProblemBody, content_type = "application/problem+json"),
        Refused))]
async fn read_conversation(
    State(state): State<ChatState>,
    caller: Caller<Read>,
    Segments(id): Segments<Uuid>,
    Params(params): Params<ReadParams>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    read(&state, &caller, StreamSource::Conversation(id), params, &headers).await
}

/// Get the end of a conversation's stream
#[utoipa::path(head, path = "/api/durable-streams/conversations/{id}", tag = "Durable Streams",
    params(("id" = Uuid, Path, description = "The conversation")),
    responses((status = 200, description = "`Stream-Next-Offset` is the end"), Refused))]
async fn head_conversation(
    State(state): State<ChatState>,
    caller: Caller<Read>,
    Segments(id): Segments<Uuid>,
) -> Result<Response, Problem> {
    head(&state, &caller, StreamSource::Conversation(id)).await
}

/// Read a run's events as a durable stream
///
/// Its `done` closes the stream. If the run is resumed later, it is open again from there on.
#[utoipa::path(get, path = "/api/durable-streams/runs/{id}", tag = "Durable Streams",
    params(ReadParams, ("id" = Uuid, Path, description = "The run")),
    responses(
        (status = 200, description = "The events after the offset, as a JSON array; each has its number as `seq`. With `live=sse`: `data` and `control` events", body = Vec<StreamEvent>),
        (status = 204, description = "With `live=long-poll`: no event has arrived, or (`Stream-Closed`) none will"),
        (status = 304, description = "The client has them (`If-None-Match`)"),
        (status = 410, description = "The events after the offset are no longer stored", body = ProblemBody, content_type = "application/problem+json"),
        Refused))]
async fn read_run(
    State(state): State<ChatState>,
    caller: Caller<Read>,
    Segments(id): Segments<Uuid>,
    Params(params): Params<ReadParams>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    read(&state, &caller, StreamSource::Run(id), params, &headers).await
}

/// Get the end of a run's stream
#[utoipa::path(head, path = "/api/durable-streams/runs/{id}", tag = "Durable Streams",
    params(("id" = Uuid, Path, description = "The run")),
    responses((status = 200, description = "`Stream-Next-Offset` is the end; `Stream-Closed` is set once the run has ended"), Refused))]
async fn head_run(
    State(state): State<ChatState>,
    caller: Caller<Read>,
    Segments(id): Segments<Uuid>,
) -> Result<Response, Problem> {
    head(&state, &caller, StreamSource::Run(id)).await
}

async fn read(
    state: &ChatState,
    caller: &Caller,
    source: StreamSource,
    params: ReadParams,
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let (from, live) = (params.start()?, params.live()?);
    match live {
        Live::No => {
            let page = start::page(&state.streams, caller.owner(), source, from).await?;
            Ok(catch_up(&page, from, headers))
        }
        Live::LongPoll => long_poll(state, caller, source, &params, from).await,
        Live::Sse => sse(state, caller, source, params, from).await,
    }
}

async fn head(state: &ChatState, caller: &Caller, source: StreamSource) -> Result<Response, Problem> {
    let end = start::page(&state.streams, caller.owner(), source, Start::Now).await?;
    let mut response = StatusCode::OK.into_response();
    describe(response.headers_mut(), &end);
    response.headers_mut().remove(UP_TO_DATE);
    Ok(response)
}

/// Sets what all responses have.
fn describe(headers: &mut HeaderMap, page: &EventPage) {
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(NO_STORE));
    headers.insert(VARY, HeaderValue::from_static(VARIES));
    headers.insert(RESOURCE_POLICY, HeaderValue::from_static("same-origin"));
    headers.insert(NEXT_OFFSET, value(offset::of(page.next)));
    if page.is_up_to_date {
        headers.insert(UP_TO_DATE, HeaderValue::from_static("true"));
    }
    if page.is_closed {
        headers.insert(CLOSED, HeaderValue::from_static("true"));
    }
}

fn value(text: String) -> HeaderValue {
    HeaderValue::try_from(text).expect("digits and letters are a header value")
}

/// Returns the response with the events that there are.
fn catch_up(page: &EventPage, from: Start, headers: &HeaderMap) -> Response {
    let tag = value(format!(
        "\"{}:{}:{}{}\"",
        page.id,
        page.after,
        page.next,
        if page.is_closed { ":c" } else { "" }
    ));
    let has = headers.get_all(IF_NONE_MATCH).iter().any(|has| has == tag);
    let mut response = if has && from != Start::Now {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        Response::new(Body::from(messages(page)))
    };
    describe(response.headers_mut(), page);
    if from != Start::Now {
        response.headers_mut().insert(ETAG, tag);
    }
    // The end of the log is another one in a moment.
    if !page.events.is_empty() {
        response
            .headers_mut()
            .insert(CACHE_CONTROL, HeaderValue::from_static(CACHEABLE));
    }
    response
}

/// Returns the JSON array of the page's events.
fn messages(page: &EventPage) -> Vec<u8> {
    let mut out = b"[".to_vec();
    for (at, (seq, event)) in page.events.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        out.extend_from_slice(&message(*seq, event));
    }
    out.push(b']');
    out
}

async fn long_poll(
    state: &ChatState,
    caller: &Caller,
    source: StreamSource,
    params: &ReadParams,
    from: Start,
) -> Result<Response, Problem> {
    let mut page = start::page(&state.streams, caller.owner(), source, from).await?;
    if page.events.is_empty() && !page.is_closed {
        let permit = start::admit(&state.streams, caller)?;
        start::wait(&state.streams, permit, caller.owner(), source, page.next, LONG_POLL).await?;
        page = start::page(&state.streams, caller.owner(), source, Start::After(page.next)).await?;
    }
    let mut response = if page.events.is_empty() {
        StatusCode::NO_CONTENT.into_response()
    } else {
        Response::new(Body::from(messages(&page)))
    };
    describe(response.headers_mut(), &page);
    if page.events.is_empty() {
        response.headers_mut().remove(CONTENT_TYPE);
    }
    if !page.is_closed {
        let cursor = offset::cursor(params.cursor.as_deref());
        response.headers_mut().insert(CURSOR, value(cursor));
    }
    Ok(response)
}

async fn sse(
    state: &ChatState,
    caller: &Caller,
    source: StreamSource,
    params: ReadParams,
    from: Start,
) -> Result<Response, Problem> {
    let permit = start::admit(&state.streams, caller)?;
    let renderer = Box::new(DataAndControl::new(params.cursor));
    let mut response = start::open_from(&state.streams, permit, caller.owner(), source, from, renderer, closed).await?;
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(OF_EVENTS));
    headers.insert(RESOURCE_POLICY, HeaderValue::from_static("same-origin"));
    Ok(response)
}
