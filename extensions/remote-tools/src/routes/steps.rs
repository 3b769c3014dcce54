//! Steps of durable functions that the program executes: recorded, and read again by the next attempt.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use rejoin_db::failure_log::ErrorChain;
use rejoin_faults::Fault;
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Worker};
use rejoin_http::extract::{Body, Params, Segments};
use rejoin_http::problem::{BodyRefused, Problem, Refused};
use rejoin_runs::remote_calls::RemoteStatus;
use rejoin_runs::remote_steps::{self, MAX_STEPS, RemoteStep, STEP_MAX_BYTES, StepStatus};
use rejoin_types::text::{storable, storable_json};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tracing::debug;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::results::{CallState, ERROR_MAX_CHARS, call_not_found, held, stale};
use super::{RemoteToolsState, Routes, is_bound, may_serve};
use crate::calls;
use crate::steps::{self, Attempted, FunctionStep, Recorded};
use crate::texts;

/// Maximum length of a step's name, and of a signal's, in characters.
pub const NAME_MAX_CHARS: usize = 200;
/// Number of steps of a page.
const PAGE: i64 = 100;

pub fn routes() -> Routes {
    Routes::new().routes(routes!(record_step)).routes(routes!(list_steps))
}

/// How far a step is that the program executes
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FunctionStatus {
    /// It begins. If the worker is lost now, the next attempt finds it as `begun`
    Begun,
    Completed,
    Error,
}

/// A step that the program executes
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StepBody {
    pub worker_id: Uuid,
    pub attempt: i32,
    /// Order in which the function asked for it: 1 to 1,000
    pub number: i32,
    /// 1 to 200 characters
    pub name: String,
    pub status: FunctionStatus,
    /// Of a completed step: any JSON, at most 256 KiB
    #[serde(default)]
    pub output: Option<Value>,
    /// Of a step that failed
    #[serde(default)]
    pub error: Option<String>,
}

/// A step that is to be recorded, as it is stored.
#[derive(Debug)]
pub(super) struct NewStep {
    number: i32,
    name: String,
    status: StepStatus,
    output: Option<Value>,
    error: Option<String>,
}

impl NewStep {
    /// Err: what is wrong with it.
    pub fn checked(
        (number, name): (i32, String),
        status: FunctionStatus,
        output: Option<Value>,
        error: Option<String>,
    ) -> Result<Self, Problem> {
        let name = checked_name(number, name)?;
        let error = error.map(|error| storable(error).chars().take(ERROR_MAX_CHARS).collect::<String>());
        let status = match (status, &error) {
            (FunctionStatus::Begun, None) => StepStatus::Begun,
            (FunctionStatus::Completed, None) => StepStatus::Completed,
            (FunctionStatus::Error, Some(_)) => StepStatus::Error,
            (FunctionStatus::Begun | FunctionStatus::Completed, Some(_)) | (FunctionStatus::Error, None) => {
                let detail = "a step with the status error has an error, and no other step has one";
                return Err(Problem::bad_request("invalid_step", detail));
            }
        };
        let output = (status == StepStatus::Completed).then(|| output.map(storable_json).unwrap_or_default());
        if let Some(output) = &output {
            checked_size("output", output)?;
        }
        Ok(Self {
            number,
            name,
            status,
            output,
            error,
        })
    }

    pub fn to_record(&self) -> FunctionStep<'_> {
        FunctionStep {
            number: self.number,
            name: &self.name,
            status: self.status,
            output: self.output.as_ref(),
            error: self.error.as_deref(),
        }
    }
}

/// Record a step
///
/// What the program has done, or is about to do. From the first step on, the call is handed out again after a lost worker, and its function gets
/// the recorded outputs. Repeating the request has the same response.
#[utoipa::path(post, path = "/api/workers/{queue}/calls/{id}/steps", tag = "remote workers", request_body = StepBody,
    params(("queue" = String, Path, description = "Name of a group of workers"), ("id" = Uuid, Path, description = "The call")),
    responses((status = 200, description = "The state of the call", body = CallState),
        (status = 409, description = "This attempt does not have the call, or another step has the number", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        (status = 413, description = "The output is too large", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused, BodyRefused))]
async fn record_step(
    State(state): State<RemoteToolsState>,
    caller: Caller<Worker>,
    Segments((_queue, id)): Segments<(String, Uuid)>,
    Body(body): Body<StepBody>,
) -> Result<Json<CallState>, Problem> {
    let attempt = (body.worker_id, body.attempt);
    let step = NewStep::checked((body.number, body.name), body.status, body.output, body.error)?;
    if !rejoin_faults::enabled(Fault::StaleResultAccepted) && !is_bound(&caller) {
        match steps::record_of_worker(&state.db, caller.rls_scope(), id, attempt, &step.to_record()).await {
            Ok(None) => return Err(call_not_found()),
            Ok(Some(Attempted::Done(recorded))) => return outcome(recorded, id, body.attempt),
            Ok(Some(Attempted::Unchecked)) => {}
            Err(error) => debug!(error = %ErrorChain(&error), "recording a step failed; it is tried again"),
        }
    }
    record_checked(&state, &caller, id, attempt, &step).await
}

/// Records a step of which text may have to be kept or discarded.
pub(super) async fn record_checked(
    state: &RemoteToolsState,
    caller: &Caller,
    id: Uuid,
    (worker_id, attempt): (Uuid, i32),
    step: &NewStep,
) -> Result<Json<CallState>, Problem> {
    let record = held(state, caller, id, worker_id, attempt).await?;
    let mut tx = caller.begin(state).await?;
    if record.is_writing && step.status != StepStatus::Begun {
        let is_completed = step.status == StepStatus::Completed;
        texts::settle(&mut tx, id, attempt, Some(step.number), is_completed).await?;
    }
    let recorded = steps::record(&mut tx, id, attempt, &step.to_record()).await?;
    let response = outcome(recorded, id, attempt)?;
    tx.commit().await?;
    Ok(response)
}

pub(super) fn outcome(recorded: Recorded, id: Uuid, attempt: i32) -> Result<Json<CallState>, Problem> {
    let is_overlooked = recorded == Recorded::Changed && rejoin_faults::enabled(Fault::StepsForgotten);
    if recorded == Recorded::Recorded || is_overlooked {
        Ok(CallState::of(RemoteStatus::Running))
    } else {
        Err(refused(recorded, id, attempt))
    }
}

/// A page of steps
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StepPageParams {
    /// The number of the last step that is known
    #[serde(default)]
    pub after: i32,
}

/// A recorded step
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepItem {
    pub number: i32,
    pub name: String,
    /// `function`, `sleep`, `event`, `question`, `agent` or `model`
    pub kind: String,
    /// `begun`, `completed` or `error`
    pub status: String,
    pub output: Option<Value>,
    pub error: Option<String>,
}

impl From<RemoteStep> for StepItem {
    fn from(step: RemoteStep) -> Self {
        Self {
            number: step.number,
            kind: step.wire_kind().to_owned(),
            name: step.name,
            status: step.status,
            output: step.output,
            error: step.error,
        }
    }
}

/// Steps of a call, in order
#[derive(Debug, Serialize, ToSchema)]
pub struct StepPage {
    pub items: Vec<StepItem>,
}

/// List the steps of a call
///
/// 100 at a time, after the number `after`. A function that begins again reads them first.
#[utoipa::path(get, path = "/api/workers/{queue}/calls/{id}/steps", tag = "remote workers",
    params(("queue" = String, Path, description = "Name of a group of workers"), ("id" = Uuid, Path, description = "The call"), StepPageParams),
    responses((status = 200, description = "The steps", body = StepPage), Refused))]
async fn list_steps(
    State(state): State<RemoteToolsState>,
    caller: Caller<Worker>,
    Segments((_queue, id)): Segments<(String, Uuid)>,
    Params(page): Params<StepPageParams>,
) -> Result<Json<StepPage>, Problem> {
    if rejoin_faults::enabled(Fault::StepsForgotten) {
        return Ok(Json(StepPage { items: Vec::new() }));
    }
    if is_bound(&caller)
        && let Some(record) = calls::get(&mut *caller.begin(&state).await?, id).await?
    {
        may_serve(&caller, &record.group, Some(&record.tool))?;
    }
    let found = remote_steps::list(&mut *caller.begin(&state).await?, id, page.after, PAGE).await?;
    Ok(Json(StepPage {
        items: found.into_iter().map(StepItem::from).collect(),
    }))
}

pub(super) fn checked_name(number: i32, name: String) -> Result<String, Problem> {
    let chars = name.chars().count();
    if !(1..=MAX_STEPS).contains(&number) || !(1..=NAME_MAX_CHARS).contains(&chars) {
        let detail = format!(
            "a step has a number of 1 to {MAX_STEPS} and a name of 1 to {NAME_MAX_CHARS} characters; split a longer function up"
        );
        return Err(Problem::bad_request("invalid_step", detail));
    }
    Ok(storable(name))
}

pub(super) fn checked_size(what: &str, value: &Value) -> Result<(), Problem> {
    let bytes = value.to_string().len();
    if bytes > STEP_MAX_BYTES {
        let detail = format!("the {what} of a step has {bytes} bytes of JSON; the maximum is {STEP_MAX_BYTES}");
        return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "step_too_large", detail));
    }
    Ok(())
}

pub(super) fn refused(why: Recorded, id: Uuid, attempt: i32) -> Problem {
    match why {
        Recorded::Changed => Problem::conflict(
            "step_changed",
            format!(
                "the call {id} has another step with this number: its function has asked for other steps than in an earlier attempt"
            ),
        ),
        Recorded::Outside => Problem::conflict(
            "no_run",
            format!(
                "the call {id} was made outside of a run: it can't wait for signals, ask a user, start agents or call models"
            ),
        ),
        Recorded::Recorded | Recorded::Stale => stale(id, attempt),
    }
}
