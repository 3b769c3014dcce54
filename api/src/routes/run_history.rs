//! Whole runs: the tree of a run, everything in one document, and forks.

use std::collections::HashMap;

use axum::Json;
use axum::extract::State;
use axum::http::header::LOCATION;
use axum::http::{HeaderName, StatusCode};
use rejoin_chat::posting::{check_message, chosen_model};
use rejoin_chat::trigger::Triggered;
use rejoin_commands::ForkRun;
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Read, Write};
use rejoin_http::extract::{Body, Segments};
use rejoin_http::problem::{BodyRefused, Problem, Refused};
use rejoin_http::visible;
use rejoin_runs::runs::{self, Run};
use rejoin_runs::{questions, run_messages, tool_calls};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::history::{RunMessageDetail, ToolCallDetail};
use super::questions::QuestionBody;
use super::runs::{RunBody, RunDetail, describe};
use crate::state::{AppState, Routes};

/// Maximum number of runs in a tree or export.
const MAX_RUNS: usize = 1_000;

pub fn routes() -> Routes {
    Routes::new()
        .routes(routes!(tree))
        .routes(routes!(export))
        .routes(routes!(fork))
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunTree {
    /// Each run before the runs that it started; `parentRunId` and `depth` give its place in the tree
    pub items: Vec<RunBody>,
    /// Whether there are more than 1,000 runs: the deepest and newest are omitted
    pub truncated: bool,
}

/// A run with all its stored data.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunExport {
    pub run: RunDetail,
    /// As the model saw them
    pub messages: Vec<RunMessageDetail>,
    pub tool_calls: Vec<ToolCallDetail>,
    /// Its questions to people
    pub questions: Vec<QuestionBody>,
    /// The runs that it started, in the same format
    #[schema(no_recursion)]
    pub children: Vec<RunExport>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ForkRequest {
    /// Last step of the original run to keep; 0: none
    #[schema(minimum = 0)]
    pub step: u16,
    /// Message to add after that step; with step 0, it replaces the run's original message
    #[serde(default)]
    pub message: Option<String>,
    /// The agent that answers instead; with step 0, for a run of a conversation
    #[serde(default)]
    pub agent_definition_id: Option<Uuid>,
    /// The model that answers instead of the agent's: `provider:model`, or a well-known name
    #[serde(default)]
    #[schema(max_length = 200)]
    pub model: Option<String>,
}

/// Returns the run and its descendants, parents first; and whether there are more.
async fn tree_of(state: &AppState, caller: &Caller, workspace_id: Uuid, id: Uuid) -> Result<(Vec<Run>, bool), Problem> {
    caller.in_workspace(workspace_id)?;
    visible::run(state, caller, id).await?;
    let mut rows = runs::tree(&mut *caller.begin(state).await?, id, MAX_RUNS as i64 + 1).await?;
    let truncated = rows.len() > MAX_RUNS;
    rows.truncate(MAX_RUNS);
    let mut children: HashMap<Option<Uuid>, Vec<Run>> = HashMap::new();
    let mut open = Vec::new();
    for row in rows {
        if row.id == id {
            open.push(row);
        } else {
            children.entry(row.parent_run_id).or_default().push(row);
        }
    }
    let mut ordered = Vec::new();
    while let Some(run) = open.pop() {
        let below = children.remove(&Some(run.id)).unwrap_or_default();
        ordered.push(run);
        open.extend(below.into_iter().rev());
    }
    Ok((ordered, truncated))
}

/// Get a run and all runs that it started
#[utoipa::path(get, path = "/api/projects/{p}/agent-runs/{run}/tree", tag = "history",
    params(("p" = Uuid, Path, description = "The project"), ("run" = Uuid, Path, description = "The run")),
    responses((status = 200, description = "Them", body = RunTree), Refused))]
async fn tree(
    State(state): State<AppState>,
    caller: Caller<Read>,
    Segments((workspace_id, run)): Segments<(Uuid, Uuid)>,
) -> Result<Json<RunTree>, Problem> {
    let (rows, truncated) = tree_of(&state, &caller, workspace_id, run).await?;
    Ok(Json(RunTree {
        items: rows.into_iter().map(RunBody::from).collect(),
        truncated,
    }))
}

/// Export everything stored about a run and the runs that it started, as one document
#[utoipa::path(get, path = "/api/projects/{p}/agent-runs/{run}/export", tag = "history",
    params(("p" = Uuid, Path, description = "The project"), ("run" = Uuid, Path, description = "The run")),
    responses((status = 200, description = "It", body = RunExport),
        (status = 409, description = "It has started more than 1,000 runs", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused))]
async fn export(
    State(state): State<AppState>,
    caller: Caller<Read>,
    Segments((workspace_id, id)): Segments<(Uuid, Uuid)>,
) -> Result<Json<RunExport>, Problem> {
    let (rows, truncated) = tree_of(&state, &caller, workspace_id, id).await?;
    if truncated {
        let detail = format!("the run has started more than {MAX_RUNS} other runs; export those individually");
        return Err(Problem::conflict("run_tree_too_large", detail));
    }
    // One transaction: an almost consistent snapshot.
    let mut db = caller.begin(&state).await?;
    let mut below: HashMap<Uuid, Vec<RunExport>> = HashMap::new();
    // Children follow their parents: in reverse order, each node's children are complete.
    for run in rows.into_iter().rev() {
        let messages = run_messages::all(&mut *db, run.id).await?;
        let calls = tool_calls::all(&mut *db, run.id).await?;
        let asked = questions::of_run(&mut *db, run.id).await?;
        let mut children = below.remove(&run.id).unwrap_or_default();
        children.reverse();
        let (run_id, parent) = (run.id, run.parent_run_id);
        let whole = RunExport {
            run: describe(run, children.iter().map(|child| child.run.run.id).collect()),
            messages: messages.into_iter().map(RunMessageDetail::from).collect(),
            tool_calls: calls.into_iter().map(ToolCallDetail::from).collect(),
            questions: asked.into_iter().map(QuestionBody::from).collect(),
            children,
        };
        match parent.filter(|_| run_id != id) {
            Some(parent) => below.entry(parent).or_default().push(whole),
            None => return Ok(Json(whole)),
        }
    }
    Err(visible::run_not_found())
}

/// Fork a run: start a new run from its state after a step
///
/// The new run has the same agent and the exact messages and tool results up to that step; the original run is
/// unchanged. The new run has its own log and belongs to the caller. The fork of a conversation's run is a branch of the
/// conversation: a new conversation with copies of the messages before, at most 200. With another agent, it begins like a
/// new message to that agent.
#[utoipa::path(post, path = "/api/runs/{id}/fork", tag = "runs", request_body = ForkRequest,
    params(("id" = Uuid, Path, description = "The run")),
    responses((status = 202, description = "Accepted", body = Triggered),
        (status = 409, description = "It has fewer steps, or cannot be continued from there", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused, BodyRefused))]
async fn fork(
    State(state): State<AppState>,
    caller: Caller<Write>,
    Segments(id): Segments<Uuid>,
    Body(request): Body<ForkRequest>,
) -> Result<(StatusCode, [(HeaderName, String); 1], Json<Triggered>), Problem> {
    visible::run(&state, &caller, id).await?;
    if let Some(message) = &request.message {
        check_message(message, state.settings.max_message_chars)?;
    }
    let model = chosen_model(&state.settings, request.model.as_deref())?;
    let command = ForkRun {
        run_id: id,
        step: i32::from(request.step),
        message: request.message.as_deref(),
        agent_definition_id: request.agent_definition_id,
        model: model.as_deref(),
        user_id: Some(caller.user_id),
        exhausted: state.quotas.exhausted(&state.db.pool_sqlx, &caller).await?,
    };
    let (run_id, wake) = rejoin_commands::execute_for(&state.db.pool_sqlx, caller.rls_scope(), &command).await?;
    state.bus.publish(wake);
    Ok((
        StatusCode::ACCEPTED,
        [(LOCATION, format!("/api/runs/{run_id}/events"))],
        Json(Triggered { run_id, cursor: 0 }),
    ))
}
