//! The agent card, by which the A2A protocol (version 1.0) discovers agents: at `/api/a2a` by both of its bindings over HTTP, and at the MCP
//! server as tools. `/.well-known/agent-card.json` has the workspace's public agents; the extended card has all that the caller may choose.
//!
//! A client may keep the former for a while, and asks whether it has changed by its `ETag` (section 8.6 of the specification). There is no
//! `Last-Modified`: an agent that is no longer listed changes the card, but no time that is stored.

use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, VARY};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use rejoin_chat::trigger;
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Read};
use rejoin_http::extract::Params;
use rejoin_http::origin::Origin;
use rejoin_http::problem::{Problem, Refused};
use rejoin_http::versions;
use rejoin_runs::agents::{self, AgentDefinition};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};

use super::state::{A2aState, Routes};
use super::{Call, PATH, path_of_agent};
use crate::VERSION;

/// Maximum number of agents on one card.
const MAX_SKILLS: i64 = 200;
/// How long a client may use a card without asking for it again, in seconds. Its own caches only: the card is of the caller's project.
const CARD_MAX_AGE_S: u32 = 300;
/// The headers of a request that select the project.
const SELECTS_PROJECT: &str = "authorization, cookie, x-project-id";
/// The card's name for MCP, which is no binding of the protocol's own.
const BINDING: &str = "https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http";
const BINDING_VERSION: &str = "2025-11-25";
/// Visibilities of the agents on the extended card.
const CHOOSABLE: [&str; 2] = [agents::EXTERNAL, agents::PROJECT];
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

pub(super) fn routes() -> Routes {
    Routes::new().routes(routes!(card))
}

/// An agent card of the A2A protocol
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct AgentCard {
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
pub(super) struct AgentInterface {
    pub url: String,
    pub protocol_binding: String,
    pub protocol_version: String,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Capabilities {
    pub streaming: bool,
    pub push_notifications: bool,
    /// Whether there is an extended card, with all agents that the caller may choose
    pub extended_agent_card: bool,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Skill {
    pub id: String,
    pub name: String,
    pub description: String,
    pub tags: Vec<String>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Which {
    /// URL of this agent's own card
    pub agent: Option<String>,
}

/// List the project's public agents
///
/// Returns the agents with visibility `external` as an agent card of the A2A protocol. A client may keep it for the time in `Cache-Control`.
#[utoipa::path(get, path = "/.well-known/agent-card.json", tag = "agents",
    params(Which, ("If-None-Match" = Option<String>, Header, description = "The `ETag` of the card that the client has")),
    responses((status = 200, description = "The card", body = AgentCard),
        (status = 304, description = "The client has the card"), Refused))]
async fn card(
    State(state): State<A2aState>,
    caller: Caller<Read>,
    Origin(origin): Origin,
    Params(which): Params<Which>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let mut db = caller.begin(&state).await?;
    let listed = match &which.agent {
        None => {
            let external =
                agents::list_visible(&mut *db, caller.workspace_id, &[agents::EXTERNAL], None, MAX_SKILLS).await?;
            Listed::All(external)
        }
        Some(name) => {
            let found = agents::find_by_name(&mut *db, caller.workspace_id, name).await?;
            let external = found.filter(|agent| agent.visibility == agents::EXTERNAL);
            let not_found = || Problem::not_found("agent_not_found", "The agent");
            Listed::One(Box::new(external.ok_or_else(not_found)?))
        }
    };
    cacheable(&headers, &composed(state.mcp_path, &origin, listed))
}

/// The response with a card, or 304 if the client has it.
fn cacheable(headers: &HeaderMap, card: &AgentCard) -> Result<Response, Problem> {
    let content = serde_json::to_vec(card).map_err(|_| Problem::internal())?;
    let etag = versions::content_etag(&content);
    let is_known = versions::has_content(headers, &etag);
    let caching = [
        (ETAG, etag),
        (CACHE_CONTROL, format!("private, max-age={CARD_MAX_AGE_S}")),
        (VARY, SELECTS_PROJECT.to_owned()),
    ];
    Ok(if is_known {
        (StatusCode::NOT_MODIFIED, caching).into_response()
    } else {
        (caching, [(CONTENT_TYPE, "application/json")], content).into_response()
    })
}

/// Returns the extended card; at an agent's address, the card of this agent.
pub(super) async fn extended(state: &A2aState, caller: &Caller, call: &Call) -> Result<Value, Problem> {
    let listed = if let Some(name) = &call.agent {
        Listed::One(Box::new(trigger::find(state, caller, caller.workspace_id, name).await?))
    } else {
        let mut db = caller.begin(state).await?;
        Listed::All(agents::list_visible(&mut *db, caller.workspace_id, &CHOOSABLE, None, MAX_SKILLS).await?)
    };
    let card = composed(state.mcp_path, &call.origin, listed);
    serde_json::to_value(card).map_err(|_| Problem::internal())
}

/// The agents of a card.
enum Listed {
    All(Vec<AgentDefinition>),
    One(Box<AgentDefinition>),
}

fn composed(mcp_path: &str, origin: &str, listed: Listed) -> AgentCard {
    let (name, description, query, path, listed) = match listed {
        Listed::All(agents) => (
            "Rejoin".to_owned(),
            "Agents whose answers survive reconnects and worker crashes".to_owned(),
            String::new(),
            PATH.to_owned(),
            agents,
        ),
        Listed::One(agent) => {
            let mut query = url::form_urlencoded::Serializer::new(String::new());
            query.append_pair("agent", &agent.name);
            (
                agent.name.clone(),
                agent.description.clone(),
                format!("?{}", query.finish()),
                path_of_agent(&agent.name),
                vec![*agent],
            )
        }
    };
    AgentCard {
        name,
        description,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        supported_interfaces: interfaces(origin, &format!("{mcp_path}{query}"), &path),
        capabilities: Capabilities {
            streaming: true,
            push_notifications: true,
            extended_agent_card: true,
        },
        security_schemes: json!({"key": {"httpAuthSecurityScheme": {
            "scheme": "Bearer", "description": "An API key of the project, or a token of its identity provider",
        }}}),
        security_requirements: json!([{"schemes": {"key": {"list": []}}}]),
        default_input_modes: INPUT_MODES.map(str::to_owned).to_vec(),
        default_output_modes: OUTPUT_MODES.map(str::to_owned).to_vec(),
        skills: listed.into_iter().map(skill).collect(),
    }
}

/// MCP, then the bindings of the protocol: a client takes the first one that it speaks.
fn interfaces(origin: &str, mcp: &str, path: &str) -> Vec<AgentInterface> {
    let mcp = AgentInterface {
        url: format!("{origin}{mcp}"),
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
