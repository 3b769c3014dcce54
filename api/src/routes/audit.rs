//! The audit log of a project (admin), newest entry first. Operators read entries without a project with
//! `rejoin audit`.

use axum::Json;
use axum::extract::State;
use chrono::{DateTime, Utc};
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Admin, Caller};
use rejoin_http::extract::{PageParams, Params, Segments, page};
use rejoin_http::problem::{Problem, Refused};
use rejoin_identity::audit::{self, Entry};
use rejoin_types::digest;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::state::{AppState, Routes};

pub fn routes() -> Routes {
    Routes::new().routes(routes!(list))
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditEntryBody {
    /// Sequence number in the audit log of the whole database, without gaps
    pub id: i64,
    pub at: DateTime<Utc>,
    #[serde(rename = "projectId")]
    pub workspace_id: Option<Uuid>,
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
            workspace_id: entry.workspace_id,
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
    Segments(workspace_id): Segments<Uuid>,
    Params(params): Params<PageParams>,
) -> Result<Json<AuditPage>, Problem> {
    caller.in_workspace(workspace_id)?;
    let limit = params.limit(&state)?;
    let before: Option<i64> = params.after()?;
    let rows = audit::page(&mut *caller.begin(&state).await?, workspace_id, before, limit + 1).await?;
    let (items, next_cursor) = page(rows, limit, |row| row.id, AuditEntryBody::from);
    Ok(Json(AuditPage { items, next_cursor }))
}
