//! Authenticates a request by API key, identity provider's token or browser session, and counts it against the rate limits.

use axum::extract::FromRequestParts;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode};
use rejoin_faults::Fault;
use rejoin_identity::auth::{self, AuthError, Kind};
use rejoin_identity::identities;
use uuid::Uuid;

use crate::caller::{Caller, LookedUp, Scoped, Shown};
use crate::cookie;
use crate::oidc::Oidc;
use crate::problem::Problem;
use crate::rate_limit::ReportedLimit;
use crate::state::HttpState;

/// The header that selects one of several workspaces.
const WORKSPACE_HEADER: &str = "x-project-id";

/// Finds out who sends the request, whatever scope it needs, and counts it.
pub async fn authenticate(state: &HttpState, parts: &Parts) -> Result<Caller, Problem> {
    let Parts {
        method, headers, uri, ..
    } = parts;
    let (kind, shown) = shown(method, headers)?;
    let workspace = match headers.get(WORKSPACE_HEADER) {
        None => workspace_of_path(uri.path()),
        Some(value) => {
            let id = value.to_str().ok().and_then(|text| text.trim().parse().ok());
            Some(id.ok_or_else(|| Problem::not_found("project_not_found", "The project"))?)
        }
    };
    let known_as: Shown = if rejoin_faults::enabled(Fault::KeysShared) {
        (kind, Vec::new(), None)
    } else {
        (kind, auth::hash_secret(shown), workspace)
    };
    let caller = match state.keys.get(&known_as).await {
        Some(caller) => caller,
        None => {
            let caller = look_up(state, kind, shown, workspace).await?;
            state.keys.remember(known_as, caller.clone()).await;
            caller
        }
    };
    if caller.credential.has_expired() {
        return Err(AuthError::TokenExpired.into());
    }
    let (rate, counted) = state.rates.count(caller.counted());
    if let Some(reported) = parts.extensions.get::<ReportedLimit>() {
        reported.report(rate);
    }
    counted?;
    Ok(caller.sending(parts))
}

/// Returns the credential of a request, and its kind. A header takes precedence over a cookie: it is explicit.
fn shown<'a>(method: &Method, headers: &'a HeaderMap) -> Result<(Kind, &'a str), Problem> {
    let needed = || {
        Problem::unauthorized(
            "unauthorized",
            "an API key or a token is required: Authorization: Bearer <key>",
        )
    };
    let Some(value) = headers.get(AUTHORIZATION) else {
        let session = cookie::shown(headers).ok_or_else(needed)?;
        if !cookie::is_from_here(method, headers) {
            let detail = "a browser session can be used only by pages of this server; other programs must use an API \
                key";
            return Err(Problem::new(StatusCode::FORBIDDEN, "cross_site", detail));
        }
        return Ok((Kind::Session, session));
    };
    let (scheme, shown) = value
        .to_str()
        .ok()
        .and_then(|value| value.split_once(' '))
        .ok_or_else(needed)?;
    let shown = shown.trim();
    if !scheme.eq_ignore_ascii_case("bearer") || shown.is_empty() {
        return Err(needed());
    }
    Ok((Kind::Key, shown))
}

/// Looks up the caller of a credential.
async fn look_up(state: &HttpState, kind: Kind, shown: &str, workspace: Option<Uuid>) -> Result<Caller, Problem> {
    let db = &state.identity.pool_sqlx;
    let caller = match &state.oidc {
        Some(oidc) if kind == Kind::Key && Oidc::is_token(shown) => {
            let identity = oidc.verify(shown).await?;
            identities::authenticate(db, &identity, oidc.new_users(), workspace).await?
        }
        _ => auth::authenticate(db, kind, shown, workspace).await?,
    };
    Ok(Caller::new(caller, state.rates.clone()))
}

/// Returns the workspace in a path, so that a key of several workspaces needs no header there.
fn workspace_of_path(path: &str) -> Option<Uuid> {
    let rest = path
        .strip_prefix("/api/projects/")
        .or_else(|| path.strip_prefix("/api/admin/projects/"))?;
    rest.split('/').next()?.parse().ok()
}

impl<S, T> FromRequestParts<T> for Caller<S>
where
    S: Scoped,
    T: AsRef<HttpState> + Send + Sync,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &T) -> Result<Self, Problem> {
        let caller = match parts.extensions.get() {
            Some(LookedUp(found)) => found.clone()?,
            None => authenticate(state.as_ref(), parts).await?,
        };
        caller.with_scope()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_shown_as_a_bearer_and_not_otherwise() {
        let token_of = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, axum::http::HeaderValue::from_static(value));
            shown(&Method::GET, &headers)
                .ok()
                .map(|(kind, key)| (kind, key.to_owned()))
        };
        let key = Some((Kind::Key, "abc".to_owned()));
        assert_eq!(token_of("Bearer abc"), key);
        assert_eq!(token_of("bearer  abc "), key);
        for other in ["Basic abc", "Bearer  ", "Bearer", "abc"] {
            assert_eq!(token_of(other), None, "{other}");
        }
    }

    #[test]
    fn the_path_names_its_workspace() {
        let id = Uuid::now_v7();
        assert_eq!(workspace_of_path(&format!("/api/projects/{id}/agent-runs")), Some(id));
        assert_eq!(
            workspace_of_path(&format!("/api/admin/projects/{id}/agent-definitions")),
            Some(id)
        );
        assert_eq!(workspace_of_path("/api/conversations"), None);
    }
}
