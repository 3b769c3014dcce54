//! `/api/session`: a browser signs in with an API key or a token, and out again.

use axum::Json;
use axum::extract::State;
use axum::http::header::SET_COOKIE;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use chrono::{DateTime, Utc};
use rejoin_shared::auth::Kind;
use rejoin_shared::projects::Role;
use rejoin_shared::sessions;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use crate::caller::Caller;
use crate::cookie;
use crate::problem::{Problem, Refused};
use crate::state::AppState;

pub const PATH: &str = "/api/session";

type SetCookie = [(HeaderName, HeaderValue); 1];

pub fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(begin, end))
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    pub user_id: Uuid,
    /// The project that the browser acts in
    pub project_id: Uuid,
    /// When the browser has to sign in again
    pub expires_at: DateTime<Utc>,
}

/// Sign in
///
/// With the key or token of the header `Authorization`. The answer sets a cookie, `HttpOnly` and `SameSite=Strict`, that opens what they
/// open, in this project, to pages of this server only; it is good for as long as they are, and at most for `REJOIN_SESSION_HOURS`.
#[utoipa::path(post, path = "/api/session", tag = "callers",
    responses((status = 201, description = "Signed in", body = Session, headers(("Set-Cookie" = String))), Refused))]
async fn begin(
    State(state): State<AppState>,
    caller: Caller,
    headers: HeaderMap,
) -> Result<(StatusCode, SetCookie, Json<Session>), Problem> {
    if caller.shown_in == Kind::Session {
        let detail = "signing in takes an API key or a token, not a session";
        return Err(Problem::new(StatusCode::FORBIDDEN, "session_not_enough", detail));
    }
    if caller.role == Role::Service {
        let detail = "a service has no browser: use its key";
        return Err(Problem::new(StatusCode::FORBIDDEN, "role_missing", detail));
    }
    let lifetime_s = i64::from(state.config.session_hours) * 60 * 60;
    let begun = sessions::begin(&state.db.sql, &caller, lifetime_s).await?;
    let cookie = cookie::begun(&headers, &begun.secret, begun.lasts_s);
    let session = Session {
        user_id: caller.user_id,
        project_id: caller.project_id,
        expires_at: begun.expires_at,
    };
    Ok((StatusCode::CREATED, [(SET_COOKIE, cookie)], Json(session)))
}

/// Sign out
///
/// The session of the cookie ends, and so do the streams that it holds open.
#[utoipa::path(delete, path = "/api/session", tag = "callers",
    responses((status = 204, description = "Signed out", headers(("Set-Cookie" = String))), Refused))]
async fn end(State(state): State<AppState>, caller: Caller) -> Result<(StatusCode, SetCookie), Problem> {
    if caller.shown_in == Kind::Session {
        sessions::end(&state.db.sql, &caller).await?;
        state.keys.forget(&caller);
    }
    Ok((StatusCode::NO_CONTENT, [(SET_COOKIE, cookie::ended())]))
}
