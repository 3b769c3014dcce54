//! Admission control: decides when a request is processed; a request takes a slot only once its body has arrived.
//! Called by `routes`.
//!
//! A request has three phases: its caller is authenticated, its body arrives, its handler runs. The first and the last
//! hold a slot of `REJOIN_MAX_IN_FLIGHT`; the second one holds one of as many others, for no longer than `arrival`
//! allows.
//!
//! Invariant: no user and no project exceeds its share of either kind of slot, so that only callers who exhaust their
//! share are refused (429).

use axum::body::{Body, HttpBody};
use axum::extract::{FromRequestParts, Request};
use axum::http::Method;
use axum::http::header::AUTHORIZATION;
use uuid::Uuid;

use crate::arrival;
use crate::caller::{Caller, LookedUp};
use crate::places::Place;
use crate::problem::Problem;
use crate::state::AppState;

/// The owner of sign-in requests with a code, the only ones whose body arrives without a caller. All of them share one
/// user's share of slots.
const NOBODY: Uuid = Uuid::nil();

/// Authenticates the request, waits for its body of at most `max_bytes`, and gives it a slot if `works`. The handler
/// finds the caller, or the refusal, in the request.
pub async fn admit(
    state: &AppState,
    request: Request,
    works: bool,
    max_bytes: usize,
) -> Result<(Request, Option<Place>), Problem> {
    let mut place = state.working.take()?;
    let (mut parts, body) = request.into_parts();
    let found = Caller::from_request_parts(&mut parts, state).await;
    let counts_for = found.as_ref().ok().map(|caller| (caller.user_id, caller.project_id));
    let is_sign_in = parts.method == Method::POST
        && parts.uri.path() == crate::caller::SESSION_PATH
        && !parts.headers.contains_key(AUTHORIZATION);
    parts.extensions.insert(LookedUp(found));
    let (user, project) = match counts_for {
        Some(ids) => ids,
        None if is_sign_in => (NOBODY, NOBODY),
        // The handler refuses it, or needs no caller; either way it reads no body.
        None => return Ok((Request::from_parts(parts, Body::empty()), Some(place))),
    };
    let mut body = body;
    if !body.is_end_stream() {
        drop(place);
        let mut arriving = state.arriving.take()?;
        arriving.count_for(user, project)?;
        body = Body::from(arrival::whole(&parts.headers, body, max_bytes, &state.config).await?);
        drop(arriving);
        place = state.working.take()?;
    }
    let request = Request::from_parts(parts, body);
    if !works {
        return Ok((request, None));
    }
    place.count_for(user, project)?;
    Ok((request, Some(place)))
}
