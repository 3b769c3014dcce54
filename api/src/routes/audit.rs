//! The audit log of a project (admin), newest entry first. Operators read entries without a project with
//! `rejoin audit`. Handlers of audited changes call [`record`].

use axum::Json;
use axum::extract::State;
use chrono::{DateTime, Utc};
use rejoin_identity::audit::{self, Action, Actor, Entry, NewEntry};
use rejoin_types::digest;
use serde::Serialize;
use serde_json::Value;
use sqlx::PgConnection;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::authorization::{Routes, routes};
use crate::caller::{Admin, Caller};
use crate::extract::{PageParams, Params, Segments, page};
use crate::problem::{Problem, Refused};
use crate::state::AppState;

pub fn routes() -> Routes {
    Routes::new().routes(routes!(list))
}

/// Appends a caller's change in their project to the audit log: names and ids, never texts. The last statement before
/// the commit. Rate-limited per user.
pub async fn record(
    db: &mut PgConnection,
    caller: &Caller,
    action: Action,
    target: String,
    detail: Value,
) -> Result<(), Problem> {
    caller.counts_audited()?;
    record_counted(db, caller, action, target, detail).await
}

/// The same for changes that were counted before, since they can't be undone.
pub async fn record_counted(
    db: &mut PgConnection,
    caller: &Caller,
    action: Action,
    target: String,
    detail: Value,
) -> Result<(), Problem> {
    let entry = NewEntry {
        by: &Actor::caller(caller),
        project_id: Some(caller.project_id),
        action,
        target,
        detail,
    };
    audit::append(db, &entry).await?;
    Ok(())
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditEntryBody {
    /// Sequence number in the audit log of the whole database, without gaps
    pub id: i64,
    pub at: DateTime<Utc>,
    pub project_id: Option<Uuid>,
    /// `user:<id>`, or `operator`
    pub actor: String,
    /// Credential: `key:<id>` or `token`; null: an operator with access to the database
    pub credential: Option<String>,
    /// Action, such as `agent_definition.changed`
    pub action: String,
    /// Target, such as `agent_definition:<id>`
    pub target: String,
    /// Names and ids
    #[schema(value_type = Object)]
    pub detail: Value,
    /// SHA-256 of the entry and the previous entry's hash, in hexadecimal digits
    pub hash: String,
}

impl From<Entry> for AuditEntryBody {
    fn from(entry: Entry) -> Self {
        Self {
            id: entry.id,
            at: entry.at,
            project_id: entry.project_id,
            actor: entry.actor,
            credential: entry.credential,
            action: entry.action,
            target: entry.target,
            detail: entry.detail,
            hash: digest::hex(&entry.hash),
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditPage {
    pub items: Vec<AuditEntryBody>,
    pub next_cursor: Option<String>,
}

/// List the project's audit log, newest first
#[utoipa::path(get, path = "/api/admin/projects/{p}/audit", tag = "audit",
    params(PageParams, ("p" = Uuid, Path, description = "The project")),
    responses((status = 200, description = "A page", body = AuditPage), Refused))]
async fn list(
    State(state): State<AppState>,
    caller: Caller<Admin>,
    Segments(project_id): Segments<Uuid>,
    Params(params): Params<PageParams>,
) -> Result<Json<AuditPage>, Problem> {
    caller.in_project(project_id)?;
    let limit = params.limit(&state)?;
    let before: Option<i64> = params.after()?;
    let rows = audit::page(&mut *caller.begin(&state).await?, project_id, before, limit + 1).await?;
    let (items, next_cursor) = page(rows, limit, |row| row.id, AuditEntryBody::from);
    Ok(Json(AuditPage { items, next_cursor }))
}
