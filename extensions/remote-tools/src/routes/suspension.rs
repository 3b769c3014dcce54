//! Calls that are handed back until a time, a signal, a user, an agent or a language model.

use axum::Json;
use axum::extract::State;
use rejoin_event_log::wakeup::Wake;
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Worker};
use rejoin_http::extract::{Body, Segments};
use rejoin_http::problem::{BodyRefused, Problem, Refused};
use rejoin_runs::model_calls::ModelCall;
use rejoin_runs::remote_calls::RemoteStatus;
use rejoin_types::text::storable_json;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;
use uuid::Uuid;

use super::results::{CallState, held, settle_text};
use super::steps::{NAME_MAX_CHARS, checked_name, checked_size, refused};
use super::{RemoteToolsState, Routes};
use crate::steps::{self, Recorded, WaitStep};

/// Maximum number of questions, agents and model calls that one suspension waits for.
const WAITS_MAX: usize = 100;
/// Maximum duration of a sleep and of a wait for a signal, in seconds: a year.
const WAIT_MAX_S: f64 = 365.0 * 86_400.0;

pub fn routes() -> Routes {
    Routes::new().routes(routes!(suspend))
}

/// What a call waits for
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SuspensionBody {
    pub worker_id: Uuid,
    pub attempt: i32,
    /// One sleep or event, or up to 100 questions, agents and model calls
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
    /// A language model, which answers
    Model {
        /// What it is asked, and what was said before, the newest message last: 1 to 1,000
        messages: Vec<ModelMessage>,
        /// The system prompt
        system: Option<String>,
        /// `provider:model` or a well-known name; null: that of plain conversations
        model: Option<String>,
        /// JSON Schema of the answer, an object; null: any text
        output_schema: Option<Value>,
        /// Maximum length of the answer, including reasoning, in tokens
        max_tokens: Option<u32>,
        /// The sampling temperature, 0 to 2
        temperature: Option<f64>,
    },
}

/// Who has said something
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ModelRole {
    User,
    Assistant,
}

/// A message to a language model, or an earlier answer of one
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelMessage {
    pub role: ModelRole,
    pub text: String,
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
            // Its run is started like that of an agent (docs/decisions/0065-model-calls.md).
            Self::Model {
                messages,
                system,
                model,
                output_schema,
                max_tokens,
                temperature,
            } => (
                "agent",
                json!({"messages": messages, "system": system, "model": model, "outputSchema": output_schema, "maxTokens": max_tokens,
                       "temperature": temperature}),
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
        matches!(self, Self::Question { .. } | Self::Agent { .. } | Self::Model { .. })
    }

    /// Err: what is wrong with it.
    fn check(&self) -> Result<(), String> {
        let seconds = match self {
            Self::Sleep { seconds } => Some(*seconds),
            Self::Event { timeout_s, .. } => *timeout_s,
            Self::Question { .. } | Self::Agent { .. } | Self::Model { .. } => None,
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

/// Validates a model call on a blocking thread: its schema may come from anywhere.
async fn check_apart(call: ModelCall) -> Result<(), Problem> {
    let checked = tokio::task::spawn_blocking(move || call.check()).await;
    checked
        .map_err(|_| Problem::internal())?
        .map_err(|why| Problem::bad_request("invalid_suspension", why))
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
        let detail =
            format!("a suspension has one sleep or event, or 1 to {WAITS_MAX} questions, agents and model calls");
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
        if let Some(call) = ModelCall::of(&step.request) {
            check_apart(call).await?;
        }
        steps.push(step);
    }
    steps.sort_by_key(|step| step.number);
    if steps.windows(2).any(|pair| pair[0].number == pair[1].number) {
        let detail = "two steps of a suspension have the same number";
        return Err(Problem::bad_request("invalid_suspension", detail));
    }
    let record = held(&state, &caller, id, body.worker_id, body.attempt).await?;
    settle_text(&state, &caller, id, body.attempt, &record).await?;
    let mut tx = caller.begin(&state).await?;
    let (recorded, wake) = steps::suspend(&mut tx, id, body.attempt, &steps).await?;
    if recorded != Recorded::Recorded {
        return Err(refused(recorded, id, body.attempt));
    }
    tx.commit().await?;
    let waits_for_signal = steps.iter().any(|step| step.kind == "event");
    // It may have come already.
    let wake = if waits_for_signal {
        Wake::queue(record.queue)
    } else {
        wake
    };
    // A worker may hold it.
    let returned = record.run_id.filter(|_| of_run > 0).map(Wake::returned);
    state.bus.publish(wake.and(returned.unwrap_or_default()));
    Ok(CallState::of(if of_run > 0 {
        RemoteStatus::Suspended
    } else {
        RemoteStatus::Waiting
    }))
}
