//! One run: its state, its events, its end. A run of a conversation is visible to its owner only, and one outside to
//! its maker; other members see the latter's existence in lists.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use chrono::{DateTime, Utc};
use rejoin_commands::CancelRun;
use rejoin_db::rls;
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Read, Write};
use rejoin_http::extract::{Params, Segments};
use rejoin_http::problem::{Problem, Refused};
use rejoin_http::visible;
use rejoin_runs::runs::{self, Listed, Run, RunHead};
use rejoin_sse::schema::StreamEvent;
use rejoin_sse::start::{StreamParams, StreamSource};
use rejoin_types::access::Scope;
use rejoin_types::owner::Owner;
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;
use uuid::Uuid;

use super::tickets::Follower;
use crate::state::{AppState, Routes};

/// Maximum length of the beginning of an input in lists, in characters.
const INPUT_PREVIEW_CHARS: usize = 200;

pub fn routes() -> Routes {
    Routes::new()
        .routes(routes!(get))
        .routes(routes!(cancel))
        .routes(routes!(events))
}

/// A run as lists show it.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunBody {
    pub id: Uuid,
    /// `queued`, `running`, `waiting`, `paused`, `completed`, `failed` or `cancelled`
    pub state: String,
    /// The same as `state`
    pub status: String,
    pub conversation_id: Option<Uuid>,
    pub agent_definition_id: Option<Uuid>,
    /// The agent's name at that time
    pub agent: Option<String>,
    /// The version of the agent
    pub agent_version: Option<i32>,
    pub parent_run_id: Option<Uuid>,
    pub root_run_id: Uuid,
    pub depth: i32,
    pub model: Option<String>,
    /// The beginning of its input, at most 200 characters
    pub input_preview: Option<String>,
    pub step_count: i32,
    /// Number of steps, over all resumes
    pub total_steps: i32,
    pub attempt: i32,
    /// Duration from start to end; null while it is active
    pub duration_ms: Option<i64>,
    pub error: Option<String>,
    pub error_code: Option<String>,
    /// Tokens and cost
    pub usage: Value,
    pub created_at: DateTime<Utc>,
    pub started_at: Option<DateTime<Utc>>,
    pub finished_at: Option<DateTime<Utc>>,
    pub cancel_requested_at: Option<DateTime<Utc>>,
    /// A run of another member: only ids, agent, state and times are returned, the rest is empty
    pub restricted: bool,
}

/// A run in detail.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunDetail {
    #[serde(flatten)]
    pub run: RunBody,
    /// The run's input
    pub input: String,
    /// The run's output
    pub summary: Option<String>,
    /// The JSON Schema that its answer must match
    #[schema(value_type = Option<Object>)]
    pub output_schema: Option<Value>,
    /// The answer as data, if a schema was given
    #[schema(value_type = Option<Object>)]
    pub output: Option<Value>,
    /// The user's message that it answers
    pub message_id: Option<Uuid>,
    /// The assistant's message at its end
    pub final_message_id: Option<Uuid>,
    /// The runs that it started
    pub children: Vec<Uuid>,
    /// Sequence number after which to start reading to get all its events
    pub cursor: i64,
    /// Sequence number of its `done`
    pub done_seq: Option<i64>,
    /// The run that it was forked from
    pub forked_from: Option<ForkedFrom>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ForkedFrom {
    pub run_id: Uuid,
    /// The last copied step
    pub step: i32,
}

impl From<Run> for RunBody {
    fn from(run: Run) -> Self {
        Self {
            id: run.id,
            status: run.state.clone(),
            state: run.state,
            conversation_id: run.conversation_id,
            agent_definition_id: run.agent_definition_id,
            agent: run.agent_name,
            agent_version: run.agent_version,
            parent_run_id: run.parent_run_id,
            root_run_id: run.root_run_id,
            depth: run.depth,
            model: run.model,
            input_preview: Some(run.input.chars().take(INPUT_PREVIEW_CHARS).collect()),
            step_count: run.step_count,
            total_steps: run.total_steps,
            attempt: run.attempt,
            duration_ms: run
                .started_at
                .zip(run.finished_at)
                .map(|(start, end)| (end - start).num_milliseconds()),
            error: run.error,
            error_code: run.error_code,
            usage: run.usage,
            created_at: run.created_at,
            started_at: run.started_at,
            finished_at: run.finished_at,
            cancel_requested_at: run.cancel_requested_at,
            restricted: false,
        }
    }
}

impl From<RunHead> for RunBody {
    fn from(head: RunHead) -> Self {
        Self {
            id: head.id,
            status: head.state.clone(),
            state: head.state,
            conversation_id: None,
            agent_definition_id: head.agent_definition_id,
            agent: head.agent_name,
            agent_version: None,
            parent_run_id: head.parent_run_id,
            root_run_id: head.root_run_id,
            depth: head.depth,
            model: None,
            input_preview: None,
            step_count: 0,
            total_steps: 0,
            attempt: 0,
            duration_ms: head
                .started_at
                .zip(head.finished_at)
                .map(|(start, end)| (end - start).num_milliseconds()),
            error: None,
            error_code: None,
            usage: json!({}),
            created_at: head.created_at,
            started_at: head.started_at,
            finished_at: head.finished_at,
            cancel_requested_at: None,
            restricted: true,
        }
    }
}

impl From<Listed> for RunBody {
    fn from(listed: Listed) -> Self {
        match listed {
            Listed::Whole(run) => (*run).into(),
            Listed::Head(head) => head.into(),
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Cancelled {
    pub run_id: Uuid,
    /// Its current state: `running` until its worker has stopped it
    pub state: String,
    /// The same as `state`
    pub status: String,
}

/// Returns all details of a run.
pub async fn detail(state: &AppState, caller: &Caller, run: Run) -> Result<RunDetail, Problem> {
    let children = runs::children(&mut *caller.begin(state).await?, run.id).await?;
    Ok(describe(run, children))
}

pub fn describe(run: Run, children: Vec<Uuid>) -> RunDetail {
    RunDetail {
        input: run.input.clone(),
        summary: run.summary.clone(),
        output: run
            .output_schema
            .as_ref()
            .filter(|_| run.state() == runs::RunState::Completed)
            .and(run.summary.as_deref())
            .and_then(|json| serde_json::from_str(json).ok()),
        output_schema: run.output_schema.clone(),
        message_id: run.message_id,
        final_message_id: run.final_message_id,
        children,
        cursor: run.first_seq,
        done_seq: run.done_seq,
        forked_from: run
            .forked_from_run_id
            .zip(run.forked_from_step)
            .map(|(run_id, step)| ForkedFrom { run_id, step }),
        run: run.into(),
    }
}

/// Get a run
#[utoipa::path(get, path = "/api/runs/{id}", tag = "runs", params(("id" = Uuid, Path, description = "The run")),
    responses((status = 200, description = "It", body = RunDetail), Refused))]
async fn get(
    State(state): State<AppState>,
    caller: Caller<Read>,
    Segments(id): Segments<Uuid>,
) -> Result<Json<RunDetail>, Problem> {
    let run = visible::run(&state, &caller, id).await?;
    Ok(Json(detail(&state, &caller, run).await?))
}

/// Cancel a run. Idempotent: a run that has ended is unchanged
///
/// Allowed for everyone who may see the run and, with the scope `admin`, for other members' runs outside of
/// conversations.
#[utoipa::path(post, path = "/api/runs/{id}/cancel", tag = "runs", params(("id" = Uuid, Path, description = "The run")),
    responses((status = 202, description = "It has stopped, or will stop at its next step", body = Cancelled), Refused))]
async fn cancel(
    State(state): State<AppState>,
    caller: Caller<Write>,
    Segments(id): Segments<Uuid>,
) -> Result<(StatusCode, Json<Cancelled>), Problem> {
    let scope = may_cancel(&state, &caller, id).await?;
    let wake = rejoin_commands::execute_for(&state.db.pool_sqlx, scope, &CancelRun { run_id: id }).await?;
    state.bus.publish(wake);
    let run = runs::get(&mut *rls::begin(&state.db.pool_sqlx, scope).await?, id)
        .await?
        .ok_or_else(visible::run_not_found)?;
    let cancelled = Cancelled {
        run_id: id,
        status: run.state.clone(),
        state: run.state,
    };
    Ok((StatusCode::ACCEPTED, Json(cancelled)))
}

/// Returns the scope for stopping a run: the caller's own; for another member's run, that member's.
async fn may_cancel(state: &AppState, caller: &Caller, id: Uuid) -> Result<rls::Scope, Problem> {
    let mut db = caller.begin(state).await?;
    if runs::get_visible(&mut *db, caller.owner(), id).await?.is_some() {
        return Ok(caller.rls_scope());
    }
    let maker = if caller.may(Scope::Admin) {
        runs::maker_of(&mut db, caller.workspace_id, id).await?
    } else {
        None
    };
    let user_id = maker.ok_or_else(visible::run_not_found)?;
    Ok(rls::Scope::User(Owner {
        user_id,
        ..caller.owner()
    }))
}

/// Stream the events of one run and its sub-agents, until its `done`
#[utoipa::path(get, path = "/api/runs/{id}/events", tag = "runs",
    params(StreamParams, ("id" = Uuid, Path, description = "The run"),
        ("Last-Event-ID" = Option<String>, Header, description = "The number of the last event that the reader \
            received")),
    responses(
        (status = 200, description = "Events", body = StreamEvent, content_type = "text/event-stream"),
        (status = 204, description = "The cursor is at the end of the finished run"),
        (status = 410, description = "The events after the cursor are no longer stored", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused))]
async fn events(
    State(state): State<AppState>,
    follower: Follower,
    Segments(id): Segments<Uuid>,
    Params(params): Params<StreamParams>,
) -> Result<Response, Problem> {
    follower.follow(&state, id, StreamSource::Run(id), &params).await
}
