//! `GET /v1/models`: the agents that the caller can choose, by name, and the default agent's model.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use rejoin_chat::{ChatState, Routes};
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Read};
use rejoin_http::extract::Segments;
use rejoin_http::problem::Problem;
use rejoin_runs::agents::{self, AgentDefinition};
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;

use super::{Errors, PARAM};

/// Maximum number of listed agents.
const AGENTS_MAX: i64 = 1_000;
/// Visibilities of agents that callers may choose.
const CHOOSABLE: [&str; 2] = [agents::EXTERNAL, agents::PROJECT];
/// The owner of agents, and of the model that another name stands for.
const OWNER: &str = "rejoin";

pub(super) fn routes() -> Routes {
    Routes::new().routes(routes!(list_models)).routes(routes!(get_model))
}

/// An agent, as a model
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = OpenAiModel)]
pub(super) struct ModelBody {
    /// The agent's name, or the default agent's model
    pub id: String,
    pub object: &'static str,
    pub created: i64,
    pub owned_by: &'static str,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = OpenAiModelList)]
pub(super) struct ModelList {
    pub object: &'static str,
    pub data: Vec<ModelBody>,
}

fn body(id: &str, agent: &AgentDefinition) -> ModelBody {
    ModelBody {
        id: id.to_owned(),
        object: "model",
        created: agent.created_at.timestamp(),
        owned_by: OWNER,
    }
}

async fn choosable(state: &ChatState, caller: &Caller) -> Result<Vec<AgentDefinition>, Problem> {
    let mut db = caller.begin(state).await?;
    Ok(agents::list_visible(&mut *db, caller.workspace_id, &CHOOSABLE, None, AGENTS_MAX).await?)
}

/// The name of an agent's model.
fn model_of(agent: &AgentDefinition) -> Option<&str> {
    agent.model.as_ref().map(|model| model.name.as_str())
}

/// Returns the agent that a request's `model` names: by its name, its id, or its model if it is the default agent.
pub(super) async fn agent(state: &ChatState, caller: &Caller, model: &str) -> Result<AgentDefinition, Problem> {
    let mut db = caller.begin(state).await?;
    let by_name = agents::find_by_name(&mut *db, caller.workspace_id, model).await?;
    let found = match (by_name, model.parse()) {
        (Some(agent), _) => Some(agent),
        (None, Ok(id)) => agents::get(&mut db, caller.workspace_id, id).await?,
        (None, Err(_)) => {
            let all = agents::list_visible(&mut *db, caller.workspace_id, &CHOOSABLE, None, AGENTS_MAX).await?;
            all.into_iter()
                .find(|agent| agent.is_default && model_of(agent) == Some(model))
        }
    };
    found.filter(AgentDefinition::is_open).ok_or_else(|| not_found(model))
}

fn not_found(model: &str) -> Problem {
    let detail = format!(
        "the model {model} does not exist: `model` must be the name or the id of an agent, or the default agent's model; GET /v1/models \
         lists them"
    );
    Problem::new(StatusCode::NOT_FOUND, "model_not_found", detail).with(PARAM, json!("model"))
}

/// List the agents that the caller can choose, as models of OpenAI's protocol
#[utoipa::path(get, path = "/v1/models", tag = "openai",
    responses((status = 200, description = "All of them", body = ModelList), Errors))]
async fn list_models(State(state): State<ChatState>, caller: Caller<Read>) -> Result<Json<ModelList>, Problem> {
    let agents = choosable(&state, &caller).await?;
    let default = agents.iter().find(|agent| agent.is_default);
    let model = default.and_then(|agent| Some(body(model_of(agent)?, agent)));
    let data = agents
        .iter()
        .map(|agent| body(&agent.name, agent))
        .chain(model)
        .collect();
    Ok(Json(ModelList { object: "list", data }))
}

/// Get an agent, as a model of OpenAI's protocol
#[utoipa::path(get, path = "/v1/models/{model}", tag = "openai",
    params(("model" = String, Path, description = "The agent's name or id, or the default agent's model")),
    responses((status = 200, description = "It", body = ModelBody), Errors))]
async fn get_model(
    State(state): State<ChatState>,
    caller: Caller<Read>,
    Segments(model): Segments<String>,
) -> Result<Json<ModelBody>, Problem> {
    let agent = agent(&state, &caller, &model).await?;
    Ok(Json(body(&model, &agent)))
}
