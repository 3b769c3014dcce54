//! A call ends, or reports progress. Each request names the attempt that has the call; one that has lost it changes nothing.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use rejoin_commands::{EndRemoteCall, RemoteEnd};
use rejoin_db::failure_log::ErrorChain;
use rejoin_faults::Fault;
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Worker};
use rejoin_http::extract::{Body, Segments};
use rejoin_http::problem::{BodyRefused, Problem, Refused};
use rejoin_runs::remote_calls::{MAX_ATTEMPTS, RemoteStatus};
use rejoin_types::text::{storable, storable_json};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tracing::debug;
use utoipa::ToSchema;
use uuid::Uuid;

use super::{RemoteToolsState, Routes, is_bound, may_serve};
use crate::calls::{self, Completion, Record};
use crate::texts;

/// Maximum size of an output, in bytes of JSON: with the rest of its request, it is below the limit of request bodies.
const OUTPUT_MAX_BYTES: usize = 1_000_000;
/// Maximum size of a checkpoint, in bytes of JSON.
const CHECKPOINT_MAX_BYTES: usize = 256 * 1024;
/// Maximum length of an error and of a progress message, in characters: longer ones are cut.
pub(super) const ERROR_MAX_CHARS: usize = 20_000;
const MESSAGE_MAX_CHARS: usize = 1_000;

pub fn routes() -> Routes {
    Routes::new()
        .routes(routes!(complete))
        .routes(routes!(fail))
        .routes(routes!(progress))
}

/// The output of a call
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CompletionBody {
    pub worker_id: Uuid,
    pub attempt: i32,
    /// Any JSON, at most 1 MB
    pub output: Value,
}

/// Why a call failed
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FailureBody {
    pub worker_id: Uuid,
    pub attempt: i32,
    /// For the model
    pub error: String,
    /// Nothing has happened: the call is handed out again, at most 5 times
    #[serde(default)]
    pub retry: bool,
}

/// What is known about a call that has not ended
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProgressBody {
    pub worker_id: Uuid,
    pub attempt: i32,
    /// For people
    #[serde(default)]
    pub message: Option<String>,
    /// For the next attempt: any JSON, at most 256 KiB. With it, the call is handed out again after a lost worker
    #[serde(default)]
    pub checkpoint: Option<Value>,
}

/// The state of a call
#[derive(Debug, Serialize, ToSchema)]
pub struct CallState {
    /// `waiting`, `running`, `suspended`, `completed`, `error`, `outcome_unknown` or `cancelled`
    pub status: String,
}

impl CallState {
    pub(super) fn of(status: RemoteStatus) -> Json<Self> {
        Json(Self {
            status: status.as_str().to_owned(),
        })
    }
}

/// Complete a call
///
/// The run goes on with its output. Repeating the request has the same response.
#[utoipa::path(post, path = "/api/workers/{queue}/calls/{id}/completion", tag = "remote workers", request_body = CompletionBody,
    params(("queue" = String, Path, description = "Name of a group of workers"), ("id" = Uuid, Path, description = "The call")),
    responses((status = 200, description = "The state of the call", body = CallState),
        (status = 409, description = "This attempt does not have the call", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        (status = 413, description = "The output is too large; the call fails if nothing else is sent", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused, BodyRefused))]
async fn complete(
    State(state): State<RemoteToolsState>,
    caller: Caller<Worker>,
    Segments((_queue, id)): Segments<(String, Uuid)>,
    Body(body): Body<CompletionBody>,
) -> Result<Json<CallState>, Problem> {
    let output = checked_output(body.output)?;
    let attempt = (body.worker_id, body.attempt);
    if !rejoin_faults::enabled(Fault::StaleResultAccepted) && !is_bound(&caller) {
        match calls::complete(&state.db, caller.rls_scope(), id, attempt, &output).await {
            Ok(None) => return Err(call_not_found()),
            Ok(Some(Completion::Stale)) => return Err(stale(id, body.attempt)),
            Ok(Some(Completion::Ended(ended))) => {
                let ended = *ended;
                state.bus.publish(ended.wake);
                return Ok(Json(CallState { status: ended.status }));
            }
            Ok(Some(Completion::Unchecked)) => {}
            Err(error) => debug!(error = %ErrorChain(&error), "completing a call failed; it is tried again"),
        }
    }
    complete_checked(&state, &caller, id, attempt, output).await
}

/// Returns an output as it is stored. Err: it is too large.
pub(super) fn checked_output(output: Value) -> Result<Value, Problem> {
    let bytes = output.to_string().len();
    if bytes > OUTPUT_MAX_BYTES {
        let detail = format!("the output has {bytes} bytes of JSON; the maximum is {OUTPUT_MAX_BYTES}");
        return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "output_too_large", detail));
    }
    Ok(storable_json(output))
}

/// Completes a call whose output may have to match a schema, or may be the answer that its function has written.
pub(super) async fn complete_checked(
    state: &RemoteToolsState,
    caller: &Caller,
    id: Uuid,
    (worker_id, attempt): (Uuid, i32),
    mut output: Value,
) -> Result<Json<CallState>, Problem> {
    let record = held(state, caller, id, worker_id, attempt).await?;
    settle_text(state, caller, id, attempt, &record).await?;
    let faults = match record.output_schema {
        Some(schema) => mismatch(schema, output.clone()).await,
        None => None,
    };
    if record.answers.is_some() && output.is_string() {
        let written = texts::written(&mut *caller.begin(state).await?, id).await?;
        // Its readers have it.
        if output == written {
            output = Value::Null;
        }
    }
    match faults {
        None => end(state, caller, id, attempt, RemoteEnd::Completed(&output)).await,
        Some(why) => end(state, caller, id, attempt, RemoteEnd::Failed(&why)).await,
    }
}

/// Returns why an output does not match the tool's schema.
async fn mismatch(schema: Value, output: Value) -> Option<String> {
    let checked = tokio::task::spawn_blocking(move || match rejoin_schemas::compiled(&schema) {
        Ok(validator) => rejoin_schemas::faults(&validator, &output),
        Err(why) => vec![why],
    });
    let faults = checked
        .await
        .unwrap_or_else(|_| vec!["its schema is not usable".to_owned()]);
    (!faults.is_empty()).then(|| format!("the tool's output does not match its schema: {}", faults.join("; ")))
}

/// Fail a call
///
/// The model gets the error as the call's result. With `retry`, the call is handed out again instead.
#[utoipa::path(post, path = "/api/workers/{queue}/calls/{id}/failure", tag = "remote workers", request_body = FailureBody,
    params(("queue" = String, Path, description = "Name of a group of workers"), ("id" = Uuid, Path, description = "The call")),
    responses((status = 200, description = "The state of the call", body = CallState),
        (status = 409, description = "This attempt does not have the call", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused, BodyRefused))]
async fn fail(
    State(state): State<RemoteToolsState>,
    caller: Caller<Worker>,
    Segments((_queue, id)): Segments<(String, Uuid)>,
    Body(body): Body<FailureBody>,
) -> Result<Json<CallState>, Problem> {
    let record = held(&state, &caller, id, body.worker_id, body.attempt).await?;
    settle_text(&state, &caller, id, body.attempt, &record).await?;
    let error: String = storable(body.error).chars().take(ERROR_MAX_CHARS).collect();
    if body.retry && record.tries() < MAX_ATTEMPTS {
        let mut tx = caller.begin(&state).await?;
        if !calls::retry(&mut tx, id, body.attempt, &record, &error).await? {
            return Err(stale(id, body.attempt));
        }
        tx.commit().await?;
        return Ok(CallState::of(RemoteStatus::Waiting));
    }
    end(&state, &caller, id, body.attempt, RemoteEnd::Failed(&error)).await
}

/// Report progress of a call
#[utoipa::path(post, path = "/api/workers/{queue}/calls/{id}/progress", tag = "remote workers", request_body = ProgressBody,
    params(("queue" = String, Path, description = "Name of a group of workers"), ("id" = Uuid, Path, description = "The call")),
    responses((status = 200, description = "The state of the call", body = CallState),
        (status = 409, description = "This attempt does not have the call", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused, BodyRefused))]
async fn progress(
    State(state): State<RemoteToolsState>,
    caller: Caller<Worker>,
    Segments((_queue, id)): Segments<(String, Uuid)>,
    Body(body): Body<ProgressBody>,
) -> Result<Json<CallState>, Problem> {
    let bytes = body
        .checkpoint
        .as_ref()
        .map_or(0, |checkpoint| checkpoint.to_string().len());
    if bytes > CHECKPOINT_MAX_BYTES {
        let detail = format!("the checkpoint has {bytes} bytes of JSON; the maximum is {CHECKPOINT_MAX_BYTES}");
        return Err(Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "checkpoint_too_large",
            detail,
        ));
    }
    held(&state, &caller, id, body.worker_id, body.attempt).await?;
    let message = body
        .message
        .map(|message| storable(message).chars().take(MESSAGE_MAX_CHARS).collect::<String>());
    let checkpoint = body.checkpoint.map(storable_json);
    let mut tx = caller.begin(&state).await?;
    if !calls::progress(&mut tx, id, body.attempt, message.as_deref(), checkpoint.as_ref()).await? {
        return Err(stale(id, body.attempt));
    }
    tx.commit().await?;
    Ok(CallState::of(RemoteStatus::Running))
}

async fn end(
    state: &RemoteToolsState,
    caller: &Caller,
    id: Uuid,
    attempt: i32,
    end: RemoteEnd<'_>,
) -> Result<Json<CallState>, Problem> {
    let command = EndRemoteCall {
        id,
        attempt: Some(attempt),
        end,
    };
    let ended = rejoin_commands::execute_for(&state.db.pool_sqlx, caller.rls_scope(), &command).await?;
    let Some(ended) = ended else {
        return Err(stale(id, attempt));
    };
    state.bus.publish(ended.wake);
    Ok(Json(CallState { status: ended.status }))
}

/// Discards what a step has written that has not ended: its call ends, or is handed back.
pub(super) async fn settle_text(
    state: &RemoteToolsState,
    caller: &Caller,
    id: Uuid,
    attempt: i32,
    record: &Record,
) -> Result<(), Problem> {
    if record.is_writing {
        let mut tx = caller.begin(state).await?;
        texts::settle(&mut tx, id, attempt, None, false).await?;
        tx.commit().await?;
    }
    Ok(())
}

/// Returns the record of a call that this worker's attempt got. Whether it still has it is for the command to find out.
pub(super) async fn held(
    state: &RemoteToolsState,
    caller: &Caller,
    id: Uuid,
    worker_id: Uuid,
    attempt: i32,
) -> Result<Record, Problem> {
    let record = calls::get(&mut *caller.begin(state).await?, id).await?;
    let record = record.ok_or_else(call_not_found)?;
    may_serve(caller, &record.group, Some(&record.tool))?;
    let is_held = record.worker_id == Some(worker_id) && record.attempt == attempt;
    if is_held || rejoin_faults::enabled(Fault::StaleResultAccepted) {
        Ok(record)
    } else {
        Err(stale(id, attempt))
    }
}

pub(super) fn stale(id: Uuid, attempt: i32) -> Problem {
    Problem::conflict(
        "stale_attempt",
        format!(
            "attempt {attempt} does not have the call {id}: it has lost its lease, or the call has ended; drop the result"
        ),
    )
}

pub(super) fn call_not_found() -> Problem {
    Problem::not_found("call_not_found", "The call")
}
