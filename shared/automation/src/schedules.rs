//! Schedules: agents and DAGs of tasks started by the clock.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use chrono::{DateTime, Utc};
use rejoin_db::rls;
use rejoin_http::audit::record;
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Read, Write};
use rejoin_http::extract::{Body, PageParams, Params, Segments, page};
use rejoin_http::problem::{BodyRefused, Problem, Refused};
use rejoin_identity::audit::Action;
use rejoin_runs::agents::{self, AgentDefinition};
use rejoin_scheduling::schedules::{self, Missed, Schedule, ScheduleContent, Target, UTC, When};
use rejoin_scheduling::tasks::spec::DagSpec;
use rejoin_types::access::Scope;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sqlx::PgConnection;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::task_dags;
use rejoin_chat::{ChatState, Routes};

pub fn routes() -> Routes {
    Routes::new()
        .routes(routes!(create, list))
        .routes(routes!(get, change, delete))
}

/// A schedule.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleBody {
    pub id: Uuid,
    pub name: String,
    /// Cron expression with five fields: minute hour day month weekday
    pub cron: Option<String>,
    /// Fire once, at this time
    pub at: Option<DateTime<Utc>>,
    /// Time zone of `cron`
    pub time_zone: String,
    pub agent: Option<String>,
    /// The agent's input
    pub input: Option<String>,
    /// The task DAG to create, as it was given
    #[schema(value_type = Option<Object>)]
    pub tasks: Option<Value>,
    /// `skip`, `once` or `all`: what to do about firings that were missed while no worker was running
    pub missed: String,
    pub enabled: bool,
    /// The next firing; null: it is disabled, or has ended
    pub next_at: Option<DateTime<Utc>>,
    /// Due time of the last firing
    pub last_at: Option<DateTime<Utc>>,
    /// The run that was started
    pub last_run_id: Option<Uuid>,
    /// The task DAG that was created
    pub last_task_dag_id: Option<Uuid>,
    /// Why the last firing started nothing
    pub last_error: Option<String>,
    /// The user on whose behalf it starts runs; null for a product's job
    pub created_by: Option<Uuid>,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
}

impl From<Schedule> for ScheduleBody {
    fn from(schedule: Schedule) -> Self {
        Self {
            id: schedule.id,
            name: schedule.name,
            cron: schedule.cron,
            at: schedule.at,
            time_zone: schedule.time_zone,
            agent: schedule.agent,
            input: schedule.input,
            tasks: schedule.dag,
            missed: schedule.missed,
            enabled: schedule.enabled,
            next_at: schedule.next_at,
            last_at: schedule.last_at,
            last_run_id: schedule.last_run_id,
            last_task_dag_id: schedule.last_dag_id,
            last_error: schedule.last_error,
            created_by: schedule.created_by,
            created_at: schedule.created_at,
            updated_at: schedule.updated_at,
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SchedulePage {
    pub items: Vec<ScheduleBody>,
    pub next_cursor: Option<String>,
}

/// A schedule to create: `cron` or `at`, and `agent` with `input` or `tasks`. In an update, only the fields to change.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScheduleRequest {
    /// Unique in the project
    #[serde(default)]
    pub name: Option<String>,
    /// Cron expression with five fields: minute hour day month weekday; or `@hourly`, `@daily`, `@weekly`, `@monthly`
    #[serde(default)]
    pub cron: Option<String>,
    /// Instead of `cron`: fire once, at this time
    #[serde(default)]
    pub at: Option<DateTime<Utc>>,
    /// Time zone of `cron`, such as `Europe/Berlin` (default: UTC)
    #[serde(default)]
    pub time_zone: Option<String>,
    /// The agent to run, by name
    #[serde(default)]
    pub agent: Option<String>,
    /// The agent's input: text, or any JSON, which it gets as text
    #[serde(default)]
    pub input: Option<Value>,
    /// Instead of `agent`: a task DAG to create
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub tasks: Option<Value>,
    /// `skip`, `once` (default) or `all`: what to do about firings that were missed while no worker was running
    #[serde(default)]
    #[schema(value_type = Option<String>, pattern = "^(skip|once|all)$")]
    pub missed: Option<Missed>,
    /// Enabled (default) or disabled
    #[serde(default)]
    pub enabled: Option<bool>,
}

impl ScheduleRequest {
    /// Returns whether it names what to start.
    fn names_work(&self) -> bool {
        self.agent.is_some() || self.input.is_some() || self.tasks.is_some()
    }

    /// Applies the patch to the existing content.
    fn apply_to(self, before: Option<&ScheduleContent>) -> Result<ScheduleContent, Problem> {
        let when = match (self.cron, self.at) {
            (Some(_), Some(_)) => return Err(invalid("pass either cron or at, not both")),
            (Some(cron), None) => When::Cron(cron),
            (None, Some(at)) => When::At(at),
            (None, None) => before
                .map(|before| before.when.clone())
                .ok_or_else(|| invalid("cron or at is required"))?,
        };
        let input = self.input.as_ref().map(schedules::input_text);
        let target = match (self.agent, self.tasks, before.map(|before| before.target.clone())) {
            (Some(_), Some(_), _) => return Err(invalid("pass either agent or tasks, not both")),
            (None, Some(tasks), _) if input.is_none() => Target::Dag(tasks),
            (Some(name), None, before) => {
                let before = before.and_then(|before| before.input().map(str::to_owned));
                Target::Agent {
                    name,
                    input: input.or(before).unwrap_or_default(),
                }
            }
            (None, None, Some(Target::Agent { name, input: before })) => Target::Agent {
                name,
                input: input.unwrap_or(before),
            },
            (None, None, Some(dag @ Target::Dag(_))) if input.is_none() => dag,
            (None, None, None) => return Err(invalid("agent or tasks is required")),
            (None, _, _) => return Err(invalid("input can be used only with agent, not with tasks")),
        };
        let content = ScheduleContent {
            name: self
                .name
                .or_else(|| before.map(|before| before.name.clone()))
                .unwrap_or_default(),
            when,
            time_zone: self
                .time_zone
                .or_else(|| before.map(|before| before.time_zone.clone()))
                .unwrap_or_else(|| UTC.to_owned()),
            target,
            missed: self.missed.or(before.map(|before| before.missed)).unwrap_or_default(),
            enabled: self.enabled.or(before.map(|before| before.enabled)).unwrap_or(true),
        };
        content.check().map_err(|fault| invalid(&fault))?;
        Ok(content)
    }
}

fn invalid(fault: &str) -> Problem {
    Problem::bad_request("invalid_schedule", fault)
}

fn not_found() -> Problem {
    Problem::not_found("schedule_not_found", "The schedule")
}

fn name_taken(name: &str) -> Problem {
    Problem::conflict("schedule_name_taken", format!("a schedule named {name} already exists"))
}

/// Checks against the database: whether the agents are available to the caller, and whether the moment is in the
/// future.
async fn check(
    db: &mut PgConnection,
    caller: &Caller,
    content: &ScheduleContent,
    names_work: bool,
) -> Result<(), Problem> {
    match &content.target {
        Target::Agent { name, .. } => {
            let found = agents::find_by_name(&mut *db, caller.workspace_id, name).await?;
            let is_there = |found: &AgentDefinition| !names_work || found.is_open() || caller.may(Scope::Admin);
            if !found.as_ref().is_some_and(is_there) {
                return Err(invalid(&format!("there is no agent {name}")));
            }
        }
        Target::Dag(dag) if names_work => {
            let spec: DagSpec = serde_json::from_value(dag.clone()).map_err(|error| invalid(&error.to_string()))?;
            if let Some(name) = task_dags::internal_agent(db, caller, &spec).await? {
                return Err(invalid(&format!("tasks: there is no agent {name}")));
            }
        }
        Target::Dag(_) => {}
    }
    if content.enabled && content.next_after(schedules::now(db).await?).is_none() {
        return Err(invalid("at must be in the future"));
    }
    Ok(())
}

/// Create a schedule
#[utoipa::path(post, path = "/api/projects/{p}/schedules", tag = "schedules", request_body = ScheduleRequest,
    params(("p" = Uuid, Path, description = "The project")),
    responses((status = 201, description = "It", body = ScheduleBody),
        (status = 409, description = "The name is taken, or there are too many", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused, BodyRefused))]
async fn create(
    State(state): State<ChatState>,
    caller: Caller<Write>,
    Segments(workspace_id): Segments<Uuid>,
    Body(request): Body<ScheduleRequest>,
) -> Result<(StatusCode, Json<ScheduleBody>), Problem> {
    caller.in_workspace(workspace_id)?;
    let content = request.apply_to(None)?;
    let mut db = rls::begin(&state.db.pool_sqlx, rls::Scope::User(caller.owner())).await?;
    check(&mut db, &caller, &content, true).await?;
    if schedules::count(&mut *db, workspace_id).await? >= schedules::MAX_SCHEDULES {
        let detail = format!("a project can have at most {} schedules", schedules::MAX_SCHEDULES);
        return Err(Problem::conflict("too_many_schedules", detail));
    }
    let schedule = schedules::insert(&mut db, workspace_id, Some(caller.user_id), &content)
        .await?
        .ok_or_else(|| name_taken(&content.name))?;
    let target = format!("schedule:{}", schedule.id);
    let detail = json!({ "name": content.name });
    record(&mut db, &caller, Action::ScheduleCreated, target, detail).await?;
    db.commit().await?;
    Ok((StatusCode::CREATED, Json(schedule.into())))
}

/// List the project's schedules, by name
#[utoipa::path(get, path = "/api/projects/{p}/schedules", tag = "schedules",
    params(PageParams, ("p" = Uuid, Path, description = "The project")),
    responses((status = 200, description = "A page", body = SchedulePage), Refused))]
async fn list(
    State(state): State<ChatState>,
    caller: Caller<Read>,
    Segments(workspace_id): Segments<Uuid>,
    Params(params): Params<PageParams>,
) -> Result<Json<SchedulePage>, Problem> {
    caller.in_workspace(workspace_id)?;
    let limit = params.limit(&state)?;
    let after: Option<String> = params.after()?;
    let rows = schedules::list(
        &mut *caller.begin(&state).await?,
        workspace_id,
        after.as_deref(),
        limit + 1,
    )
    .await?;
    let (items, next_cursor) = page(rows, limit, |row| row.name.clone(), ScheduleBody::from);
    Ok(Json(SchedulePage { items, next_cursor }))
}

/// Get a schedule
#[utoipa::path(get, path = "/api/projects/{p}/schedules/{id}", tag = "schedules",
    params(("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The schedule")),
    responses((status = 200, description = "It", body = ScheduleBody), Refused))]
async fn get(
    State(state): State<ChatState>,
    caller: Caller<Read>,
    Segments((workspace_id, id)): Segments<(Uuid, Uuid)>,
) -> Result<Json<ScheduleBody>, Problem> {
    caller.in_workspace(workspace_id)?;
    let schedule = schedules::get(&mut *caller.begin(&state).await?, workspace_id, id)
        .await?
        .ok_or_else(not_found)?;
    Ok(Json(schedule.into()))
}

/// Update, enable or disable a schedule
///
/// The next firing is computed from now: firings missed while it was disabled are not made up for. If `agent`, `input`
/// or `tasks` change, it starts runs on behalf of the caller from then on.
#[utoipa::path(patch, path = "/api/projects/{p}/schedules/{id}", tag = "schedules", request_body = ScheduleRequest,
    params(("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The schedule")),
    responses((status = 200, description = "The updated schedule", body = ScheduleBody),
        (status = 409, description = "The name is taken", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused, BodyRefused))]
async fn change(
    State(state): State<ChatState>,
    caller: Caller<Write>,
    Segments((workspace_id, id)): Segments<(Uuid, Uuid)>,
    Body(request): Body<ScheduleRequest>,
) -> Result<Json<ScheduleBody>, Problem> {
    caller.in_workspace(workspace_id)?;
    let mut db = rls::begin(&state.db.pool_sqlx, rls::Scope::User(caller.owner())).await?;
    let before = schedules::lock(&mut db, workspace_id, id)
        .await?
        .ok_or_else(not_found)?;
    let names_work = request.names_work();
    let created_by = if names_work {
        Some(caller.user_id)
    } else {
        before.created_by
    };
    let before = ScheduleContent::from(&before);
    let content = request.apply_to(Some(&before))?;
    check(&mut db, &caller, &content, names_work).await?;
    let schedule = match schedules::update(&mut db, id, &content, created_by).await {
        Ok(schedule) => schedule,
        Err(sqlx::Error::Database(error)) if error.is_unique_violation() => return Err(name_taken(&content.name)),
        Err(error) => return Err(error.into()),
    };
    let mut fields = before.changed_fields(&content);
    fields.extend((before.name != content.name).then_some("name"));
    fields.extend((before.enabled != content.enabled).then_some("enabled"));
    let detail = json!({ "name": content.name, "fields": fields });
    record(
        &mut db,
        &caller,
        Action::ScheduleChanged,
        format!("schedule:{id}"),
        detail,
    )
    .await?;
    db.commit().await?;
    Ok(Json(schedule.into()))
}

/// Delete a schedule. Runs that it has started continue
#[utoipa::path(delete, path = "/api/projects/{p}/schedules/{id}", tag = "schedules",
    params(("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The schedule")),
    responses((status = 204, description = "Gone"), Refused))]
async fn delete(
    State(state): State<ChatState>,
    caller: Caller<Write>,
    Segments((workspace_id, id)): Segments<(Uuid, Uuid)>,
) -> Result<StatusCode, Problem> {
    caller.in_workspace(workspace_id)?;
    let mut db = rls::begin(&state.db.pool_sqlx, rls::Scope::User(caller.owner())).await?;
    if !schedules::delete(&mut *db, workspace_id, id).await? {
        return Err(not_found());
    }
    record(
        &mut db,
        &caller,
        Action::ScheduleDeleted,
        format!("schedule:{id}"),
        json!({}),
    )
    .await?;
    db.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}
