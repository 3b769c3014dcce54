//! JSON-RPC: one address for all methods.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::{IntoResponse, Response};
use rejoin_http::caller::{Caller, Read};
use rejoin_http::extract::Body;
use rejoin_http::problem::Problem;
use rejoin_types::access::Scope;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::push::{self, ConfigsOfTask, OneConfig};
use super::state::A2aState;
use super::tasks::{self, GetTask, ListTasks, OneTask};
use super::translation::{RpcRefused, failure};
use super::{Call, Reply, card, in_time, send};
use crate::VERSION;
use crate::envelope::Envelope;
use crate::errors::codes;

/// Versions of the protocol before this one have methods such as `message/send`.
const OLD_NAMES: char = '/';

/// A request of JSON-RPC 2.0
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = A2aRpcRequest)]
pub(super) struct RpcRequest {
    /// `2.0`
    #[serde(default)]
    pub jsonrpc: String,
    /// A string or a number
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    pub id: Value,
    /// Such as `SendMessage`
    #[serde(default)]
    pub method: String,
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub params: Value,
}

/// Call a method of A2A by JSON-RPC
///
/// `SendMessage`, `SendStreamingMessage`, `CancelTask`, and the methods that create and delete push notification configs, need the scope `write`.
#[utoipa::path(post, path = "/api/a2a", tag = "a2a", request_body = RpcRequest,
    responses((status = 200, description = "`{jsonrpc, id, result}` or `{jsonrpc, id, error}`; of methods that stream, a stream of such responses (text/event-stream)", body = Object),
        RpcRefused))]
pub(super) async fn call(
    State(state): State<A2aState>,
    caller: Caller<Read>,
    call: Call,
    Body(request): Body<RpcRequest>,
) -> Response {
    let id = request.id.clone();
    match answer(&state, &caller, &call, request).await {
        Ok(Reply::Result(result)) => Json(Envelope::JsonRpc(id).around(result)).into_response(),
        Ok(Reply::Stream(response)) => response,
        Err(problem) => error(&id, problem),
    }
}

/// The response of an error. What the client may try again, or lacks a right for, has its HTTP status, too.
fn error(id: &Value, problem: Problem) -> Response {
    let status = match problem.status {
        status if status.is_server_error() => status,
        status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS) => status,
        _ => StatusCode::OK,
    };
    let retry_after_s = problem.retry_after_s;
    let failure = failure(problem.status, problem.code, &problem.detail, problem.extra);
    let mut response = (status, Json(failure.as_rpc(id))).into_response();
    if let Some(seconds) = retry_after_s {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}

fn params<T: DeserializeOwned>(params: Value) -> Result<T, Problem> {
    let params = if params.is_null() { json!({}) } else { params };
    serde_json::from_value(params).map_err(|error| Problem::bad_request("invalid_params", error.to_string()))
}

async fn answer(state: &A2aState, caller: &Caller, call: &Call, request: RpcRequest) -> Result<Reply, Problem> {
    let is_id = matches!(request.id, Value::Null | Value::String(_) | Value::Number(_));
    if request.jsonrpc != "2.0" || request.method.is_empty() || !is_id {
        let detail = "a request of JSON-RPC 2.0 has jsonrpc: \"2.0\", a method, and an id that is a string or a number";
        return Err(Problem::bad_request(codes::INVALID_REQUEST, detail));
    }
    let envelope = Envelope::JsonRpc(request.id);
    match request.method.as_str() {
        "SendMessage" => {
            caller.needs(Scope::Write)?;
            send::send(state, caller, call, params(request.params)?, None).await
        }
        "SendStreamingMessage" => {
            caller.needs(Scope::Write)?;
            send::send(state, caller, call, params(request.params)?, Some(envelope)).await
        }
        "GetTask" => {
            let GetTask { id, history_length } = params(request.params)?;
            let task = in_time(tasks::get(state, caller, &call.origin, &id, history_length)).await?;
            Ok(Reply::Result(task))
        }
        "ListTasks" => {
            let request: ListTasks = params(request.params)?;
            let page = in_time(tasks::list(state, caller, &call.origin, request)).await?;
            Ok(Reply::Result(page))
        }
        "CancelTask" => {
            caller.needs(Scope::Write)?;
            let OneTask { id } = params(request.params)?;
            let task = tasks::cancel(state, caller, &call.origin, &id).await?;
            Ok(Reply::Result(task))
        }
        "SubscribeToTask" => {
            let OneTask { id } = params(request.params)?;
            let stream = in_time(tasks::subscribe(state, caller, call, &id, envelope)).await?;
            Ok(Reply::Stream(stream))
        }
        "CreateTaskPushNotificationConfig" => {
            caller.needs(Scope::Write)?;
            let config = in_time(push::create(state, caller, None, params(request.params)?)).await?;
            Ok(Reply::Result(config))
        }
        "GetTaskPushNotificationConfig" => {
            let OneConfig { task, id } = params(request.params)?;
            let config = in_time(push::get(state, caller, &task, &id)).await?;
            Ok(Reply::Result(config))
        }
        "ListTaskPushNotificationConfigs" => {
            let ConfigsOfTask { task, page } = params(request.params)?;
            let configs = in_time(push::list(state, caller, &task, page)).await?;
            Ok(Reply::Result(configs))
        }
        "DeleteTaskPushNotificationConfig" => {
            caller.needs(Scope::Write)?;
            let OneConfig { task, id } = params(request.params)?;
            let nothing = in_time(push::delete(state, caller, &task, &id)).await?;
            Ok(Reply::Result(nothing))
        }
        "GetExtendedAgentCard" => {
            let card = in_time(card::extended(state, caller, call)).await?;
            Ok(Reply::Result(card))
        }
        old if old.contains(OLD_NAMES) => {
            let detail = format!(
                "{old} is a method of an older version of A2A; send the methods of {VERSION}, such as SendMessage"
            );
            Err(Problem::bad_request(codes::VERSION_NOT_SUPPORTED, detail))
        }
        unknown => {
            let detail = format!("there is no method {unknown}; send one of A2A {VERSION}, such as SendMessage");
            Err(Problem::new(StatusCode::NOT_FOUND, codes::METHOD_NOT_FOUND, detail))
        }
    }
}
