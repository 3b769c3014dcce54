//! `POST /api/projects/{p}/agents/{definition}/trigger`: a run without a conversation.

use axum::Json;
use axum::extract::State;
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, HeaderName, StatusCode};
use rejoin_commands::TriggerRun;
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Write};
use rejoin_http::extract::{Body, Segments};
use rejoin_http::idempotency;
use rejoin_http::problem::{BodyRefused, Problem, Refused};
use rejoin_http::request_span::RequestSpan;
use rejoin_runs::agents::{self, AgentDefinition};
use rejoin_types::text::storable_json;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::posting::check_output_schema;
use crate::state::{ChatState, Routes};

pub fn routes() -> Routes {
    Routes::new().routes(routes!(trigger))
}

#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TriggerRequest {
    /// The agent's input: text, or any JSON, which it gets as text
    pub input: Value,
    /// JSON Schema of an object: the answer is JSON that matches it, in an `output` event
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub output_schema: Option<Value>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Triggered {
    pub run_id: Uuid,
    /// Sequence number after which to start reading to get all events
    pub cursor: i64,
}

/// Run an agent outside of any conversation
#[utoipa::path(post, path = "/api/projects/{p}/agents/{definition}/trigger", tag = "runs", request_body = TriggerRequest,
    params(("p" = Uuid, Path, description = "The project"),
        ("definition" = String, Path, description = "An agent definition's id or name"),
        ("Idempotency-Key" = Option<String>, Header, description = "The same key, agent and body return the same run")),
    responses((status = 202, description = "Accepted", body = Triggered),
        (status = 422, description = "The idempotency key was already used with another body", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused, BodyRefused))]
async fn trigger(
    State(state): State<ChatState>,
    caller: Caller<Write>,
    Segments((workspace_id, definition)): Segments<(Uuid, String)>,
    headers: HeaderMap,
    Body(request): Body<TriggerRequest>,
) -> Result<(StatusCode, [(HeaderName, String); 1], Json<Triggered>), Problem> {
    caller.in_workspace(workspace_id)?;
    // Includes the agent: the same key for two agents means two requests.
    let idempotency = idempotency::of(&headers, None, &json!({ "trigger": definition, "request": request }))?;
    let input = input_text(storable_json(request.input))?;
    if input.chars().count() > state.settings.max_message_chars {
        let detail = format!(
            "the input is longer than {} characters",
            state.settings.max_message_chars
        );
        return Err(Problem::bad_request("message_too_long", detail));
    }
    check_output_schema(request.output_schema.as_ref())?;
    let definition = find(&state, &caller, workspace_id, &definition).await?;
    let command = TriggerRun {
        definition: &definition,
        user_id: Some(caller.user_id),
        input,
        idempotency,
        exhausted: state.quotas.exhausted(&state.db.pool_sqlx, &caller).await?,
        part: None,
        output_schema: request.output_schema,
        traceparent: None,
    };
    let run_id = start(&state, &caller, command).await?;
    let location = format!("/api/runs/{run_id}/events");
    Ok((
        StatusCode::ACCEPTED,
        [(LOCATION, location)],
        Json(Triggered { run_id, cursor: 0 }),
    ))
}

/// Stores the run and its job; then wakes the workers. The run continues the trace of the request.
pub async fn start(state: &ChatState, caller: &Caller, mut command: TriggerRun<'_>) -> Result<Uuid, Problem> {
    let span = RequestSpan::open(state, caller);
    command.traceparent = span.traceparent();
    match rejoin_commands::execute_for(&state.db.pool_sqlx, caller.rls_scope(), &command).await {
        Ok((run_id, wake)) => {
            state.bus.publish(wake);
            span.stored(run_id);
            Ok(run_id)
        }
        Err(error) => {
            let problem = Problem::from(error);
            span.refused(&problem);
            Err(problem)
        }
    }
}

fn input_text(input: Value) -> Result<String, Problem> {
    match input {
        Value::String(text) if text.trim().is_empty() => {
            Err(Problem::bad_request("message_empty", "the input is empty"))
        }
        Value::String(text) => Ok(text),
        Value::Null => Err(Problem::bad_request("message_empty", "the input is empty")),
        other => Ok(other.to_string()),
    }
}

/// By id or, failing that, by name.
pub async fn find(
    state: &ChatState,
    caller: &Caller,
    workspace_id: Uuid,
    text: &str,
) -> Result<AgentDefinition, Problem> {
    let mut db = caller.begin(state).await?;
    if let Ok(id) = text.parse()
        && let Some(found) = agents::get(&mut db, workspace_id, id).await?
        && found.is_open()
    {
        return Ok(found);
    }
    agents::find_by_name(&mut *db, workspace_id, text)
        .await?
        .filter(AgentDefinition::is_open)
        .ok_or_else(|| Problem::not_found("agent_definition_not_found", "The agent definition"))
}
