//! A worker takes calls, waiting for them if there are none, and renews the leases of those that it has.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Worker};
use rejoin_http::extract::{Body, Segments};
use rejoin_http::problem::{BodyRefused, Problem, Refused};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};
use tracing::{debug, warn};
use utoipa::ToSchema;
use uuid::Uuid;

use super::{RemoteToolsState, Routes, is_bound, may_serve, worker_unknown};
use crate::calls::{self, Claim, ClaimTimes, HandedOut};
use crate::registrations;
use crate::waiting::{Claimant, FirstLook, Interest, Renewals, Wait};

/// Maximum time that a claim waits, in seconds: less than proxies wait for a response.
pub const WAIT_MAX_S: u32 = 25;
/// Maximum number of calls of one claim, and of one heartbeat.
const MAX_CALLS: i32 = 1_000;
/// A claim that changes by less than this part of a lease how long its worker counts as alive is not recorded, so that busy workers do not write a row
/// with each claim.
const SLACK_DIVISOR: u32 = 5;

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
) -> Result<Response, Problem> {
    if !(1..=MAX_CALLS).contains(&body.max) {
        let detail = format!("max must be between 1 and {MAX_CALLS}");
        return Err(Problem::bad_request("invalid_claim", detail));
    }
    if !(0.0..=f64::from(WAIT_MAX_S)).contains(&body.wait_s) {
        let detail = format!("waitS must be between 0 and {WAIT_MAX_S}");
        return Err(Problem::bad_request("invalid_claim", detail));
    }
    may_serve(&caller, &queue, None)?;
    if is_bound(&caller) {
        // Another key may have registered the worker.
        let mut tx = caller.begin(&state).await?;
        for tool in registrations::tools_of(&mut *tx, body.worker_id).await? {
            may_serve(&caller, &queue, Some(&tool))?;
        }
    }
    let until = state.waiting.end_of(Duration::from_secs_f64(body.wait_s));
    let claimant = Claimant {
        workspace_id: caller.workspace_id,
        queue,
        worker_id: body.worker_id,
    };
    let waits = body.wait_s > 0.0;
    let taking = Taking {
        state: state.clone(),
        caller: caller.plain(),
        claimant,
        waits,
        max: body.max,
    };
    let known = waits.then(|| state.waiting.resume(&taking.claimant)).flatten();
    let ((wait, interest), first_look) = if let Some(known) = known {
        (known, FirstLook::Skip)
    } else {
        let version = state.waiting.version();
        let first = taking.take().await?;
        if !first.calls.is_empty() || !waits {
            return Ok(Json(Claimed { calls: first.calls }).into_response());
        }
        let begun = state.waiting.begin(&taking.claimant, first.revision, &first.queues);
        (begun, FirstLook::IfWokenSince(version))
    };
    // The response begins now: what handles requests keeps nothing while the claim waits.
    let later = async move {
        let calls = taking.wait(wait, &interest, first_look, until).await;
        serde_json::to_vec(&Claimed { calls })
    };
    let body = axum::body::Body::from_stream(futures::stream::once(later));
    Ok(([(CONTENT_TYPE, "application/json")], body).into_response())
}

/// A claim's looks.
#[derive(Clone)]
struct Taking {
    state: RemoteToolsState,
    caller: Caller,
    claimant: Claimant,
    /// Whether it waits if there are no calls.
    waits: bool,
    max: i32,
}

impl Taking {
    /// Waits for calls.
    async fn wait(self, wait: Wait, interest: &Interest, mut look: FirstLook, until: Instant) -> Vec<HandedOut> {
        loop {
            let looked = interest.changed_after(std::mem::replace(&mut look, FirstLook::Now), || async {
                match self.take().await {
                    Ok(claim) if claim.calls.is_empty() && claim.revision == wait.revision => None,
                    taken => Some(taken),
                }
            });
            let found = tokio::select! {
                // In this order: calls that were found are not left.
                biased;
                found = timeout_at(until, looked) => found.map_err(drop),
                () = self.state.draining.cancelled() => Err(()),
                () = wait.changed() => Err(()),
            };
            match found {
                Ok(Some(Ok(claim))) => {
                    if i32::try_from(claim.calls.len()) == Ok(self.max) {
                        interest.pass_on();
                    }
                    if claim.revision == wait.revision {
                        wait.end();
                    } else {
                        wait.forget();
                    }
                    return claim.calls;
                }
                // The next claim looks, and gets the error as its response.
                Ok(Some(Err(problem))) => {
                    debug!(?problem, "a look of a waiting claim failed");
                    wait.forget();
                    return Vec::new();
                }
                // There may be one now.
                Ok(None) => {}
                Err(_) => {
                    wait.end();
                    return Vec::new();
                }
            }
        }
    }

    /// Takes calls that are there. If the program does not wait for them any longer, they are given back.
    async fn take(&self) -> Result<Claim, Problem> {
        let (sender, taken) = oneshot::channel();
        let taking = self.clone();
        tokio::spawn(async move {
            let claim = Some(taking.claim().await);
            // If nothing waits for it, it is dropped here, and otherwise by the channel.
            drop(sender.send(Taken { taking, claim }));
        });
        taken.await.map_err(|_| Problem::internal())?.accept()
    }

    async fn claim(&self) -> Result<Claim, Problem> {
        let lease = self.state.args.lease();
        let times = ClaimTimes {
            // While it waits, it is renewed.
            alive: if self.waits {
                Renewals::of_lease(lease).alive()
            } else {
                lease
            },
            slack: lease / SLACK_DIVISOR,
            lease,
        };
        let Claimant { queue, worker_id, .. } = &self.claimant;
        let scope = self.caller.rls_scope();
        let claim = calls::claim(&self.state.db, scope, queue, *worker_id, times, self.max).await?;
        claim.ok_or_else(|| worker_unknown(*worker_id))
    }
}

/// What a look has found. Dropped before it is accepted: its calls are given back.
struct Taken {
    taking: Taking,
    claim: Option<Result<Claim, Problem>>,
}

impl Taken {
    fn accept(mut self) -> Result<Claim, Problem> {
        self.claim.take().unwrap_or_else(|| Err(Problem::internal()))
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let Some(Ok(claim)) = self.claim.take() else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let Taking { state, caller, .. } = self.taking.clone();
        runtime.spawn(async move {
            if let Err(problem) = give_back(&state, &caller, &claim.calls).await {
                // Their leases will expire.
                warn!(
                    ?problem,
                    "giving calls back failed that a remote worker did not wait for"
                );
            }
        });
    }
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
    may_serve(&caller, &queue, None)?;
    let lease = state.args.lease();
    let mut tx = caller.begin(&state).await?;
    if !registrations::seen(&mut tx, &queue, body.worker_id, lease.as_secs_f64(), body.draining).await? {
        return Err(worker_unknown(body.worker_id));
    }
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
