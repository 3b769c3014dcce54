//! `/api/ag-ui`: runs and threads for clients of AG-UI. A thread is a conversation; a client's run is a turn, or the part of a turn that
//! follows the client's answers.
//!
//! - `answers` answers to the questions of a waiting run

mod answers;

use std::collections::HashSet;

use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, LOCATION};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use rejoin_chat::posting::{self, ChatParams};
use rejoin_chat::trigger;
use rejoin_chat::{ChatState, Routes};
use rejoin_commands::{HistoryMessage, PostMessage};
use rejoin_event_log::log;
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Read, Write};
use rejoin_http::extract::{Body, Params, Segments};
use rejoin_http::idempotency;
use rejoin_http::problem::{BodyRefused, Problem, Refused};
use rejoin_http::visible;
use rejoin_runs::client_tools::ClientTool;
use rejoin_runs::conversations;
use rejoin_runs::messages::{self, ChatMessage, Role};
use rejoin_runs::runs::{self, Span};
use rejoin_sse::start::{self, open_rendered};
use rejoin_sse::streams::Permit;
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::IntoParams;
use uuid::Uuid;

use crate::ag_ui::request::{Asked, Refusal, RunAgentInput, UserMessage};
use crate::ag_ui::{AgUi, AgUiRenderer, Begin, thread_at_rest};

/// Number of the newest messages of a thread that a client is given when it connects.
const THREAD_MESSAGES: i64 = 200;
/// Maximum length of the name that a connecting client gives its run, in characters.
const RUN_NAME_MAX_CHARS: usize = 200;
/// The cursor of a client that reconnects.
const LAST_EVENT_ID: &str = "last-event-id";

pub fn routes() -> Routes {
    Routes::new()
        .routes(routes!(run))
        .routes(routes!(run_agent))
        .routes(routes!(thread_events))
}

/// Run the agent, as AG-UI. The answer is the events of the run
#[utoipa::path(post, path = "/api/ag-ui", tag = "ag-ui", request_body = RunAgentInput, params(ChatParams),
    responses(
        (status = 200, description = "The run's events, until RUN_FINISHED or RUN_ERROR", body = String, content_type = "text/event-stream"),
        (status = 409, description = "A run of the thread is active, and onBusy=reject; or a question was answered before, differently", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        (status = 410, description = "The run was streamed long ago; its events are no longer stored", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The runId was already used with another message", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused, BodyRefused))]
async fn run(
    State(state): State<ChatState>,
    caller: Caller<Write>,
    headers: HeaderMap,
    Params(params): Params<ChatParams>,
    Body(input): Body<RunAgentInput>,
) -> Result<Response, Problem> {
    respond(&state, &caller, &headers, &params, None, input).await
}

/// Run an agent, as AG-UI. An existing thread keeps its agent
#[utoipa::path(post, path = "/api/ag-ui/{agent}", tag = "ag-ui", request_body = RunAgentInput,
    params(ChatParams, ("agent" = String, Path, description = "The id or name of an agent definition, for a new thread")),
    responses(
        (status = 200, description = "The run's events, until RUN_FINISHED or RUN_ERROR", body = String, content_type = "text/event-stream"),
        (status = 409, description = "A run of the thread is active, and onBusy=reject; or a question was answered before, differently", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        (status = 410, description = "The run was streamed long ago; its events are no longer stored", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The runId was already used with another message", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused, BodyRefused))]
async fn run_agent(
    State(state): State<ChatState>,
    caller: Caller<Write>,
    Segments(agent): Segments<String>,
    headers: HeaderMap,
    Params(params): Params<ChatParams>,
    Body(input): Body<RunAgentInput>,
) -> Result<Response, Problem> {
    let agent = trigger::find(&state, &caller, caller.workspace_id, &agent).await?;
    respond(&state, &caller, &headers, &params, Some(agent.id), input).await
}

fn refused(refusal: Refusal) -> Problem {
    Problem::bad_request(refusal.code, refusal.detail)
}

async fn respond(
    state: &ChatState,
    caller: &Caller,
    headers: &HeaderMap,
    params: &ChatParams,
    agent: Option<Uuid>,
    input: RunAgentInput,
) -> Result<Response, Problem> {
    let Asked { message, results } = input.asked().map_err(refused)?;
    // Before anything is stored, so that a caller without a free stream is refused.
    let permit = start::admit(&state.streams, caller)?;
    let thread = find_thread(state, caller, &input.thread_id).await?;
    let answered = match thread {
        Some(conversation) => {
            answers::give(
                state,
                caller,
                conversation,
                input.resume_entries(),
                &results,
                message.is_some(),
            )
            .await?
        }
        None => answers::Given::default(),
    };
    let client = AgUi {
        thread_id: input.thread_id.clone(),
        run_id: input.run_id.clone(),
        root: String::new(),
        posted_message: None,
        messages: input.messages_of_client(),
        state: Some(input.state.clone()),
        begin: Begin::Now,
    };
    if let Some(message) = message {
        return turn(
            state,
            caller,
            (headers, params),
            (agent, thread),
            permit,
            (input, message, client),
        )
        .await;
    }
    let Some(root) = answered.root else {
        return Err(answers::nothing_waits());
    };
    let about = AgUi {
        root: root.to_string(),
        begin: Begin::Answered(answered.questions.iter().map(Uuid::to_string).collect::<HashSet<_>>()),
        ..client
    };
    stream(state, caller, permit, root, None, about).await
}

/// Posts the user's message, and streams its turn.
async fn turn(
    state: &ChatState,
    caller: &Caller,
    (headers, params): (&HeaderMap, &ChatParams),
    (agent, thread): (Option<Uuid>, Option<Uuid>),
    permit: Permit,
    (input, message, client): (RunAgentInput, UserMessage, AgUi),
) -> Result<Response, Problem> {
    let command = command(state, caller, (headers, params), (agent, thread), (&input, message)).await?;
    let posted = posting::post(state, caller.rls_scope(), &command).await?;
    let about = AgUi {
        root: posted.run_id.to_string(),
        posted_message: Some(posted.message_id.to_string()),
        begin: Begin::After(posted.cursor),
        ..client
    };
    let mut response = stream(state, caller, permit, posted.run_id, None, about).await?;
    let id = HeaderValue::try_from(posted.conversation_id.to_string()).expect("an id is a header value");
    response.headers_mut().insert("x-conversation-id", id);
    Ok(response)
}

async fn command(
    state: &ChatState,
    caller: &Caller,
    (headers, params): (&HeaderMap, &ChatParams),
    (agent, thread): (Option<Uuid>, Option<Uuid>),
    (input, message): (&RunAgentInput, UserMessage),
) -> Result<PostMessage, Problem> {
    posting::check_message(&message.text, state.settings.max_message_chars)?;
    let agent_name = agent.map(|id| id.to_string());
    let same = input.fingerprint(agent_name.as_deref(), &message);
    let key = format!("ag-ui:{}", input.run_id);
    let files: Vec<posting::AttachedFile> = message
        .files
        .into_iter()
        .map(|file_id| posting::AttachedFile { file_id })
        .collect();
    Ok(PostMessage {
        conversation_id: thread,
        agent_definition_id: agent.filter(|_| thread.is_none()),
        on_busy: params.on_busy()?,
        idempotency: idempotency::of(headers, Some(&key), &same)?,
        files: posting::attached_files(Some(&files), state.settings.files.max_message_files)?,
        exhausted: state.quotas.exhausted(&state.db.pool_sqlx, caller).await?,
        client_thread: thread.is_none().then(|| input.thread_id.clone()),
        history: history(input),
        client_tools: client_tools(input),
        instructions: input.instructions().map_err(refused)?,
        ..posting::plain(state, caller, message.text)
    })
}

/// The earlier messages of a thread that does not exist yet.
fn history(input: &RunAgentInput) -> Vec<HistoryMessage> {
    let earlier = input.history().into_iter();
    earlier
        .map(|(is_user, text)| HistoryMessage {
            role: if is_user { Role::User } else { Role::Assistant },
            text,
        })
        .collect()
}

fn client_tools(input: &RunAgentInput) -> Vec<ClientTool> {
    let tools = input.tools.iter().flatten();
    tools
        .map(|tool| ClientTool {
            name: tool.name.clone(),
            description: tool.description.clone(),
            parameters: match &tool.parameters {
                Value::Null => json!({"type": "object", "properties": {}}),
                parameters => parameters.clone(),
            },
        })
        .collect()
}

/// Streams a client's run.
async fn stream(
    state: &ChatState,
    caller: &Caller,
    permit: Permit,
    root: Uuid,
    after: Option<i64>,
    about: AgUi,
) -> Result<Response, Problem> {
    let query = url::form_urlencoded::Serializer::new(String::new())
        .append_pair("runId", &about.run_id)
        .finish();
    let thread: String = url::form_urlencoded::byte_serialize(about.thread_id.as_bytes()).collect();
    // In a path a space is %20.
    let location = format!("/api/ag-ui/threads/{}/events?{query}", thread.replace('+', "%20"));
    let renderer = Box::new(AgUiRenderer::new(about));
    let mut response = open_rendered(&state.streams, permit, caller.owner(), root, after, renderer).await?;
    for (name, value) in [("x-run-id", root.to_string()), (LOCATION.as_str(), location)] {
        // What was escaped is a header value.
        if let Ok(value) = HeaderValue::try_from(value) {
            response.headers_mut().insert(name, value);
        }
    }
    Ok(response)
}

/// Returns the caller's conversation by the client's name for it or, failing that, by its id.
async fn find_thread(state: &ChatState, caller: &Caller, thread: &str) -> Result<Option<Uuid>, Problem> {
    let mut db = caller.begin(state).await?;
    let found = conversations::by_thread_or_id(&mut db, caller.owner(), thread).await?;
    Ok(found.map(|found| found.id))
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
    let events = log::read(&state.db.pool_pg, conversation, last - 1).await?;
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
    stored
        .iter()
        .map(|message| json!({"id": message.id, "role": message.role, "content": message.content}))
        .collect()
}

#[cfg(test)]
mod tests {
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
