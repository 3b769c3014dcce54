//! `/api/admin/projects/{p}/keys`: API keys of a project. Admins create keys for themselves, and revoke any. `/api/keys`: users see
//! and revoke their keys.

use axum::Json;
use axum::extract::State;
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderName, StatusCode};
use chrono::{DateTime, Utc};
use rejoin_db::rls;
use rejoin_event_log::wakeup::Wake;
use rejoin_http::audit::record;
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Admin, Caller, Read};
use rejoin_http::extract::{Body, PageParams, Params, Segments, page};
use rejoin_http::problem::{BodyRefused, Problem, Refused};
use rejoin_identity::audit::Action;
use rejoin_identity::auth::Kind;
use rejoin_identity::keys::{self, KeyError, NewKey, WorkspaceKey};
use rejoin_types::access::{Grant, NotAGrant, Scope};
use serde::{Deserialize, Serialize};
use serde_json::json;
use sqlx::{Postgres, Transaction};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::state::{AppState, Routes};

const DAY_S: i64 = 24 * 60 * 60;
/// Maximum lifetime of a key, in days; the same as in `rejoin keys create`.
const MAX_DAYS: i64 = 36_500;
/// Maximum number of scopes of a key.
const MAX_SCOPES: usize = 50;

pub fn routes() -> Routes {
    Routes::new()
        .routes(routes!(list, make))
        .routes(routes!(revoke))
        .routes(routes!(list_own))
        .routes(routes!(revoke_own))
}

/// A key, without its secret
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyItem {
    pub id: Uuid,
    /// The key's name
    pub name: String,
    /// Its first characters
    pub prefix: String,
    /// The user that it acts as
    pub user_id: Uuid,
    /// The user's display name
    pub handle: String,
    /// `read`, `write`, `admin`, `worker`, `worker:QUEUE`, `worker:QUEUE/TOOL`; at most the scopes of the user's role
    pub scopes: Vec<String>,
    pub created_at: DateTime<Utc>,
    /// The user who created it over HTTP; null: an operator
    pub made_by: Option<Uuid>,
    /// Time at which it expires
    pub expires_at: Option<DateTime<Utc>>,
    pub revoked_at: Option<DateTime<Utc>>,
    /// Time of its last use, to the minute; use by its browser sessions is not included
    pub last_used_at: Option<DateTime<Utc>>,
}

impl From<WorkspaceKey> for KeyItem {
    fn from(key: WorkspaceKey) -> Self {
        Self {
            id: key.id,
            name: key.name,
            prefix: key.prefix,
            user_id: key.user_id,
            handle: key.handle,
            scopes: key.scopes,
            created_at: key.created_at,
            made_by: key.made_by,
            expires_at: key.expires_at,
            revoked_at: key.revoked_at,
            last_used_at: key.last_used_at,
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyPage {
    pub items: Vec<KeyItem>,
    pub next_cursor: Option<String>,
}

/// A new key
#[derive(Debug, Serialize, ToSchema)]
pub struct MadeKey {
    #[serde(flatten)]
    pub item: KeyItem,
    /// The key itself. It is shown only this once
    pub key: String,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KeyRequest {
    /// The key's name
    #[schema(min_length = 1, max_length = 100)]
    pub name: String,
    /// Its scopes, at most your own: `read` (GET), `write` (all other methods outside of `/api/admin`), `admin` (`/api/admin`), `worker` (`/api/workers`:
    /// serves tools to agents), `worker:QUEUE` (serves one queue) and `worker:QUEUE/TOOL` (one tool of it)
    pub scopes: Vec<String>,
    /// Number of days after which it expires; absent: valid until revoked. Never longer than your own key
    #[schema(minimum = 1, maximum = 36500)]
    pub expires_in_days: Option<i64>,
}

/// Begins a transaction that may change keys of the caller's project.
async fn begin(state: &AppState, caller: &Caller) -> Result<Transaction<'static, Postgres>, Problem> {
    Ok(rls::begin(&state.db.pool_sqlx, rls::Scope::UserLogin(caller.owner())).await?)
}

/// List the project's keys, newest first
///
/// The keys themselves are not included. Expired and revoked keys are included; keys for all projects of a user are
/// not.
#[utoipa::path(get, path = "/api/admin/projects/{p}/keys", tag = "keys",
    params(PageParams, ("p" = Uuid, Path, description = "The project")),
    responses((status = 200, description = "A page", body = KeyPage), Refused))]
async fn list(
    State(state): State<AppState>,
    caller: Caller<Admin>,
    Segments(workspace_id): Segments<Uuid>,
    Params(params): Params<PageParams>,
) -> Result<Json<KeyPage>, Problem> {
    caller.in_workspace(workspace_id)?;
    let limit = params.limit(&state)?;
    let after: Option<Uuid> = params.after()?;
    let rows = keys::page(
        &mut *begin(&state, &caller).await?,
        workspace_id,
        None,
        after,
        limit + 1,
    )
    .await?;
    let (items, next_cursor) = page(rows, limit, |row| row.id, KeyItem::from);
    Ok(Json(KeyPage { items, next_cursor }))
}

/// List your keys in the project, newest first
///
/// The keys themselves are not included. Expired and revoked keys are included; keys for all of your projects are not.
#[utoipa::path(get, path = "/api/keys", tag = "keys", params(PageParams),
    responses((status = 200, description = "A page", body = KeyPage), Refused))]
async fn list_own(
    State(state): State<AppState>,
    caller: Caller<Read>,
    Params(params): Params<PageParams>,
) -> Result<Json<KeyPage>, Problem> {
    let limit = params.limit(&state)?;
    let after: Option<Uuid> = params.after()?;
    let rows = keys::page(
        &mut *begin(&state, &caller).await?,
        caller.workspace_id,
        Some(caller.user_id),
        after,
        limit + 1,
    )
    .await?;
    let (items, next_cursor) = page(rows, limit, |row| row.id, KeyItem::from);
    Ok(Json(KeyPage { items, next_cursor }))
}

/// Revoke one of your keys in the project
///
/// As `DELETE /api/admin/projects/{p}/keys/{key}`. An API key without the scope `write` can only revoke itself. Idempotent.
#[utoipa::path(delete, path = "/api/keys/{key}", tag = "keys",
    params(("key" = Uuid, Path, description = "The key's id")),
    responses((status = 204, description = "Revoked"),
        (status = 409, description = "It is your current key, and no other key administers the project", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused))]
async fn revoke_own(
    State(state): State<AppState>,
    caller: Caller<Read>,
    Segments(id): Segments<Uuid>,
) -> Result<StatusCode, Problem> {
    let may_others = caller.shown_in != Kind::Key || caller.needs(Scope::Write).is_ok();
    if !may_others && caller.credential.key_id() != Some(id) {
        return Err(KeyError::NotFound.into());
    }
    let mut db = begin(&state, &caller).await?;
    let key = keys::find(&mut db, caller.workspace_id, id).await?;
    if key.is_none_or(|key| key.user_id != caller.user_id) {
        return Err(KeyError::NotFound.into());
    }
    drop(db);
    revoke_key(&state, &caller, id).await
}

/// Create a key
///
/// It acts as you in this project, with at most your own scopes. The key is shown only in this response.
#[utoipa::path(post, path = "/api/admin/projects/{p}/keys", tag = "keys", request_body = KeyRequest,
    params(("p" = Uuid, Path, description = "The project")),
    responses((status = 201, description = "Made", body = MadeKey),
        (status = 409, description = "The project has too many keys", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused, BodyRefused))]
async fn make(
    State(state): State<AppState>,
    caller: Caller<Admin>,
    Segments(workspace_id): Segments<Uuid>,
    Body(request): Body<KeyRequest>,
) -> Result<(StatusCode, [(HeaderName, &'static str); 1], Json<MadeKey>), Problem> {
    caller.in_workspace(workspace_id)?;
    if request
        .expires_in_days
        .is_some_and(|days| !(1..=MAX_DAYS).contains(&days))
    {
        let detail = format!("expiresInDays must be 1 to {MAX_DAYS}; omit it for a key that does not expire");
        return Err(Problem::bad_request("invalid_key", detail));
    }
    // Without duplicates, in canonical order.
    let asked: Result<Vec<Grant>, NotAGrant> = request.scopes.iter().map(|scope| scope.parse()).collect();
    let mut grants = asked.map_err(|why| Problem::bad_request("invalid_key", why.to_string()))?;
    if grants.len() > MAX_SCOPES {
        let detail = format!("a key has at most {MAX_SCOPES} scopes");
        return Err(Problem::bad_request("invalid_key", detail));
    }
    grants.sort_by_cached_key(|grant| {
        (
            Scope::ALL.iter().position(|scope| *scope == grant.scope()),
            grant.to_string(),
        )
    });
    grants.dedup();
    let new = NewKey {
        name: &request.name,
        grants: &grants,
        expires_in_s: request.expires_in_days.map(|days| days * DAY_S),
    };
    let mut db = begin(&state, &caller).await?;
    let (made, key) = keys::make(&mut db, &caller, &new).await?;
    let detail = json!({
        "name": made.name, "userId": made.user_id, "scopes": made.scopes, "expiresInS": new.expires_in_s
    });
    record(&mut db, &caller, Action::KeyCreated, target(made.id), detail).await?;
    db.commit().await?;
    let item = KeyItem::from(made);
    Ok((
        StatusCode::CREATED,
        [(CACHE_CONTROL, "no-store")],
        Json(MadeKey { item, key }),
    ))
}

/// Revoke a key
///
/// It and the browser sessions signed in with it stop working, and their open streams end within 5 s. Keys that were
/// created with it are unchanged. Idempotent.
#[utoipa::path(delete, path = "/api/admin/projects/{p}/keys/{key}", tag = "keys",
    params(("p" = Uuid, Path, description = "The project"), ("key" = Uuid, Path, description = "The key's id")),
    responses((status = 204, description = "Revoked"),
        (status = 409, description = "It is your current key, and no other key administers the project", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused))]
async fn revoke(
    State(state): State<AppState>,
    caller: Caller<Admin>,
    Segments((workspace_id, id)): Segments<(Uuid, Uuid)>,
) -> Result<StatusCode, Problem> {
    caller.in_workspace(workspace_id)?;
    revoke_key(&state, &caller, id).await
}

/// Revokes a key of the caller's project.
async fn revoke_key(state: &AppState, caller: &Caller, id: Uuid) -> Result<StatusCode, Problem> {
    let mut db = begin(state, caller).await?;
    if keys::revoke(&mut db, caller, id).await? {
        record(&mut db, caller, Action::KeyRevoked, target(id), json!({})).await?;
    }
    db.commit().await?;
    // Here immediately, elsewhere on the wake-up.
    state.keys.forget_workspace(caller.workspace_id);
    state.bus.publish(Wake::keys(caller.workspace_id));
    Ok(StatusCode::NO_CONTENT)
}

fn target(id: Uuid) -> String {
    format!("api_key:{id}")
}
