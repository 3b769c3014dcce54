//! `/api/a2a`: tasks for clients of A2A, over JSON-RPC and over HTTP+JSON. A task is a run, and a context is a conversation.
//!
//! - `rpc`    JSON-RPC
//! - `send`   messages: to a new task, or to one that works, waits or is paused
//! - `repeats` which messages are one that was sent again
//! - `tasks`  reads, lists, cancels and follows tasks
//! - `push`   where the states of a task are sent
//! - `card`   the agent card, and the extended one
//! - `agents` the routes: each operation at the common address, and at that of each agent
//! - `state`  what the handlers share
//! - `translation` media types and errors of both bindings
//!
//! Errors have the members of problems, as everywhere, and those that the protocol has for them.

mod agents;
mod card;
mod push;
mod repeats;
mod rpc;
mod send;
mod state;
mod tasks;
mod translation;

pub use state::{A2aState, Routes};
pub use translation::translated;

use std::future::Future;

use axum::extract::{FromRequestParts, RawPathParams, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use rejoin_http::REQUEST_LIMIT;
use rejoin_http::caller::{Caller, Read, Write};
use rejoin_http::extract::{Body, Params};
use rejoin_http::origin::Origin;
use rejoin_http::problem::Problem;
use rejoin_types::access::Scope;
use serde_json::Value;
use tokio::time::timeout;

use self::card::AgentCard;
use self::translation::Refused;
use crate::VERSION;
use crate::envelope::Envelope;
use crate::errors::codes;
use crate::notification::MEDIA_TYPE;
use crate::push::PushConfig;
use crate::request::{Refusal, SendMessageRequest};

/// The address of JSON-RPC, and what the paths of HTTP+JSON begin with.
pub const PATH: &str = "/api/a2a";
/// The same for one agent, before its name.
const AGENTS: &str = "/api/a2a/agents/";
/// The route of the latter.
const AGENT_ROUTE: &str = "/api/a2a/agents/{agent}";
/// JSON-RPC at these addresses with a slash at the end: clients that join an address and an empty path send it.
const SLASH_PATH: &str = "/api/a2a/";
const SLASH_AGENT_ROUTE: &str = "/api/a2a/agents/{agent}/";
/// The version that a client speaks: a header, or a parameter of the query.
const VERSION_HEADER: &str = "a2a-version";
/// What follows a task's id in the path of an operation on it.
const CANCEL: &str = ":cancel";
const SUBSCRIBE: &str = ":subscribe";

pub fn routes() -> Routes {
    agents::routes()
        .undocumented(Method::POST, SLASH_PATH, rpc::call)
        .undocumented(Method::POST, SLASH_AGENT_ROUTE, rpc::call)
        .merge(card::routes())
}

/// The address of an agent: what its operations' paths begin with.
pub fn path_of_agent(name: &str) -> String {
    let segment: String = url::form_urlencoded::byte_serialize(name.as_bytes()).collect();
    // In a path a space is %20.
    format!("{AGENTS}{}", segment.replace('+', "%20"))
}

/// Whether a request for this route may wait for a whole answer before its response begins.
pub fn waits(route: &str) -> bool {
    let rest = route.strip_prefix(AGENT_ROUTE).or_else(|| route.strip_prefix(PATH));
    matches!(rest, Some("" | "/" | "/message:send" | "/tasks/{task}"))
}

/// A call of an operation.
struct Call {
    headers: HeaderMap,
    /// The name or id of the agent, by the path.
    agent: Option<String>,
    /// The task in the path, with what follows its id.
    task: String,
    /// The push notification config in the path.
    config: String,
    /// The server's address, as the caller sees it.
    origin: String,
}

impl FromRequestParts<A2aState> for Call {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &A2aState) -> Result<Self, Problem> {
        check_version(parts)?;
        let Ok(Origin(origin)) = Origin::from_request_parts(parts, state).await;
        let segments = RawPathParams::from_request_parts(parts, state).await;
        // Anything but text names no task.
        let segments = segments.map_err(|_| Problem::not_found("not_found", "What the path names"))?;
        let segment = |wanted: &str| {
            let mut own = segments.iter().filter(|(name, _)| *name == wanted);
            own.next().map(|(_, value)| value.to_owned())
        };
        Ok(Self {
            headers: parts.headers.clone(),
            agent: segment("agent"),
            task: segment("task").unwrap_or_default(),
            config: segment("config").unwrap_or_default(),
            origin,
        })
    }
}

/// Refuses clients of another version. A client that names none is taken for one of this version: the methods of older ones have other names.
fn check_version(parts: &Parts) -> Result<(), Problem> {
    let header = parts.headers.get(VERSION_HEADER).and_then(|value| value.to_str().ok());
    let query = parts.uri.query().unwrap_or_default();
    let mut pairs = url::form_urlencoded::parse(query.as_bytes());
    let parameter = pairs.find(|(name, _)| name.eq_ignore_ascii_case(VERSION_HEADER));
    let version = match (header, &parameter) {
        (Some(version), _) => version,
        (None, Some((_, version))) => version,
        (None, None) => return Ok(()),
    };
    let is_supported = version.is_empty() || version == VERSION || version.starts_with(&format!("{VERSION}."));
    if is_supported {
        return Ok(());
    }
    let detail = format!("version {version} of A2A is not supported; send A2A-Version: {VERSION}");
    Err(Problem::bad_request(codes::VERSION_NOT_SUPPORTED, detail))
}

/// What an operation returns.
enum Reply {
    Result(Value),
    Stream(Response),
}

impl Reply {
    /// The response over HTTP+JSON.
    fn over_http(self) -> Response {
        match self {
            Self::Result(result) => ([(CONTENT_TYPE, MEDIA_TYPE)], result.to_string()).into_response(),
            Self::Stream(response) => response,
        }
    }
}

fn refused(refusal: Refusal) -> Problem {
    Problem::bad_request(refusal.code, refusal.detail)
}

/// For what does not wait for a run.
async fn in_time<T>(work: impl Future<Output = Result<T, Problem>>) -> Result<T, Problem> {
    timeout(REQUEST_LIMIT, work)
        .await
        .unwrap_or_else(|_| Err(Problem::database_away()))
}

/// Send a message by A2A, and get the task when it has ended or waits for its client
#[utoipa::path(post, path = "/api/a2a/message:send", tag = "a2a", request_body = SendMessageRequest,
    responses((status = 200, description = "`{task}`", content((Object = "application/a2a+json"), (Object = "application/json"))), Refused))]
async fn send_message(
    State(state): State<A2aState>,
    caller: Caller<Write>,
    call: Call,
    Body(request): Body<SendMessageRequest>,
) -> Result<Response, Problem> {
    let reply = send::send(&state, &caller, &call, request, None).await?;
    Ok(reply.over_http())
}

/// Send a message by A2A, and stream the task and its updates
#[utoipa::path(post, path = "/api/a2a/message:stream", tag = "a2a", request_body = SendMessageRequest,
    responses((status = 200, description = "The task, then its updates, until it has ended or waits for its client", body = String, content_type = "text/event-stream"), Refused))]
async fn send_streaming_message(
    State(state): State<A2aState>,
    caller: Caller<Write>,
    call: Call,
    Body(request): Body<SendMessageRequest>,
) -> Result<Response, Problem> {
    let reply = send::send(&state, &caller, &call, request, Some(Envelope::Http)).await?;
    Ok(reply.over_http())
}

/// List the caller's tasks of A2A, the last changed first
#[utoipa::path(get, path = "/api/a2a/tasks", tag = "a2a", params(tasks::ListTasks),
    responses((status = 200, description = "`{tasks, nextPageToken, pageSize, totalSize}`", content((Object = "application/a2a+json"), (Object = "application/json"))), Refused))]
async fn list_tasks(
    State(state): State<A2aState>,
    caller: Caller<Read>,
    call: Call,
    Params(request): Params<tasks::ListTasks>,
) -> Result<Response, Problem> {
    let page = tasks::list(&state, &caller, &call.origin, request).await?;
    Ok(Reply::Result(page).over_http())
}

/// Get a task of A2A
#[utoipa::path(get, path = "/api/a2a/tasks/{task}", tag = "a2a",
    params(tasks::TaskParams, ("task" = String, Path, description = "The task's id; with `:subscribe` after it, its updates are streamed")),
    responses((status = 200, description = "The task", content((Object = "application/a2a+json"), (Object = "application/json"))), Refused))]
async fn get_task(
    State(state): State<A2aState>,
    caller: Caller<Read>,
    call: Call,
    Params(params): Params<tasks::TaskParams>,
) -> Result<Response, Problem> {
    if let Some(task) = call.task.strip_suffix(SUBSCRIBE) {
        return tasks::subscribe(&state, &caller, &call, task, Envelope::Http).await;
    }
    let task = tasks::get(&state, &caller, &call.origin, &call.task, params.history_length).await?;
    Ok(Reply::Result(task).over_http())
}

/// Cancel a task of A2A, or stream its updates
#[utoipa::path(post, path = "/api/a2a/tasks/{task}", tag = "a2a",
    params(("task" = String, Path, description = "The task's id, then `:cancel` (needs `write`) or `:subscribe`"),
        ("Last-Event-ID" = Option<String>, Header, description = "The id of the last frame that the client received: only what follows it is streamed")),
    responses((status = 200, description = "The task; or the task and then its updates (text/event-stream)", content((Object = "application/a2a+json"), (Object = "application/json"))), Refused))]
async fn act_on_task(State(state): State<A2aState>, caller: Caller<Read>, call: Call) -> Result<Response, Problem> {
    if let Some(task) = call.task.strip_suffix(SUBSCRIBE) {
        return in_time(tasks::subscribe(&state, &caller, &call, task, Envelope::Http)).await;
    }
    let Some(task) = call.task.strip_suffix(CANCEL) else {
        let detail = "a task can be posted to as {id}:cancel and {id}:subscribe";
        return Err(Problem::new(StatusCode::NOT_FOUND, codes::METHOD_NOT_FOUND, detail));
    };
    caller.needs(Scope::Write)?;
    let task = tasks::cancel(&state, &caller, &call.origin, task).await?;
    Ok(Reply::Result(task).over_http())
}

/// Create a push notification config of a task of A2A
///
/// The task is sent to its URL when it has ended, is paused, or waits for its client; at once, if it does so now. A config with the id of
/// another one of the task replaces it.
#[utoipa::path(post, path = "/api/a2a/tasks/{task}/pushNotificationConfigs", tag = "a2a", request_body = PushConfig,
    params(("task" = String, Path, description = "The task's id")),
    responses((status = 200, description = "The config, with its id", content((PushConfig = "application/a2a+json"), (PushConfig = "application/json"))),
        (status = 409, description = "The task has too many", content((rejoin_http::problem::ProblemBody = "application/a2a+json"), (rejoin_http::problem::ProblemBody = "application/json"))),
        Refused))]
async fn create_push_config(
    State(state): State<A2aState>,
    caller: Caller<Write>,
    call: Call,
    Body(config): Body<PushConfig>,
) -> Result<Response, Problem> {
    let config = push::create(&state, &caller, Some(&call.task), config).await?;
    Ok(Reply::Result(config).over_http())
}

/// List the push notification configs of a task of A2A
///
/// Without tokens and credentials.
#[utoipa::path(get, path = "/api/a2a/tasks/{task}/pushNotificationConfigs", tag = "a2a",
    params(push::PageOfConfigs, ("task" = String, Path, description = "The task's id")),
    responses((status = 200, description = "`{configs, nextPageToken}`", content((Object = "application/a2a+json"), (Object = "application/json"))), Refused))]
async fn list_push_configs(
    State(state): State<A2aState>,
    caller: Caller<Read>,
    call: Call,
    Params(page): Params<push::PageOfConfigs>,
) -> Result<Response, Problem> {
    let configs = push::list(&state, &caller, &call.task, page).await?;
    Ok(Reply::Result(configs).over_http())
}

/// Get a push notification config of a task of A2A
///
/// Without its token and credentials.
#[utoipa::path(get, path = "/api/a2a/tasks/{task}/pushNotificationConfigs/{config}", tag = "a2a",
    params(("task" = String, Path, description = "The task's id"), ("config" = String, Path, description = "The config's id")),
    responses((status = 200, description = "The config", content((PushConfig = "application/a2a+json"), (PushConfig = "application/json"))), Refused))]
async fn get_push_config(State(state): State<A2aState>, caller: Caller<Read>, call: Call) -> Result<Response, Problem> {
    let config = push::get(&state, &caller, &call.task, &call.config).await?;
    Ok(Reply::Result(config).over_http())
}

/// Delete a push notification config of a task of A2A
///
/// Notifications that were not sent yet are dropped. Deleting it again changes nothing.
#[utoipa::path(delete, path = "/api/a2a/tasks/{task}/pushNotificationConfigs/{config}", tag = "a2a",
    params(("task" = String, Path, description = "The task's id"), ("config" = String, Path, description = "The config's id")),
    responses((status = 200, description = "`{}`", content((Object = "application/a2a+json"), (Object = "application/json"))), Refused))]
async fn delete_push_config(
    State(state): State<A2aState>,
    caller: Caller<Write>,
    call: Call,
) -> Result<Response, Problem> {
    let nothing = push::delete(&state, &caller, &call.task, &call.config).await?;
    Ok(Reply::Result(nothing).over_http())
}

/// Get the extended agent card of A2A
///
/// The agent card with all agents that the caller may choose, not only those with visibility `external`.
#[utoipa::path(get, path = "/api/a2a/extendedAgentCard", tag = "a2a",
    responses((status = 200, description = "The card", content((AgentCard = "application/a2a+json"), (AgentCard = "application/json"))), Refused))]
async fn extended_card(State(state): State<A2aState>, caller: Caller<Read>, call: Call) -> Result<Response, Problem> {
    let card = card::extended(&state, &caller, &call).await?;
    Ok(Reply::Result(card).over_http())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(uri: &str, header: Option<&str>) -> Result<(), &'static str> {
        let mut request = axum::http::Request::builder().uri(uri);
        if let Some(header) = header {
            request = request.header(VERSION_HEADER, header);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        check_version(&parts).map_err(|problem| problem.code)
    }

    #[test]
    fn a_client_of_another_version_is_refused() {
        assert_eq!(version("/", None), Ok(()));
        assert_eq!(version("/", Some("1.0")), Ok(()));
        assert_eq!(version("/?A2A-Version=1.0.1", None), Ok(()));
        for (uri, header) in [("/", Some("0.3")), ("/?A2A-Version=0.3", None), ("/", Some("1.00"))] {
            assert_eq!(version(uri, header), Err("version_not_supported"), "{uri} {header:?}");
        }
    }

    #[test]
    fn routes_that_answer_when_a_run_rests_may_wait() {
        for route in [
            "/api/a2a",
            "/api/a2a/",
            "/api/a2a/message:send",
            "/api/a2a/agents/{agent}",
            "/api/a2a/agents/{agent}/",
            "/api/a2a/agents/{agent}/message:send",
        ] {
            assert!(waits(route), "{route}");
        }
        for route in ["/api/a2a/tasks", "/api/a2a/message:stream", "/api/ag-ui"] {
            assert!(!waits(route), "{route}");
        }
    }
}
