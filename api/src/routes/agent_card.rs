//! `/.well-known/agent-card.json`: the project's public agents, as the card by which the A2A protocol (version 1.0)
//! discovers agents: at `/api/a2a` by both of its bindings over HTTP, and at `/mcp` as tools.

use axum::Json;
use axum::extract::State;
use rejoin_dialects::a2a::{VERSION, routes as a2a};
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Read};
use rejoin_http::extract::Params;
use rejoin_http::origin::Origin;
use rejoin_http::problem::{Problem, Refused};
use rejoin_runs::agents::{self, AgentDefinition};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};

use crate::mcp;
use crate::state::{AppState, Routes};

/// Maximum number of agents on one card.
const MAX_SKILLS: i64 = 200;
/// The card's name for MCP, which is no binding of the protocol's own.
const BINDING: &str = "https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http";
const BINDING_VERSION: &str = "2025-11-25";
/// The bindings that the protocol has for HTTP.
const OWN_BINDINGS: [&str; 2] = ["JSONRPC", "HTTP+JSON"];
/// Media types of messages' parts; a file's model decides which of them it reads.
const INPUT_MODES: [&str; 6] = [
    "text/plain",
    "application/json",
    "application/pdf",
    "image/png",
    "image/jpeg",
    "audio/wav",
];
/// Media types of artifacts.
const OUTPUT_MODES: [&str; 2] = ["text/plain", "application/json"];

pub fn routes() -> Routes {
    Routes::new().routes(routes!(card))
}

/// An agent card of the A2A protocol
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentCard {
    pub name: String,
    pub description: String,
    pub version: String,
    /// URL and protocol of the endpoint
    pub supported_interfaces: Vec<AgentInterface>,
    pub capabilities: Capabilities,
    #[schema(value_type = Object)]
    pub security_schemes: Value,
    #[schema(value_type = Vec<Object>)]
    pub security_requirements: Value,
    pub default_input_modes: Vec<String>,
    pub default_output_modes: Vec<String>,
    /// One skill per agent
    pub skills: Vec<Skill>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentInterface {
    pub url: String,
    pub protocol_binding: String,
    pub protocol_version: String,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Capabilities {
    pub streaming: bool,
    pub push_notifications: bool,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Skill {
    pub id: String,
    pub name: String,
    pub description: String,
    pub tags: Vec<String>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Which {
    /// URL of this agent's own card
    pub agent: Option<String>,
}

/// List the project's public agents
///
/// Returns the agents with visibility `external` as an agent card of the A2A protocol.
#[utoipa::path(get, path = "/.well-known/agent-card.json", tag = "agents", params(Which),
    responses((status = 200, description = "The card", body = AgentCard), Refused))]
async fn card(
    State(state): State<AppState>,
    caller: Caller<Read>,
    Origin(origin): Origin,
    Params(which): Params<Which>,
) -> Result<Json<AgentCard>, Problem> {
    let mut db = caller.begin(&state).await?;
    let external = match &which.agent {
        None => agents::list_visible(&mut *db, caller.workspace_id, &[agents::EXTERNAL], None, MAX_SKILLS).await?,
        Some(name) => agents::find_by_name(&mut *db, caller.workspace_id, name)
            .await?
            .into_iter()
            .filter(|agent| agent.visibility == agents::EXTERNAL)
            .collect(),
    };
    let (name, description, query, path) = match (&which.agent, external.as_slice()) {
        (None, _) => (
            "Rejoin".to_owned(),
            "Agents whose answers survive reconnects and worker crashes".to_owned(),
            String::new(),
            a2a::PATH.to_owned(),
        ),
        (Some(_), [agent]) => {
            let mut query = url::form_urlencoded::Serializer::new(String::new());
            query.append_pair("agent", &agent.name);
            (
                agent.name.clone(),
                agent.description.clone(),
                format!("?{}", query.finish()),
                a2a::path_of_agent(&agent.name),
            )
        }
        (Some(_), _) => return Err(Problem::not_found("agent_not_found", "The agent")),
    };
    Ok(Json(AgentCard {
        name,
        description,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        supported_interfaces: interfaces(&origin, &query, &path),
        capabilities: Capabilities {
            streaming: true,
            push_notifications: false,
        },
        security_schemes: json!({"key": {"httpAuthSecurityScheme": {
            "scheme": "Bearer", "description": "An API key of the project, or a token of its identity provider",
        }}}),
        security_requirements: json!([{"schemes": {"key": {"list": []}}}]),
        default_input_modes: INPUT_MODES.map(str::to_owned).to_vec(),
        default_output_modes: OUTPUT_MODES.map(str::to_owned).to_vec(),
        skills: external.into_iter().map(skill).collect(),
    }))
}

/// MCP, then the bindings of the protocol: a client takes the first one that it speaks.
fn interfaces(origin: &str, query: &str, path: &str) -> Vec<AgentInterface> {
    let mcp = AgentInterface {
        url: format!("{origin}{}{query}", mcp::PATH),
        protocol_binding: BINDING.to_owned(),
        protocol_version: BINDING_VERSION.to_owned(),
    };
    let own = OWN_BINDINGS.map(|binding| AgentInterface {
        url: format!("{origin}{path}"),
        protocol_binding: binding.to_owned(),
        protocol_version: VERSION.to_owned(),
    });
    [mcp].into_iter().chain(own).collect()
}

fn skill(agent: AgentDefinition) -> Skill {
    Skill {
        id: agent.id.to_string(),
        name: agent.name,
        description: agent.description,
        tags: vec![agent.flow_type],
    }
}
