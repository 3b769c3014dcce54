//! Browser sessions. A session is a key of a separate kind in an HttpOnly cookie. It is created with an API key or token, has
//! its rights in the workspace of its creation, and expires with it at the latest; or it is created by `sso` or with an
//! invitation. Users list and end their sessions, and admins those of their workspace.

use chrono::{DateTime, Utc};
use serde_json::json;
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use crate::audit::{self, Action, Actor, NewEntry, Pending};
use crate::auth::{self, Caller, Kind};
use rejoin_db::rls;
use rejoin_types::ids;

/// Maximum number of sessions of one user; the oldest are ended.
pub const MAX_PER_USER: i64 = 50;
/// Maximum length of a browser's stored name for itself, in characters.
const MAX_USER_AGENT: usize = 255;

rejoin_types::text_enum! {
    /// How a session was begun.
    pub enum BegunBy {
        Key = "key",
        /// A token of an identity provider, sent by a program.
        Token = "token",
        /// A sign-in code.
        Code = "code",
        /// At the identity provider.
        Sso = "sso",
        Invitation = "invitation",
    }
}

/// A session to be begun.
#[derive(Debug, Clone, Copy)]
pub struct NewSession<'a> {
    pub begun_by: BegunBy,
    /// The browser's name for itself, as sent.
    pub user_agent: Option<&'a str>,
    pub lifetime_s: i64,
}

/// What a session stands on: whose it is, its rights, and what it ends with.
pub(crate) struct Basis<'a> {
    pub(crate) user_id: Uuid,
    pub(crate) workspace_id: Uuid,
    pub(crate) scopes: &'a [String],
    /// The key that it ends with.
    pub(crate) parent: Option<Uuid>,
    /// The latest time of its end.
    pub(crate) until: Option<DateTime<Utc>>,
}

/// A new session. The cookie's value is shown only here.
pub struct Begun {
    pub id: Uuid,
    pub secret: String,
    pub expires_at: DateTime<Utc>,
    /// Its lifetime, in seconds.
    pub lasts_s: i64,
}

/// Begins a session of `caller` that lasts as long as asked, or as long as the caller's key or token.
pub async fn begin(db: &PgPool, caller: &Caller, new: NewSession<'_>) -> Result<Begun, sqlx::Error> {
    let mut tx = rls::begin(db, rls::Scope::Login).await?;
    let basis = Basis {
        user_id: caller.user_id,
        workspace_id: caller.workspace_id,
        scopes: &caller.scopes,
        parent: caller.credential.key_id(),
        until: caller.credential.expiry().map(|expiry| expiry.at),
    };
    let begun = insert(&mut tx, &basis, new).await?;
    tell(
        &mut tx,
        &Actor::caller(caller),
        caller.workspace_id,
        Action::SessionBegun,
        begun.id,
    )
    .await?;
    tx.commit().await?;
    Ok(begun)
}

/// Stores a session. The caller records it and commits.
pub(crate) async fn insert(
    db: &mut PgConnection,
    basis: &Basis<'_>,
    new: NewSession<'_>,
) -> Result<Begun, sqlx::Error> {
    let (id, secret) = (ids::new(), auth::random_secret());
    forget_old(db, basis.user_id).await?;
    let user_agent: Option<String> = new.user_agent.map(|text| text.chars().take(MAX_USER_AGENT).collect());
    let row = sqlx::query!(
        r#"insert into kb.api_keys
               (id, user_id, project_id, name, prefix, hash, scopes, kind, parent_id, begun_by, user_agent, expires_at)
           select $1, $2, $3, 'session of a browser', '', $4, $5, $6, $7, $10, $11,
                  -- the least that is not null
                  least(now() + $8::bigint * interval '1 second', (select k.expires_at from kb.api_keys k where k.id = $7), $9)
           returning expires_at as "expires_at!", ceil(extract(epoch from expires_at - now()))::bigint as "lasts_s!""#,
        id,
        basis.user_id,
        basis.workspace_id,
        auth::hash_secret(&secret),
        basis.scopes,
        Kind::Session.as_str(),
        basis.parent,
        new.lifetime_s,
        basis.until,
        new.begun_by.as_str(),
        user_agent
    )
    .fetch_one(db)
    .await?;
    Ok(Begun {
        id,
        secret,
        expires_at: row.expires_at,
        lasts_s: row.lasts_s,
    })
}

/// Removes ended sessions, and those beyond [`MAX_PER_USER`].
async fn forget_old(db: &mut PgConnection, user_id: Uuid) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "delete from kb.api_keys
         where kind = 'session' and user_id = $1
           and (revoked_at is not null or expires_at <= now()
                or id in (select k.id from kb.api_keys k where k.kind = 'session' and k.user_id = $1
                          order by k.created_at desc, k.id desc offset $2))",
        user_id,
        MAX_PER_USER - 1
    )
    .execute(db)
    .await?;
    Ok(())
}

/// The entry of a session that has begun.
pub(crate) fn begun_entry(workspace_id: Uuid, id: Uuid) -> Pending {
    Pending {
        workspace_id: Some(workspace_id),
        action: Action::SessionBegun,
        target: format!("session:{id}"),
        detail: json!({}),
    }
}

pub(crate) async fn tell(
    db: &mut PgConnection,
    by: &Actor,
    workspace_id: Uuid,
    action: Action,
    id: Uuid,
) -> Result<(), sqlx::Error> {
    let entry = NewEntry {
        by,
        workspace_id: Some(workspace_id),
        action,
        target: format!("session:{id}"),
        detail: json!({}),
    };
    audit::append(db, &entry).await?;
    Ok(())
}

/// Ends the caller's session; its open streams are closed. Idempotent.
pub async fn end(db: &PgPool, caller: &Caller) -> Result<(), sqlx::Error> {
    let Some(id) = caller.credential.key_id() else {
        return Ok(());
    };
    let mut tx = rls::begin(db, rls::Scope::Login).await?;
    let ended = sqlx::query!(
        "update kb.api_keys set revoked_at = now() where id = $1 and kind = 'session' and revoked_at is null",
        id
    )
    .execute(&mut *tx)
    .await?;
    if ended.rows_affected() > 0 {
        let by = Actor::caller(caller);
        tell(&mut tx, &by, caller.workspace_id, Action::SessionEnded, id).await?;
    }
    tx.commit().await
}

/// A session as listed. Its secret is not stored.
#[derive(Debug, Clone)]
pub struct SessionInfo {
    pub id: Uuid,
    pub user_id: Uuid,
    pub handle: String,
    pub workspace_id: Uuid,
    /// The workspace's name.
    pub workspace: String,
    pub scopes: Vec<String>,
    /// None: an earlier release began it.
    pub begun_by: Option<String>,
    pub user_agent: Option<String>,
    pub created_at: DateTime<Utc>,
    pub expires_at: DateTime<Utc>,
    /// To the minute.
    pub last_used_at: Option<DateTime<Utc>>,
}

/// Whose sessions are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// A user's, in all of their workspaces.
    User(Uuid),
    /// All users', in a workspace.
    Workspace(Uuid),
}

impl Whose {
    /// The user and the workspace by which sessions are found.
    fn ids(self) -> (Option<Uuid>, Option<Uuid>) {
        match self {
            Whose::User(id) => (Some(id), None),
            Whose::Workspace(id) => (None, Some(id)),
        }
    }
}

/// Returns up to `limit` valid sessions after `after`, newest first.
pub async fn page(
    db: &mut PgConnection,
    whose: Whose,
    after: Option<Uuid>,
    limit: i64,
) -> Result<Vec<SessionInfo>, sqlx::Error> {
    let (user_id, workspace_id) = whose.ids();
    sqlx::query_as!(
        SessionInfo,
        r#"select k.id, k.user_id, u.handle, p.id as workspace_id, p.name as workspace, k.scopes, k.begun_by, k.user_agent, k.created_at,
                  k.expires_at as "expires_at!", k.last_used_at
           from kb.api_keys k join kb.users u on u.id = k.user_id join kb.projects p on p.id = k.project_id
           -- of members alone: the sessions of others open nothing
           join kb.project_members m on m.project_id = k.project_id and m.user_id = k.user_id
           left join kb.api_keys parent on parent.id = k.parent_id
           where k.kind = 'session' and k.revoked_at is null and k.expires_at > now() and parent.revoked_at is null
             and ($1::uuid is null or k.user_id = $1) and ($2::uuid is null or k.project_id = $2) and ($3::uuid is null or k.id < $3)
           order by k.id desc limit $4"#,
        user_id,
        workspace_id,
        after,
        limit
    )
    .fetch_all(db)
    .await
}

/// A session that was ended from elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    pub id: Uuid,
    pub user_id: Uuid,
    pub workspace_id: Uuid,
}

/// Ends sessions; `only`: this one of them. Returns those that were valid. `except` is the caller's own, which stays.
pub async fn revoke(
    db: &PgPool,
    caller: &Caller,
    whose: Whose,
    only: Option<Uuid>,
    except: Option<Uuid>,
) -> Result<Vec<Ended>, sqlx::Error> {
    let (user_id, workspace_id) = whose.ids();
    let mut tx = rls::begin(db, rls::Scope::Login).await?;
    let ended = sqlx::query_as!(
        Ended,
        r#"update kb.api_keys set revoked_at = now()
           where kind = 'session' and revoked_at is null and expires_at > now()
             and ($1::uuid is null or user_id = $1) and ($2::uuid is null or project_id = $2) and ($3::uuid is null or id = $3)
             and id is distinct from $4
           returning id, user_id, project_id as "workspace_id!""#,
        user_id,
        workspace_id,
        only,
        except
    )
    .fetch_all(&mut *tx)
    .await?;
    let by = Actor::caller(caller);
    for session in &ended {
        tell(&mut tx, &by, session.workspace_id, Action::SessionRevoked, session.id).await?;
    }
    tx.commit().await?;
    Ok(ended)
}
