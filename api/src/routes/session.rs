//! `/api/session`: a browser signs in with an API key, a token or a sign-in code, and out again. `/api/session/project`: it goes on in
//! another project.
//!
//! Invariant: a signed-in browser changes its user only if the request allows it (`replace`): otherwise a link could
//! silently put a user into another user's account.

use axum::Json;
use axum::extract::State;
use axum::http::header::{AUTHORIZATION, SET_COOKIE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use bytes::Bytes;
use chrono::{DateTime, Utc};
use rejoin_event_log::wakeup::Wake;
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Read};
use rejoin_http::cookie;
use rejoin_http::extract::{self, Body};
use rejoin_http::problem::{BodyRefused, Problem, Refused};
use rejoin_http::sign_in::{SignsIn, new_session, signed_in};
use rejoin_identity::auth::{Credential, Kind};
use rejoin_identity::sessions::BegunBy;
use rejoin_identity::workspaces::Role;
use rejoin_identity::{sessions, sign_in};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;
use uuid::Uuid;

use super::me::Me;
use crate::state::{AppState, Routes};

type SetCookie = [(HeaderName, HeaderValue); 1];

pub fn routes() -> Routes {
    Routes::new().routes(routes!(begin, end)).routes(routes!(switch))
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    pub user_id: Uuid,
    /// The project in which the browser acts
    #[serde(rename = "projectId")]
    pub workspace_id: Uuid,
    /// When the session expires
    pub expires_at: DateTime<Utc>,
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SignIn {
    /// A sign-in code, instead of the header `Authorization`; only from pages of this server
    pub code: Option<String>,
    /// Replace the session of another user
    #[serde(default)]
    pub replace: bool,
}

/// Sign in
///
/// With the key or token of the header `Authorization`, or with a code in the body. If the browser is signed in as
/// another user, the response is 409 `signed_in_as_another`, which names both users (`signedInAs`, `instead`), unless
/// `replace` is true. The response sets an `HttpOnly`, `SameSite=Strict` cookie that gives pages of this server the
/// same access in this project, for as long as the credential is valid, at most `REJOIN_SESSION_HOURS`.
#[utoipa::path(post, path = "/api/session", tag = "callers",
    request_body = Option<SignIn>,
    responses((status = 201, description = "Signed in", body = Session, headers(("Set-Cookie" = String))),
        (status = 409, description = "The browser is signed in as another user", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused, BodyRefused))]
async fn begin(
    State(state): State<AppState>,
    SignsIn(found): SignsIn,
    headers: HeaderMap,
    body: Bytes,
) -> Result<(StatusCode, SetCookie, Json<Session>), Problem> {
    let asked: SignIn = if body.is_empty() {
        SignIn::default()
    } else {
        extract::json(&headers, &body)?
    };
    let caller = match &asked.code {
        Some(code) => by_code(&state, &headers, code).await?,
        None => found?.plain(),
    };
    if caller.shown_in == Kind::Session {
        let detail = "sign in with an API key, a token or a sign-in code, not with a session";
        return Err(Problem::new(StatusCode::FORBIDDEN, "session_not_enough", detail));
    }
    if caller.role == Role::Service {
        let detail = "a service account cannot sign in to a browser; use its API key";
        return Err(Problem::new(StatusCode::FORBIDDEN, "role_missing", detail));
    }
    let before = signed_in(&state, &headers).await?;
    let another = before.filter(|before| before.user_id != caller.user_id);
    if let Some(another) = &another
        && !asked.replace
    {
        return Err(is_another(&state, another, &caller).await?);
    }
    if let Some(code) = &asked.code
        && !sign_in::use_up(&state.db.pool_sqlx, code).await?
    {
        return Err(no_code());
    }
    state.rates.count_audited(caller.user_id)?;
    let begun_by = match (&asked.code, caller.credential) {
        (Some(_), _) => BegunBy::Code,
        (None, Credential::Key(_)) => BegunBy::Key,
        (None, Credential::Token(_)) => BegunBy::Token,
    };
    let new = new_session(&state, &headers, begun_by);
    let begun = sessions::begin(&state.db.pool_sqlx, &caller, new).await?;
    if let Some(another) = &another {
        sessions::end(&state.db.pool_sqlx, another).await?;
        state.keys.forget(another);
    }
    let cookie = cookie::begun(&headers, &begun.secret, begun.lasts_s);
    let session = Session {
        user_id: caller.user_id,
        workspace_id: caller.workspace_id,
        expires_at: begun.expires_at,
    };
    Ok((StatusCode::CREATED, [(SET_COOKIE, cookie)], Json(session)))
}

/// Returns the user of a sign-in code. Cross-site requests are refused.
async fn by_code(state: &AppState, headers: &HeaderMap, code: &str) -> Result<Caller, Problem> {
    if headers.contains_key(AUTHORIZATION) {
        let detail = "sign in either with a code or with the header Authorization, not with both";
        return Err(Problem::bad_request("invalid_body", detail));
    }
    if !cookie::is_from_here(&Method::POST, headers) {
        let detail = "a sign-in code can be used only by pages of this server; other programs must use an API key";
        return Err(Problem::new(StatusCode::FORBIDDEN, "cross_site", detail));
    }
    let caller = sign_in::whose(&state.db.pool_sqlx, code).await?.ok_or_else(no_code)?;
    Ok(caller.into())
}

fn no_code() -> Problem {
    let detail = "the sign-in code is unknown, used or expired; create another one with `rejoin sign-in`";
    Problem::unauthorized("code_invalid", detail)
}

async fn is_another(state: &AppState, before: &Caller, caller: &Caller) -> Result<Problem, Problem> {
    let (signed_in, instead) = sign_in::handles(&state.db.pool_sqlx, before.user_id, caller.user_id).await?;
    let detail = format!(
        "this browser is signed in as {signed_in}; to sign in as {instead}, sign out first, or send `replace`: true"
    );
    Ok(Problem::conflict("signed_in_as_another", detail)
        .with("signedInAs", json!({ "userId": before.user_id, "handle": signed_in }))
        .with("instead", json!({ "userId": caller.user_id, "handle": instead })))
}

/// Sign out
///
/// The cookie's session and its open streams end.
#[utoipa::path(delete, path = "/api/session", tag = "callers",
    responses((status = 204, description = "Signed out", headers(("Set-Cookie" = String))), Refused))]
async fn end(State(state): State<AppState>, caller: Caller<Read>) -> Result<(StatusCode, SetCookie), Problem> {
    if caller.shown_in == Kind::Session {
        sessions::end(&state.db.pool_sqlx, &caller).await?;
        state.keys.forget(&caller);
    }
    Ok((StatusCode::NO_CONTENT, [(SET_COOKIE, cookie::ended())]))
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SwitchRequest {
    /// The project in which the browser acts from then on
    #[serde(rename = "projectId")]
    pub workspace_id: Uuid,
}

/// Go on in another project
///
/// Moves the cookie's session to another project of its user (`GET /api/projects`), where it has the scopes that the user's role
/// allows. Its open streams end within 5 s: they belong to the project that it leaves. A session that was begun with a key of one
/// project stays there (409 `session_stays`). API keys and tokens are not moved (409 `not_a_session`).
#[utoipa::path(post, path = "/api/session/project", tag = "callers", request_body = SwitchRequest,
    responses((status = 200, description = "The caller in the other project", body = Me),
        (status = 409, description = "The session stays in its project, or the credential is not a session", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused, BodyRefused))]
async fn switch(
    State(state): State<AppState>,
    caller: Caller<Read>,
    Body(request): Body<SwitchRequest>,
) -> Result<Json<Me>, Problem> {
    caller.counts_audited()?;
    let switched = sessions::switch(&state.db.pool_sqlx, &caller, request.workspace_id).await?;
    // Here immediately, elsewhere on the wake-up.
    state.keys.forget(&caller);
    state.bus.publish(Wake::keys(switched.left));
    Ok(Json(Me::of(&state, &switched.caller).await?))
}
