//! A client connects to a thread: it gets the state so far, then what follows.

use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use rejoin_chat::{ChatState, Routes};
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Read};
use rejoin_http::extract::{Params, Segments};
use rejoin_http::problem::{Problem, Refused};
use rejoin_http::visible;
use rejoin_runs::conversations;
use rejoin_runs::messages::{self, ChatMessage};
use rejoin_runs::runs::{self, Span};
use rejoin_sse::start;
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::IntoParams;
use uuid::Uuid;

use super::{find_thread, stream};
use crate::ag_ui::request::content_with;
use crate::ag_ui::{AgUi, Begin, thread_at_rest};

/// Number of the newest messages of a thread that a client is given when it connects.
const THREAD_MESSAGES: i64 = 200;
/// Maximum length of the name that a connecting client gives its run, in characters.
const RUN_NAME_MAX_CHARS: usize = 200;
/// The cursor of a client that reconnects.
const LAST_EVENT_ID: &str = "last-event-id";

pub(super) fn routes() -> Routes {
    Routes::new().routes(routes!(thread_events))
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct ThreadParams {
    /// The `runId` that the events name; default: the id of the run
    pub run_id: Option<String>,
}

/// A cursor: the number of an event, and how many of the next event's frames the client has, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cursor {
    after: i64,
    frames: usize,
}

impl Cursor {
    fn of(headers: &HeaderMap) -> Result<Option<Self>, Problem> {
        let Some(value) = headers.get(LAST_EVENT_ID).filter(|value| !value.is_empty()) else {
            return Ok(None);
        };
        let text = value.to_str().unwrap_or_default();
        let digits = |text: &str| {
            text.bytes()
                .all(|byte| byte.is_ascii_digit())
                .then(|| text.parse::<i64>().ok())
        };
        let parsed = match text.split_once('.') {
            None => digits(text).flatten().map(|after| Self { after, frames: 0 }),
            Some((seq, frames)) => digits(seq)
                .flatten()
                .zip(digits(frames).flatten())
                .and_then(|(seq, frames)| {
                    Some(Self {
                        after: seq.checked_sub(1)?,
                        frames: usize::try_from(frames).ok()?,
                    })
                }),
        };
        let malformed = || {
            Problem::bad_request(
                "cursor_malformed",
                "Last-Event-ID must be the id of an event of this thread",
            )
        };
        parsed.map(Some).ok_or_else(malformed)
    }
}

/// Connect to a thread, as AG-UI: its messages, then the events of the active run. With `Last-Event-ID`: what follows in the run of that
/// event
#[utoipa::path(get, path = "/api/ag-ui/threads/{threadId}/events", tag = "ag-ui",
    params(ThreadParams, ("threadId" = String, Path, description = "The client's name of the thread, or a conversation's id"),
        ("Last-Event-ID" = Option<String>, Header, description = "The id of the last event that the client received")),
    responses(
        (status = 200, description = "The events, until RUN_FINISHED or RUN_ERROR", body = String, content_type = "text/event-stream"),
        (status = 204, description = "The run has ended, and the client has all of its events"),
        (status = 410, description = "The run's events are no longer stored", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused))]
async fn thread_events(
    State(state): State<ChatState>,
    caller: Caller<Read>,
    Segments(thread_id): Segments<String>,
    headers: HeaderMap,
    Params(params): Params<ThreadParams>,
) -> Result<Response, Problem> {
    let cursor = Cursor::of(&headers)?;
    if params
        .run_id
        .as_ref()
        .is_some_and(|name| name.chars().count() > RUN_NAME_MAX_CHARS)
    {
        let detail = format!("runId can have at most {RUN_NAME_MAX_CHARS} characters");
        return Err(Problem::bad_request("invalid_id", detail));
    }
    let permit = start::admit(&state.streams, &caller)?;
    let conversation = find_thread(&state, &caller, &thread_id)
        .await?
        .ok_or_else(visible::conversation_not_found)?;
    let root = match cursor {
        Some(cursor) => run_at(&state, conversation, cursor).await?,
        None => active_run(&state, &caller, conversation).await?,
    };
    let ends = conversations::log_ends(&state.db.pool_pg, caller.owner(), conversation).await?;
    let mut db = caller.begin(&state).await?;
    let stored = messages::newest(&mut *db, conversation, THREAD_MESSAGES).await?;
    drop(db);
    let Some(root) = root else {
        let through = ends.map_or(0, |ends| ends.last_seq);
        let run_id = params.run_id.unwrap_or_else(|| conversation.to_string());
        let body = thread_at_rest(&thread_id, &run_id, &as_messages(&stored), through);
        return Ok((
            StatusCode::OK,
            [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-store")],
            body,
        )
            .into_response());
    };
    let found = runs::span(&state.db.pool_pg, caller.owner(), root).await?;
    let (span, _) = found.ok_or_else(visible::run_not_found)?;
    if let Some(cursor) = cursor
        && span.has_ended
        && span.done_seq.is_some_and(|done_seq| cursor.after >= done_seq)
    {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let about = AgUi {
        thread_id,
        run_id: params.run_id.unwrap_or_else(|| root.to_string()),
        root: root.to_string(),
        posted_message: None,
        messages: as_messages(before(&stored, span)),
        state: None,
        begin: match cursor {
            None => Begin::Now,
            Some(Cursor { after, frames }) => Begin::ReadOn { after, frames },
        },
    };
    stream(&state, &caller, permit, root, cursor.map(|cursor| cursor.after), about).await
}

/// Returns the run that the event after the cursor's position belongs to.
async fn run_at(state: &ChatState, conversation: Uuid, cursor: Cursor) -> Result<Option<Uuid>, Problem> {
    let last = if cursor.frames == 0 {
        cursor.after
    } else {
        cursor.after + 1
    };
    let events = start::read_page(&state.streams, conversation, last - 1).await?;
    let event = events.first().filter(|event| event.seq == last);
    let unknown = || {
        Problem::bad_request(
            "cursor_ahead",
            format!("the thread has no event {last}; connect without Last-Event-ID"),
        )
    };
    Ok(event.ok_or_else(unknown)?.run_id)
}

/// Returns the oldest run of the thread that has not ended.
async fn active_run(state: &ChatState, caller: &Caller, conversation: Uuid) -> Result<Option<Uuid>, Problem> {
    let mut db = caller.begin(state).await?;
    Ok(runs::active_of_conversation(&mut db, conversation)
        .await?
        .first()
        .copied())
}

/// The messages before the run's reply.
fn before(stored: &[ChatMessage], span: Span) -> &[ChatMessage] {
    let count = stored.partition_point(|message| message.seq <= span.first_seq + 1);
    &stored[..count]
}

fn as_messages(stored: &[ChatMessage]) -> Vec<Value> {
    let as_message = |message: &ChatMessage| {
        let content = match message.role.as_str() {
            "user" => content_with(&message.content, &rejoin_files::of_metadata(&message.metadata)),
            _ => message.content.as_str().into(),
        };
        json!({"id": message.id, "role": message.role, "content": content})
    };
    stored.iter().map(as_message).collect()
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn cursor(text: &str) -> Result<Option<Cursor>, &'static str> {
        let mut headers = HeaderMap::new();
        headers.insert(LAST_EVENT_ID, HeaderValue::try_from(text).unwrap());
        Cursor::of(&headers).map_err(|problem| problem.code)
    }

    #[test]
    fn a_cursor_is_an_event_or_a_part_of_one() {
        assert_eq!(cursor(""), Ok(None));
        assert_eq!(cursor("7"), Ok(Some(Cursor { after: 7, frames: 0 })));
        assert_eq!(cursor("7.2"), Ok(Some(Cursor { after: 6, frames: 2 })));
        for text in ["-1", "a", "7.", ".2", "7.2.1", "7.-2", "99999999999999999999"] {
            assert_eq!(cursor(text), Err("cursor_malformed"), "{text}");
        }
    }
}
