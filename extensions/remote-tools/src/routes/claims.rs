//! A worker takes calls, waiting for them if there are none, and renews the leases of those that it has.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Worker};
use rejoin_http::extract::{Body, Segments};
use rejoin_http::problem::{BodyRefused, Problem, Refused};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};
use tracing::warn;
use utoipa::ToSchema;
use uuid::Uuid;

use super::{RemoteToolsState, Routes, worker_unknown};
use crate::calls::{self, HandedOut};
use crate::registrations;

/// Maximum time that a claim waits, in seconds: less than proxies wait for a response.
pub const WAIT_MAX_S: u32 = 25;
/// Maximum number of calls of one claim, and of one heartbeat.
const MAX_CALLS: i32 = 1_000;

pub fn routes() -> Routes {
    Routes::new().routes(routes!(claim)).routes(routes!(heartbeat))
}

/// A claim
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClaimBody {
    pub worker_id: Uuid,
    /// Maximum number of calls
    #[serde(default = "one")]
    pub max: i32,
    /// Maximum time until a response without calls, in seconds
    #[serde(default)]
    pub wait_s: f64,
}

fn one() -> i32 {
    1
}

/// Calls for a worker
#[derive(Debug, Serialize, ToSchema)]
pub struct Claimed {
    pub calls: Vec<HandedOut>,
}

/// Take calls
///
/// Returns calls of the worker's tools, at once if there are any; otherwise it waits. A call is on record as running before it is returned.
#[utoipa::path(post, path = "/api/workers/{queue}/claims", tag = "remote workers", request_body = ClaimBody,
    params(("queue" = String, Path, description = "Name of a group of workers")),
    responses((status = 200, description = "The calls, perhaps none", body = Claimed), Refused, BodyRefused))]
async fn claim(
    State(state): State<RemoteToolsState>,
    caller: Caller<Worker>,
    Segments(queue): Segments<String>,
    Body(body): Body<ClaimBody>,
) -> Result<Json<Claimed>, Problem> {
    if !(1..=MAX_CALLS).contains(&body.max) {
        let detail = format!("max must be between 1 and {MAX_CALLS}");
        return Err(Problem::bad_request("invalid_claim", detail));
    }
    if !(0.0..=f64::from(WAIT_MAX_S)).contains(&body.wait_s) {
        let detail = format!("waitS must be between 0 and {WAIT_MAX_S}");
        return Err(Problem::bad_request("invalid_claim", detail));
    }
    let until = Instant::now() + Duration::from_secs_f64(body.wait_s);
    // A claim that waits shows that its worker is there.
    let alive_s = body.wait_s + state.args.lease().as_secs_f64();
    let mut tx = caller.begin(&state).await?;
    let queues = registrations::seen(&mut tx, &queue, body.worker_id, alive_s, None).await?;
    let queues = queues.ok_or_else(|| worker_unknown(body.worker_id))?;
    tx.commit().await?;
    let interest = state.waiting.interest(&queues);
    loop {
        let looked = interest.changed_after(|| async {
            match take(&state, &caller, &body).await {
                Ok(calls) if calls.is_empty() => None,
                taken => Some(taken),
            }
        });
        let found = tokio::select! {
            found = timeout_at(until, looked) => found,
            () = state.draining.cancelled() => Ok(Some(Ok(Vec::new()))),
        };
        match found {
            Ok(Some(taken)) => {
                let calls = taken?;
                if i32::try_from(calls.len()) == Ok(body.max) {
                    interest.pass_on();
                }
                return Ok(Json(Claimed { calls }));
            }
            // There may be one now.
            Ok(None) => {}
            Err(_) => return Ok(Json(Claimed { calls: Vec::new() })),
        }
    }
}

/// Takes calls that are there. If the caller does not wait for them any longer, they are given back.
async fn take(state: &RemoteToolsState, caller: &Caller, body: &ClaimBody) -> Result<Vec<HandedOut>, Problem> {
    let (sender, taken) = oneshot::channel();
    let (state, caller) = (state.clone(), caller.clone());
    let (worker_id, max) = (body.worker_id, body.max);
    tokio::spawn(async move {
        let claimed = async {
            let mut tx = caller.begin(&state).await?;
            let calls = calls::claim(&mut tx, worker_id, state.args.lease(), max).await?;
            if !calls.is_empty() {
                tx.commit().await?;
            }
            Ok::<_, Problem>(calls)
        };
        if let Err(Ok(calls)) = sender.send(claimed.await)
            && let Err(problem) = give_back(&state, &caller, &calls).await
        {
            // Their leases will expire.
            warn!(
                ?problem,
                "giving calls back failed that a remote worker did not wait for"
            );
        }
    });
    taken.await.map_err(|_| Problem::internal())?
}

async fn give_back(state: &RemoteToolsState, caller: &Caller, calls: &[HandedOut]) -> Result<(), Problem> {
    if calls.is_empty() {
        return Ok(());
    }
    let mut tx = caller.begin(state).await?;
    for call in calls {
        calls::give_back(&mut tx, call.id, call.attempt).await?;
    }
    tx.commit().await?;
    Ok(())
}

/// A heartbeat
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HeartbeatBody {
    pub worker_id: Uuid,
    /// The calls that the worker has
    #[serde(default)]
    pub calls: Vec<HeldCall>,
    /// It takes no more calls
    #[serde(default)]
    pub draining: bool,
}

/// A call that a worker has
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HeldCall {
    pub id: Uuid,
    pub attempt: i32,
}

/// What a worker's calls are
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct HeartbeatAnswer {
    /// The leases of these were renewed
    pub held: Vec<Uuid>,
    /// The results of these are not wanted: stop them
    pub cancelled: Vec<Uuid>,
    /// These have ended, or another attempt has them: stop them, and send nothing
    pub lost: Vec<Uuid>,
}

/// Renew the leases of calls
///
/// Also shows that the worker is there. While it drains, it gets no calls.
#[utoipa::path(post, path = "/api/workers/{queue}/heartbeats", tag = "remote workers", request_body = HeartbeatBody,
    params(("queue" = String, Path, description = "Name of a group of workers")),
    responses((status = 200, description = "The state of each call", body = HeartbeatAnswer), Refused, BodyRefused))]
async fn heartbeat(
    State(state): State<RemoteToolsState>,
    caller: Caller<Worker>,
    Segments(queue): Segments<String>,
    Body(body): Body<HeartbeatBody>,
) -> Result<Json<HeartbeatAnswer>, Problem> {
    if body.calls.len() > usize::try_from(MAX_CALLS).unwrap_or_default() {
        let detail = format!("a heartbeat has at most {MAX_CALLS} calls");
        return Err(Problem::bad_request("invalid_heartbeat", detail));
    }
    let lease = state.args.lease();
    let mut tx = caller.begin(&state).await?;
    let (alive_s, draining) = (lease.as_secs_f64(), Some(body.draining));
    let known = registrations::seen(&mut tx, &queue, body.worker_id, alive_s, draining).await?;
    known.ok_or_else(|| worker_unknown(body.worker_id))?;
    let calls: Vec<(Uuid, i32)> = body.calls.iter().map(|call| (call.id, call.attempt)).collect();
    let states = calls::renew(&mut tx, body.worker_id, &calls, lease).await?;
    tx.commit().await?;
    let mut answer = HeartbeatAnswer::default();
    for (id, state) in states {
        match state.as_str() {
            "held" => answer.held.push(id),
            "cancelled" => answer.cancelled.push(id),
            _ => answer.lost.push(id),
        }
    }
    Ok(Json(answer))
}
