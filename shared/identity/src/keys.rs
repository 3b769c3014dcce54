//! Management of a workspace's API keys by its admins over HTTP. (Format and verification of keys: `auth`; operators
//! manage keys with `rejoin keys`.)
//!
//! Invariants: a created key has no more rights and no longer life than its creator's credential; the last key that
//! administers a workspace can be revoked only if another way of access remains. Transactions run as `rls::Scope::UserLogin`:
//! the database denies access to other workspaces' keys.

use chrono::{DateTime, Utc};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::auth::{self, Caller, Credential, Maker};
use crate::workspaces::Role;
use rejoin_types::access::{Grant, Scope};

/// Maximum number of valid keys in a workspace.
pub const MAX_KEYS: i64 = 200;
/// Maximum length of a key's name, in characters.
pub const MAX_NAME: usize = 100;

/// A key, without its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkspaceKey {
    pub id: Uuid,
    pub name: String,
    /// Its first characters.
    pub prefix: String,
    /// The user for whom it acts.
    pub user_id: Uuid,
    pub handle: String,
    pub scopes: Vec<String>,
    pub created_at: DateTime<Utc>,
    /// The user who created it over HTTP; none: an operator.
    pub made_by: Option<Uuid>,
    pub expires_at: Option<DateTime<Utc>>,
    pub revoked_at: Option<DateTime<Utc>>,
    /// With a resolution of a minute.
    pub last_used_at: Option<DateTime<Utc>>,
}

/// The properties of a new key.
#[derive(Debug, Clone)]
pub struct NewKey<'a> {
    pub name: &'a str,
    pub grants: &'a [Grant],
    /// None: the lifetime of the key used to create it.
    pub expires_in_s: Option<i64>,
}

/// The reason why a key was not created or revoked.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("a key's name must have 1 to {MAX_NAME} characters and no control characters")]
    Name,
    #[error("a key must have at least one scope: read, write, admin or worker")]
    NoScopes,
    #[error("you lack the scope `{0}`, and a key cannot have more scopes than its creator")]
    MoreThanMaker(Grant),
    #[error("a project can have at most {MAX_KEYS} valid keys; revoke some")]
    TooMany,
    #[error("there is no such key in the project")]
    NotFound,
    #[error(
        "this is the key you are using, and no other key administers the project; create another key with the scope \
        `admin` first"
    )]
    LastAdmin,
    #[error("reading the keys failed")]
    Database(#[from] sqlx::Error),
}

/// Returns up to `limit` keys of the workspace after `after`, newest first, including invalid ones; `of`: only this user's.
pub async fn page(
    db: &mut PgConnection,
    workspace_id: Uuid,
    of: Option<Uuid>,
    after: Option<Uuid>,
    limit: i64,
) -> Result<Vec<WorkspaceKey>, sqlx::Error> {
    sqlx::query_as!(
        WorkspaceKey,
        "select k.id, k.name, k.prefix, k.user_id, u.handle, k.scopes, k.created_at, k.made_by, k.expires_at, k.revoked_at, k.last_used_at
         from kb.api_keys k join kb.users u on u.id = k.user_id
         where k.project_id = $1 and k.kind = 'key' and ($2::uuid is null or k.id < $2) and ($4::uuid is null or k.user_id = $4)
         order by k.id desc limit $3",
        workspace_id,
        after,
        limit,
        of
    )
    .fetch_all(db)
    .await
}

/// Returns one key of the workspace.
pub async fn find(db: &mut PgConnection, workspace_id: Uuid, id: Uuid) -> Result<Option<WorkspaceKey>, sqlx::Error> {
    sqlx::query_as!(
        WorkspaceKey,
        "select k.id, k.name, k.prefix, k.user_id, u.handle, k.scopes, k.created_at, k.made_by, k.expires_at, k.revoked_at, k.last_used_at
         from kb.api_keys k join kb.users u on u.id = k.user_id
         where k.project_id = $1 and k.kind = 'key' and k.id = $2",
        workspace_id,
        id
    )
    .fetch_optional(db)
    .await
}

/// Creates a key of the caller in the caller's workspace; returns it with its secret, which is shown only here.
pub async fn make(
    db: &mut PgConnection,
    caller: &Caller,
    key: &NewKey<'_>,
) -> Result<(WorkspaceKey, String), KeyError> {
    let length = key.name.chars().count();
    if key.name.trim().is_empty() || length > MAX_NAME || key.name.chars().any(char::is_control) {
        return Err(KeyError::Name);
    }
    if key.grants.is_empty() {
        return Err(KeyError::NoScopes);
    }
    if let Some(grant) = key.grants.iter().find(|grant| !caller.has(grant)) {
        return Err(KeyError::MoreThanMaker(grant.clone()));
    }
    have_room(db, caller.workspace_id).await?;
    let workspace = caller.workspace_id;
    let (id, secret) = auth::insert_key(
        db,
        caller.user_id,
        Some(workspace),
        key.name.trim(),
        key.grants,
        key.expires_in_s,
        Some(Maker {
            user_id: caller.user_id,
            key_id: caller.credential.key_id(),
        }),
    )
    .await?;
    let made = find(db, workspace, id).await?.ok_or(KeyError::NotFound)?;
    Ok((made, secret))
}

/// Refuses if the workspace has the maximum number of valid keys. Others that create one wait until the transaction ends.
pub(crate) async fn have_room(db: &mut PgConnection, workspace_id: Uuid) -> Result<(), KeyError> {
    lock(db, workspace_id).await?;
    let good = sqlx::query_scalar!(
        r#"select count(*) as "count!" from kb.api_keys
           where project_id = $1 and kind = 'key' and revoked_at is null and (expires_at is null or expires_at > now())"#,
        workspace_id
    )
    .fetch_one(&mut *db)
    .await?;
    if good >= MAX_KEYS {
        return Err(KeyError::TooMany);
    }
    Ok(())
}

/// Revokes a key of the caller's workspace and the sessions created with it; false: it was revoked before.
pub async fn revoke(db: &mut PgConnection, caller: &Caller, id: Uuid) -> Result<bool, KeyError> {
    lock(db, caller.workspace_id).await?;
    let key = find(db, caller.workspace_id, id).await?.ok_or(KeyError::NotFound)?;
    if key.revoked_at.is_some() {
        return Ok(false);
    }
    let administers = key.scopes.iter().any(|scope| scope == Scope::Admin.as_str());
    if administers && ends_with(db, caller.credential, id).await? && !another_administers(db, caller, id).await? {
        return Err(KeyError::LastAdmin);
    }
    Ok(auth::revoke_key(db, id).await?)
}

/// Returns whether the caller's credential is this key, or a session created with it.
async fn ends_with(db: &mut PgConnection, credential: Credential, key: Uuid) -> Result<bool, sqlx::Error> {
    let Some(shown) = credential.key_id() else {
        return Ok(false);
    };
    sqlx::query_scalar!(
        r#"select exists (select from kb.api_keys where id = $1 and (id = $2 or parent_id = $2)) as "ends!""#,
        shown,
        key
    )
    .fetch_one(db)
    .await
}

/// Returns whether the workspace has another valid key with the scope `admin`, of a user whose role allows it.
async fn another_administers(db: &mut PgConnection, caller: &Caller, key: Uuid) -> Result<bool, sqlx::Error> {
    let roles = sqlx::query_scalar!(
        "select distinct m.role
         from kb.api_keys k join kb.project_members m on m.user_id = k.user_id and m.project_id = $1
         where coalesce(k.project_id, $1) = $1 and k.kind = 'key' and k.id <> $2 and 'admin' = any (k.scopes)
           and k.revoked_at is null and (k.expires_at is null or k.expires_at > now())",
        caller.workspace_id,
        key
    )
    .fetch_all(db)
    .await?;
    Ok(roles.iter().any(|role| Role::stored(role).allows(&[Scope::Admin])))
}

/// Serializes creation and revocation of a workspace's keys: otherwise two could both take the last allowed place, or
/// both rely on the other's key.
async fn lock(db: &mut PgConnection, workspace_id: Uuid) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "select pg_advisory_xact_lock(hashtextextended('keys ' || $1::uuid::text, 0))",
        workspace_id
    )
    .execute(db)
    .await?;
    Ok(())
}
