//! Signals: other programs tell a durable function that something has happened.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Write};
use rejoin_http::extract::{Body, Segments};
use rejoin_http::problem::{BodyRefused, Problem, Refused};
use rejoin_runs::runs;
use rejoin_types::text::{storable, storable_json};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use super::steps::NAME_MAX_CHARS;
use super::{RemoteToolsState, Routes};
use crate::steps::{self, Signalled};

/// Maximum size of a signal's data, in bytes of JSON.
const DATA_MAX_BYTES: usize = 256 * 1024;
/// Maximum number of signals of a run that no function has waited for.
const SIGNALS_MAX: i32 = 1_000;

pub fn routes() -> Routes {
    Routes::new().routes(routes!(send_signal))
}

/// A signal
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SignalBody {
    /// 1 to 200 characters
    pub name: String,
    /// Any JSON, at most 256 KiB
    #[serde(default)]
    pub data: Value,
}

/// What became of a signal
#[derive(Debug, Serialize, ToSchema)]
pub struct SignalState {
    /// Whether a function that waited for it goes on; otherwise the next one that waits for it gets it
    pub delivered: bool,
}

/// Send a signal to a run
///
/// A function of a user's program that waits for an event of this name goes on with the data. If none waits, the signal is kept for the next one.
#[utoipa::path(post, path = "/api/runs/{id}/signals", tag = "runs", request_body = SignalBody,
    params(("id" = Uuid, Path, description = "The run that has called the function")),
    responses((status = 200, description = "Whether it was delivered", body = SignalState),
        (status = 409, description = "The run has ended, or has too many signals", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        (status = 413, description = "The data are too large", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused, BodyRefused))]
async fn send_signal(
    State(state): State<RemoteToolsState>,
    caller: Caller<Write>,
    Segments(id): Segments<Uuid>,
    Body(body): Body<SignalBody>,
) -> Result<Json<SignalState>, Problem> {
    if !(1..=NAME_MAX_CHARS).contains(&body.name.chars().count()) {
        let detail = format!("the name of a signal has 1 to {NAME_MAX_CHARS} characters");
        return Err(Problem::bad_request("invalid_signal", detail));
    }
    let bytes = body.data.to_string().len();
    if bytes > DATA_MAX_BYTES {
        let detail = format!("the data have {bytes} bytes of JSON; the maximum is {DATA_MAX_BYTES}");
        return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "signal_too_large", detail));
    }
    let mut tx = caller.begin(&state).await?;
    let run = runs::get_visible(&mut *tx, caller.owner(), id).await?;
    let run = run.ok_or_else(|| Problem::not_found("run_not_found", "The run"))?;
    let (name, data) = (storable(body.name), storable_json(body.data));
    let signalled = steps::signal(&mut tx, run.id, &name, &data, SIGNALS_MAX).await?;
    let (delivered, wake) = match signalled {
        Signalled::Delivered(wake) => (true, Some(wake)),
        Signalled::Stored => (false, None),
        Signalled::Refused => {
            let detail = format!(
                "the run has ended, or {SIGNALS_MAX} signals that no function has waited for are stored for it"
            );
            return Err(Problem::conflict("signal_refused", detail));
        }
    };
    tx.commit().await?;
    if let Some(wake) = wake {
        state.bus.publish(wake);
    }
    Ok(Json(SignalState { delivered }))
}
