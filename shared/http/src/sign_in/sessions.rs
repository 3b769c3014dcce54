//! `/api/sessions` and `/api/admin/projects/{p}/sessions`: where users are signed in with a browser. Users end their sessions,
//! and admins those of their project.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use chrono::{DateTime, Utc};
use rejoin_db::rls;
use rejoin_event_log::wakeup::Wake;
use rejoin_identity::auth::Kind;
use rejoin_identity::sessions::{self, SessionInfo, Whose};
use rejoin_types::access::Scope;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::authorization::{Routes, routes};
use crate::caller::{Admin, Caller, Read};
use crate::extract::{PageParams, Params, Segments, page};
use crate::problem::{Problem, Refused};
use crate::state::HttpState;

pub fn routes() -> Routes<HttpState> {
    Routes::new()
        .routes(routes!(list, end_others))
        .routes(routes!(end))
        .routes(routes!(list_of_project))
        .routes(routes!(end_of_project))
}

/// A session of a browser
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionItem {
    pub id: Uuid,
    pub user_id: Uuid,
    /// The user's display name
    pub handle: String,
    /// The project in which the browser acts
    pub project_id: Uuid,
    /// The project's name
    pub project: String,
    /// `read`, `write`, `admin`; at most the scopes of the user's role
    pub scopes: Vec<String>,
    /// With what it was begun: `key`, `token`, `code`, `sso` or `invitation`; null: with an earlier release
    pub begun_by: Option<String>,
    /// The browser's name for itself, as it was sent
    pub user_agent: Option<String>,
    /// This request was sent with it
    pub is_current: bool,
    pub created_at: DateTime<Utc>,
    /// Time at which it expires
    pub expires_at: DateTime<Utc>,
    /// Time of its last use, to the minute
    pub last_used_at: Option<DateTime<Utc>>,
}

impl SessionItem {
    fn of(session: SessionInfo, caller: &Caller) -> Self {
        Self {
            is_current: caller.credential.key_id() == Some(session.id),
            id: session.id,
            user_id: session.user_id,
            handle: session.handle,
            project_id: session.workspace_id,
            project: session.workspace,
            scopes: session.scopes,
            begun_by: session.begun_by,
            user_agent: session.user_agent,
            created_at: session.created_at,
            expires_at: session.expires_at,
            last_used_at: session.last_used_at,
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionList {
    pub items: Vec<SessionItem>,
    pub next_cursor: Option<String>,
}

/// How many sessions have ended
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EndedSessions {
    pub ended: usize,
}

async fn sessions_of(
    state: &HttpState,
    caller: &Caller,
    whose: Whose,
    params: &PageParams,
) -> Result<Json<SessionList>, Problem> {
    let limit = params.limit(state)?;
    let after: Option<Uuid> = params.after()?;
    let mut db = rls::begin(&state.db.pool_sqlx, rls::Scope::Login).await?;
    let rows = sessions::page(&mut db, whose, after, limit + 1).await?;
    let (items, next_cursor) = page(rows, limit, |row| row.id, |row| SessionItem::of(row, caller));
    Ok(Json(SessionList { items, next_cursor }))
}

/// Ends sessions, and returns how many were valid.
async fn end_sessions(
    state: &HttpState,
    caller: &Caller,
    whose: Whose,
    only: Option<Uuid>,
    except: Option<Uuid>,
) -> Result<usize, Problem> {
    caller.counts_audited()?;
    let ended = sessions::revoke(&state.db.pool_sqlx, caller, whose, only, except).await?;
    for session in &ended {
        // Here immediately, elsewhere on the wake-up.
        state.keys.forget_workspace(session.workspace_id);
        state.bus.publish(Wake::keys(session.workspace_id));
    }
    Ok(ended.len())
}

/// A session ends the sessions of its user; a program needs the scope `write` for that.
fn may_end(caller: &Caller) -> Result<(), Problem> {
    match caller.shown_in {
        Kind::Session => Ok(()),
        Kind::Key if caller.needs(Scope::Write).is_ok() => Ok(()),
        Kind::Key => {
            let detail = "sessions are ended in a browser, or with a key that has the scope `write`";
            Err(Problem::new(StatusCode::FORBIDDEN, "session_needed", detail))
        }
    }
}

/// List your sessions in browsers, newest first
///
/// In all of your projects.
#[utoipa::path(get, path = "/api/sessions", tag = "sessions", params(PageParams),
    responses((status = 200, description = "A page", body = SessionList), Refused))]
async fn list(
    State(state): State<HttpState>,
    caller: Caller<Read>,
    Params(params): Params<PageParams>,
) -> Result<Json<SessionList>, Problem> {
    sessions_of(&state, &caller, Whose::User(caller.user_id), &params).await
}

/// Sign out everywhere else
///
/// Ends all of your sessions but the one with which this is requested. Their open streams end within 5 s. An API key needs
/// the scope `write`.
#[utoipa::path(delete, path = "/api/sessions", tag = "sessions",
    responses((status = 200, description = "The number of ended sessions", body = EndedSessions), Refused))]
async fn end_others(State(state): State<HttpState>, caller: Caller<Read>) -> Result<Json<EndedSessions>, Problem> {
    may_end(&caller)?;
    let except = caller.credential.key_id();
    let ended = end_sessions(&state, &caller, Whose::User(caller.user_id), None, except).await?;
    Ok(Json(EndedSessions { ended }))
}

/// End one of your sessions
///
/// Its open streams end within 5 s. An API key needs the scope `write`.
#[utoipa::path(delete, path = "/api/sessions/{session}", tag = "sessions",
    params(("session" = Uuid, Path, description = "The session's id")),
    responses((status = 204, description = "Ended"), Refused))]
async fn end(
    State(state): State<HttpState>,
    caller: Caller<Read>,
    Segments(id): Segments<Uuid>,
) -> Result<StatusCode, Problem> {
    may_end(&caller)?;
    one(end_sessions(&state, &caller, Whose::User(caller.user_id), Some(id), None).await?)
}

/// List the project's sessions in browsers, newest first
#[utoipa::path(get, path = "/api/admin/projects/{p}/sessions", tag = "sessions",
    params(PageParams, ("p" = Uuid, Path, description = "The project")),
    responses((status = 200, description = "A page", body = SessionList), Refused))]
async fn list_of_project(
    State(state): State<HttpState>,
    caller: Caller<Admin>,
    Segments(workspace_id): Segments<Uuid>,
    Params(params): Params<PageParams>,
) -> Result<Json<SessionList>, Problem> {
    caller.in_workspace(workspace_id)?;
    sessions_of(&state, &caller, Whose::Workspace(workspace_id), &params).await
}

/// End a session in the project
///
/// Its open streams end within 5 s. The user can sign in again: remove the member, or revoke the key, to prevent it.
#[utoipa::path(delete, path = "/api/admin/projects/{p}/sessions/{session}", tag = "sessions",
    params(("p" = Uuid, Path, description = "The project"), ("session" = Uuid, Path, description = "The session's id")),
    responses((status = 204, description = "Ended"), Refused))]
async fn end_of_project(
    State(state): State<HttpState>,
    caller: Caller<Admin>,
    Segments((workspace_id, id)): Segments<(Uuid, Uuid)>,
) -> Result<StatusCode, Problem> {
    caller.in_workspace(workspace_id)?;
    one(end_sessions(&state, &caller, Whose::Workspace(workspace_id), Some(id), None).await?)
}

/// The answer to a request to end one session.
fn one(ended: usize) -> Result<StatusCode, Problem> {
    match ended {
        0 => Err(Problem::not_found("session_not_found", "The session")),
        _ => Ok(StatusCode::NO_CONTENT),
    }
}
