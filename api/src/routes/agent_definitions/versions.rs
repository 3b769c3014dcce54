//! Versions of an agent definition: each change of it adds one, none changes. They can be compared and restored.

use axum::Json;
use axum::extract::State;
use chrono::{DateTime, Utc};
use rejoin_http::audit::record;
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Admin, Caller};
use rejoin_http::extract::{PageParams, Params, Segments, page};
use rejoin_http::problem::{Problem, Refused};
use rejoin_identity::audit::Action;
use rejoin_runs::agents::versions::{self, Change, Version};
use rejoin_runs::agents::{self, AgentDefinition, DefinitionContent};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sqlx::PgConnection;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::bodies::DefinitionBody;
use super::{audited, check, name_taken, not_found};
use crate::state::{AppState, Routes};

pub(super) fn routes() -> Routes {
    Routes::new()
        .routes(routes!(list_versions))
        .routes(routes!(get_version))
        .routes(routes!(compare_versions))
        .routes(routes!(restore_version))
}

/// A version of an agent definition
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentVersionBody {
    pub version: i32,
    /// The user who wrote it; null: an operator, or a product
    pub created_by: Option<Uuid>,
    pub created_at: DateTime<Utc>,
    /// Fields in which it differs from the version before
    pub changed: Vec<String>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentVersionPage {
    pub items: Vec<AgentVersionBody>,
    pub next_cursor: Option<String>,
}

/// A field in which two versions differ
#[derive(Debug, Serialize, ToSchema)]
pub struct AgentChange {
    pub field: String,
    pub before: Value,
    pub after: Value,
    /// Changed lines of the prompt, as a unified diff
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
}

impl From<Change> for AgentChange {
    fn from(change: Change) -> Self {
        Self {
            field: change.field.to_owned(),
            before: change.before,
            after: change.after,
            diff: change.diff,
        }
    }
}

/// The differences of two versions
#[derive(Debug, Serialize, ToSchema)]
pub struct AgentComparison {
    /// The version that is compared with
    pub from: i32,
    pub to: i32,
    pub changes: Vec<AgentChange>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct CompareParams {
    /// The version to compare with. Default: the version before
    pub from: Option<i32>,
}

fn version_not_found() -> Problem {
    Problem::not_found("agent_version_not_found", "This version of the agent definition")
}

/// Returns a definition of the caller's project, and one of its versions.
async fn found(
    db: &mut PgConnection,
    caller: &Caller,
    (workspace_id, id, version): (Uuid, Uuid, i32),
) -> Result<(AgentDefinition, Version), Problem> {
    caller.in_workspace(workspace_id)?;
    let definition = agents::get(db, workspace_id, id).await?.ok_or_else(not_found)?;
    let version = versions::get(db, workspace_id, id, version).await?;
    Ok((definition, version.ok_or_else(version_not_found)?))
}

/// Returns the versions with what each changed. The last one is there for the one after it, if the page is full.
fn with_changes(rows: &[Version]) -> Vec<AgentVersionBody> {
    let blank = DefinitionContent::blank();
    let of = |(at, row): (usize, &Version)| {
        let before = rows.get(at + 1).map_or(&blank, |before| &before.content);
        let changed = before.changed_fields(&row.content).into_iter();
        AgentVersionBody {
            version: row.version,
            created_by: row.created_by,
            created_at: row.created_at,
            changed: changed.map(str::to_owned).collect(),
        }
    };
    rows.iter().enumerate().map(of).collect()
}

/// List the versions of an agent definition, newest first
#[utoipa::path(get, path = "/api/admin/projects/{p}/agent-definitions/{id}/versions", tag = "agent definitions",
    params(PageParams, ("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The definition")),
    responses((status = 200, description = "A page", body = AgentVersionPage), Refused))]
async fn list_versions(
    State(state): State<AppState>,
    caller: Caller<Admin>,
    Segments((workspace_id, id)): Segments<(Uuid, Uuid)>,
    Params(params): Params<PageParams>,
) -> Result<Json<AgentVersionPage>, Problem> {
    caller.in_workspace(workspace_id)?;
    let limit = params.limit(&state)?;
    let mut db = caller.begin(&state).await?;
    agents::get(&mut db, workspace_id, id).await?.ok_or_else(not_found)?;
    let rows = versions::list(&mut *db, workspace_id, id, params.after()?, limit + 1).await?;
    let (items, next_cursor) = page(with_changes(&rows), limit, |row| row.version, |row| row);
    Ok(Json(AgentVersionPage { items, next_cursor }))
}

/// Get a version of an agent definition
#[utoipa::path(get, path = "/api/admin/projects/{p}/agent-definitions/{id}/versions/{version}", tag = "agent definitions",
    params(("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The definition"),
        ("version" = i32, Path, description = "The version")),
    responses((status = 200, description = "The definition as it was", body = DefinitionBody), Refused))]
async fn get_version(
    State(state): State<AppState>,
    caller: Caller<Admin>,
    Segments(path): Segments<(Uuid, Uuid, i32)>,
) -> Result<Json<DefinitionBody>, Problem> {
    let mut db = caller.begin(&state).await?;
    let (definition, version) = found(&mut db, &caller, path).await?;
    let at = version.created_at;
    let mut body = DefinitionBody::from(definition.at(version.version, version.content));
    body.updated_at = at;
    Ok(Json(body))
}

/// Compare a version of an agent definition with another one
#[utoipa::path(get, path = "/api/admin/projects/{p}/agent-definitions/{id}/versions/{version}/diff", tag = "agent definitions",
    params(CompareParams, ("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The definition"),
        ("version" = i32, Path, description = "The version")),
    responses((status = 200, description = "The fields that differ", body = AgentComparison), Refused))]
async fn compare_versions(
    State(state): State<AppState>,
    caller: Caller<Admin>,
    Segments((workspace_id, id, version)): Segments<(Uuid, Uuid, i32)>,
    Params(params): Params<CompareParams>,
) -> Result<Json<AgentComparison>, Problem> {
    let mut db = caller.begin(&state).await?;
    let (_, to) = found(&mut db, &caller, (workspace_id, id, version)).await?;
    let from = params.from.unwrap_or_else(|| to.version.saturating_sub(1).max(1));
    let before = versions::get(&mut *db, workspace_id, id, from).await?;
    let before = before.ok_or_else(version_not_found)?;
    let changes = versions::changes(&before.content, &to.content);
    Ok(Json(AgentComparison {
        from,
        to: to.version,
        changes: changes.into_iter().map(AgentChange::from).collect(),
    }))
}

/// Restore a version of an agent definition: its content becomes the newest version
#[utoipa::path(post, path = "/api/admin/projects/{p}/agent-definitions/{id}/versions/{version}/restore", tag = "agent definitions",
    params(("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The definition"),
        ("version" = i32, Path, description = "The version")),
    responses((status = 200, description = "The definition, with its new version", body = DefinitionBody),
        (status = 409, description = "Another definition has its name", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"), Refused))]
async fn restore_version(
    State(state): State<AppState>,
    caller: Caller<Admin>,
    Segments(path): Segments<(Uuid, Uuid, i32)>,
) -> Result<Json<DefinitionBody>, Problem> {
    let (workspace_id, id, _) = path;
    let mut db = caller.begin(&state).await?;
    let (definition, version) = found(&mut db, &caller, path).await?;
    let before = DefinitionContent::from(definition.clone());
    let fields = before.changed_fields(&version.content);
    if fields.is_empty() {
        return Ok(Json(definition.into()));
    }
    // It was valid once; the rules may have changed since.
    check(&version.content)?;
    let restored = match agents::update(&mut db, workspace_id, id, &version.content).await {
        Ok(restored) => restored.ok_or_else(not_found)?,
        Err(sqlx::Error::Database(error)) if error.is_unique_violation() => {
            return Err(name_taken(&version.content.name));
        }
        Err(error) => return Err(error.into()),
    };
    let named = json!({ "name": restored.name, "version": version.version, "fields": fields });
    record(&mut db, &caller, Action::DefinitionRestored, audited(id), named).await?;
    db.commit().await?;
    Ok(Json(restored.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_names_what_it_changed() {
        let version = |version, name: &str, max_steps| Version {
            version,
            content: DefinitionContent {
                name: name.to_owned(),
                max_steps,
                ..DefinitionContent::blank()
            },
            created_by: None,
            created_at: DateTime::UNIX_EPOCH,
        };
        let rows = [
            version(3, "b", Some(1)),
            version(2, "a", Some(1)),
            version(1, "a", None),
        ];
        let changed: Vec<_> = with_changes(&rows).into_iter().map(|row| row.changed).collect();
        assert_eq!(changed, [["name"], ["maxSteps"], ["name"]]);
    }
}
