//! `POST /api/agentic-chat/agent-message`: proposes an agent's message to another agent. A run without tools and
//! without a conversation: nothing is sent, stored in a chat, or executed; the caller decides about the proposal.

use std::fmt::Write as _;

use axum::Json;
use axum::extract::State;
use axum::http::header::{ACCEPT, LOCATION};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use rejoin_chat::trigger::{self, Triggered};
use rejoin_commands::TriggerRun;
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Write};
use rejoin_http::extract::Body;
use rejoin_http::idempotency;
use rejoin_http::problem::{BodyRefused, Problem, Refused};
use rejoin_runs::runs::part::Part;
use rejoin_sse::dialects::Dialect;
use rejoin_sse::schema::StreamEvent;
use rejoin_sse::start::{self, Start, StreamParams, StreamSource};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

use crate::state::{AppState, Routes};

/// Maximum number of messages in a request.
const MESSAGES_MAX: usize = 50;

pub fn routes() -> Routes {
    Routes::new().routes(routes!(propose))
}

/// The messages so far, the sender and the recipient
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentMessageRequest {
    /// The sending agent: a definition's id or name
    #[serde(alias = "from_agent")]
    pub from_agent: String,
    /// The recipient, usually another agent's name
    #[serde(default, alias = "to_agent")]
    pub to_agent: Option<String>,
    /// The sender's goal
    #[serde(default)]
    pub goal: Option<String>,
    /// The messages so far, oldest first; at most 50
    #[serde(default)]
    #[schema(max_items = 50)]
    pub messages: Vec<SaidMessage>,
}

#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SaidMessage {
    /// Author of the message
    pub from: String,
    pub content: String,
}

/// Generate a proposal for an agent's next message to another agent
#[utoipa::path(post, path = "/api/agentic-chat/agent-message", tag = "agent stream", request_body = AgentMessageRequest,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same key and body return the same proposal")),
    responses(
        (status = 200, description = "The proposal as it is generated, until its `done`", body = StreamEvent, content_type = "text/event-stream"),
        (status = 202, description = "Accepted (with `Accept: application/json`)", body = Triggered),
        (status = 422, description = "The idempotency key was already used with another body", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused, BodyRefused))]
async fn propose(
    State(state): State<AppState>,
    caller: Caller<Write>,
    headers: HeaderMap,
    Body(request): Body<AgentMessageRequest>,
) -> Result<Response, Problem> {
    let idempotency = idempotency::of(&headers, None, &json!({ "agentMessage": request }))?;
    let input = input(&request)?;
    if input.chars().count() > state.settings.max_message_chars {
        let detail = format!(
            "the messages together are longer than {} characters",
            state.settings.max_message_chars
        );
        return Err(Problem::bad_request("message_too_long", detail));
    }
    let definition = trigger::find(&state, &caller, caller.workspace_id, &request.from_agent).await?;
    if definition.flow_type != "single" {
        let detail = format!(
            "{} is a workflow of other agents and does not speak itself; pass one of them",
            definition.name
        );
        return Err(Problem::bad_request("agent_is_a_flow", detail));
    }
    let wants_json = headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .any(|value| value.contains("application/json") && !value.contains("text/event-stream"));
    let permit = if wants_json {
        None
    } else {
        Some(start::admit(&state.streams, &caller)?)
    };
    let command = TriggerRun {
        definition: &definition,
        user_id: Some(caller.user_id),
        input,
        idempotency,
        output_schema: None,
        exhausted: state.quotas.exhausted(&state.db.pool_sqlx, &caller).await?,
        part: Some(Part::Suggestion),
        traceparent: None,
    };
    let run_id = trigger::start(&state, &caller, command).await?;
    let mut response = match permit {
        None => (StatusCode::ACCEPTED, Json(Triggered { run_id, cursor: 0 })).into_response(),
        Some(permit) => {
            let source = StreamSource::Run(run_id);
            let params = StreamParams::default();
            start::open(
                &state.streams,
                permit,
                caller.owner(),
                source,
                Start::Beginning,
                &params,
                Dialect::Native,
            )
            .await?
        }
    };
    let headers = response.headers_mut();
    for (name, value) in [
        ("x-run-id", run_id.to_string()),
        (LOCATION.as_str(), format!("/api/runs/{run_id}/events")),
    ] {
        headers.insert(name, HeaderValue::try_from(value).expect("an id is a header value"));
    }
    Ok(response)
}

/// Returns the agent's input.
fn input(request: &AgentMessageRequest) -> Result<String, Problem> {
    if request.messages.len() > MESSAGES_MAX {
        let detail = format!(
            "messages has {} items; the maximum is {MESSAGES_MAX}",
            request.messages.len()
        );
        return Err(Problem::bad_request("too_many_messages", detail));
    }
    let goal = request.goal.as_deref().map(str::trim).filter(|goal| !goal.is_empty());
    if request.messages.is_empty() && goal.is_none() {
        return Err(Problem::bad_request("message_empty", "goal or messages is required"));
    }
    let to = request.to_agent.as_deref().unwrap_or("the other party");
    let mut input = format!(
        "Write the next message that you would send to {to}. Output only its text. It will be shown as a proposal, \
        not sent.\n"
    );
    if let Some(goal) = goal {
        let _ = write!(input, "\nYour goal: {goal}\n");
    }
    for message in &request.messages {
        let _ = write!(input, "\n[{}]\n{}\n", message.from, message.content);
    }
    if input.contains('\0') {
        return Err(Problem::bad_request(
            "invalid_text",
            "a message contains a NUL character",
        ));
    }
    Ok(input)
}
