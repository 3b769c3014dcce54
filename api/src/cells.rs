//! Sends each request to the application of the database on which its workspace lives. In front of the directory's application, if
//! `REJOIN_CELLS` is set; without it, requests reach that application as they are. Called by `lib`.
//!
//! - `placements` where workspaces live
//! - `apps`       an application for each cell
//!
//! Identity is the directory's: the caller is found there, whatever the workspace, and requests about keys, members and sessions are answered
//! there.
//!
//! Invariants: while a workspace is held, no request changes it; a cell that is down takes only its own workspaces down. A request whose
//! caller is cached asks the directory nothing.

pub mod apps;
pub mod placements;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use rejoin_a2a as a2a;
use rejoin_calendar::feeds;
use rejoin_dialects::openai;
use rejoin_http::authentication::authenticate;
use rejoin_http::caller::LookedUp;
use rejoin_http::cookie;
use rejoin_http::problem::Problem;
use rejoin_http::rate_limit;
use rejoin_identity::auth;
use tower::Service as _;
use url::form_urlencoded;
use uuid::Uuid;

use self::apps::Apps;
use crate::mcp;
use crate::routes;

/// Delay after which a request to a held workspace, or to a cell that is down, is repeated, in seconds.
const RETRY_AFTER_S: u64 = 1;
/// Paths whose requests act in a workspace.
const OF_WORKSPACES: [&str; 4] = ["/api/", "/v1/", mcp::PATH, "/.well-known/agent-card.json"];
/// Paths of the caller, its projects, keys and sessions, and of signing in.
const OF_CALLERS: [&str; 8] = [
    "/api/me",
    "/api/projects",
    "/api/session",
    "/api/session/project",
    "/api/sign-in-codes",
    "/api/keys",
    "/api/sessions",
    "/api/sign-in",
];
const OF_CALLERS_BELOW: [&str; 4] = ["/api/keys/", "/api/sessions/", "/api/sign-in/", "/api/invitations/"];
/// Beginning of the paths of a workspace's keys and members.
const OF_ADMINS: &str = "/api/admin/projects/";
/// Beginning of the paths of calendar feeds, which need no caller, and their end.
const FEEDS: &str = "/api/calendar-feeds/";
const FEED_ENDING: &str = ".ics";
/// Beginning of the paths of conversations that are shared by a link, which need no caller either.
const LINKS: &str = "/api/shared/";

/// Returns the application of all cells.
pub fn router(apps: Arc<Apps>) -> Router {
    Router::new()
        .fallback(serve)
        .layer(middleware::from_fn(rate_limit::headers))
        .layer(middleware::from_fn(openai::routes::translated))
        .layer(middleware::from_fn(a2a::routes::translated))
        .layer(middleware::map_response(routes::guarded))
        .with_state(apps)
}

async fn serve(State(apps): State<Arc<Apps>>, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    match find(&apps, &mut parts).await {
        Ok(mut application) => {
            // Always ready.
            let Ok(response) = application.call(Request::from_parts(parts, body)).await;
            response
        }
        Err(problem) => problem.into_response(),
    }
}

/// Returns the application of a request. The caller that was found, or why there is none, is in the request then.
async fn find(apps: &Apps, parts: &mut Parts) -> Result<Router, Problem> {
    let path = parts.uri.path();
    if is_of_identity(path) || !OF_WORKSPACES.iter().any(|begin| path.starts_with(begin)) {
        return Ok(apps.directory());
    }
    let identity = &apps.directory.identity.pool_sqlx;
    let is_stream = parts.method == Method::GET && path.ends_with("/events");
    let workspace = if let Some(ticket) = ticket(&parts.uri).filter(|_| is_stream) {
        auth::workspace_of_ticket(identity, &ticket).await?
    } else if let Some(file) = path.strip_prefix(FEEDS) {
        of_feed(apps, file.strip_suffix(FEED_ENDING).unwrap_or(file)).await?
    } else if let Some(rest) = path.strip_prefix(LINKS) {
        of_link(apps, rest.split('/').next().unwrap_or(rest)).await
    } else if has_credential(&parts.headers) {
        // As for requests without cells; the number of streams has its own limit.
        let place = if is_stream {
            None
        } else {
            Some(apps.directory.working.take()?)
        };
        let found = authenticate(&apps.directory, parts).await;
        drop(place);
        let workspace = found.as_ref().ok().map(|caller| caller.workspace_id);
        parts.extensions.insert(LookedUp(found));
        workspace
    } else {
        None
    };
    let Some(workspace) = workspace else {
        return Ok(apps.directory());
    };
    // The directory does not answer; it would not be known if the workspace has moved.
    let place = apps.placements.of(workspace).ok_or_else(Problem::database_away)?;
    if place.is_held && !parts.method.is_safe() {
        let detail = "the project is being moved to another database; repeat the request";
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "project_moving", detail).retry_after(RETRY_AFTER_S));
    }
    match &place.cell {
        None => Ok(apps.directory()),
        Some(name) => apps.cell(name).ok_or_else(|| {
            let detail = "the database of this project does not respond; retry later";
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "database_unavailable", detail).retry_after(RETRY_AFTER_S)
        }),
    }
}

/// Returns whether a path is about callers, their sessions, keys or members.
fn is_of_identity(path: &str) -> bool {
    let of_admins = path.strip_prefix(OF_ADMINS).and_then(|rest| rest.split('/').nth(1));
    OF_CALLERS.contains(&path)
        || OF_CALLERS_BELOW.iter().any(|begin| path.starts_with(begin))
        || matches!(of_admins, Some("keys" | "members" | "invitations" | "sessions"))
}

fn has_credential(headers: &HeaderMap) -> bool {
    headers.contains_key(AUTHORIZATION) || cookie::shown(headers).is_some()
}

/// Returns the ticket in a query.
fn ticket(uri: &Uri) -> Option<String> {
    let mut pairs = form_urlencoded::parse(uri.query()?.as_bytes());
    let (_, ticket) = pairs.find(|(name, _)| name == "ticket")?;
    Some(ticket.into_owned())
}

/// Returns the workspace of a calendar feed: whichever database knows its secret.
async fn of_feed(apps: &Apps, secret: &str) -> Result<Option<Uuid>, Problem> {
    let directory = [apps.directory.db.clone()];
    for db in directory.into_iter().chain(apps.databases()) {
        // Of a cell that fails, its feeds are not found for a moment.
        if let Ok(Some(feed)) = feeds::find(&db.pool_sqlx, secret).await {
            return Ok(Some(feed.owner.workspace_id));
        }
    }
    Ok(None)
}

/// Returns the workspace of a link: whichever database knows its token.
async fn of_link(apps: &Apps, token: &str) -> Option<Uuid> {
    let directory = [apps.directory.db.clone()];
    for db in directory.into_iter().chain(apps.databases()) {
        // Of a cell that fails, its links are not found for a moment.
        if let Ok(Some(workspace)) = rejoin_chat::workspace_of_link(&db, token).await {
            return Some(workspace);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_is_the_directorys() {
        for path in [
            "/api/me",
            "/api/projects",
            "/api/session",
            "/api/session/project",
            "/api/sign-in-codes",
            "/api/admin/projects/7/keys",
            "/api/admin/projects/7/keys/8",
            "/api/admin/projects/7/members/8",
            "/api/admin/projects/7/invitations",
            "/api/admin/projects/7/sessions/8",
            "/api/keys/7",
            "/api/sign-in/sso/callback",
            "/api/invitations/accept",
        ] {
            assert!(is_of_identity(path), "{path}");
        }
        for path in [
            "/api/messages",
            "/api/chat/stream",
            "/api/admin/projects/7/agent-definitions",
            "/api/admin/projects/keys",
            "/api/projects/7/agent-runs",
        ] {
            assert!(!is_of_identity(path), "{path}");
        }
    }

    #[test]
    fn a_ticket_is_in_the_query() {
        let of = |uri: &str| ticket(&uri.parse().expect("a path"));
        assert_eq!(of("/api/runs/1/events?after=3&ticket=a%2Db").as_deref(), Some("a-b"));
        assert_eq!(of("/api/runs/1/events?after=3"), None);
        assert_eq!(of("/api/runs/1/events"), None);
    }
}
