//! `/api/workers`: workers announce themselves and their tools, and leave.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use chrono::{DateTime, Utc};
use rejoin_event_log::wakeup::Wake;
use rejoin_http::audit::record;
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Read, Worker};
use rejoin_http::extract::{Body, Segments};
use rejoin_http::problem::{BodyRefused, Problem, Refused};
use rejoin_identity::audit::Action;
use rejoin_integrations::mcp::offers;
use rejoin_types::access::Scope;
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;
use uuid::Uuid;

use super::claims::WAIT_MAX_S;
use super::records::RECORDS_MAX;
use super::{RemoteToolsState, Routes, checked_queue, may_serve, worker_unknown};
use crate::agents::{self, AnnounceError};
use crate::announcement::NewRemoteWorker;
use crate::registrations::{self, RegisterError, RemoteWorker};

pub fn routes() -> Routes {
    Routes::new()
        .routes(routes!(list))
        .routes(routes!(register))
        .routes(routes!(leave))
}

/// A registration
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Registration {
    pub worker_id: Uuid,
    pub queue: String,
    /// Seconds without a heartbeat after which the worker has lost its calls
    pub lease_s: u64,
    /// Seconds between heartbeats
    pub heartbeat_s: f64,
    /// Maximum of `waitS` of a claim
    pub claim_wait_max_s: u32,
    /// Maximum number of records of a request to `records`
    pub records_max: usize,
}

/// A remote worker
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RemoteWorkerBody {
    pub worker_id: Uuid,
    pub queue: String,
    pub name: String,
    pub version: String,
    pub language: String,
    /// Maximum number of calls that it has at once
    pub slots: i32,
    /// Number of calls that it has
    pub calls: i64,
    /// It takes no more calls
    pub draining: bool,
    /// It has sent a heartbeat in time
    pub alive: bool,
    pub started_at: DateTime<Utc>,
    pub seen_at: DateTime<Utc>,
    /// `name@version` of each tool that it serves
    pub tools: Vec<String>,
}

impl From<RemoteWorker> for RemoteWorkerBody {
    fn from(worker: RemoteWorker) -> Self {
        Self {
            worker_id: worker.id,
            queue: worker.queue,
            name: worker.name,
            version: worker.version,
            language: worker.language,
            slots: worker.slots,
            calls: worker.calls,
            draining: worker.draining,
            alive: worker.alive,
            started_at: worker.started_at,
            seen_at: worker.seen_at,
            tools: worker.tools,
        }
    }
}

/// Remote workers
#[derive(Debug, Serialize, ToSchema)]
pub struct RemoteWorkers {
    pub items: Vec<RemoteWorkerBody>,
}

/// List remote workers
///
/// The programs that serve tools of the caller's project, the oldest first. One that is gone is listed for an hour.
#[utoipa::path(get, path = "/api/workers", tag = "remote workers",
    responses((status = 200, description = "The workers", body = RemoteWorkers), Refused))]
async fn list(State(state): State<RemoteToolsState>, caller: Caller<Read>) -> Result<Json<RemoteWorkers>, Problem> {
    let workers = registrations::list(&mut *caller.begin(&state).await?, caller.workspace_id).await?;
    let items = workers.into_iter().map(RemoteWorkerBody::from).collect();
    Ok(Json(RemoteWorkers { items }))
}

/// Register a remote worker
///
/// Announces a program and the tools that it serves. Agents whose tools match their names get them at their next turn. With `workerId`, the
/// registration of that worker is replaced.
#[utoipa::path(post, path = "/api/workers/{queue}/registrations", tag = "remote workers", request_body = NewRemoteWorker,
    params(("queue" = String, Path, description = "Name of a group of workers")),
    responses((status = 201, description = "Registered", body = Registration),
        (status = 200, description = "The registration is replaced", body = Registration),
        (status = 409, description = "A live worker serves the same version of a tool in another way, another agent has the name, or there are too many workers", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused, BodyRefused))]
async fn register(
    State(state): State<RemoteToolsState>,
    caller: Caller<Worker>,
    Segments(queue): Segments<String>,
    Body(worker): Body<NewRemoteWorker>,
) -> Result<(StatusCode, Json<Registration>), Problem> {
    checked_queue(&queue)?;
    let reserved = state.reserved.clone();
    // Schemas may come from anywhere.
    let (worker, checked) = tokio::task::spawn_blocking(move || {
        let checked = worker.check(&reserved);
        (worker, checked)
    })
    .await
    .map_err(|_| Problem::internal())?;
    checked.map_err(|why| Problem::bad_request("invalid_registration", why))?;
    let names: Vec<String> = worker.tools.iter().map(|tool| tool.name.clone()).collect();
    for name in &names {
        may_serve(&caller, &queue, Some(name))?;
    }
    for agent in &worker.agents {
        if let Some(tool) = agent.foreign_tool(&names)
            && !caller.may(Scope::Admin)
        {
            let detail = format!(
                "{tool}, which the agent {} may call, is not a tool of this worker: that needs a key with the scope `admin`",
                agent.name
            );
            return Err(Problem::new(StatusCode::FORBIDDEN, "scope_missing", detail));
        }
    }
    let mut tx = caller.begin(&state).await?;
    let taken = offers::named(&mut *tx, caller.workspace_id, &names).await?;
    if !taken.is_empty() {
        let detail = format!(
            "an MCP server of the project has tools with these names: {}; choose others",
            taken.join(", ")
        );
        return Err(Problem::conflict("tool_conflict", detail));
    }
    let alive_s = state.args.lease().as_secs_f64();
    let max = state.args.remote_workers_max;
    let id = registrations::register(&mut tx, caller.workspace_id, &queue, &worker, alive_s, max)
        .await
        .map_err(refused)?;
    for agent in &worker.agents {
        let announced = agents::announce(&mut tx, caller.workspace_id, agent).await;
        let announced = announced.map_err(|error| match error {
            AnnounceError::Taken(_) => Problem::conflict("agent_conflict", error.to_string()),
            AnnounceError::Database(error) => error.into(),
        })?;
        if let Some(agent) = announced {
            let action = if agent.is_new {
                Action::DefinitionCreated
            } else {
                Action::DefinitionChanged
            };
            let target = format!("agent_definition:{}", agent.id);
            record(&mut tx, &caller, action, target, json!({ "name": agent.name })).await?;
        }
    }
    tx.commit().await?;
    state.waiting.forget(id);
    state.bus.publish(Wake::tools(caller.workspace_id));
    let status = if worker.worker_id == Some(id) {
        StatusCode::OK
    } else {
        StatusCode::CREATED
    };
    let registration = Registration {
        worker_id: id,
        queue,
        lease_s: state.args.remote_lease_s,
        heartbeat_s: state.args.heartbeat().as_secs_f64(),
        claim_wait_max_s: WAIT_MAX_S,
        records_max: RECORDS_MAX,
    };
    Ok((status, Json(registration)))
}

fn refused(error: RegisterError) -> Problem {
    match error {
        RegisterError::Conflict { .. } => Problem::conflict("tool_conflict", error.to_string()),
        RegisterError::TooMany(_) => Problem::conflict("too_many_workers", error.to_string()),
        RegisterError::Database(error) => error.into(),
    }
}

/// Unregister a remote worker
///
/// The calls that it still has are lost at once. A program that stops in order ends them first.
#[utoipa::path(delete, path = "/api/workers/{queue}/registrations/{worker_id}", tag = "remote workers",
    params(("queue" = String, Path, description = "Name of a group of workers"), ("worker_id" = Uuid, Path, description = "The worker")),
    responses((status = 204, description = "It has left"), Refused))]
async fn leave(
    State(state): State<RemoteToolsState>,
    caller: Caller<Worker>,
    Segments((queue, worker_id)): Segments<(String, Uuid)>,
) -> Result<StatusCode, Problem> {
    may_serve(&caller, &queue, None)?;
    let mut tx = caller.begin(&state).await?;
    if !registrations::leave(&mut tx, &queue, worker_id).await? {
        return Err(worker_unknown(worker_id));
    }
    tx.commit().await?;
    state.waiting.forget(worker_id);
    state.bus.publish(Wake::tools(caller.workspace_id));
    Ok(StatusCode::NO_CONTENT)
}
