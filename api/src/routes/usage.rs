//! What a project has used up today, beside the bounds that the operator has set. Admins of the project see them; nobody raises their own.

use axum::Json;
use axum::extract::State;
use rejoin_shared::projects;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use crate::caller::Caller;
use crate::extract::Segments;
use crate::problem::{Problem, Refused};
use crate::state::AppState;

pub fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(show))
}

/// From midnight to midnight, UTC.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Runs that were begun; those of sub-agents are not counted
    pub runs: Part,
    /// Of the model calls of runs that have ended
    pub tokens: Part,
    /// Until both are counted anew [s]
    pub day_left_s: f64,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Part {
    pub used: i64,
    /// What the operator allows a day (`rejoin projects quota`); null: any number
    pub bound: Option<i64>,
}

/// What the project has used up today, and what it may
#[utoipa::path(get, path = "/api/admin/projects/{p}/usage", tag = "usage",
    params(("p" = Uuid, Path, description = "The project")),
    responses((status = 200, description = "It", body = Usage), Refused))]
async fn show(
    State(state): State<AppState>,
    caller: Caller,
    Segments(project_id): Segments<Uuid>,
) -> Result<Json<Usage>, Problem> {
    caller.in_project(project_id)?;
    let used = projects::used_today(&state.db.sql, project_id).await?;
    Ok(Json(Usage {
        runs: Part {
            used: used.runs,
            bound: caller.quota.runs_per_day,
        },
        tokens: Part {
            used: used.tokens,
            bound: caller.quota.tokens_per_day,
        },
        day_left_s: used.day_left_s,
    }))
}
