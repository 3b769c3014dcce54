//! `GET /api/projects`: the projects in which the caller's credential can act.

use axum::Json;
use axum::extract::State;
use rejoin_db::rls;
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Read};
use rejoin_http::extract::{PageParams, Params, page};
use rejoin_http::problem::{Problem, Refused};
use rejoin_identity::open_workspaces::{self, OpenWorkspace};
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::state::{AppState, Routes};

pub fn routes() -> Routes {
    Routes::new().routes(routes!(list_projects))
}

/// A project of the caller
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CallerProject {
    pub id: Uuid,
    pub name: String,
    /// The user's role in it: `owner`, `member`, `viewer`, `operator` or `service`
    pub role: String,
    /// This request acts in it
    pub is_current: bool,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CallerProjects {
    pub items: Vec<CallerProject>,
    pub next_cursor: Option<String>,
}

/// List your projects, in the order of their names
///
/// Those that the credential opens. A key of one project, and a session that was begun with it, open only that one. Other
/// sessions can go on in each of these projects (`POST /api/session/project`).
#[utoipa::path(get, path = "/api/projects", tag = "callers", params(PageParams),
    responses((status = 200, description = "A page", body = CallerProjects), Refused))]
async fn list_projects(
    State(state): State<AppState>,
    caller: Caller<Read>,
    Params(params): Params<PageParams>,
) -> Result<Json<CallerProjects>, Problem> {
    let limit = params.limit(&state)?;
    let after: Option<(String, Uuid)> = params.after()?;
    let mut db = rls::begin(&state.db.pool_sqlx, rls::Scope::Login).await?;
    let rows = open_workspaces::page(&mut db, &caller, after, limit + 1).await?;
    let item = |OpenWorkspace { id, name, role, .. }| CallerProject {
        is_current: id == caller.workspace_id,
        id,
        name,
        role,
    };
    let (items, next_cursor) = page(rows, limit, |row| (row.sort_name.clone(), row.id), item);
    Ok(Json(CallerProjects { items, next_cursor }))
}
