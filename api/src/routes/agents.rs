//! The project's agents to choose from: names and descriptions. Their prompts and limits are for admins
//! (`agent_definitions`).

use axum::Json;
use axum::extract::State;
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Read};
use rejoin_http::extract::{PageParams, Params, Segments, page};
use rejoin_http::problem::{Problem, Refused};
use rejoin_runs::agents::{self, AgentDefinition};
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::state::{AppState, Routes};

/// Visibilities of agents that external callers may choose.
const CHOOSABLE: [&str; 2] = [agents::EXTERNAL, agents::PROJECT];

pub fn routes() -> Routes {
    Routes::new().routes(routes!(list))
}

/// An agent that the caller can choose
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentItem {
    pub id: Uuid,
    pub name: String,
    pub description: String,
    /// `single`, `sequential`, `loop`, `parallel`, `discussion` or `function`
    pub flow_type: String,
    /// Whether it is the project's default
    pub is_default: bool,
}

impl From<AgentDefinition> for AgentItem {
    fn from(agent: AgentDefinition) -> Self {
        Self {
            id: agent.id,
            name: agent.name,
            description: agent.description,
            flow_type: agent.flow_type,
            is_default: agent.is_default,
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentPage {
    pub items: Vec<AgentItem>,
    pub next_cursor: Option<String>,
}

/// List the agents that the caller can choose, by name
///
/// Agents with visibility `internal` are not included.
#[utoipa::path(get, path = "/api/projects/{p}/agents", tag = "agents",
    params(PageParams, ("p" = Uuid, Path, description = "The project")),
    responses((status = 200, description = "A page", body = AgentPage), Refused))]
async fn list(
    State(state): State<AppState>,
    caller: Caller<Read>,
    Segments(workspace_id): Segments<Uuid>,
    Params(params): Params<PageParams>,
) -> Result<Json<AgentPage>, Problem> {
    caller.in_workspace(workspace_id)?;
    let limit = params.limit(&state)?;
    let after: Option<String> = params.after()?;
    let mut db = caller.begin(&state).await?;
    let rows = agents::list_visible(&mut *db, workspace_id, &CHOOSABLE, after.as_deref(), limit + 1).await?;
    let (items, next_cursor) = page(rows, limit, |row| row.name.clone(), AgentItem::from);
    Ok(Json(AgentPage { items, next_cursor }))
}
