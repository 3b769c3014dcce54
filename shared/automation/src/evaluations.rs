//! Evaluation sets and evaluations of agents with them.
//!
//! - `cases`   the questions of a set, by hand, from runs or from feedback
//! - `started` starts evaluations, and shows their results

mod cases;
mod started;

use std::collections::HashMap;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use chrono::{DateTime, Utc};
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Read, Write};
use rejoin_http::extract::{Body, PageParams, Params, Segments, page};
use rejoin_http::problem::{BodyRefused, Problem, Refused};
use rejoin_scheduling::evaluations::{self, DESCRIPTION_MAX_CHARS, NAME_MAX_CHARS, Set};
use serde::{Deserialize, Serialize};
use sqlx::PgConnection;
use utoipa::ToSchema;
use uuid::Uuid;

use rejoin_chat::{ChatState, Routes};

use started::EvaluationBody;

pub fn routes() -> Routes {
    Routes::new()
        .routes(routes!(list_sets, create_set))
        .routes(routes!(get_set, update_set, delete_set))
        .merge(cases::routes())
        .merge(started::routes())
}

/// Questions with the answers that are expected to them
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = EvaluationSet)]
pub struct SetBody {
    pub id: Uuid,
    pub name: String,
    pub description: String,
    /// Number of its cases
    pub cases: i64,
    pub created_by: Option<Uuid>,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
    /// The newest evaluation with it
    pub latest: Option<EvaluationBody>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = EvaluationSetPage)]
pub struct SetPage {
    pub items: Vec<SetBody>,
    pub next_cursor: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = NewEvaluationSet)]
pub struct NewSet {
    #[schema(pattern = r"\S", max_length = 100)]
    pub name: String,
    #[serde(default)]
    #[schema(max_length = 4000)]
    pub description: String,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = EvaluationSetPatch)]
pub struct SetPatch {
    #[schema(pattern = r"\S", max_length = 100)]
    pub name: Option<String>,
    #[schema(max_length = 4000)]
    pub description: Option<String>,
}

fn set_not_found() -> Problem {
    Problem::not_found("evaluation_set_not_found", "The evaluation set")
}

fn name_taken(name: &str) -> Problem {
    Problem::conflict("name_taken", format!("there is already an evaluation set named {name}"))
}

fn checked_name(name: &str) -> Result<&str, Problem> {
    let name = name.trim();
    if name.is_empty() || name.chars().count() > NAME_MAX_CHARS || name.contains('\0') {
        let detail = format!("name must have 1 to {NAME_MAX_CHARS} characters and no NUL");
        return Err(Problem::bad_request("invalid_name", detail));
    }
    Ok(name)
}

/// Checks a text that is not a name.
fn check_text(what: &str, text: &str) -> Result<(), Problem> {
    if text.chars().count() > DESCRIPTION_MAX_CHARS || text.contains('\0') {
        let detail = format!("{what} must have at most {DESCRIPTION_MAX_CHARS} characters and no NUL");
        return Err(Problem::bad_request("invalid_text", detail));
    }
    Ok(())
}

async fn found(db: &mut PgConnection, caller: &Caller, workspace_id: Uuid, id: Uuid) -> Result<Set, Problem> {
    caller.in_workspace(workspace_id)?;
    evaluations::get(db, workspace_id, id).await?.ok_or_else(set_not_found)
}

async fn bodies(db: &mut PgConnection, sets: Vec<Set>) -> Result<Vec<SetBody>, Problem> {
    let ids: Vec<Uuid> = sets.iter().map(|set| set.id).collect();
    let latest = evaluations::latest(&mut *db, &ids).await?;
    let latest = started::bodies(db, latest).await?.into_iter();
    let mut latest: HashMap<Uuid, EvaluationBody> = latest.map(|evaluation| (evaluation.set_id, evaluation)).collect();
    let bodies = sets.into_iter().map(|set| SetBody {
        latest: latest.remove(&set.id),
        id: set.id,
        name: set.name,
        description: set.description,
        cases: set.cases,
        created_by: set.created_by,
        created_at: set.created_at,
        updated_at: set.updated_at,
    });
    Ok(bodies.collect())
}

async fn body(db: &mut PgConnection, caller: &Caller, workspace_id: Uuid, id: Uuid) -> Result<Json<SetBody>, Problem> {
    let set = found(db, caller, workspace_id, id).await?;
    let body = bodies(db, vec![set]).await?.pop();
    body.map(Json).ok_or_else(Problem::internal)
}

/// List the project's evaluation sets, newest first
#[utoipa::path(get, path = "/api/projects/{p}/evaluation-sets", tag = "evaluations",
    params(PageParams, ("p" = Uuid, Path, description = "The project")),
    responses((status = 200, description = "A page", body = SetPage), Refused))]
async fn list_sets(
    State(state): State<ChatState>,
    caller: Caller<Read>,
    Segments(workspace_id): Segments<Uuid>,
    Params(params): Params<PageParams>,
) -> Result<Json<SetPage>, Problem> {
    caller.in_workspace(workspace_id)?;
    let limit = params.limit(&state)?;
    let mut db = caller.begin(&state).await?;
    let rows = evaluations::list(&mut *db, workspace_id, params.after()?, limit + 1).await?;
    let (sets, next_cursor) = page(rows, limit, |row| (row.created_at, row.id), |row| row);
    let items = bodies(&mut db, sets).await?;
    Ok(Json(SetPage { items, next_cursor }))
}

/// Create an evaluation set
#[utoipa::path(post, path = "/api/projects/{p}/evaluation-sets", tag = "evaluations", request_body = NewSet,
    params(("p" = Uuid, Path, description = "The project")),
    responses((status = 201, description = "Made", body = SetBody),
        (status = 409, description = "The name is taken", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"), Refused, BodyRefused))]
async fn create_set(
    State(state): State<ChatState>,
    caller: Caller<Write>,
    Segments(workspace_id): Segments<Uuid>,
    Body(request): Body<NewSet>,
) -> Result<(StatusCode, Json<SetBody>), Problem> {
    caller.in_workspace(workspace_id)?;
    let name = checked_name(&request.name)?;
    check_text("description", &request.description)?;
    let mut db = caller.begin(&state).await?;
    let id = evaluations::create(&mut *db, workspace_id, caller.user_id, name, &request.description)
        .await?
        .ok_or_else(|| name_taken(name))?;
    let made = body(&mut db, &caller, workspace_id, id).await?;
    db.commit().await?;
    Ok((StatusCode::CREATED, made))
}

/// Get an evaluation set
#[utoipa::path(get, path = "/api/projects/{p}/evaluation-sets/{id}", tag = "evaluations",
    params(("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The set")),
    responses((status = 200, description = "It", body = SetBody), Refused))]
async fn get_set(
    State(state): State<ChatState>,
    caller: Caller<Read>,
    Segments((workspace_id, id)): Segments<(Uuid, Uuid)>,
) -> Result<Json<SetBody>, Problem> {
    let mut db = caller.begin(&state).await?;
    body(&mut db, &caller, workspace_id, id).await
}

/// Change the name or the description of an evaluation set
#[utoipa::path(patch, path = "/api/projects/{p}/evaluation-sets/{id}", tag = "evaluations", request_body = SetPatch,
    params(("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The set")),
    responses((status = 200, description = "The changed set", body = SetBody),
        (status = 409, description = "The name is taken", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"), Refused, BodyRefused))]
async fn update_set(
    State(state): State<ChatState>,
    caller: Caller<Write>,
    Segments((workspace_id, id)): Segments<(Uuid, Uuid)>,
    Body(request): Body<SetPatch>,
) -> Result<Json<SetBody>, Problem> {
    caller.in_workspace(workspace_id)?;
    let name = request.name.as_deref().map(checked_name).transpose()?;
    let description = request.description.as_deref();
    check_text("description", description.unwrap_or_default())?;
    let mut db = caller.begin(&state).await?;
    match evaluations::update(&mut *db, workspace_id, id, name, description).await {
        Ok(true) => {}
        Ok(false) => return Err(set_not_found()),
        Err(sqlx::Error::Database(error)) if error.is_unique_violation() => {
            return Err(name_taken(name.unwrap_or_default()));
        }
        Err(error) => return Err(error.into()),
    }
    let changed = body(&mut db, &caller, workspace_id, id).await?;
    db.commit().await?;
    Ok(changed)
}

/// Delete an evaluation set with its cases and evaluations; their task DAGs stay
#[utoipa::path(delete, path = "/api/projects/{p}/evaluation-sets/{id}", tag = "evaluations",
    params(("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The set")),
    responses((status = 204, description = "Gone"), Refused))]
async fn delete_set(
    State(state): State<ChatState>,
    caller: Caller<Write>,
    Segments((workspace_id, id)): Segments<(Uuid, Uuid)>,
) -> Result<StatusCode, Problem> {
    caller.in_workspace(workspace_id)?;
    let mut db = caller.begin(&state).await?;
    if !evaluations::delete(&mut *db, workspace_id, id).await? {
        return Err(set_not_found());
    }
    db.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}
