//! The operations at the address of one agent, which new tasks get. An existing context keeps its agent.

use axum::extract::State;
use axum::http::Method;
use axum::response::Response;
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Read, Write};
use rejoin_http::extract::{Body, Params};
use rejoin_http::problem::Problem;

use super::card::AgentCard;
use super::push::PageOfConfigs;
use super::rpc::{self, RpcRequest};
use super::state::{A2aState, Routes};
use super::tasks::{ListTasks, TaskParams};
use super::translation::{Refused, RpcRefused};
use super::{
    Call, SLASH_AGENT_ROUTE, act_on_task, create_push_config, delete_push_config, extended_card, get_push_config,
    get_task, list_push_configs, list_tasks, send_message, send_streaming_message,
};
use crate::push::PushConfig;
use crate::request::SendMessageRequest;

pub(super) fn routes() -> Routes {
    Routes::new()
        .routes(routes!(call_agent))
        .undocumented(Method::POST, SLASH_AGENT_ROUTE, call_agent)
        .routes(routes!(send_message_to_agent))
        .routes(routes!(send_streaming_message_to_agent))
        .routes(routes!(list_tasks_at_agent))
        .routes(routes!(get_task_at_agent, act_on_task_at_agent))
        .routes(routes!(list_push_configs_at_agent, create_push_config_at_agent))
        .routes(routes!(get_push_config_at_agent, delete_push_config_at_agent))
        .routes(routes!(extended_card_of_agent))
}

/// Call a method of A2A by JSON-RPC, at an agent's address
#[utoipa::path(post, path = "/api/a2a/agents/{agent}", tag = "a2a", request_body = RpcRequest, params(("agent" = String, Path, description = "The id or name of an agent definition, for new contexts")),
    responses((status = 200, description = "As at `/api/a2a`", body = Object), RpcRefused))]
async fn call_agent(state: State<A2aState>, caller: Caller<Read>, call: Call, request: Body<RpcRequest>) -> Response {
    rpc::call(state, caller, call, request).await
}

/// Send a message to an agent by A2A, and get the task when it has ended or waits for its client
#[utoipa::path(post, path = "/api/a2a/agents/{agent}/message:send", tag = "a2a", request_body = SendMessageRequest, params(("agent" = String, Path, description = "The id or name of an agent definition, for new contexts")),
    responses((status = 200, description = "`{task}`", content((Object = "application/a2a+json"), (Object = "application/json"))), Refused))]
async fn send_message_to_agent(
    state: State<A2aState>,
    caller: Caller<Write>,
    call: Call,
    request: Body<SendMessageRequest>,
) -> Result<Response, Problem> {
    send_message(state, caller, call, request).await
}

/// Send a message to an agent by A2A, and stream the task and its updates
#[utoipa::path(post, path = "/api/a2a/agents/{agent}/message:stream", tag = "a2a", request_body = SendMessageRequest, params(("agent" = String, Path, description = "The id or name of an agent definition, for new contexts")),
    responses((status = 200, description = "The task, then its updates", body = String, content_type = "text/event-stream"), Refused))]
async fn send_streaming_message_to_agent(
    state: State<A2aState>,
    caller: Caller<Write>,
    call: Call,
    request: Body<SendMessageRequest>,
) -> Result<Response, Problem> {
    send_streaming_message(state, caller, call, request).await
}

/// List the caller's tasks of A2A, of all agents
#[utoipa::path(get, path = "/api/a2a/agents/{agent}/tasks", tag = "a2a", params(ListTasks, ("agent" = String, Path, description = "The id or name of an agent definition, for new contexts")),
    responses((status = 200, description = "As at `/api/a2a/tasks`", content((Object = "application/a2a+json"), (Object = "application/json"))), Refused))]
async fn list_tasks_at_agent(
    state: State<A2aState>,
    caller: Caller<Read>,
    call: Call,
    request: Params<ListTasks>,
) -> Result<Response, Problem> {
    list_tasks(state, caller, call, request).await
}

/// Get a task of A2A, at an agent's address
#[utoipa::path(get, path = "/api/a2a/agents/{agent}/tasks/{task}", tag = "a2a",
    params(TaskParams, ("agent" = String, Path, description = "The id or name of an agent definition, for new contexts"), ("task" = String, Path, description = "The task's id; with `:subscribe` after it, its updates are streamed")),
    responses((status = 200, description = "The task", content((Object = "application/a2a+json"), (Object = "application/json"))), Refused))]
async fn get_task_at_agent(
    state: State<A2aState>,
    caller: Caller<Read>,
    call: Call,
    params: Params<TaskParams>,
) -> Result<Response, Problem> {
    get_task(state, caller, call, params).await
}

/// Cancel a task of A2A, or stream its updates, at an agent's address
#[utoipa::path(post, path = "/api/a2a/agents/{agent}/tasks/{task}", tag = "a2a",
    params(("agent" = String, Path, description = "The id or name of an agent definition, for new contexts"), ("task" = String, Path, description = "The task's id, then `:cancel` (needs `write`) or `:subscribe`")),
    responses((status = 200, description = "As at `/api/a2a/tasks/{task}`", content((Object = "application/a2a+json"), (Object = "application/json"))), Refused))]
async fn act_on_task_at_agent(state: State<A2aState>, caller: Caller<Read>, call: Call) -> Result<Response, Problem> {
    act_on_task(state, caller, call).await
}

/// Create a push notification config of a task of A2A, at an agent's address
#[utoipa::path(post, path = "/api/a2a/agents/{agent}/tasks/{task}/pushNotificationConfigs", tag = "a2a", request_body = PushConfig,
    params(("agent" = String, Path, description = "The id or name of an agent definition, for new contexts"), ("task" = String, Path, description = "The task's id")),
    responses((status = 200, description = "As at `/api/a2a/tasks/{task}/pushNotificationConfigs`", content((PushConfig = "application/a2a+json"), (PushConfig = "application/json"))),
        (status = 409, description = "The task has too many", content((rejoin_http::problem::ProblemBody = "application/a2a+json"), (rejoin_http::problem::ProblemBody = "application/json"))),
        Refused))]
async fn create_push_config_at_agent(
    state: State<A2aState>,
    caller: Caller<Write>,
    call: Call,
    config: Body<PushConfig>,
) -> Result<Response, Problem> {
    create_push_config(state, caller, call, config).await
}

/// List the push notification configs of a task of A2A, at an agent's address
#[utoipa::path(get, path = "/api/a2a/agents/{agent}/tasks/{task}/pushNotificationConfigs", tag = "a2a",
    params(PageOfConfigs, ("agent" = String, Path, description = "The id or name of an agent definition, for new contexts"), ("task" = String, Path, description = "The task's id")),
    responses((status = 200, description = "As at `/api/a2a/tasks/{task}/pushNotificationConfigs`", content((Object = "application/a2a+json"), (Object = "application/json"))), Refused))]
async fn list_push_configs_at_agent(
    state: State<A2aState>,
    caller: Caller<Read>,
    call: Call,
    page: Params<PageOfConfigs>,
) -> Result<Response, Problem> {
    list_push_configs(state, caller, call, page).await
}

/// Get a push notification config of a task of A2A, at an agent's address
#[utoipa::path(get, path = "/api/a2a/agents/{agent}/tasks/{task}/pushNotificationConfigs/{config}", tag = "a2a",
    params(("agent" = String, Path, description = "The id or name of an agent definition, for new contexts"), ("task" = String, Path, description = "The task's id"), ("config" = String, Path, description = "The config's id")),
    responses((status = 200, description = "The config", content((PushConfig = "application/a2a+json"), (PushConfig = "application/json"))), Refused))]
async fn get_push_config_at_agent(
    state: State<A2aState>,
    caller: Caller<Read>,
    call: Call,
) -> Result<Response, Problem> {
    get_push_config(state, caller, call).await
}

/// Delete a push notification config of a task of A2A, at an agent's address
#[utoipa::path(delete, path = "/api/a2a/agents/{agent}/tasks/{task}/pushNotificationConfigs/{config}", tag = "a2a",
    params(("agent" = String, Path, description = "The id or name of an agent definition, for new contexts"), ("task" = String, Path, description = "The task's id"), ("config" = String, Path, description = "The config's id")),
    responses((status = 200, description = "`{}`", content((Object = "application/a2a+json"), (Object = "application/json"))), Refused))]
async fn delete_push_config_at_agent(
    state: State<A2aState>,
    caller: Caller<Write>,
    call: Call,
) -> Result<Response, Problem> {
    delete_push_config(state, caller, call).await
}

/// Get the agent card of A2A of one agent that the caller may choose
#[utoipa::path(get, path = "/api/a2a/agents/{agent}/extendedAgentCard", tag = "a2a",
    params(("agent" = String, Path, description = "The id or name of an agent definition")),
    responses((status = 200, description = "The card", content((AgentCard = "application/a2a+json"), (AgentCard = "application/json"))), Refused))]
async fn extended_card_of_agent(state: State<A2aState>, caller: Caller<Read>, call: Call) -> Result<Response, Problem> {
    extended_card(state, caller, call).await
}
