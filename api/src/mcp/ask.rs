//! `ask_agent`: a message to an agent, stored with its run and job and answered by a worker, like any other message.
//! The client receives its progress from the log, and may cancel it. Called by the server in `mcp`.
//!
//! A question of the run is put to the client's user (`elicitation`) or, if that is not possible, returned as the result: the next call for
//! the same conversation answers it.
//!
//! - `follow` follows a turn to its end
//! - `read_on` answers a request whose response was cut off
//!
//! Invariants: a repeated request of the same session is one run, on any process; the run continues when the client
//! disconnects.

mod follow;
mod read_on;

use std::collections::BTreeMap;
use std::time::Duration;

use rejoin_chat::posting;
use rejoin_commands::{CancelRun, OnBusy, PostMessage};
use rejoin_db::rls;
use rejoin_http::problem::Problem;
use rejoin_http::{idempotency, visible};
use rejoin_runs::agents;
use rejoin_runs::runs::Run;
use rejoin_tools::arguments::{self, Kind, Parameter};
use rejoin_tools::{Schema, ToolSpec};
use rmcp::ErrorData;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ElicitResult, ProtocolVersion, RequestId, Tool,
    ToolAnnotations,
};
use serde_json::Value;
use tracing::warn;
use uuid::Uuid;

use self::follow::Follow;
pub use self::read_on::read_on;
use super::elicitation::{self, Way};
use super::tools::{failed, schema};
use super::{Asked, Context, refused};

pub const NAME: &str = "ask_agent";
/// Maximum number of agents named in its description.
const NAMED_AGENTS: i64 = 50;

/// Number of lookups for the request to be cancelled, which may not be stored yet, and their interval.
const CANCEL_LOOKS: u32 = 20;
const CANCEL_PAUSE: Duration = Duration::from_millis(100);

const PARAMETERS: &[Parameter] = &[
    Parameter::new("message", Kind::Text, "The question, in natural language."),
    Parameter::new(
        "agent",
        Kind::OptionalText,
        "The agent's name; null: a plain conversation with one graph search.",
    ),
    Parameter::new(
        "conversation_id",
        Kind::OptionalText,
        "Continue a conversation: its id from an earlier response. It keeps its agent.",
    ),
];

fn spec() -> ToolSpec {
    let parameters: Schema = arguments::schema(PARAMETERS);
    ToolSpec {
        name: NAME.to_owned(),
        description: "Asks an agent of the project and waits for its answer.".to_owned(),
        parameters,
        read_only: false,
        idempotent: false,
        destructive: false,
    }
}

/// Adds the available agents.
pub async fn described(asked: &Asked) -> Result<Tool, ErrorData> {
    let spec = spec();
    let failed = |error: sqlx::Error| refused(Problem::from(error));
    let mut db = rls::begin(&asked.state.db.pool_sqlx, asked.caller.rls_scope())
        .await
        .map_err(failed)?;
    let agents = agents::list(&mut *db, asked.caller.workspace_id, None, NAMED_AGENTS)
        .await
        .map_err(failed)?;
    let named: Vec<String> = agents
        .iter()
        .filter(|agent| agent.is_open())
        .map(|agent| format!("\n- {}: {}", agent.name, agent.description))
        .collect();
    let description = if named.is_empty() {
        spec.description.clone()
    } else {
        format!("{} The agents are:{}", spec.description, named.concat())
    };
    let mut tool = Tool::new(NAME, description, schema(spec.parameters.document()));
    tool.annotations = Some(ToolAnnotations::from_raw(
        None,
        Some(false),
        Some(false),
        Some(false),
        Some(true),
    ));
    Ok(tool)
}

/// Returns the idempotency key of a session's request.
fn key(session: &str, request: &RequestId) -> String {
    format!("mcp:{session}:{request}")
}

/// The part of a log that a call follows.
pub struct Turn {
    pub run_id: Uuid,
    log_id: Uuid,
    /// The number of the event after which it begins.
    cursor: i64,
}

impl Turn {
    /// A whole run.
    pub fn of(run: &Run) -> Self {
        Self {
            run_id: run.id,
            log_id: run.log_id,
            cursor: run.first_seq,
        }
    }
}

/// Stores the message of a call, or the answers that a repeated call brings. Err: the call's result.
pub async fn begin(
    asked: &Asked,
    session: Option<String>,
    request: CallToolRequestParams,
    id: &RequestId,
) -> Result<Turn, CallToolResult> {
    let given = Value::Object(request.arguments.unwrap_or_default());
    let given = arguments::admit(&spec(), &given).map_err(failed)?;
    let turn = match &request.request_state {
        None => post(asked, session, &given, id).await,
        Some(state) => resume(asked, state, &request.input_responses.unwrap_or_default()).await,
    };
    // Worded so that the caller can fix it.
    turn.map_err(|problem| failed(problem.detail))
}

/// Follows a turn until it has ended, or needs input that can be got in this way.
pub async fn follow(asked: &Asked, turn: Turn, context: &Context, way: Way) -> Result<CallToolResponse, ErrorData> {
    Follow::of(asked, turn, Some(context), way).until_done().await
}

/// Follows the turn of a call. Since 2026-07-28, a client cancels its call by closing the connection; an API that stops closes it, too.
pub async fn answered(asked: &Asked, turn: Turn, context: &Context) -> Result<CallToolResponse, ErrorData> {
    let run_id = turn.run_id;
    let response = follow(asked, turn, context, Way::of(context)).await;
    let is_cancel = context.ct.is_cancelled() && context.protocol_version() >= Some(ProtocolVersion::V_2026_07_28);
    if is_cancel && !asked.state.draining.is_cancelled() {
        cancel_run(asked, run_id).await;
    }
    response
}

/// Stores the answers that a repeated call brings, and returns the turn of its first call. `state` is the id of the run, by which the client
/// can reach no run that it could not reach otherwise.
async fn resume(asked: &Asked, state: &str, answers: &BTreeMap<String, Value>) -> Result<Turn, Problem> {
    let invalid = || Problem::bad_request("invalid_request_state", "requestState is not that of an earlier result");
    let run_id = state.parse::<Uuid>().map_err(|_| invalid())?;
    let run = visible::run(&asked.state, &asked.caller, run_id).await?;
    answer(asked, &run, answers).await?;
    Ok(Turn::of(&run))
}

/// Stores a client's answers to questions of a run, by the questions' ids.
pub async fn answer(asked: &Asked, run: &Run, answers: &BTreeMap<String, Value>) -> Result<(), Problem> {
    let invalid = |id: &str| {
        let detail = format!("the response {id} is not one to a question of run {}", run.id);
        Problem::bad_request("invalid_input_response", detail)
    };
    for (id, answer) in answers {
        let question_id = id.parse::<Uuid>().map_err(|_| invalid(id))?;
        let result: ElicitResult = serde_json::from_value(answer.clone()).map_err(|_| invalid(id))?;
        if !elicitation::answer(asked, question_id, &result).await? {
            let detail = format!(
                "the question was not answered; run {} waits, and the next message to conversation {} answers it",
                run.id, run.log_id
            );
            return Err(Problem::bad_request("question_not_answered", detail));
        }
    }
    Ok(())
}

async fn post(asked: &Asked, session: Option<String>, given: &Value, request: &RequestId) -> Result<Turn, Problem> {
    let (state, caller) = (&asked.state, &asked.caller);
    let message = given["message"].as_str().unwrap_or_default();
    posting::check_message(message, state.settings.max_message_chars)?;
    let conversation_id = match given["conversation_id"].as_str() {
        None => None,
        Some(text) => Some(
            text.parse::<Uuid>()
                .map_err(|_| Problem::bad_request("invalid_conversation_id", "conversation_id is not a valid id"))?,
        ),
    };
    let agent_definition_id = match (given["agent"].as_str(), conversation_id) {
        (Some(name), None) => {
            let mut db = rls::begin(&state.db.pool_sqlx, caller.rls_scope()).await?;
            let found = agents::find_by_name(&mut *db, caller.workspace_id, name).await?;
            let found = found.filter(agents::AgentDefinition::is_open);
            let found = found.ok_or_else(|| {
                Problem::bad_request("agent_definition_not_found", format!("there is no agent {name}"))
            })?;
            Some(found.id)
        }
        (_, _) => None,
    };
    let command = PostMessage {
        conversation_id,
        agent_definition_id,
        // A question that an earlier call returned is answered.
        on_busy: OnBusy::Answer,
        idempotency: session.map(|session| rejoin_commands::Idempotency {
            key: key(&session, request),
            body_hash: idempotency::body_hash(given),
        }),
        exhausted: state.quotas.exhausted(&state.db.pool_sqlx, caller).await?,
        ..PostMessage::new(caller.owner(), message)
    };
    let posted = posting::post(state, caller, command).await?;
    Ok(Turn {
        run_id: posted.run_id,
        log_id: posted.conversation_id,
        cursor: posted.cursor,
    })
}

fn question_id(event: &Value) -> Option<Uuid> {
    event["questionId"].as_str()?.parse().ok()
}

/// Cancels the run of this request.
pub async fn cancel(asked: &Asked, session: &str, request: &RequestId) {
    let (state, caller) = (&asked.state, &asked.caller);
    for _ in 0..CANCEL_LOOKS {
        let run = async {
            let mut db = rls::begin(&state.db.pool_sqlx, caller.rls_scope()).await?;
            rejoin_commands::run_of_key(&mut db, caller.owner(), &key(session, request)).await
        };
        match run.await {
            Ok(Some(run_id)) => return cancel_run(asked, run_id).await,
            Ok(None) => tokio::time::sleep(CANCEL_PAUSE).await,
            Err(error) => return warn!(%error, "cancelling a run for an MCP client failed"),
        }
    }
}

async fn cancel_run(asked: &Asked, run_id: Uuid) {
    let (state, caller) = (&asked.state, &asked.caller);
    match rejoin_commands::execute_for(&state.db.pool_sqlx, caller.rls_scope(), &CancelRun { run_id }).await {
        Ok(wake) => state.bus.publish(wake),
        Err(error) => warn!(%error, "cancelling a run for an MCP client failed"),
    }
}
