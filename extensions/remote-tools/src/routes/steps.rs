//! Steps of durable functions: recorded, read again by the next attempt, and waited for.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use rejoin_event_log::wakeup::Wake;
use rejoin_faults::Fault;
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Worker};
use rejoin_http::extract::{Body, Params, Segments};
use rejoin_http::problem::{BodyRefused, Problem, Refused};
use rejoin_runs::remote_calls::RemoteStatus;
use rejoin_runs::remote_steps::{self, MAX_STEPS, RemoteStep, StepStatus};
use rejoin_types::text::{storable, storable_json};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::results::{CallState, ERROR_MAX_CHARS, held, stale};
use super::{RemoteToolsState, Routes};
use crate::steps::{self, FunctionStep, Recorded, WaitStep};

/// Maximum size of a step's output, and of what a step asks for, in bytes of JSON.
const STEP_MAX_BYTES: usize = 256 * 1024;
/// Maximum length of a step's name, and of a signal's, in characters.
pub const NAME_MAX_CHARS: usize = 200;
/// Maximum number of questions and agents that one suspension waits for.
const WAITS_MAX: usize = 100;
/// Maximum duration of a sleep and of a wait for a signal, in seconds: a year.
const WAIT_MAX_S: f64 = 365.0 * 86_400.0;
/// Number of steps of a page.
const PAGE: i64 = 100;

pub fn routes() -> Routes {
    Routes::new()
        .routes(routes!(record_step))
        .routes(routes!(list_steps))
        .routes(routes!(suspend))
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
    let name = checked_name(body.number, body.name)?;
    let output = body.output.map(storable_json);
    let error = body
        .error
        .map(|error| storable(error).chars().take(ERROR_MAX_CHARS).collect::<String>());
    let status = match (body.status, &error) {
        (FunctionStatus::Begun, _) => StepStatus::Begun,
        (FunctionStatus::Completed, None) => StepStatus::Completed,
        (FunctionStatus::Error, Some(_)) => StepStatus::Error,
        (FunctionStatus::Completed, Some(_)) | (FunctionStatus::Error, None) => {
            let detail = "a step with the status error has an error, and no other step has one";
            return Err(Problem::bad_request("invalid_step", detail));
        }
    };
    let is_completed = status == StepStatus::Completed;
    let output = is_completed.then(|| output.unwrap_or_default());
    if let Some(output) = &output {
        checked_size("output", output)?;
    }
    held(&state, &caller, id, body.worker_id, body.attempt).await?;
    let step = FunctionStep {
        number: body.number,
        name: &name,
        status,
        output: output.as_ref(),
        error: error.as_deref(),
    };
    let mut tx = caller.begin(&state).await?;
    let recorded = steps::record(&mut tx, id, body.attempt, &step).await?;
    let is_overlooked = recorded == Recorded::Changed && rejoin_faults::enabled(Fault::StepsForgotten);
    if recorded != Recorded::Recorded && !is_overlooked {
        return Err(refused(recorded, id, body.attempt));
    }
    tx.commit().await?;
    Ok(CallState::of(RemoteStatus::Running))
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
    /// `function`, `sleep`, `event`, `question` or `agent`
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
            name: step.name,
            kind: step.kind,
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
    let found = remote_steps::list(&mut *caller.begin(&state).await?, id, page.after, PAGE).await?;
    Ok(Json(StepPage {
        items: found.into_iter().map(StepItem::from).collect(),
    }))
}

/// What a call waits for
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SuspensionBody {
    pub worker_id: Uuid,
    pub attempt: i32,
    /// One sleep or event, or up to 100 questions and agents
    pub steps: Vec<WaitBody>,
}

/// A step that others execute
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WaitBody {
    /// Order in which the function asked for it: 1 to 1,000
    pub number: i32,
    /// 1 to 200 characters
    pub name: String,
    pub wait: Wait,
}

/// Who executes a step
#[derive(Debug, Deserialize, ToSchema)]
#[serde(
    tag = "kind",
    rename_all = "snake_case",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub enum Wait {
    /// The time
    Sleep {
        /// At most a year
        seconds: f64,
    },
    /// A program that sends a signal to the run
    Event {
        /// The name of the signal
        event: String,
        /// Without it, the call waits until the signal comes
        timeout_s: Option<f64>,
    },
    /// A user, who answers a question
    Question {
        question: String,
        /// Answers to choose from: `label`, `value` and, optionally, `description`
        #[serde(default)]
        options: Vec<Value>,
        /// `buttons`, `select`, `multi_select` or `text`
        interaction_type: Option<String>,
        placeholder: Option<String>,
        /// Of a text, in characters
        max_length: Option<i32>,
    },
    /// An agent, which executes a task
    Agent {
        /// Its name
        agent: String,
        task: String,
        /// Seconds after which it must sum up
        timeout_s: Option<i32>,
        /// JSON Schema of its answer
        output_schema: Option<Value>,
    },
}

impl Wait {
    fn into_step(self, number: i32, name: String) -> WaitStep {
        let (kind, request, seconds) = match self {
            Self::Sleep { seconds } => ("sleep", json!({}), Some(seconds)),
            Self::Event { event, timeout_s } => ("event", json!({ "event": event }), timeout_s),
            Self::Question {
                question,
                options,
                interaction_type,
                placeholder,
                max_length,
            } => (
                "question",
                json!({"question": question, "options": options, "interactionType": interaction_type, "placeholder": placeholder,
                       "maxLength": max_length}),
                None,
            ),
            Self::Agent {
                agent,
                task,
                timeout_s,
                output_schema,
            } => (
                "agent",
                json!({"agent": agent, "task": task, "timeoutS": timeout_s, "outputSchema": output_schema}),
                None,
            ),
        };
        WaitStep {
            number,
            name,
            kind,
            request: storable_json(request),
            seconds,
        }
    }

    /// Whether its run executes it.
    fn is_of_run(&self) -> bool {
        matches!(self, Self::Question { .. } | Self::Agent { .. })
    }

    /// Err: what is wrong with it.
    fn check(&self) -> Result<(), String> {
        let seconds = match self {
            Self::Sleep { seconds } => Some(*seconds),
            Self::Event { timeout_s, .. } => *timeout_s,
            Self::Question { .. } | Self::Agent { .. } => None,
        };
        if seconds.is_some_and(|seconds| !(0.0..=WAIT_MAX_S).contains(&seconds)) {
            return Err(format!("a wait takes 0 to {WAIT_MAX_S} seconds"));
        }
        match self {
            Self::Event { event, .. } if event.is_empty() || event.chars().count() > NAME_MAX_CHARS => {
                Err(format!("the name of an event has 1 to {NAME_MAX_CHARS} characters"))
            }
            Self::Agent {
                output_schema: Some(schema),
                ..
            } if !schema.is_object() => Err("outputSchema must be a JSON Schema".to_owned()),
            _ => Ok(()),
        }
    }
}

/// Suspend a call
///
/// Hands the call back until its steps have ended: the worker's slot is free, and the call is handed out again with the next attempt, to any
/// worker of its tool. Its function begins again, and gets the recorded outputs. Repeating the request has the same response.
#[utoipa::path(post, path = "/api/workers/{queue}/calls/{id}/suspension", tag = "remote workers", request_body = SuspensionBody,
    params(("queue" = String, Path, description = "Name of a group of workers"), ("id" = Uuid, Path, description = "The call")),
    responses((status = 200, description = "The state of the call", body = CallState),
        (status = 409, description = "This attempt does not have the call, another step has the number, or the call has no run", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        (status = 413, description = "What a step asks for is too large", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused, BodyRefused))]
async fn suspend(
    State(state): State<RemoteToolsState>,
    caller: Caller<Worker>,
    Segments((_queue, id)): Segments<(String, Uuid)>,
    Body(body): Body<SuspensionBody>,
) -> Result<Json<CallState>, Problem> {
    let of_run = body.steps.iter().filter(|step| step.wait.is_of_run()).count();
    let is_one = body.steps.len() == 1;
    if !(is_one || of_run == body.steps.len()) || !(1..=WAITS_MAX).contains(&body.steps.len()) {
        let detail = format!("a suspension has one sleep or event, or 1 to {WAITS_MAX} questions and agents");
        return Err(Problem::bad_request("invalid_suspension", detail));
    }
    let mut steps = Vec::with_capacity(body.steps.len());
    for step in body.steps {
        step.wait
            .check()
            .map_err(|why| Problem::bad_request("invalid_suspension", why))?;
        let name = checked_name(step.number, step.name)?;
        let step = step.wait.into_step(step.number, name);
        checked_size("request", &step.request)?;
        steps.push(step);
    }
    steps.sort_by_key(|step| step.number);
    if steps.windows(2).any(|pair| pair[0].number == pair[1].number) {
        let detail = "two steps of a suspension have the same number";
        return Err(Problem::bad_request("invalid_suspension", detail));
    }
    let record = held(&state, &caller, id, body.worker_id, body.attempt).await?;
    let mut tx = caller.begin(&state).await?;
    let (recorded, wake) = steps::suspend(&mut tx, id, body.attempt, &steps).await?;
    if recorded != Recorded::Recorded {
        return Err(refused(recorded, id, body.attempt));
    }
    tx.commit().await?;
    let waits_for_signal = steps.iter().any(|step| step.kind == "event");
    // It may have come already.
    state.bus.publish(if waits_for_signal {
        Wake::queue(record.queue)
    } else {
        wake
    });
    Ok(CallState::of(if of_run > 0 {
        RemoteStatus::Suspended
    } else {
        RemoteStatus::Waiting
    }))
}

fn checked_name(number: i32, name: String) -> Result<String, Problem> {
    let chars = name.chars().count();
    if !(1..=MAX_STEPS).contains(&number) || !(1..=NAME_MAX_CHARS).contains(&chars) {
        let detail = format!(
            "a step has a number of 1 to {MAX_STEPS} and a name of 1 to {NAME_MAX_CHARS} characters; split a longer function up"
        );
        return Err(Problem::bad_request("invalid_step", detail));
    }
    Ok(storable(name))
}

fn checked_size(what: &str, value: &Value) -> Result<(), Problem> {
    let bytes = value.to_string().len();
    if bytes > STEP_MAX_BYTES {
        let detail = format!("the {what} of a step has {bytes} bytes of JSON; the maximum is {STEP_MAX_BYTES}");
        return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "step_too_large", detail));
    }
    Ok(())
}

fn refused(why: Recorded, id: Uuid, attempt: i32) -> Problem {
    match why {
        Recorded::Changed => Problem::conflict(
            "step_changed",
            format!(
                "the call {id} has another step with this number: its function has asked for other steps than in an earlier attempt"
            ),
        ),
        Recorded::Outside => Problem::conflict(
            "no_run",
            format!("the call {id} was made outside of a run: it can't wait for signals, ask a user or start agents"),
        ),
        Recorded::Recorded | Recorded::Stale => stale(id, attempt),
    }
}
