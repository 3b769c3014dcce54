//! DAGs of tasks: create, read, draw, pause, resume, cancel.
//!
//! - `diagram` diagrams of DAGs

mod diagram;

use std::collections::{BTreeMap, BTreeSet};

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use chrono::{DateTime, Utc};
use rejoin_commands::{ChangeDag, CreateDag, DagChange};
use rejoin_db::rls;
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Read, Write};
use rejoin_http::extract::{Body, PageParams, Params, Segments, page};
use rejoin_http::problem::{BodyRefused, Problem, Refused};
use rejoin_runs::agents;
use rejoin_scheduling::tasks::spec::DagSpec;
use rejoin_scheduling::tasks::{self, Dag, DagTask};
use rejoin_types::access::Scope;
use rejoin_types::ids;
use rejoin_types::owner::Owner;
use serde::Serialize;
use sqlx::PgConnection;
use utoipa::ToSchema;
use uuid::Uuid;

use rejoin_chat::{ChatState, Routes};

pub fn routes() -> Routes {
    Routes::new()
        .routes(routes!(create, list))
        .routes(routes!(get))
        .merge(diagram::routes())
        .routes(routes!(pause))
        .routes(routes!(resume))
        .routes(routes!(cancel))
        .routes(routes!(retry))
}

/// A DAG of tasks.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DagBody {
    pub id: Uuid,
    pub name: String,
    /// `active`, `paused`, `completed`, `failed` or `cancelled`
    pub state: String,
    pub max_concurrency: i32,
    /// `skip` or `stop`
    pub on_failure: String,
    /// Tasks by state
    pub counts: BTreeMap<String, i64>,
    /// The run that created it and waits for its end
    pub waiting_run_id: Option<Uuid>,
    /// The user on whose behalf its tasks run; null for a product's job
    pub created_by: Option<Uuid>,
    pub created_at: DateTime<Utc>,
    pub finished_at: Option<DateTime<Utc>>,
}

/// A DAG with its tasks.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DagDetail {
    #[serde(flatten)]
    pub dag: DagBody,
    pub tasks: Vec<TaskBody>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskBody {
    /// Its id in the DAG
    pub id: String,
    /// Its object in the graph
    pub object_id: Uuid,
    pub title: String,
    /// `pending`, `in_progress`, `completed`, `failed` or `skipped`
    pub state: String,
    /// Tasks that must end before it starts
    pub after: Vec<String>,
    pub agent: Option<String>,
    /// Why it was assigned to this agent
    pub agent_because: Option<String>,
    /// The run that executes it, or decides about it
    pub run_id: Option<Uuid>,
    pub retry_count: i32,
    pub max_retries: i32,
    pub summary: Option<String>,
    pub failure_context: Option<String>,
    pub started_at: Option<DateTime<Utc>>,
    pub finished_at: Option<DateTime<Utc>>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DagPage {
    pub items: Vec<DagBody>,
    pub next_cursor: Option<String>,
}

fn not_found() -> Problem {
    Problem::not_found("task_dag_not_found", "The DAG of tasks")
}

async fn body(state: &ChatState, caller: &Caller, dag: Dag) -> Result<DagBody, Problem> {
    let counts = tasks::counts(&mut *caller.begin(state).await?, dag.id).await?;
    Ok(DagBody {
        id: dag.id,
        name: dag.name,
        state: dag.state,
        max_concurrency: dag.max_concurrency,
        on_failure: dag.on_failure,
        counts: counts.into_iter().collect(),
        waiting_run_id: dag.waiting_run_id,
        created_by: dag.user_id,
        created_at: dag.created_at,
        finished_at: dag.finished_at,
    })
}

async fn found(state: &ChatState, caller: &Caller, workspace_id: Uuid, id: Uuid) -> Result<Dag, Problem> {
    caller.in_workspace(workspace_id)?;
    tasks::get_dag(&mut *caller.begin(state).await?, workspace_id, id)
        .await?
        .ok_or_else(not_found)
}

async fn detailed(state: &ChatState, caller: &Caller, workspace_id: Uuid, id: Uuid) -> Result<DagDetail, Problem> {
    let dag = found(state, caller, workspace_id, id).await?;
    let (rows, edges) = {
        let mut db = caller.begin(state).await?;
        let rows = tasks::of_dag(&mut *db, id).await?;
        (rows, tasks::edges(&mut *db, workspace_id, id).await?)
    };
    let names: BTreeMap<Uuid, &str> = rows.iter().map(|task| (task.id, task.r#ref.as_str())).collect();
    let mut after: BTreeMap<Uuid, Vec<String>> = BTreeMap::new();
    for (before, task) in &edges {
        if let Some(name) = names.get(before) {
            after.entry(*task).or_default().push((*name).to_owned());
        }
    }
    let tasks = rows
        .iter()
        .map(|task| task_body(task, after.remove(&task.id).unwrap_or_default()))
        .collect();
    Ok(DagDetail {
        dag: body(state, caller, dag).await?,
        tasks,
    })
}

fn task_body(task: &DagTask, after: Vec<String>) -> TaskBody {
    TaskBody {
        id: task.r#ref.clone(),
        object_id: task.id,
        title: task.title.clone(),
        state: task.state.clone(),
        after,
        agent: task.assigned_agent.clone().or_else(|| task.wanted_agent.clone()),
        agent_because: task.assigned_because.clone(),
        run_id: task.run_id,
        retry_count: task.retry_count,
        max_retries: task.max_retries,
        summary: task.summary.clone(),
        failure_context: task.failure_context.clone(),
        started_at: task.started_at,
        finished_at: task.finished_at,
    }
}

/// Create a task DAG; tasks without dependencies start at once
///
/// `{name, tasks: [{id, title?, description?, after?, agent?, priority?, complexity?, maxRetries?}], maxConcurrency?,
/// onFailure?, rules?, selectorAgent?, judgeAgent?, triageAgent?}`. A cycle is rejected with the tasks in it.
#[utoipa::path(post, path = "/api/projects/{p}/task-dags", tag = "task dags", request_body = serde_json::Value,
    params(("p" = Uuid, Path, description = "The project")),
    responses((status = 201, description = "It", body = DagDetail), Refused, BodyRefused))]
async fn create(
    State(state): State<ChatState>,
    caller: Caller<Write>,
    Segments(workspace_id): Segments<Uuid>,
    Body(spec): Body<DagSpec>,
) -> Result<(StatusCode, Json<DagDetail>), Problem> {
    caller.in_workspace(workspace_id)?;
    let ordered = spec
        .check()
        .map_err(|fault| Problem::bad_request("invalid_task_dag", fault))?;
    if let Some(exhausted) = state.quotas.exhausted(&state.db.pool_sqlx, &caller).await? {
        return Err(rejoin_commands::PostError::Exhausted(exhausted).into());
    }
    if let Some(name) = internal_agent(&mut *caller.begin(&state).await?, &caller, &spec).await? {
        let detail = format!("there is no agent {name}");
        return Err(Problem::bad_request("invalid_task_dag", detail));
    }
    let id = ids::new();
    let command = CreateDag {
        id,
        workspace_id,
        user_id: Some(caller.user_id),
        spec: &spec,
        ordered: &ordered,
        made_by: None,
        plan: None,
    };
    let wake = rejoin_commands::execute_for(&state.db.pool_sqlx, caller.rls_scope(), &command).await?;
    state.bus.publish(wake);
    let detail = detailed(&state, &caller, workspace_id, id).await?;
    Ok((StatusCode::CREATED, Json(detail)))
}

/// Returns an agent in a spec that is unavailable to the caller because it is internal.
pub async fn internal_agent(
    db: &mut PgConnection,
    caller: &Caller,
    spec: &DagSpec,
) -> Result<Option<String>, sqlx::Error> {
    if caller.may(Scope::Admin) {
        return Ok(None);
    }
    let named: BTreeSet<&str> = spec.agents().collect();
    let named: Vec<&str> = named.into_iter().collect();
    agents::internal_among(db, caller.workspace_id, &named).await
}

/// List the project's task DAGs, newest first
#[utoipa::path(get, path = "/api/projects/{p}/task-dags", tag = "task dags",
    params(PageParams, ("p" = Uuid, Path, description = "The project")),
    responses((status = 200, description = "A page", body = DagPage), Refused))]
async fn list(
    State(state): State<ChatState>,
    caller: Caller<Read>,
    Segments(workspace_id): Segments<Uuid>,
    Params(params): Params<PageParams>,
) -> Result<Json<DagPage>, Problem> {
    caller.in_workspace(workspace_id)?;
    let limit = params.limit(&state)?;
    let rows = tasks::list_dags(
        &mut *caller.begin(&state).await?,
        workspace_id,
        params.after()?,
        limit + 1,
    )
    .await?;
    let (dags, next_cursor) = page(rows, limit, |row| (row.created_at, row.id), |row| row);
    let mut items = Vec::with_capacity(dags.len());
    for dag in dags {
        items.push(body(&state, &caller, dag).await?);
    }
    Ok(Json(DagPage { items, next_cursor }))
}

/// Get a task DAG with its tasks
#[utoipa::path(get, path = "/api/projects/{p}/task-dags/{id}", tag = "task dags",
    params(("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The DAG")),
    responses((status = 200, description = "It", body = DagDetail), Refused))]
async fn get(
    State(state): State<ChatState>,
    caller: Caller<Read>,
    Segments((workspace_id, id)): Segments<(Uuid, Uuid)>,
) -> Result<Json<DagDetail>, Problem> {
    Ok(Json(detailed(&state, &caller, workspace_id, id).await?))
}

/// Pause a task DAG: no more tasks are started; running tasks continue
#[utoipa::path(post, path = "/api/projects/{p}/task-dags/{id}/pause", tag = "task dags",
    params(("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The DAG")),
    responses((status = 200, description = "It", body = DagDetail),
        (status = 409, description = "It is not active", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"), Refused))]
async fn pause(
    State(state): State<ChatState>,
    caller: Caller<Write>,
    Segments((workspace_id, id)): Segments<(Uuid, Uuid)>,
) -> Result<Json<DagDetail>, Problem> {
    change(&state, &caller, workspace_id, id, DagChange::Pause).await
}

/// Resume a paused task DAG
#[utoipa::path(post, path = "/api/projects/{p}/task-dags/{id}/resume", tag = "task dags",
    params(("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The DAG")),
    responses((status = 200, description = "It", body = DagDetail),
        (status = 409, description = "It is not paused", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"), Refused))]
async fn resume(
    State(state): State<ChatState>,
    caller: Caller<Write>,
    Segments((workspace_id, id)): Segments<(Uuid, Uuid)>,
) -> Result<Json<DagDetail>, Problem> {
    change(&state, &caller, workspace_id, id, DagChange::Resume).await
}

/// Cancel a task DAG: its runs are cancelled, pending tasks are skipped. Idempotent
#[utoipa::path(post, path = "/api/projects/{p}/task-dags/{id}/cancel", tag = "task dags",
    params(("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The DAG")),
    responses((status = 202, description = "It", body = DagDetail),
        (status = 409, description = "It has ended", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"), Refused))]
async fn cancel(
    State(state): State<ChatState>,
    caller: Caller<Write>,
    Segments((workspace_id, id)): Segments<(Uuid, Uuid)>,
) -> Result<(StatusCode, Json<DagDetail>), Problem> {
    let dag = found(&state, &caller, workspace_id, id).await?;
    let scope = may_change(&caller, &dag, &DagChange::Cancel)?;
    let wake = rejoin_commands::cancel_dag(&state.db.pool_sqlx, scope, id).await?;
    state.bus.publish(wake);
    Ok((
        StatusCode::ACCEPTED,
        Json(detailed(&state, &caller, workspace_id, id).await?),
    ))
}

/// Retry a failed task; tasks that were skipped because of it may start as well
///
/// A failed DAG continues, unless a run has waited for it: that run already has its result.
#[utoipa::path(post, path = "/api/projects/{p}/task-dags/{id}/tasks/{task}/retry", tag = "task dags",
    params(("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The DAG"),
        ("task" = String, Path, description = "The task's `id` in the DAG")),
    responses((status = 200, description = "It", body = DagDetail),
        (status = 409, description = "The task has not failed, or the DAG cannot continue", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"), Refused))]
async fn retry(
    State(state): State<ChatState>,
    caller: Caller<Write>,
    Segments((workspace_id, id, task)): Segments<(Uuid, Uuid, String)>,
) -> Result<Json<DagDetail>, Problem> {
    change(&state, &caller, workspace_id, id, DagChange::Retry(task)).await
}

async fn change(
    state: &ChatState,
    caller: &Caller,
    workspace_id: Uuid,
    id: Uuid,
    change: DagChange,
) -> Result<Json<DagDetail>, Problem> {
    let dag = found(state, caller, workspace_id, id).await?;
    let scope = may_change(caller, &dag, &change)?;
    let wake = rejoin_commands::execute_for(&state.db.pool_sqlx, scope, &ChangeDag { id, change }).await?;
    state.bus.publish(wake);
    Ok(Json(detailed(state, caller, workspace_id, id).await?))
}

/// Returns the scope for changing a DAG: its maker's, on whose behalf its tasks run. The maker may change it; with the
/// scope `admin`, others may stop it.
fn may_change(caller: &Caller, dag: &Dag, change: &DagChange) -> Result<rls::Scope, Problem> {
    let Some(maker) = dag.user_id.filter(|maker| *maker != caller.user_id) else {
        return Ok(caller.rls_scope());
    };
    let stops = match change {
        DagChange::Pause | DagChange::Cancel => true,
        DagChange::Resume | DagChange::Retry(_) | DagChange::Proceed => false,
    };
    if !(stops && caller.may(Scope::Admin)) {
        let detail = if stops {
            "only the user who created the DAG, or a caller with the scope `admin`, may stop it"
        } else {
            "only the user who created the DAG may resume it, because its tasks run on this user's behalf"
        };
        return Err(Problem::new(StatusCode::FORBIDDEN, "not_the_maker", detail));
    }
    Ok(rls::Scope::User(Owner {
        workspace_id: dag.workspace_id,
        user_id: maker,
    }))
}
