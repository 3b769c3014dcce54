//! Projects (tenants), users, memberships with roles, and project quotas.

use chrono::{DateTime, Utc};
use clap::ValueEnum;
use serde::Serialize;
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use rejoin_db::rls;
use rejoin_types::access::Scope;
use rejoin_types::ids;

rejoin_types::text_enum! {
    /// What a member is in a project: the most that any credential of theirs may do there.
    #[derive(ValueEnum)]
    pub enum Role {
        /// Everything, members included.
        Owner = "owner",
        /// Talks to agents.
        Member = "member",
        /// Reads.
        Viewer = "viewer",
        /// Sets agents up and looks after them, and has no conversations.
        Operator = "operator",
        /// A program: as a member, but never signed in with a browser.
        Service = "service",
    }
}

impl Role {
    /// The maximum scopes of a credential with this role.
    pub const fn scopes(self) -> &'static [Scope] {
        match self {
            Role::Owner => &Scope::ALL,
            Role::Member => &[Scope::Read, Scope::Write],
            Role::Service => &[Scope::Read, Scope::Write, Scope::Worker],
            Role::Viewer => &[Scope::Read],
            Role::Operator => &[Scope::Read, Scope::Admin],
        }
    }

    /// Returns the least role that allows all of these.
    pub fn for_scopes(scopes: &[Scope]) -> Self {
        if scopes.contains(&Scope::Admin) {
            Role::Owner
        } else if scopes.contains(&Scope::Worker) {
            Role::Service
        } else {
            Role::Member
        }
    }

    pub fn allows(self, scopes: &[Scope]) -> bool {
        scopes.iter().all(|scope| self.scopes().contains(scope))
    }

    /// Parses the column. An unknown value of a later release allows the least.
    pub fn stored(text: &str) -> Self {
        text.parse().unwrap_or(Role::Viewer)
    }
}

/// Limits of a project's usage from midnight to midnight, UTC. None: unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Quota {
    pub runs_per_day: Option<i64>,
    pub tokens_per_day: Option<i64>,
}

/// A project of a user, with the role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Membership {
    pub workspace_id: Uuid,
    pub role: Role,
    pub quota: Quota,
}

/// A member as listed.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Member {
    pub user_id: Uuid,
    pub handle: String,
    pub role: String,
    /// The role follows the user's groups at the identity provider.
    pub from_groups: bool,
    pub created_at: DateTime<Utc>,
}

/// The reason why a member can't be changed.
#[derive(Debug, thiserror::Error)]
pub enum MemberError {
    #[error("there is no such user in the project")]
    NotFound,
    /// No other member could manage members.
    #[error("the project's last owner cannot be changed; make another member an owner first")]
    LastOwner,
    #[error("changing the members failed")]
    Database(#[from] sqlx::Error),
}

pub async fn create(db: &mut PgConnection, name: &str) -> Result<Uuid, sqlx::Error> {
    let id = ids::new();
    sqlx::query!("insert into kb.projects (id, name) values ($1, $2)", id, name)
        .execute(db)
        .await?;
    Ok(id)
}

/// Returns the project of this name that was created first.
pub async fn find_by_name(db: &mut PgConnection, name: &str) -> Result<Option<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        "select id from kb.projects where name = $1 order by created_at limit 1",
        name
    )
    .fetch_optional(db)
    .await
}

/// Returns the user with this handle, created if necessary.
pub async fn ensure_user(db: &mut PgConnection, handle: &str) -> Result<Uuid, sqlx::Error> {
    sqlx::query_scalar!(
        "insert into kb.users (id, handle) values ($1, $2)
         on conflict (handle) do update set handle = excluded.handle
         returning id",
        ids::new(),
        handle
    )
    .fetch_one(db)
    .await
}

/// Returns the user with this handle whom an identity of that name may be linked to: not one who chose the handle.
pub(crate) async fn find_user_to_link(db: &mut PgConnection, handle: &str) -> Result<Option<Uuid>, sqlx::Error> {
    sqlx::query_scalar!("select id from kb.users where handle = $1 and not self_named", handle)
        .fetch_optional(db)
        .await
}

/// Creates a user with this handle. None: it exists already.
pub async fn create_user(db: &mut PgConnection, handle: &str) -> Result<Option<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        "insert into kb.users (id, handle) values ($1, $2) on conflict (handle) do nothing returning id",
        ids::new(),
        handle
    )
    .fetch_optional(db)
    .await
}

/// Creates a user with this id, who chose the handle. False: the handle is taken.
pub(crate) async fn create_self_named(db: &mut PgConnection, id: Uuid, handle: &str) -> Result<bool, sqlx::Error> {
    let done = sqlx::query!(
        "insert into kb.users (id, handle, self_named) values ($1, $2, true) on conflict (handle) do nothing",
        id,
        handle
    )
    .execute(db)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Makes the user a member, unless the project does not exist or they are one already.
pub async fn add_member_if_there(
    db: &mut PgConnection,
    workspace_id: Uuid,
    user_id: Uuid,
    role: Role,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "insert into kb.project_members (project_id, user_id, role) select id, $2, $3 from kb.projects where id = $1
         on conflict do nothing",
        workspace_id,
        user_id,
        role.as_str()
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Makes the user a member; an existing member keeps their role.
pub async fn add_member(
    db: &mut PgConnection,
    workspace_id: Uuid,
    user_id: Uuid,
    role: Role,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "insert into kb.project_members (project_id, user_id, role) values ($1, $2, $3) on conflict do nothing",
        workspace_id,
        user_id,
        role.as_str()
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Returns the user's role in the project. None: not a member.
pub async fn role_of(db: &mut PgConnection, workspace_id: Uuid, user_id: Uuid) -> Result<Option<Role>, sqlx::Error> {
    let role = sqlx::query_scalar!(
        "select role from kb.project_members where project_id = $1 and user_id = $2",
        workspace_id,
        user_id
    )
    .fetch_optional(db)
    .await?;
    Ok(role.as_deref().map(Role::stored))
}

/// Returns a user's projects, oldest membership first.
pub(crate) async fn memberships(db: &mut PgConnection, user_id: Uuid) -> Result<Vec<Membership>, sqlx::Error> {
    let rows = sqlx::query!(
        "select m.project_id, m.role, p.runs_per_day, p.tokens_per_day
         from kb.project_members m join kb.projects p on p.id = m.project_id
         where m.user_id = $1 order by m.created_at",
        user_id
    )
    .fetch_all(db)
    .await?;
    let memberships = rows.into_iter().map(|row| Membership {
        workspace_id: row.project_id,
        role: Role::stored(&row.role),
        quota: Quota {
            runs_per_day: row.runs_per_day,
            tokens_per_day: row.tokens_per_day,
        },
    });
    Ok(memberships.collect())
}

/// Returns all members of a project, oldest first.
pub async fn members(db: &mut PgConnection, workspace_id: Uuid) -> Result<Vec<Member>, sqlx::Error> {
    sqlx::query_as!(
        Member,
        "select m.user_id, u.handle, m.role, m.from_groups, m.created_at
         from kb.project_members m join kb.users u on u.id = m.user_id
         where m.project_id = $1 order by m.created_at, m.user_id",
        workspace_id
    )
    .fetch_all(db)
    .await
}

/// Changes a member's role, which does not follow groups from then on. Changes of a project's owners are serialized.
pub async fn set_role(db: &mut PgConnection, workspace_id: Uuid, user_id: Uuid, role: Role) -> Result<(), MemberError> {
    if role != Role::Owner {
        keep_an_owner(db, workspace_id, user_id).await?;
    }
    let set = sqlx::query!(
        "update kb.project_members set role = $3, from_groups = false where project_id = $1 and user_id = $2",
        workspace_id,
        user_id,
        role.as_str()
    );
    match set.execute(db).await?.rows_affected() {
        0 => Err(MemberError::NotFound),
        _ => Ok(()),
    }
}

/// Removes a member: their keys no longer grant access to the project, and their sessions in it end.
pub async fn remove_member(db: &mut PgConnection, workspace_id: Uuid, user_id: Uuid) -> Result<(), MemberError> {
    keep_an_owner(db, workspace_id, user_id).await?;
    let removed = sqlx::query!(
        "delete from kb.project_members where project_id = $1 and user_id = $2",
        workspace_id,
        user_id
    );
    if removed.execute(&mut *db).await?.rows_affected() == 0 {
        return Err(MemberError::NotFound);
    }
    // A member who returns signs in again.
    sqlx::query!(
        "update kb.api_keys set revoked_at = now()
         where kind = 'session' and project_id = $1 and user_id = $2 and revoked_at is null",
        workspace_id,
        user_id
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Refuses if this member is the only owner. Concurrent removals of owners wait until the transaction ends.
async fn keep_an_owner(db: &mut PgConnection, workspace_id: Uuid, user_id: Uuid) -> Result<(), MemberError> {
    let owners = sqlx::query_scalar!(
        "select user_id from kb.project_members where project_id = $1 and role = 'owner' order by user_id for update",
        workspace_id
    )
    .fetch_all(db)
    .await?;
    match owners.as_slice() {
        [only] if *only == user_id => Err(MemberError::LastOwner),
        _ => Ok(()),
    }
}

/// A project as listed.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceInfo {
    pub id: Uuid,
    pub name: String,
    pub members: i64,
    pub runs_per_day: Option<i64>,
    pub tokens_per_day: Option<i64>,
}

/// Returns all projects, oldest first.
pub async fn all(db: &mut PgConnection) -> Result<Vec<WorkspaceInfo>, sqlx::Error> {
    sqlx::query_as!(
        WorkspaceInfo,
        r#"select p.id, p.name, p.runs_per_day, p.tokens_per_day,
                  (select count(*) from kb.project_members m where m.project_id = p.id) as "members!"
           from kb.projects p order by p.created_at, p.id"#
    )
    .fetch_all(db)
    .await
}

/// Sets a project's quota; false if the project does not exist.
pub async fn set_quota(db: &mut PgConnection, workspace_id: Uuid, quota: Quota) -> Result<bool, sqlx::Error> {
    let done = sqlx::query!(
        "update kb.projects set runs_per_day = $2, tokens_per_day = $3 where id = $1",
        workspace_id,
        quota.runs_per_day,
        quota.tokens_per_day
    );
    Ok(done.execute(db).await?.rows_affected() > 0)
}

/// A project's usage since midnight, UTC.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Used {
    /// Started runs, excluding sub-agents.
    pub runs: i64,
    /// Tokens of completed model calls.
    pub tokens: i64,
    /// Time until midnight, in seconds.
    pub day_left_s: f64,
}

pub async fn used_today(db: &PgPool, workspace_id: Uuid) -> Result<Used, sqlx::Error> {
    let mut db = rls::begin(db, rls::Scope::Login).await?;
    sqlx::query_as!(
        Used,
        r#"select runs as "runs!", tokens as "tokens!", day_left_s as "day_left_s!" from kb.used_today($1)"#,
        workspace_id
    )
    .fetch_one(&mut *db)
    .await
}

/// An exhausted quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exhausted {
    /// `runs` or `tokens`.
    pub what: &'static str,
    pub limit: i64,
    /// Time until it is renewed, in seconds.
    pub wait_s: u64,
}

impl Quota {
    pub const fn is_none(self) -> bool {
        self.runs_per_day.is_none() && self.tokens_per_day.is_none()
    }

    /// Returns the exhausted quota, if any.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the seconds of a day"
    )]
    pub fn exhausted(self, used: Used) -> Option<Exhausted> {
        let bounds = [
            ("runs", used.runs, self.runs_per_day),
            ("tokens", used.tokens, self.tokens_per_day),
        ];
        bounds.into_iter().find_map(|(what, used_up, limit)| {
            let limit = limit.filter(|limit| used_up >= *limit)?;
            Some(Exhausted {
                what,
                limit,
                wait_s: used.day_left_s.max(0.0) as u64 + 1,
            })
        })
    }
}
