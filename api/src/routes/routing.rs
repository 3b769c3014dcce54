//! Assignment of agents to new conversations: settings, preview, and statistics.
//!
//! - `stats` statistics

mod stats;

use axum::Json;
use axum::extract::State;
use rejoin_chat::posting::check_message;
use rejoin_chat::posting::consoles::attached_consoles;
use rejoin_http::audit::record;
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Admin, Caller, Write};
use rejoin_http::extract::{Body, Segments, present};
use rejoin_http::problem::{BodyRefused, Problem, Refused};
use rejoin_identity::audit::Action;
use rejoin_runs::agent_assignment::{self, Routing, TRIAGE};
use rejoin_runs::agents;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::state::{AppState, Routes};

/// Maximum length of a model's name, in characters.
const SELECTOR_MODEL_MAX_CHARS: usize = 200;

pub fn routes() -> Routes {
    Routes::new()
        .routes(routes!(get, put))
        .routes(routes!(preview))
        .merge(stats::routes())
}

/// How the project's new conversations are assigned to agents
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RoutingBody {
    /// Percentage of new conversations without an agent that are routed, by a stable hash of their ids; 0: none
    pub percent: i16,
    /// Default agent, used if no signal favours another one
    pub preferred_agent: Option<String>,
    /// Agent used if nothing is known about the question
    pub triage_agent: String,
    /// The model that selects an agent for a task if several match equally; null: none
    pub selector_model: Option<String>,
    /// Agent for the conversations that are not routed, as a control group; null: no agent
    pub control_agent: Option<String>,
}

impl From<Routing> for RoutingBody {
    fn from(routing: Routing) -> Self {
        Self {
            percent: routing.percent,
            preferred_agent: routing.preferred_agent,
            triage_agent: routing.triage_agent,
            selector_model: routing.selector_model,
            control_agent: routing.control_agent,
        }
    }
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RoutingRequest {
    #[schema(minimum = 0, maximum = 100)]
    pub percent: i16,
    /// By name
    pub preferred_agent: Option<String>,
    /// By name; absent: `triage`
    pub triage_agent: Option<String>,
    /// `provider:model`, preferably a fast one; null: none. Absent: unchanged
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>, max_length = 200)]
    pub selector_model: Option<Option<String>>,
    /// By name; null: none. Absent: unchanged
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    pub control_agent: Option<Option<String>>,
}

/// A first message to try
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PreviewRequest {
    #[schema(pattern = r"\S")]
    pub message: String,
    /// Attachments, as with a message
    #[schema(value_type = Option<Vec<Object>>)]
    pub consoles: Option<Value>,
}

/// The routing decision
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreviewBody {
    /// The agent; null: none, as the project has no triage agent
    pub agent: Option<String>,
    /// `high`, `medium` or `low`
    pub confidence: String,
    /// From 0 to 1
    pub score: f64,
    /// The signal that decided: `console_database`, `console_content`, `message`, `only_database`, `preference`,
    /// `history` or `triage`
    pub reason: String,
    /// The reason in words
    pub because: String,
    /// Duration of the decision, in microseconds
    pub took_us: u64,
}

/// Get the routing settings. `percent` is 0 if the project has not set them
#[utoipa::path(get, path = "/api/admin/projects/{p}/routing", tag = "routing",
    params(("p" = Uuid, Path, description = "The project")),
    responses((status = 200, description = "So", body = RoutingBody), Refused))]
async fn get(
    State(state): State<AppState>,
    caller: Caller<Admin>,
    Segments(workspace_id): Segments<Uuid>,
) -> Result<Json<RoutingBody>, Problem> {
    caller.in_workspace(workspace_id)?;
    let mut db = caller.begin(&state).await?;
    let wanted = agent_assignment::get(&mut *db, workspace_id).await?;
    Ok(Json(wanted.unwrap_or_else(off).into()))
}

fn off() -> Routing {
    Routing {
        percent: 0,
        preferred_agent: None,
        triage_agent: TRIAGE.to_owned(),
        selector_model: None,
        control_agent: None,
    }
}

/// Set the routing settings
#[utoipa::path(put, path = "/api/admin/projects/{p}/routing", tag = "routing", request_body = RoutingRequest,
    params(("p" = Uuid, Path, description = "The project")),
    responses((status = 200, description = "The updated settings", body = RoutingBody), Refused, BodyRefused))]
async fn put(
    State(state): State<AppState>,
    caller: Caller<Admin>,
    Segments(workspace_id): Segments<Uuid>,
    Body(request): Body<RoutingRequest>,
) -> Result<Json<RoutingBody>, Problem> {
    caller.in_workspace(workspace_id)?;
    if !(0..=100).contains(&request.percent) {
        return Err(Problem::bad_request("invalid_routing", "percent must be from 0 to 100"));
    }
    let is_name = |model: &String| !model.trim().is_empty() && model.chars().count() <= SELECTOR_MODEL_MAX_CHARS;
    if !request.selector_model.iter().flatten().all(is_name) {
        let detail =
            format!("selectorModel must have 1 to {SELECTOR_MODEL_MAX_CHARS} characters; send null to use no model");
        return Err(Problem::bad_request("invalid_routing", detail));
    }
    let mut db = caller.begin(&state).await?;
    let before = agent_assignment::get(&mut *db, workspace_id).await?;
    let control_agent = match request.control_agent {
        Some(named) => named,
        None => before.as_ref().and_then(|before| before.control_agent.clone()),
    };
    let selector_model = match request.selector_model {
        Some(named) => named,
        None => before.and_then(|before| before.selector_model),
    };
    let agents = [&request.preferred_agent, &request.triage_agent, &control_agent];
    for name in agents.into_iter().flatten() {
        if agents::find_by_name(&mut *db, workspace_id, name).await?.is_none() {
            let detail = format!("there is no agent named {name}");
            return Err(Problem::bad_request("agent_definition_not_found", detail));
        }
    }
    let wanted = Routing {
        percent: request.percent,
        preferred_agent: request.preferred_agent,
        triage_agent: request.triage_agent.unwrap_or_else(|| TRIAGE.to_owned()),
        selector_model,
        control_agent,
    };
    agent_assignment::set(&mut *db, workspace_id, &wanted).await?;
    let body = RoutingBody::from(wanted);
    let detail = json!({
        "percent": body.percent, "preferredAgent": body.preferred_agent, "triageAgent": body.triage_agent,
        "selectorModel": body.selector_model, "controlAgent": body.control_agent,
    });
    record(
        &mut db,
        &caller,
        Action::RoutingSet,
        format!("project:{workspace_id}"),
        detail,
    )
    .await?;
    db.commit().await?;
    Ok(Json(body))
}

/// Preview which agent would get a first message, and why. Nothing is stored
#[utoipa::path(post, path = "/api/projects/{p}/routing/preview", tag = "routing", request_body = PreviewRequest,
    params(("p" = Uuid, Path, description = "The project")),
    responses((status = 200, description = "The routing decision", body = PreviewBody), Refused, BodyRefused))]
async fn preview(
    State(state): State<AppState>,
    caller: Caller<Write>,
    Segments(workspace_id): Segments<Uuid>,
    Body(request): Body<PreviewRequest>,
) -> Result<Json<PreviewBody>, Problem> {
    caller.in_workspace(workspace_id)?;
    check_message(&request.message, state.settings.max_message_chars)?;
    let consoles = attached_consoles(request.consoles.as_ref())?;
    let mut db = caller.begin(&state).await?;
    let wanted = agent_assignment::get(&mut *db, workspace_id).await?.unwrap_or_else(off);
    let assignment =
        agent_assignment::choose(&mut db, caller.owner(), &wanted, &request.message, &consoles, &[]).await?;
    Ok(Json(PreviewBody {
        agent: assignment.agent.map(|(_, name)| name),
        confidence: assignment.choice.confidence().name().to_owned(),
        score: assignment.choice.score.into(),
        reason: assignment.choice.reason.name().to_owned(),
        because: assignment.choice.because,
        took_us: assignment.took_us,
    }))
}
