//! Earlier versions of a console.

use axum::Json;
use axum::extract::State;
use chrono::{DateTime, Utc};
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Read};
use rejoin_http::extract::{PageParams, Params, Segments, page};
use rejoin_http::problem::{Problem, Refused};
use rejoin_runs::consoles::{self, Version};
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::not_found;
use crate::routes::{DataSourcesState, Routes};

pub(super) fn routes() -> Routes {
    Routes::new().routes(routes!(list_versions))
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct VersionBody {
    pub version: i32,
    pub content: String,
    /// `user` or `agent`
    pub modified_by: String,
    /// The run that made the change
    pub run_id: Option<Uuid>,
    pub created_at: DateTime<Utc>,
}

impl From<Version> for VersionBody {
    fn from(version: Version) -> Self {
        Self {
            version: version.version,
            content: version.content,
            modified_by: version.modified_by,
            run_id: version.run_id,
            created_at: version.created_at,
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct VersionPage {
    pub items: Vec<VersionBody>,
    pub next_cursor: Option<String>,
}

/// List a console's versions, newest first
#[utoipa::path(get, path = "/api/consoles/{id}/versions", tag = "consoles",
    params(PageParams, ("id" = Uuid, Path, description = "The console")),
    responses((status = 200, description = "A page", body = VersionPage), Refused))]
async fn list_versions(
    State(state): State<DataSourcesState>,
    caller: Caller<Read>,
    Segments(id): Segments<Uuid>,
    Params(params): Params<PageParams>,
) -> Result<Json<VersionPage>, Problem> {
    let limit = params.limit(&state)?;
    let mut db = caller.begin(&state).await?;
    consoles::get(&mut *db, caller.owner(), id)
        .await?
        .ok_or_else(not_found)?;
    let rows = consoles::versions(&mut *db, id, params.after()?, limit + 1).await?;
    let (items, next_cursor) = page(rows, limit, |row| row.version, VersionBody::from);
    Ok(Json(VersionPage { items, next_cursor }))
}
