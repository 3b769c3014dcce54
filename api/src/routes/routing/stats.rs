//! Statistics of the assignment of agents.

use axum::Json;
use axum::extract::State;
use chrono::{DateTime, Utc};
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Read};
use rejoin_http::extract::{PageParams, Params, Segments, page};
use rejoin_http::problem::{Problem, Refused};
use rejoin_runs::agent_assignment::{self, Arm, AssignmentStats, Misrouted};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use crate::state::{AppState, Routes};

/// Default period of statistics, in days.
const DAYS: i32 = 30;
const MAX_DAYS: i32 = 365;

pub(super) fn routes() -> Routes {
    Routes::new().routes(routes!(stats)).routes(routes!(misrouted))
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct StatsParams {
    /// Number of days to look back
    #[param(minimum = 1, maximum = 365)]
    pub days: Option<i32>,
}

impl StatsParams {
    fn days(&self) -> Result<i32, Problem> {
        match self.days.unwrap_or(DAYS) {
            days @ 1..=MAX_DAYS => Ok(days),
            _ => {
                let detail = format!("days must be from 1 to {MAX_DAYS}");
                Err(Problem::bad_request("invalid_query", detail))
            }
        }
    }
}

/// Statistics of decisions for one agent and one reason
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WentBody {
    pub agent: Option<String>,
    pub reason: Option<String>,
    pub confidence: Option<String>,
    pub conversations: i64,
    /// Number of conversations that the agent handed over within the first turn: expected for triage, a wrong decision
    /// for others
    pub handed_over: i64,
    /// Median duration of the decisions, in microseconds
    pub took_us_p50: Option<f64>,
    /// Median time until the runs started, in milliseconds
    pub start_ms_p50: Option<f64>,
    /// Positive and negative feedback on first answers
    pub helped: i64,
    pub did_not_help: i64,
}

impl From<AssignmentStats> for WentBody {
    fn from(stats: AssignmentStats) -> Self {
        Self {
            agent: stats.agent,
            reason: stats.reason,
            confidence: stats.confidence,
            conversations: stats.conversations,
            handed_over: stats.handed_over,
            took_us_p50: stats.took_us_p50,
            start_ms_p50: stats.start_ms_p50,
            helped: stats.helped,
            did_not_help: stats.did_not_help,
        }
    }
}

/// Statistics of one group of conversations
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArmBody {
    /// `routed`, or `control` for conversations that were not routed
    pub arm: String,
    pub conversations: i64,
    /// Number of conversations whose first agent handed over within the first turn
    pub handed_over: i64,
    /// Number of conversations whose first turn failed
    pub failed: i64,
    /// Median time until the runs started, in milliseconds
    pub start_ms_p50: Option<f64>,
    /// Median time until the first answers were complete, in milliseconds
    pub answer_ms_p50: Option<f64>,
    /// Positive and negative feedback on first answers
    pub helped: i64,
    pub did_not_help: i64,
}

impl From<Arm> for ArmBody {
    fn from(arm: Arm) -> Self {
        Self {
            arm: arm.arm,
            conversations: arm.conversations,
            handed_over: arm.handed_over,
            failed: arm.failed,
            start_ms_p50: arm.start_ms_p50,
            answer_ms_p50: arm.answer_ms_p50,
            helped: arm.helped,
            did_not_help: arm.did_not_help,
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub struct RoutingStats {
    pub items: Vec<WentBody>,
    /// Routed conversations, and those of the control group
    pub arms: Vec<ArmBody>,
}

/// A first message that was routed to the wrong specialist
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MisroutedBody {
    pub run_id: Uuid,
    pub conversation_id: Option<Uuid>,
    pub message: String,
    /// The decision: `agent`, `reason`, `confidence`, `score`, `because`
    #[schema(value_type = Object)]
    pub routing: Value,
    /// The agent that the turn was handed over to; null: no handover, but the answer did not help
    pub handed_to: Option<String>,
    /// The user's feedback on the answer
    pub helped: Option<bool>,
    pub created_at: DateTime<Utc>,
}

impl From<Misrouted> for MisroutedBody {
    fn from(misrouted: Misrouted) -> Self {
        Self {
            run_id: misrouted.run_id,
            conversation_id: misrouted.conversation_id,
            message: misrouted.message,
            routing: misrouted.routing,
            handed_to: misrouted.handed_to,
            helped: misrouted.helped,
            created_at: misrouted.created_at,
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MisroutedPage {
    pub items: Vec<MisroutedBody>,
    pub next_cursor: Option<String>,
}

/// Get routing statistics: decisions by agent and reason, handovers and feedback
#[utoipa::path(get, path = "/api/projects/{p}/routing/stats", tag = "routing",
    params(StatsParams, ("p" = Uuid, Path, description = "The project")),
    responses((status = 200, description = "By agent and reason", body = RoutingStats), Refused))]
async fn stats(
    State(state): State<AppState>,
    caller: Caller<Read>,
    Segments(workspace_id): Segments<Uuid>,
    Params(params): Params<StatsParams>,
) -> Result<Json<RoutingStats>, Problem> {
    caller.in_workspace(workspace_id)?;
    let days = params.days()?;
    let mut db = caller.begin(&state).await?;
    let stats = agent_assignment::stats(&mut *db, workspace_id, days).await?;
    let arms = agent_assignment::arms(&mut *db, workspace_id, days).await?;
    Ok(Json(RoutingStats {
        items: stats.into_iter().map(WentBody::from).collect(),
        arms: arms.into_iter().map(ArmBody::from).collect(),
    }))
}

/// List the caller's first messages that were routed to the wrong specialist: it handed over within the first turn, or
/// its answer did not help. Other members' messages are not included
#[utoipa::path(get, path = "/api/projects/{p}/routing/misrouted", tag = "routing",
    params(StatsParams, PageParams, ("p" = Uuid, Path, description = "The project")),
    responses((status = 200, description = "A page, newest first", body = MisroutedPage), Refused))]
async fn misrouted(
    State(state): State<AppState>,
    caller: Caller<Read>,
    Segments(workspace_id): Segments<Uuid>,
    Params(params): Params<StatsParams>,
    Params(wanted): Params<PageParams>,
) -> Result<Json<MisroutedPage>, Problem> {
    caller.in_workspace(workspace_id)?;
    let (days, limit) = (params.days()?, wanted.limit(&state)?);
    let mut db = caller.begin(&state).await?;
    let rows = agent_assignment::misrouted(&mut *db, caller.owner(), days, wanted.after()?, limit + 1).await?;
    let (items, next_cursor) = page(rows, limit, |row| (row.created_at, row.run_id), MisroutedBody::from);
    Ok(Json(MisroutedPage { items, next_cursor }))
}
