//! `/api/admin/projects/{p}/members`: members of a project and their roles. Owners change them.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use chrono::{DateTime, Utc};
use rejoin_db::rls;
use rejoin_http::audit::record;
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Admin, Caller};
use rejoin_http::extract::{Body, Segments};
use rejoin_http::problem::{BodyRefused, Problem, Refused};
use rejoin_identity::audit::Action;
use rejoin_identity::workspaces::{self, Member, Role};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::state::{AppState, Routes};

pub fn routes() -> Routes {
    Routes::new().routes(routes!(list)).routes(routes!(set, remove))
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemberItem {
    pub user_id: Uuid,
    /// The user's display name
    pub handle: String,
    /// `owner`, `member`, `viewer`, `operator` or `service`
    pub role: String,
    /// The role follows the user's groups at the identity provider; setting it here ends that
    pub from_groups: bool,
    /// Member since
    pub created_at: DateTime<Utc>,
}

impl From<Member> for MemberItem {
    fn from(member: Member) -> Self {
        Self {
            user_id: member.user_id,
            handle: member.handle,
            role: member.role,
            from_groups: member.from_groups,
            created_at: member.created_at,
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Members {
    pub items: Vec<MemberItem>,
}

#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum RoleName {
    /// Everything, including managing members
    Owner,
    /// Chats with agents
    Member,
    /// Read-only access
    Viewer,
    /// Manages agents, without conversations
    Operator,
    /// A service account for a program
    Service,
}

impl From<RoleName> for Role {
    fn from(name: RoleName) -> Self {
        match name {
            RoleName::Owner => Role::Owner,
            RoleName::Member => Role::Member,
            RoleName::Viewer => Role::Viewer,
            RoleName::Operator => Role::Operator,
            RoleName::Service => Role::Service,
        }
    }
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MemberRequest {
    pub role: RoleName,
}

/// List the project's members
#[utoipa::path(get, path = "/api/admin/projects/{p}/members", tag = "callers",
    params(("p" = Uuid, Path, description = "The project")),
    responses((status = 200, description = "All members, oldest first", body = Members), Refused))]
async fn list(
    State(state): State<AppState>,
    caller: Caller<Admin>,
    Segments(workspace_id): Segments<Uuid>,
) -> Result<Json<Members>, Problem> {
    caller.in_workspace(workspace_id)?;
    let mut db = rls::begin(&state.db.pool_sqlx, rls::Scope::Login).await?;
    let members = workspaces::members(&mut db, workspace_id).await?;
    let items = members.into_iter().map(MemberItem::from).collect();
    Ok(Json(Members { items }))
}

/// Change a member's role
///
/// The last owner cannot be changed. A role that follows groups of the identity provider does so no longer.
#[utoipa::path(put, path = "/api/admin/projects/{p}/members/{user}", tag = "callers", request_body = MemberRequest,
    params(("p" = Uuid, Path, description = "The project"), ("user" = Uuid, Path, description = "The member")),
    responses((status = 204, description = "Done"),
        (status = 409, description = "The last owner cannot be changed", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused, BodyRefused))]
async fn set(
    State(state): State<AppState>,
    caller: Caller<Admin>,
    Segments((workspace_id, user_id)): Segments<(Uuid, Uuid)>,
    Body(request): Body<MemberRequest>,
) -> Result<StatusCode, Problem> {
    caller.owns(workspace_id)?;
    let mut db = rls::begin(&state.db.pool_sqlx, rls::Scope::Login).await?;
    let role = Role::from(request.role);
    workspaces::set_role(&mut db, workspace_id, user_id, role).await?;
    let (target, detail) = (format!("user:{user_id}"), json!({ "role": role.as_str() }));
    record(&mut db, &caller, Action::RoleSet, target, detail).await?;
    db.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Remove a member
///
/// Their keys and tokens no longer give access to the project, their browser sessions in it end, and their open streams end
/// within 5 s.
#[utoipa::path(delete, path = "/api/admin/projects/{p}/members/{user}", tag = "callers",
    params(("p" = Uuid, Path, description = "The project"), ("user" = Uuid, Path, description = "The member")),
    responses((status = 204, description = "Done"),
        (status = 409, description = "The last owner cannot be removed", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused))]
async fn remove(
    State(state): State<AppState>,
    caller: Caller<Admin>,
    Segments((workspace_id, user_id)): Segments<(Uuid, Uuid)>,
) -> Result<StatusCode, Problem> {
    caller.owns(workspace_id)?;
    let mut db = rls::begin(&state.db.pool_sqlx, rls::Scope::Login).await?;
    workspaces::remove_member(&mut db, workspace_id, user_id).await?;
    record(
        &mut db,
        &caller,
        Action::MemberRemoved,
        format!("user:{user_id}"),
        json!({}),
    )
    .await?;
    db.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}
