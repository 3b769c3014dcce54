//! Outputs and steps of several calls in one request: what a program with many calls has to record at once. Each record has its answer.

use axum::Json;
use axum::extract::State;
use rejoin_db::failure_log::ErrorChain;
use rejoin_faults::Fault;
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Worker};
use rejoin_http::extract::{Body, Segments};
use rejoin_http::problem::{BodyRefused, Problem, ProblemBody, Refused};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use tracing::debug;
use utoipa::ToSchema;
use uuid::Uuid;

use super::results::{CallState, call_not_found, checked_output, complete_checked, stale};
use super::steps::{FunctionStatus, NewStep, outcome, record_checked};
use super::{RemoteToolsState, Routes, is_bound};
use crate::records::{self, Outcome, What};

/// Maximum number of records in a request.
pub const RECORDS_MAX: usize = 100;

pub fn routes() -> Routes {
    Routes::new().routes(routes!(record))
}

/// Records of several calls
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RecordsBody {
    pub worker_id: Uuid,
    /// 1 to 100, in the order in which they happened
    pub records: Vec<RecordBody>,
}

/// A step that the program executes, or the output with which its call completes
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RecordBody {
    pub call_id: Uuid,
    pub attempt: i32,
    #[serde(default)]
    pub step: Option<RecordedStepBody>,
    /// Without `step`: any JSON, at most 1 MB
    #[serde(default, deserialize_with = "given")]
    pub output: Option<Value>,
}

/// A step that the program executes, as it is recorded alone
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RecordedStepBody {
    pub number: i32,
    pub name: String,
    pub status: FunctionStatus,
    #[serde(default)]
    pub output: Option<Value>,
    #[serde(default)]
    pub error: Option<String>,
}

/// What became of each record, in their order
#[derive(Debug, Serialize, ToSchema)]
pub struct RecordsAnswer {
    pub records: Vec<RecordAnswer>,
}

/// The state of the call, or the problem that the record would get alone
#[derive(Debug, Serialize, ToSchema)]
pub struct RecordAnswer {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ProblemBody>)]
    pub problem: Option<Value>,
}

impl From<Result<Json<CallState>, Problem>> for RecordAnswer {
    fn from(answer: Result<Json<CallState>, Problem>) -> Self {
        let (status, problem) = match answer {
            Ok(Json(CallState { status })) => (Some(status), None),
            Err(problem) => (None, Some(problem.to_json())),
        };
        Self { status, problem }
    }
}

/// A value that is there, also if it is null.
fn given<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(value).map(Some)
}

/// What is to be recorded, as it is stored.
enum New {
    Step(NewStep),
    Output(Value),
}

impl RecordBody {
    /// Err: what is wrong with it.
    fn checked(self) -> Result<New, Problem> {
        match (self.step, self.output) {
            (Some(step), None) => {
                let RecordedStepBody {
                    number,
                    name,
                    status,
                    output,
                    error,
                } = step;
                NewStep::checked((number, name), status, output, error).map(New::Step)
            }
            (None, Some(output)) => checked_output(output).map(New::Output),
            (Some(_), Some(_)) | (None, None) => {
                let detail = "a record has either a step or an output";
                Err(Problem::bad_request("invalid_record", detail))
            }
        }
    }
}

/// Record steps and outputs of several calls
///
/// Each record counts as if it were sent alone: one that is refused has its problem in the answer, and the others are recorded. Repeating
/// the request is as repeating each of them.
#[utoipa::path(post, path = "/api/workers/{queue}/records", tag = "remote workers", request_body = RecordsBody,
    params(("queue" = String, Path, description = "Name of a group of workers")),
    responses((status = 200, description = "What became of each record", body = RecordsAnswer), Refused, BodyRefused))]
async fn record(
    State(state): State<RemoteToolsState>,
    caller: Caller<Worker>,
    Segments(_queue): Segments<String>,
    Body(body): Body<RecordsBody>,
) -> Result<Json<RecordsAnswer>, Problem> {
    let count = body.records.len();
    if !(1..=RECORDS_MAX).contains(&count) {
        let detail = format!("a request has 1 to {RECORDS_MAX} records, not {count}");
        return Err(Problem::bad_request("invalid_records", detail));
    }
    let worker_id = body.worker_id;
    let checked: Vec<((Uuid, i32), Result<New, Problem>)> = body
        .records
        .into_iter()
        .map(|record| ((record.call_id, record.attempt), record.checked()))
        .collect();
    let valid: Vec<records::Record<'_>> = checked
        .iter()
        .filter_map(|(of, new)| Some((*of, new.as_ref().ok()?)))
        .map(|((call_id, attempt), new)| records::Record {
            call_id,
            attempt,
            what: match new {
                New::Step(step) => What::Step(step.to_record()),
                New::Output(output) => What::Output(output),
            },
        })
        .collect();
    let mut outcomes = at_once(&state, &caller, worker_id, &valid).await.into_iter();
    let mut answers = Vec::with_capacity(count);
    for ((id, attempt), new) in checked {
        let answer = match new {
            Err(problem) => Err(problem),
            Ok(new) => match outcomes.next().unwrap_or(Outcome::Unchecked) {
                Outcome::Missing => Err(call_not_found()),
                Outcome::Stale => Err(stale(id, attempt)),
                Outcome::Step(recorded) => outcome(recorded, id, attempt),
                Outcome::Ended(status) => Ok(Json(CallState { status })),
                Outcome::Unchecked => match new {
                    New::Step(step) => record_checked(&state, &caller, id, (worker_id, attempt), &step).await,
                    New::Output(output) => complete_checked(&state, &caller, id, (worker_id, attempt), output).await,
                },
            },
        };
        match answer {
            // The others would fail, too: the program repeats all of them.
            Err(problem) if problem.status.is_server_error() => return Err(problem),
            answer => answers.push(answer.into()),
        }
    }
    Ok(Json(RecordsAnswer { records: answers }))
}

/// Records all that needs no check, by one statement. Empty: none of it was recorded, each is tried alone.
async fn at_once(
    state: &RemoteToolsState,
    caller: &Caller,
    worker_id: Uuid,
    valid: &[records::Record<'_>],
) -> Vec<Outcome> {
    if rejoin_faults::enabled(Fault::StaleResultAccepted) || is_bound(caller) {
        return Vec::new();
    }
    match records::record(&state.db, caller.rls_scope(), worker_id, valid).await {
        Ok((outcomes, wake)) => {
            state.bus.publish(wake);
            outcomes
        }
        Err(error) => {
            debug!(error = %ErrorChain(&error), "recording several calls at once failed; each is tried alone");
            Vec::new()
        }
    }
}
