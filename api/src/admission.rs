//! Admission control: decides when a request is processed; a request takes a slot only once its body has arrived.
//! Called by `routes`.
//!
//! A request has three phases: its caller is authenticated and must have the operation's scope, its body arrives, its handler
//! runs. The first and the last hold a slot of `REJOIN_MAX_IN_FLIGHT`; the second one holds one of as many others, for no
//! longer than `request_body` allows.
//!
//! Invariant: no user and no workspace exceeds its share of either kind of slot, so that only callers who exhaust their
//! share are refused (429).

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::header::AUTHORIZATION;
use rejoin_http::authentication::authenticate;
use rejoin_http::authorization::Access;
use rejoin_http::caller::LookedUp;
use rejoin_http::concurrency_limits::Slot;
use rejoin_http::problem::Problem;
use rejoin_http::request_body;
use uuid::Uuid;

use crate::state::AppState;

/// The owner of sign-in requests with a code or an invitation and of the identity provider's, the only ones whose body arrives
/// without a caller. All of them share one user's share of slots.
const NO_CALLER: Uuid = Uuid::nil();

/// Looks up who sends the request, refuses a caller who lacks the scope of the operation (`access`; None: the path has no operation with
/// this method, and the answer is 405), waits for its body of at most `max_bytes`, and gives it a place if `works`. The handler finds the
/// caller, or why there is none, in the request.
pub async fn admit(
    state: &AppState,
    request: Request,
    access: Option<Access>,
    works: bool,
    max_bytes: usize,
) -> Result<(Request, Option<Slot>), Problem> {
    let mut place = state.working.take()?;
    let (mut parts, body) = request.into_parts();
    // In front of several databases, the caller was found before the route.
    let found = match parts.extensions.remove::<LookedUp>() {
        Some(LookedUp(found)) => found.map(|caller| caller.sending(&parts)),
        None => authenticate(state, &parts).await,
    };
    let found = found.and_then(|caller| {
        access
            .and_then(Access::scope)
            .map_or(Ok(()), |scope| caller.needs(scope))?;
        Ok(caller)
    });
    let counts_for = found.as_ref().ok().map(|caller| (caller.user_id, caller.workspace_id));
    let is_sign_in = access.is_some_and(Access::reads_body_of_strangers) && !parts.headers.contains_key(AUTHORIZATION);
    parts.extensions.insert(LookedUp(found));
    let (user, workspace) = match counts_for {
        Some(ids) => ids,
        None if is_sign_in => (NO_CALLER, NO_CALLER),
        // The handler refuses it, or needs no caller; either way it reads no body.
        None => return Ok((Request::from_parts(parts, Body::empty()), Some(place))),
    };
    let mut body = body;
    if !body.is_end_stream() {
        drop(place);
        let mut arriving = state.arriving.take()?;
        arriving.count_for(user, workspace)?;
        body = Body::from(request_body::read_whole(&parts.headers, body, max_bytes, &state.args).await?);
        drop(arriving);
        place = state.working.take()?;
    }
    let request = Request::from_parts(parts, body);
    if !works {
        return Ok((request, None));
    }
    place.count_for(user, workspace)?;
    Ok((request, Some(place)))
}
