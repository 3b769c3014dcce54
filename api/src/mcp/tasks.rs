//! Runs as tasks (the protocol's extension `io.modelcontextprotocol/tasks`): a client that supports them gets the run of `ask_agent` at once, and asks
//! for its state whenever it likes, also from another session or after a restart. Called by the server in `mcp`.
//!
//! Invariants: a task's id is the id of its run, by which a client can reach no run that its caller could not reach otherwise; a client that
//! stops asking cancels nothing.

use std::time::Duration;

use chrono::SecondsFormat;
use rejoin_commands::CancelRun;
use rejoin_http::problem::Problem;
use rejoin_http::visible;
use rejoin_runs::questions;
use rejoin_runs::runs::Run;
use rmcp::ErrorData;
use rmcp::model::{
    CallToolResponse, CancelTaskParams, CreateTaskResult, DetailedTask, GetTaskParams, GetTaskResult, Task,
    TaskPayload, TaskStatus, UpdateTaskParams,
};
use serde_json::Value;
use tokio::time::timeout;
use uuid::Uuid;

use super::elicitation::Way;
use super::{Asked, Context, ask, refused};

/// How often a client should ask, in milliseconds.
const ASK_EVERY_MS: u64 = 1_000;
/// How long the state of a run that needs its log may take. Then it is working.
const STATE_LIMIT: Duration = Duration::from_secs(5);

/// Whether the client of this request supports tasks.
pub fn are_supported(context: &Context) -> bool {
    context
        .client_capabilities()
        .is_some_and(|client| client.supports_tasks())
}

/// The result of a call whose run has begun.
pub async fn created(asked: &Asked, run_id: Uuid) -> Result<CallToolResponse, ErrorData> {
    let run = visible::run(&asked.state, &asked.caller, run_id)
        .await
        .map_err(refused)?;
    Ok(CallToolResponse::Task(CreateTaskResult::new(task(&run))))
}

/// Returns the state of a task, with its result or the questions of its run.
pub async fn get(asked: &Asked, request: &GetTaskParams, context: &Context) -> Result<GetTaskResult, ErrorData> {
    let run = of(asked, &request.task_id).await?;
    let payload = payload(asked, &run, context).await?;
    Ok(GetTaskResult::new(DetailedTask::new(task(&run), payload)))
}

/// Stores the answers to questions of a task's run.
pub async fn update(asked: &Asked, request: &UpdateTaskParams) -> Result<(), ErrorData> {
    let run = of(asked, &request.task_id).await?;
    ask::answer(asked, &run, &request.input_responses)
        .await
        .map_err(refused)
}

/// Cancels the run of a task.
pub async fn cancel(asked: &Asked, request: &CancelTaskParams) -> Result<(), ErrorData> {
    let (state, caller) = (&asked.state, &asked.caller);
    let run = of(asked, &request.task_id).await?;
    let command = CancelRun { run_id: run.id };
    let wake = rejoin_commands::execute_for(&state.db.pool_sqlx, caller.rls_scope(), &command).await;
    state.bus.publish(wake.map_err(|error| refused(Problem::from(error)))?);
    Ok(())
}

async fn of(asked: &Asked, id: &str) -> Result<Run, ErrorData> {
    let unknown = || ErrorData::invalid_params(format!("there is no task {id}"), None);
    let id: Uuid = id.parse().map_err(|_| unknown())?;
    visible::run(&asked.state, &asked.caller, id).await.map_err(refused)
}

/// What is known of a task without its log.
fn task(run: &Run) -> Task {
    let time = |time: chrono::DateTime<chrono::Utc>| time.to_rfc3339_opts(SecondsFormat::Millis, true);
    let changed = run.finished_at.or(run.started_at).unwrap_or(run.created_at);
    let created = time(run.created_at);
    Task::new(run.id.to_string(), TaskStatus::Working, created, time(changed)).with_poll_interval_ms(ASK_EVERY_MS)
}

async fn payload(asked: &Asked, run: &Run, context: &Context) -> Result<TaskPayload, ErrorData> {
    let has_ended = run.state().has_ended();
    if !has_ended {
        let mut db = asked.caller.begin(&asked.state).await.map_err(refused)?;
        let open = questions::pending_of_run(&mut *db, run.id).await;
        if open.map_err(|error| refused(error.into()))?.is_empty() {
            return Ok(TaskPayload::Working);
        }
    }
    let following = ask::follow(asked, ask::Turn::of(run), context, Way::of_task(context));
    Ok(match timeout(STATE_LIMIT, following).await {
        Err(_) => TaskPayload::Working,
        Ok(response) => match response? {
            CallToolResponse::InputRequired(result) => TaskPayload::InputRequired {
                input_requests: result.input_requests.unwrap_or_default(),
            },
            CallToolResponse::Complete(result) if is_cancelled(&result.structured_content) => TaskPayload::Cancelled,
            CallToolResponse::Complete(result) => TaskPayload::Completed {
                result: serde_json::to_value(result)
                    .ok()
                    .and_then(|result| result.as_object().cloned())
                    .unwrap_or_default(),
            },
            _ => TaskPayload::Working,
        },
    })
}

fn is_cancelled(result: &Option<Value>) -> bool {
    result.as_ref().is_some_and(|result| result["status"] == "cancelled")
}
