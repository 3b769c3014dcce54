//! A project's usage today, beside the quotas set by the operator. Visible to admins of the project; no request can raise
//! their own.

use axum::Json;
use axum::extract::State;
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Admin, Caller};
use rejoin_http::extract::Segments;
use rejoin_http::problem::{Problem, Refused};
use rejoin_identity::workspaces;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::state::{AppState, Routes};

pub fn routes() -> Routes {
    Routes::new().routes(routes!(show))
}

/// Usage from midnight to midnight, UTC.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Number of runs that were started, not counting those of sub-agents
    pub runs: Part,
    /// Tokens of the model calls of runs that have ended
    pub tokens: Part,
    /// Time until both are reset, in seconds
    pub day_left_s: f64,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Part {
    pub used: i64,
    /// The operator's daily limit (`rejoin projects quota`); null: unlimited
    pub bound: Option<i64>,
}

/// Get the project's usage of today and its quota
#[utoipa::path(get, path = "/api/admin/projects/{p}/usage", tag = "usage",
    params(("p" = Uuid, Path, description = "The project")),
    responses((status = 200, description = "It", body = Usage), Refused))]
async fn show(
    State(state): State<AppState>,
    caller: Caller<Admin>,
    Segments(workspace_id): Segments<Uuid>,
) -> Result<Json<Usage>, Problem> {
    caller.in_workspace(workspace_id)?;
    let used = workspaces::used_today(&state.db.pool_sqlx, workspace_id).await?;
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
