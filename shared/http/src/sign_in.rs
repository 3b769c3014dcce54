//! Endpoints with which users sign in, join, and see where they are signed in. Called by the API, which serves them.
//!
//! - `sso`         browsers that sign in and out at the identity provider
//! - `invitations` links with which users join a project
//! - `sessions`    sessions of browsers: listed and ended
//!
//! (`POST` and `DELETE /api/session`, `POST /api/session/project`, and sign-in codes, are in the API.)

pub mod invitations;
pub mod sessions;
pub mod sso;

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::header::USER_AGENT;
use axum::http::request::Parts;
use rejoin_identity::auth::{self, AuthError, Kind};
use rejoin_identity::sessions::{BegunBy, NewSession};

use crate::authorization::{Access, Admits, Routes};
use crate::caller::{Caller, Read, Scoped};
use crate::cookie;
use crate::problem::Problem;
use crate::state::HttpState;

pub fn routes() -> Routes<HttpState> {
    Routes::new()
        .merge(sso::routes())
        .merge(invitations::routes())
        .merge(sessions::routes())
}

/// Who signs in or joins: a caller, unless the body has a sign-in code or an invitation.
pub struct SignsIn(pub Result<Caller<Read>, Problem>);

impl Admits for SignsIn {
    const ACCESS: Access = Access::ScopeOrCode(Read::SCOPE);
}

impl<T: AsRef<HttpState> + Send + Sync> FromRequestParts<T> for SignsIn {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &T) -> Result<Self, Infallible> {
        Ok(Self(Caller::from_request_parts(parts, state).await))
    }
}

/// Returns the user as whom the browser is signed in.
pub async fn signed_in(state: &HttpState, headers: &HeaderMap) -> Result<Option<Caller>, Problem> {
    let Some(secret) = cookie::shown(headers) else {
        return Ok(None);
    };
    match auth::authenticate(&state.db.pool_sqlx, Kind::Session, secret, None).await {
        Ok(caller) => Ok(Some(caller.into())),
        Err(AuthError::Database(error)) => Err(error.into()),
        // An ended session has no user.
        Err(_) => Ok(None),
    }
}

/// The session that a browser begins.
pub fn new_session<'a>(state: &HttpState, headers: &'a HeaderMap, begun_by: BegunBy) -> NewSession<'a> {
    NewSession {
        begun_by,
        user_agent: headers.get(USER_AGENT).and_then(|value| value.to_str().ok()),
        lifetime_s: state.args.session_s(),
    }
}
