//! A function writes the answer of its agent, or emits its own events, while it works.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Worker};
use rejoin_http::extract::{Body, Segments};
use rejoin_http::problem::{BodyRefused, Problem, Refused};
use rejoin_runs::remote_calls::{self, RemoteStatus};
use rejoin_runs::remote_steps::MAX_STEPS;
use rejoin_types::text::{storable, storable_json};
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use super::results::{CallState, held, stale};
use super::{RemoteToolsState, Routes};
use crate::announcement::is_plain;
use crate::texts::{self, Content, Piece, Written};

/// Maximum length of a piece of text, in characters.
const PIECE_MAX_CHARS: usize = 20_000;
/// Maximum number of pieces of a step.
const MAX_PIECES: i32 = 100_000;
/// Maximum length of an event's name, in characters.
const EVENT_NAME_MAX_CHARS: usize = 64;
/// Maximum size of an event's data, in bytes of JSON.
const EVENT_MAX_BYTES: usize = 256 * 1024;

pub fn routes() -> Routes {
    Routes::new().routes(routes!(write_text))
}

/// A piece of an answer, or an event of the program's own: either `text` or `event`
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TextBody {
    pub worker_id: Uuid,
    pub attempt: i32,
    /// The step that writes it: 1 to 1,000; of an event, also 0: it was emitted outside of steps
    pub step: i32,
    /// Order within the step: 1 to 100,000
    pub piece: i32,
    /// 1 to 20,000 characters
    #[serde(default)]
    pub text: Option<String>,
    #[serde(default)]
    pub event: Option<EmittedEvent>,
}

/// An event of the program's own
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EmittedEvent {
    /// 1 to 64 letters, digits, `_`, `.`, `:` and `-`
    pub name: String,
    /// Any JSON, at most 256 KiB
    pub data: Value,
}

/// What a program publishes.
enum Published {
    Text(String),
    Event(EmittedEvent),
}

impl Published {
    /// Err: what the program has to change.
    fn checked(body: TextBody) -> Result<Self, Problem> {
        let has_number = (1..=MAX_PIECES).contains(&body.piece);
        match (body.text, body.event) {
            (Some(text), None) => {
                let chars = text.chars().count();
                if !has_number || !(1..=MAX_STEPS).contains(&body.step) || !(1..=PIECE_MAX_CHARS).contains(&chars) {
                    let detail = format!(
                        "a piece of text has a step of 1 to {MAX_STEPS}, a number of 1 to {MAX_PIECES} and 1 to {PIECE_MAX_CHARS} \
                         characters; split a longer text up"
                    );
                    return Err(Problem::bad_request("invalid_text", detail));
                }
                Ok(Self::Text(storable(text)))
            }
            (None, Some(EmittedEvent { name, data })) => {
                let is_named = is_plain(&name, EVENT_NAME_MAX_CHARS, "_.:-");
                if !has_number || !(0..=MAX_STEPS).contains(&body.step) || !is_named {
                    let detail = format!(
                        "an event has a step of 0 to {MAX_STEPS}, a number of 1 to {MAX_PIECES}, and a name of 1 to \
                         {EVENT_NAME_MAX_CHARS} letters, digits, _, ., : and -"
                    );
                    return Err(Problem::bad_request("invalid_event", detail));
                }
                let bytes = data.to_string().len();
                if bytes > EVENT_MAX_BYTES {
                    let detail = format!(
                        "the data of the event has {bytes} bytes of JSON; the maximum is {EVENT_MAX_BYTES}; store it elsewhere, and emit \
                         where it is"
                    );
                    return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "event_too_large", detail));
                }
                let data = storable_json(data);
                Ok(Self::Event(EmittedEvent { name, data }))
            }
            (Some(_), Some(_)) | (None, None) => Err(Problem::bad_request(
                "invalid_text",
                "a piece has either `text` or `event`; send exactly one of them",
            )),
        }
    }
}

/// Write a piece of an answer, or emit an event
///
/// Readers of the run get a text as a `token` and an event as `custom`, at once and in this order. Only a call that executes the turn of an agent
/// writes text, one step at a time; each call of a run emits events. What a step of such a turn has published stays when it completes; if it fails
/// or its worker is lost, a `reset` discards it. Events of other calls stay: emitting them again publishes nothing. Repeating the request has the
/// same response.
#[utoipa::path(post, path = "/api/workers/{queue}/calls/{id}/text", tag = "remote workers", request_body = TextBody,
    params(("queue" = String, Path, description = "Name of a group of workers"), ("id" = Uuid, Path, description = "The call")),
    responses((status = 200, description = "The state of the call", body = CallState),
        (status = 409, description = "This attempt does not have the call, the call is not the turn of an agent or has no run, another step writes, the step has ended, or the piece before is missing", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        (status = 413, description = "The data of the event is too large", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused, BodyRefused))]
async fn write_text(
    State(state): State<RemoteToolsState>,
    caller: Caller<Worker>,
    Segments((_queue, id)): Segments<(String, Uuid)>,
    Body(body): Body<TextBody>,
) -> Result<Json<CallState>, Problem> {
    let TextBody {
        worker_id,
        attempt,
        step,
        piece: number,
        ..
    } = body;
    let published = Published::checked(body)?;
    let record = held(&state, &caller, id, worker_id, attempt).await?;
    let mut tx = caller.begin(&state).await?;
    let call_id = record.answers.is_none().then_some(record.call_id.as_str());
    let content = match &published {
        Published::Text(text) => Content::Text(text),
        Published::Event(EmittedEvent { name, data }) => Content::Event { name, data, call_id },
    };
    let fields = match (&record.answers, &published) {
        (Some(fields), _) => fields.clone(),
        (None, Published::Text(_)) => return Err(no_answer(id)),
        (None, Published::Event(_)) => {
            let fields = remote_calls::event_fields(&mut *tx, id).await?;
            fields.ok_or_else(|| no_run(id))?
        }
    };
    let piece = Piece { step, number, content };
    match texts::write(&mut tx, id, attempt, piece, &fields).await? {
        Written::Written(wake) => {
            tx.commit().await?;
            state.bus.publish(wake);
            Ok(CallState::of(RemoteStatus::Running))
        }
        Written::Stale => Err(stale(id, attempt)),
        Written::OtherStep => Err(Problem::conflict(
            "other_step_writes",
            format!("another step of the call {id} writes its answer; let it end first"),
        )),
        Written::Ended => Err(Problem::conflict(
            "step_ended",
            format!("the step {step} of the call {id} has ended, and writes nothing more"),
        )),
        Written::Missing => Err(Problem::conflict(
            "piece_missing",
            format!("the piece before piece {number} of step {step} of the call {id} was not received"),
        )),
    }
}

fn no_answer(id: Uuid) -> Problem {
    let detail = format!(
        "the call {id} does not execute the turn of an agent, or the turn has an output schema: return the text as its result"
    );
    Problem::conflict("no_answer", detail)
}

fn no_run(id: Uuid) -> Problem {
    let detail = format!(
        "the call {id} was made outside of a run, so its events have no readers; return what matters as the result"
    );
    Problem::conflict("no_run", detail)
}
