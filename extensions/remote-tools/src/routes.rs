//! The endpoints of remote workers, below `/api/workers` (docs/reference/worker-protocol.md). A worker's key has the scope `worker`.
//!
//! - `registrations` workers announce themselves and their tools, and leave; the list of workers
//! - `claims`        a worker takes calls, and renews their leases
//! - `results`       a call ends, or reports progress
//! - `records`       ends and steps of several calls at once
//! - `steps`         what durable functions have done
//! - `suspension`    what they wait for
//! - `text`          answers that they write and events that they emit while they work
//! - `signals`       other programs' signals to such functions

pub mod claims;
pub mod records;
pub mod registrations;
pub mod results;
pub mod signals;
pub mod steps;
pub mod suspension;
pub mod text;

use std::collections::HashSet;
use std::sync::Arc;

use axum::http::StatusCode;
use rejoin_http::caller::Caller;
use rejoin_http::problem::Problem;
use rejoin_http::{HttpState, authorization, contains_http_state};
use rejoin_types::access::{Grant, Scope};
use uuid::Uuid;

use crate::announcement::is_plain;
use crate::settings::RemoteToolArgs;
use crate::waiting::Waiting;

/// The path of claims, which wait: they take no slot of a request that works.
pub const CLAIMS_PATH: &str = "/api/workers/{queue}/claims";
/// Maximum length of a queue's name, in characters.
const QUEUE_MAX_CHARS: usize = 64;

/// The state of the handlers.
#[derive(Clone)]
pub struct RemoteToolsState {
    pub http: HttpState,
    pub args: Arc<RemoteToolArgs>,
    pub waiting: Waiting,
    /// The names of other tools, which no remote tool may have.
    pub reserved: Arc<HashSet<String>>,
}

contains_http_state!(RemoteToolsState);

/// Routes with this state.
pub type Routes = authorization::Routes<RemoteToolsState>;

pub fn routes() -> Routes {
    Routes::new()
        .merge(registrations::routes())
        .merge(claims::routes())
        .merge(results::routes())
        .merge(records::routes())
        .merge(steps::routes())
        .merge(suspension::routes())
        .merge(text::routes())
        .merge(signals::routes())
}

/// Err: what is wrong with the queue's name.
fn checked_queue(queue: &str) -> Result<(), Problem> {
    if is_plain(queue, QUEUE_MAX_CHARS, "_-.") {
        return Ok(());
    }
    Err(Problem::bad_request(
        "invalid_queue",
        format!("a queue's name has 1 to {QUEUE_MAX_CHARS} letters, digits, _, - and ."),
    ))
}

/// Refuses a caller whose key is for other queues or tools.
fn may_serve(caller: &Caller, queue: &str, tool: Option<&str>) -> Result<(), Problem> {
    if caller.may_serve(queue, tool) {
        return Ok(());
    }
    let what = match tool {
        Some(tool) => format!("the tool {tool} of the queue {queue}"),
        None => format!("the queue {queue}"),
    };
    Err(Problem::new(
        StatusCode::FORBIDDEN,
        "scope_missing",
        format!(
            "the caller's key is not for {what}; its scopes are {}",
            caller.scopes.join(", ")
        ),
    ))
}

/// Whether the caller's key is for some queues or tools only.
fn is_bound(caller: &Caller) -> bool {
    !caller.has(&Grant::from(Scope::Worker))
}

fn worker_unknown(id: Uuid) -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        "worker_unknown",
        format!("the worker {id} is not registered in this queue; register again"),
    )
}
