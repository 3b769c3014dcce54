//! The function of an agent writes its answer while it works.

use axum::Json;
use axum::extract::State;
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Worker};
use rejoin_http::extract::{Body, Segments};
use rejoin_http::problem::{BodyRefused, Problem, Refused};
use rejoin_runs::remote_calls::RemoteStatus;
use rejoin_runs::remote_steps::MAX_STEPS;
use rejoin_types::text::storable;
use serde::Deserialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::results::{CallState, held, stale};
use super::{RemoteToolsState, Routes};
use crate::texts::{self, Piece, Written};

/// Maximum length of a piece, in characters.
const PIECE_MAX_CHARS: usize = 20_000;
/// Maximum number of pieces of a step.
const MAX_PIECES: i32 = 100_000;

pub fn routes() -> Routes {
    Routes::new().routes(routes!(write_text))
}

/// A piece of an answer
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TextBody {
    pub worker_id: Uuid,
    pub attempt: i32,
    /// The step that writes it: 1 to 1,000
    pub step: i32,
    /// Order within the step: 1 to 100,000
    pub piece: i32,
    /// 1 to 20,000 characters
    pub text: String,
}

/// Write a piece of an answer
///
/// Readers of the run get it as a `token`, at once. Only a call that executes the turn of an agent writes text, one step at a time. What a step
/// has written stays when it completes; if it fails or its worker is lost, a `reset` discards it. Repeating the request has the same response.
#[utoipa::path(post, path = "/api/workers/{queue}/calls/{id}/text", tag = "remote workers", request_body = TextBody,
    params(("queue" = String, Path, description = "Name of a group of workers"), ("id" = Uuid, Path, description = "The call")),
    responses((status = 200, description = "The state of the call", body = CallState),
        (status = 409, description = "This attempt does not have the call, the call is not the turn of an agent, another step writes, the step has ended, or the piece before is missing", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused, BodyRefused))]
async fn write_text(
    State(state): State<RemoteToolsState>,
    caller: Caller<Worker>,
    Segments((_queue, id)): Segments<(String, Uuid)>,
    Body(body): Body<TextBody>,
) -> Result<Json<CallState>, Problem> {
    let chars = body.text.chars().count();
    if !(1..=MAX_STEPS).contains(&body.step)
        || !(1..=MAX_PIECES).contains(&body.piece)
        || !(1..=PIECE_MAX_CHARS).contains(&chars)
    {
        let detail = format!(
            "a piece of text has a step of 1 to {MAX_STEPS}, a number of 1 to {MAX_PIECES} and 1 to {PIECE_MAX_CHARS} characters; split \
             a longer text up"
        );
        return Err(Problem::bad_request("invalid_text", detail));
    }
    let record = held(&state, &caller, id, body.worker_id, body.attempt).await?;
    let fields = record.answers.ok_or_else(|| {
        Problem::conflict(
            "no_answer",
            format!(
                "the call {id} does not execute the turn of an agent, or the turn has an output schema: return the text as its result"
            ),
        )
    })?;
    let text = storable(body.text);
    let piece = Piece {
        step: body.step,
        number: body.piece,
        text: &text,
    };
    let mut tx = caller.begin(&state).await?;
    match texts::write(&mut tx, id, body.attempt, piece, &fields).await? {
        Written::Written(wake) => {
            tx.commit().await?;
            state.bus.publish(wake);
            Ok(CallState::of(RemoteStatus::Running))
        }
        Written::Stale => Err(stale(id, body.attempt)),
        Written::OtherStep => Err(Problem::conflict(
            "other_step_writes",
            format!("another step of the call {id} writes its answer; let it end first"),
        )),
        Written::Ended => Err(Problem::conflict(
            "step_ended",
            format!(
                "the step {} of the call {id} has ended, and writes nothing more",
                body.step
            ),
        )),
        Written::Missing => Err(Problem::conflict(
            "piece_missing",
            format!(
                "the piece before piece {} of step {} of the call {id} was not received",
                body.piece, body.step
            ),
        )),
    }
}
