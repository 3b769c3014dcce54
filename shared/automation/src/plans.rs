//! Plans of agents: read with the state of their steps, and edited while they wait for approval. They are approved by
//! answering their question, and paused, resumed and cancelled as the DAG of tasks that executes them.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use chrono::{DateTime, Utc};
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Read, Write};
use rejoin_http::extract::{Body, PageParams, Params, Segments, page};
use rejoin_http::problem::{BodyRefused, Problem, Refused};
use rejoin_scheduling::plans::{self, Plan, steps};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use rejoin_chat::{ChatState, Routes};

pub fn routes() -> Routes {
    Routes::new().routes(routes!(list)).routes(routes!(get, edit))
}

/// A plan with the state of its steps
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanBody {
    pub id: Uuid,
    pub conversation_id: Option<Uuid>,
    /// The run that created it
    pub run_id: Uuid,
    /// The plan that it replaces
    pub revises_plan_id: Option<Uuid>,
    pub objective: String,
    pub user_message: String,
    /// `planner_stream`, `ask_clarifying_questions` or `project_creation`
    pub strategy: String,
    /// `auto_execute`, `draft_only` or `agent_review`
    pub execution_mode: String,
    /// `pending`, `pending_review`, `executing`, `completed`, `completed_with_errors` or `failed`
    pub status: String,
    pub version: i32,
    /// [{stepNumber, type, description, executorRequired, tools, dependsOn, status, result?, error?}]
    #[schema(value_type = Vec<Object>)]
    pub steps: Value,
    /// The task DAG that executes it
    pub dag_id: Option<Uuid>,
    #[schema(value_type = Object)]
    pub metadata: Value,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
    pub finished_at: Option<DateTime<Utc>>,
}

impl PlanBody {
    fn of(plan: Plan, steps: Value) -> Self {
        Self {
            id: plan.id,
            conversation_id: plan.conversation_id,
            run_id: plan.run_id,
            revises_plan_id: plan.revises_plan_id,
            objective: plan.objective,
            user_message: plan.user_message,
            strategy: plan.strategy,
            execution_mode: plan.execution_mode,
            status: plan.status,
            version: plan.version,
            steps,
            dag_id: plan.dag_id,
            metadata: plan.metadata,
            created_at: plan.created_at,
            updated_at: plan.updated_at,
            finished_at: plan.finished_at,
        }
    }
}

/// A plan with all its versions
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanDetail {
    #[serde(flatten)]
    pub plan: PlanBody,
    /// Newest first
    pub versions: Vec<PlanVersion>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanVersion {
    pub version: i32,
    #[schema(value_type = Vec<Object>)]
    pub steps: Value,
    /// `agent` or `user`
    pub changed_by: String,
    pub created_at: DateTime<Utc>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanPage {
    pub items: Vec<PlanBody>,
    pub next_cursor: Option<String>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct PlanParams {
    /// Only plans of this conversation
    pub conversation_id: Option<Uuid>,
}

/// New steps for a draft
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PlanEdit {
    /// The version that they are based on
    pub version: i32,
    #[schema(value_type = Vec<Object>)]
    pub steps: Value,
}

fn not_found() -> Problem {
    Problem::not_found("plan_not_found", "The plan")
}

/// List the plans of the project's runs that the caller may see, newest first
#[utoipa::path(get, path = "/api/projects/{p}/plans", tag = "plans", params(PageParams, PlanParams, ("p" = Uuid, Path, description = "The project")),
    responses((status = 200, description = "A page", body = PlanPage), Refused))]
async fn list(
    State(state): State<ChatState>,
    caller: Caller<Read>,
    Segments(workspace_id): Segments<Uuid>,
    Params(params): Params<PageParams>,
    Params(wanted): Params<PlanParams>,
) -> Result<Json<PlanPage>, Problem> {
    caller.in_workspace(workspace_id)?;
    let limit = params.limit(&state)?;
    let mut db = caller.begin(&state).await?;
    let found = plans::list(
        &mut *db,
        caller.owner(),
        wanted.conversation_id,
        params.after()?,
        limit + 1,
    )
    .await?;
    let mut rows = Vec::with_capacity(found.len());
    for plan in found {
        let steps = plans::current_steps(&mut *db, &plan).await?;
        rows.push((plan, json!(steps)));
    }
    let (items, next_cursor) = page(
        rows,
        limit,
        |(plan, _)| (plan.created_at, plan.id),
        |(plan, steps)| PlanBody::of(plan, steps),
    );
    Ok(Json(PlanPage { items, next_cursor }))
}

/// Get a plan with the state of its steps, and its versions
#[utoipa::path(get, path = "/api/projects/{p}/plans/{id}", tag = "plans",
    params(("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The plan")),
    responses((status = 200, description = "It", body = PlanDetail), Refused))]
async fn get(
    State(state): State<ChatState>,
    caller: Caller<Read>,
    Segments((workspace_id, id)): Segments<(Uuid, Uuid)>,
) -> Result<Json<PlanDetail>, Problem> {
    caller.in_workspace(workspace_id)?;
    let mut db = caller.begin(&state).await?;
    let plan = plans::get_visible(&mut *db, caller.owner(), id)
        .await?
        .ok_or_else(not_found)?;
    let steps = json!(plans::current_steps(&mut *db, &plan).await?);
    let versions = plans::versions(&mut *db, id).await?;
    Ok(Json(PlanDetail {
        plan: PlanBody::of(plan, steps),
        versions: versions
            .into_iter()
            .map(|one| PlanVersion {
                version: one.version,
                steps: one.steps,
                changed_by: one.changed_by,
                created_at: one.created_at,
            })
            .collect(),
    }))
}

/// Change the steps of a plan that waits for approval
#[utoipa::path(patch, path = "/api/projects/{p}/plans/{id}", tag = "plans", request_body = PlanEdit,
    params(("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The plan")),
    responses((status = 200, description = "The updated plan", body = PlanBody),
        (status = 409, description = "It is no longer a draft, or was changed meanwhile", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused, BodyRefused))]
async fn edit(
    State(state): State<ChatState>,
    caller: Caller<Write>,
    Segments((workspace_id, id)): Segments<(Uuid, Uuid)>,
    Body(request): Body<PlanEdit>,
) -> Result<Json<PlanBody>, Problem> {
    caller.in_workspace(workspace_id)?;
    let mut db = caller.begin(&state).await?;
    let plan = plans::get_visible(&mut *db, caller.owner(), id)
        .await?
        .ok_or_else(not_found)?;
    let invalid = |fault: String| Problem::bad_request("invalid_plan", fault);
    let steps = steps::read(&request.steps).map_err(invalid)?;
    let planners: Vec<(String, bool)> =
        serde_json::from_value(plan.metadata["plannerTools"].clone()).unwrap_or_default();
    let tools = steps::tools(&steps, &planners).map_err(invalid)?;
    let Some(edited) = plans::edit(&mut db, &plan, request.version, &steps, &tools).await? else {
        let detail = format!(
            "the plan is {} at version {}, but your change is based on version {}; read it again",
            plan.status, plan.version, request.version
        );
        return Err(Problem::new(StatusCode::CONFLICT, "plan_conflict", detail));
    };
    db.commit().await?;
    let steps = edited.steps.clone();
    Ok(Json(PlanBody::of(edited, steps)))
}
