//! Authenticates a request by API key, identity provider's token or browser session; checks the scope and the rate
//! limit.

use axum::extract::FromRequestParts;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use rejoin_shared::access::Scope;
use rejoin_shared::auth::{self, AuthError, Kind};
use rejoin_shared::identities;
use rejoin_shared::sabotage::{self, Break};
use uuid::Uuid;

use crate::caller::{self, Caller, LookedUp, Shown};
use crate::cookie;
use crate::oidc::Oidc;
use crate::pace::Told;
use crate::problem::Problem;
use crate::state::AppState;

/// The header that selects one of several projects.
const PROJECT_HEADER: &str = "x-project-id";

/// Authenticates these headers, and checks the scope.
async fn authenticate(
    state: &AppState,
    method: &Method,
    headers: &HeaderMap,
    uri: &Uri,
    told: &Told,
    scope: Scope,
) -> Result<Caller, Problem> {
    let (kind, shown) = shown(method, headers)?;
    let project = match headers.get(PROJECT_HEADER) {
        None => project_of_path(uri.path()),
        Some(value) => {
            let id = value.to_str().ok().and_then(|text| text.trim().parse().ok());
            Some(id.ok_or_else(|| Problem::not_found("project_not_found", "The project"))?)
        }
    };
    let known_as: Shown = if sabotage::is(Break::KeysShared) {
        (kind, Vec::new(), None)
    } else {
        (kind, auth::hash_secret(shown), project)
    };
    let caller = match state.keys.get(&known_as).await {
        Some(caller) => caller,
        None => {
            let caller = look_up(state, kind, shown, project).await?;
            state.keys.remember(known_as, caller.clone()).await;
            caller
        }
    };
    if caller.credential.has_expired() {
        return Err(AuthError::TokenExpired.into());
    }
    let (pace, counted) = state.rates.count(caller.counted());
    told.tell(pace);
    counted?;
    if !caller.may(scope) {
        let detail = format!("the caller lacks the scope `{}`", scope.as_str());
        return Err(Problem::new(StatusCode::FORBIDDEN, "scope_missing", detail));
    }
    Ok(caller)
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
async fn look_up(state: &AppState, kind: Kind, shown: &str, project: Option<Uuid>) -> Result<Caller, Problem> {
    let db = &state.db.sql;
    let caller = match &state.oidc {
        Some(oidc) if kind == Kind::Key && Oidc::is_token(shown) => {
            let identity = oidc.verify(shown).await?;
            identities::authenticate(db, &identity, oidc.new_users(), project).await?
        }
        _ => auth::authenticate(db, kind, shown, project).await?,
    };
    Ok(Caller::new(caller, state.rates.clone()))
}

/// Returns the project in a path, so that a key of several projects needs no header there.
fn project_of_path(path: &str) -> Option<Uuid> {
    let rest = path
        .strip_prefix("/api/projects/")
        .or_else(|| path.strip_prefix("/api/admin/projects/"))?;
    rest.split('/').next()?.parse().ok()
}

/// Paths that need read access only: a ticket or session grants no more than the caller's rights; MCP requests are
/// checked individually.
const NO_MORE_THAN_READING: [&str; 4] = [
    crate::routes::tickets::PATH,
    caller::SESSION_PATH,
    crate::routes::sign_in_codes::PATH,
    crate::mcp::PATH,
];

/// Returns the scope that a request needs. Adding, changing and testing data sources is for admins; querying one is
/// reading (its route checks writes), and so is a traversal of the graph.
fn scope_of(method: &Method, path: &str) -> Scope {
    let mut below = path.split('/').skip(4);
    let (part, verb) = (below.next(), below.next());
    let of_sources = part == Some("data-sources");
    let asks = of_sources && (path.ends_with("/query") || path.ends_with("/explain"))
        || (part, verb) == (Some("graph"), Some("traverse"));
    if path.starts_with("/api/admin/") || of_sources && !asks && method != Method::GET && method != Method::HEAD {
        Scope::Admin
    } else if asks || method == Method::GET || method == Method::HEAD || NO_MORE_THAN_READING.contains(&path) {
        Scope::Read
    } else {
        Scope::Write
    }
}

impl FromRequestParts<AppState> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Problem> {
        if let Some(LookedUp(found)) = parts.extensions.get() {
            return found.clone();
        }
        let scope = scope_of(&parts.method, parts.uri.path());
        let told = parts.extensions.get::<Told>().cloned().unwrap_or_default();
        authenticate(state, &parts.method, &parts.headers, &parts.uri, &told, scope).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admin_paths_need_the_admin_scope_even_to_read() {
        assert_eq!(
            scope_of(&Method::GET, "/api/admin/projects/x/agent-definitions"),
            Scope::Admin
        );
        assert_eq!(scope_of(&Method::GET, "/api/conversations"), Scope::Read);
        assert_eq!(scope_of(&Method::POST, "/api/chat/stream"), Scope::Write);
        let sources = "/api/projects/x/data-sources";
        assert_eq!(scope_of(&Method::POST, sources), Scope::Admin);
        assert_eq!(scope_of(&Method::DELETE, &format!("{sources}/y")), Scope::Admin);
        assert_eq!(scope_of(&Method::POST, &format!("{sources}/y/test")), Scope::Admin);
        assert_eq!(scope_of(&Method::GET, sources), Scope::Read);
        assert_eq!(scope_of(&Method::POST, &format!("{sources}/y/query")), Scope::Read);
        assert_eq!(scope_of(&Method::POST, "/api/projects/x/graph/traverse"), Scope::Read);
        assert_eq!(scope_of(&Method::POST, "/api/projects/x/graph/objects"), Scope::Write);
    }

    #[test]
    fn each_word_of_a_path_and_its_method_count() {
        let sources = "/api/projects/x/data-sources";
        for (method, path, needed) in [
            (Method::POST, "/api/admin/projects", Scope::Admin),
            (Method::HEAD, "/api/conversations", Scope::Read),
            (Method::PUT, "/api/conversations", Scope::Write),
            (Method::HEAD, sources, Scope::Read),
            (Method::PATCH, &format!("{sources}/y"), Scope::Admin),
            (Method::POST, &format!("{sources}/y/explain"), Scope::Read),
            (Method::POST, "/api/projects/x/consoles/y/query", Scope::Write),
            (Method::POST, "/api/projects/x/consoles/y/explain", Scope::Write),
            (Method::POST, "/api/projects/x/agents/traverse", Scope::Write),
            (Method::POST, crate::routes::tickets::PATH, Scope::Read),
            (Method::DELETE, caller::SESSION_PATH, Scope::Read),
        ] {
            assert_eq!(scope_of(&method, path), needed, "{method} {path}");
        }
    }

    #[test]
    fn a_key_is_shown_as_a_bearer_and_not_otherwise() {
        let told = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, axum::http::HeaderValue::from_static(value));
            shown(&Method::GET, &headers)
                .ok()
                .map(|(kind, key)| (kind, key.to_owned()))
        };
        let key = Some((Kind::Key, "abc".to_owned()));
        assert_eq!(told("Bearer abc"), key);
        assert_eq!(told("bearer  abc "), key);
        for other in ["Basic abc", "Bearer  ", "Bearer", "abc"] {
            assert_eq!(told(other), None, "{other}");
        }
    }

    #[test]
    fn the_path_names_its_project() {
        let id = Uuid::now_v7();
        assert_eq!(project_of_path(&format!("/api/projects/{id}/agent-runs")), Some(id));
        assert_eq!(
            project_of_path(&format!("/api/admin/projects/{id}/agent-definitions")),
            Some(id)
        );
        assert_eq!(project_of_path("/api/conversations"), None);
    }
}
