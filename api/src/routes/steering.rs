//! User input to started runs: a message to a running one, and resuming a paused one.

use axum::Json;
use axum::extract::State;
use axum::http::header::LOCATION;
use axum::http::{HeaderName, StatusCode};
use rejoin_chat::posting::check_message;
use rejoin_commands::{ResumeRun, SteerRun};
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Write};
use rejoin_http::extract::{Body, Segments};
use rejoin_http::problem::{BodyRefused, Problem, Refused};
use rejoin_http::visible;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::state::{AppState, Routes};

pub fn routes() -> Routes {
    Routes::new().routes(routes!(resume)).routes(routes!(steer))
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResumeRequest {
    /// An additional message to the run
    #[serde(default)]
    pub message: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResumedBody {
    pub run_id: Uuid,
    /// Sequence number after which to start reading to get the whole new turn
    pub cursor: i64,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SteerRequest {
    pub message: String,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SteeredBody {
    pub run_id: Uuid,
    pub message_id: Uuid,
    /// Sequence number of its `message` event
    pub seq: i64,
}

/// Resume a paused run
///
/// Starts a new turn of the same run, with its own `meta` and `done`: it keeps its messages and counters and gets new
/// limits of steps and time.
#[utoipa::path(post, path = "/api/runs/{id}/resume", tag = "runs", request_body = ResumeRequest,
    params(("id" = Uuid, Path, description = "The run")),
    responses((status = 202, description = "It continues", body = ResumedBody),
        (status = 409, description = "It is not paused, or has used up its steps", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused, BodyRefused))]
async fn resume(
    State(state): State<AppState>,
    caller: Caller<Write>,
    Segments(id): Segments<Uuid>,
    Body(request): Body<ResumeRequest>,
) -> Result<(StatusCode, [(HeaderName, String); 1], Json<ResumedBody>), Problem> {
    visible::run(&state, &caller, id).await?;
    if let Some(message) = &request.message {
        check_message(message, state.settings.max_message_chars)?;
    }
    if let Some(exhausted) = state.quotas.exhausted(&state.db.pool_sqlx, &caller).await? {
        return Err(rejoin_commands::PostError::Exhausted(exhausted).into());
    }
    let command = ResumeRun {
        run_id: id,
        message: request.message.as_deref(),
        user_id: Some(caller.user_id),
    };
    let resumed = rejoin_commands::execute_for(&state.db.pool_sqlx, caller.rls_scope(), &command).await?;
    state.bus.publish(resumed.wake);
    Ok((
        StatusCode::ACCEPTED,
        [(LOCATION, format!("/api/runs/{id}/events?after={}", resumed.cursor))],
        Json(ResumedBody {
            run_id: id,
            cursor: resumed.cursor,
        }),
    ))
}

/// Send a message to an active run
///
/// The run reads the message before its next step; a run that has just given its answer continues with another step.
#[utoipa::path(post, path = "/api/runs/{id}/messages", tag = "runs", request_body = SteerRequest,
    params(("id" = Uuid, Path, description = "The run")),
    responses((status = 202, description = "Stored", body = SteeredBody),
        (status = 409, description = "The run has ended", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused, BodyRefused))]
async fn steer(
    State(state): State<AppState>,
    caller: Caller<Write>,
    Segments(id): Segments<Uuid>,
    Body(request): Body<SteerRequest>,
) -> Result<(StatusCode, Json<SteeredBody>), Problem> {
    visible::run(&state, &caller, id).await?;
    check_message(&request.message, state.settings.max_message_chars)?;
    let command = SteerRun {
        run_id: id,
        message: &request.message,
        user_id: Some(caller.user_id),
    };
    let steered = rejoin_commands::execute_for(&state.db.pool_sqlx, caller.rls_scope(), &command).await?;
    state.bus.publish(steered.wake);
    Ok((
        StatusCode::ACCEPTED,
        Json(SteeredBody {
            run_id: id,
            message_id: steered.message_id,
            seq: steered.seq,
        }),
    ))
}
