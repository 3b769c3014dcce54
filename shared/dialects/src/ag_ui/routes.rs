//! `/api/ag-ui`: runs and threads for clients of AG-UI. A thread is a conversation; a client's run is a turn, or the part of a turn that
//! follows the client's answers.
//!
//! - `answers` answers to the questions of a waiting run
//! - `threads` a client connects to a thread

mod answers;
mod threads;

use std::collections::HashSet;

use axum::extract::State;
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use rejoin_chat::posting::{self, ChatParams};
use rejoin_chat::{ChatState, Routes, trigger};
use rejoin_commands::{HistoryMessage, PostMessage};
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Write};
use rejoin_http::extract::{Body, Params, Segments};
use rejoin_http::idempotency;
use rejoin_http::problem::{BodyRefused, Problem, Refused};
use rejoin_runs::client_tools::ClientTool;
use rejoin_runs::conversations;
use rejoin_runs::messages::Role;
use rejoin_sse::start::{self, open_rendered};
use rejoin_sse::streams::Permit;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::ag_ui::request::{Asked, Refusal, RunAgentInput, UserMessage};
use crate::ag_ui::{AgUi, AgUiRenderer, Begin};

pub fn routes() -> Routes {
    Routes::new()
        .routes(routes!(run))
        .routes(routes!(run_agent))
        .merge(threads::routes())
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
    let posted = posting::post(state, caller, command).await?;
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
