//! Browser sessions. A session is a key of a separate kind in an HttpOnly cookie. It is created with an API key or token, has
//! its rights in the workspace of its creation, and expires with it at the latest; or it is created by `sso` or with an
//! invitation. Users list and end their sessions, and admins those of their workspace. A session can be moved to another workspace.
//!
//! Invariant: a session acts in one workspace at a time, and only in those that the credential opens with which it was begun.

use chrono::{DateTime, Utc};
use serde_json::json;
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use crate::audit::{self, Action, Actor, NewEntry, Pending};
use crate::auth::{self, Caller, Kind};
use crate::workspaces::{Membership, Quota, Role};
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
    /// The scopes that it has in any workspace of its user, as far as the role there allows. None: it stays in its workspace, unless
    /// the key that it ends with opens all of them.
    pub(crate) scopes_anywhere: Option<&'a [String]>,
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
        // A token may be limited to some workspaces.
        scopes_anywhere: None,
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
               (id, user_id, project_id, name, prefix, hash, scopes, kind, parent_id, begun_by, user_agent, scopes_anywhere, expires_at)
           select $1, $2, $3, 'session of a browser', '', $4, $5, $6, $7, $10, $11,
                  -- a key without a project opens all of its user's
                  coalesce($12::text[], (select k.scopes from kb.api_keys k where k.id = $7 and k.project_id is null)),
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
        user_agent,
        basis.scopes_anywhere as Option<&[String]>
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

/// Returns the scopes that the caller's session has in any workspace of its user, for a session that replaces it. None: it stays in its
/// workspace, or ends with a key, with which the other one would not end.
pub(crate) async fn scopes_anywhere(
    db: &mut PgConnection,
    caller: &Caller,
) -> Result<Option<Vec<String>>, sqlx::Error> {
    let found = sqlx::query_scalar!(
        "select scopes_anywhere from kb.api_keys where id = $1 and kind = 'session' and parent_id is null",
        caller.credential.key_id()
    )
    .fetch_optional(db)
    .await?;
    Ok(found.flatten())
}

/// Lets the identity provider that began the caller's session end the session that replaces it.
pub(crate) async fn keep_provider(db: &mut PgConnection, caller: &Caller, id: Uuid) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "insert into kb.sso_sessions (session_id, issuer, subject, provider_session)
         select $1::uuid, s.issuer, s.subject, s.provider_session from kb.sso_sessions s where s.session_id = $2",
        id,
        caller.credential.key_id()
    )
    .execute(db)
    .await?;
    Ok(())
}

/// The entry of a session that has begun.
pub(crate) fn begun_entry(workspace_id: Uuid, id: Uuid) -> Pending {
    entry(workspace_id, Action::SessionBegun, id)
}

fn entry(workspace_id: Uuid, action: Action, id: Uuid) -> Pending {
    Pending {
        workspace_id: Some(workspace_id),
        action,
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

/// The reason why a session was not moved to another workspace.
#[derive(Debug, thiserror::Error)]
pub enum SwitchError {
    #[error(
        "only the session of a browser moves to another project; an API key is created for a project, or the header \
        X-Project-ID selects one"
    )]
    NotASession,
    #[error(
        "this session stays in its project, because it was begun with a credential of that project alone; sign in to \
        the other project instead"
    )]
    Stays,
    /// Also if the workspace exists but the user has no access to it: its existence is not revealed.
    #[error("the project does not exist, or this user has no access to it")]
    UnknownWorkspace,
    #[error("moving the session failed")]
    Database(#[from] sqlx::Error),
}

/// A session that has moved.
#[derive(Debug)]
pub struct Switched {
    /// The workspace in which it was; the new one, if it was there already.
    pub left: Uuid,
    /// The caller in the new workspace.
    pub caller: Caller,
}

/// Moves the caller's session to another workspace of its user. Its open streams are closed. Idempotent.
pub async fn switch(db: &PgPool, caller: &Caller, workspace_id: Uuid) -> Result<Switched, SwitchError> {
    let id = match (caller.shown_in, caller.credential.key_id()) {
        (Kind::Session, Some(id)) => id,
        (Kind::Session | Kind::Key, _) => return Err(SwitchError::NotASession),
    };
    let mut tx = rls::begin(db, rls::Scope::Login).await?;
    // The database checks the membership, and nothing is moved without one.
    let moved = sqlx::query!(
        r#"select left_project as "left_workspace!", role as "role!", scopes as "scopes!", runs_per_day, tokens_per_day
           from kb.switch_session($1, $2)"#,
        id,
        workspace_id
    )
    .fetch_optional(&mut *tx)
    .await?;
    let Some(moved) = moved else {
        return Err(why_not(&mut tx, id).await?);
    };
    if moved.left_workspace != workspace_id {
        let entries = vec![
            entry(moved.left_workspace, Action::SessionLeft, id),
            entry(workspace_id, Action::SessionEntered, id),
        ];
        audit::append_all(&mut tx, &Actor::caller(caller), entries).await?;
    }
    tx.commit().await?;
    let membership = Membership {
        workspace_id,
        role: Role::stored(&moved.role),
        quota: Quota {
            runs_per_day: moved.runs_per_day,
            tokens_per_day: moved.tokens_per_day,
        },
    };
    Ok(Switched {
        left: moved.left_workspace,
        caller: Caller {
            shown_in: Kind::Session,
            ..Caller::new(caller.credential, caller.user_id, &membership, moved.scopes)
        },
    })
}

/// Returns why a session was not moved.
async fn why_not(db: &mut PgConnection, id: Uuid) -> Result<SwitchError, sqlx::Error> {
    let stays = sqlx::query_scalar!(
        r#"select scopes_anywhere is null as "stays!" from kb.api_keys where id = $1"#,
        id
    )
    .fetch_optional(db)
    .await?;
    Ok(match stays {
        Some(true) => SwitchError::Stays,
        // It has just ended, or the workspace is not its user's.
        Some(false) | None => SwitchError::UnknownWorkspace,
    })
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
    /// The user's role in the workspace.
    pub role: String,
    /// Those that the role allows.
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
    let mut sessions = sqlx::query_as!(
        SessionInfo,
        r#"select k.id, k.user_id, u.handle, p.id as workspace_id, p.name as workspace, m.role, k.scopes, k.begun_by, k.user_agent, k.created_at,
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
    .await?;
    for session in &mut sessions {
        let scopes = std::mem::take(&mut session.scopes);
        session.scopes = auth::allowed(Role::stored(&session.role), scopes);
    }
    Ok(sessions)
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
