//! API keys and stream tickets: creation, verification, revocation. (Users with an identity provider's token:
//! `identities`; browser sessions: `sessions`.)
//!
//! A key is 256 random bits behind a prefix; only its SHA-256 is stored, so that a stolen database grants no access. A
//! key belongs to a user, and grants access to one workspace or, if it names none, to all of the user's workspaces.
//!
//! - `tickets` stream tickets
//!
//! Invariant: a caller's rights in a workspace never exceed the user's role there, whatever the key or token grants.

mod tickets;

pub use tickets::{TICKET_LIFETIME_S, create_ticket, redeem_ticket, workspace_of_ticket};

use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, Utc};
use rejoin_db::rls;
use rejoin_types::access::{Grant, Scope};
use rejoin_types::ids;
use serde::Serialize;
use sha2::{Digest, Sha256};
use sqlx::{PgConnection, PgExecutor, PgPool};
use uuid::Uuid;

use crate::workspaces::{Membership, Quota, Role};

/// Marks our keys for users and secret scanners.
pub const KEY_PREFIX: &str = "rejoin_";
/// Cap of a token's lifetime: clocks have a limited range.
const FAR_AWAY: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// The credential of a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Credential {
    /// An API key, by its id: valid until it expires or is revoked.
    Key(Uuid),
    /// A token of an identity provider: valid until it expires.
    Token(Expiry),
}

/// The expiry of a token: by the database's clock, and converted to our monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expiry {
    pub at: DateTime<Utc>,
    instant: Instant,
}

impl Expiry {
    /// `now` is the database's clock. None: it has expired.
    pub fn of(at: DateTime<Utc>, now: DateTime<Utc>) -> Option<Self> {
        let left = (at - now).to_std().ok().filter(|left| !left.is_zero())?;
        let instant = Instant::now().checked_add(left.min(FAR_AWAY))?;
        Some(Self { at, instant })
    }

    pub fn has_passed(self) -> bool {
        self.instant <= Instant::now()
    }
}

impl Credential {
    pub fn key_id(self) -> Option<Uuid> {
        match self {
            Credential::Key(id) => Some(id),
            Credential::Token(_) => None,
        }
    }

    /// Returns when a token expires; for a key, the database knows.
    pub fn expiry(self) -> Option<Expiry> {
        match self {
            Credential::Key(_) => None,
            Credential::Token(expiry) => Some(expiry),
        }
    }

    /// Returns whether it is an expired token.
    pub fn has_expired(self) -> bool {
        self.expiry().is_some_and(Expiry::has_passed)
    }
}

/// An authenticated caller: user, workspace and rights.
#[derive(Debug, Clone)]
pub struct Caller {
    pub credential: Credential,
    /// The kind of credential: header or cookie. (Tokens are sent like keys.)
    pub shown_in: Kind,
    pub user_id: Uuid,
    pub workspace_id: Uuid,
    /// The user's role in the workspace.
    pub role: Role,
    /// The scopes granted by both the credential and the role.
    pub scopes: Vec<String>,
    /// The workspace's quota.
    pub quota: Quota,
}

impl Caller {
    /// A caller with these scopes of the credential, in a workspace of which the user is a member.
    pub(crate) fn new(credential: Credential, user_id: Uuid, membership: &Membership, scopes: Vec<String>) -> Self {
        Self {
            credential,
            shown_in: Kind::Key,
            user_id,
            workspace_id: membership.workspace_id,
            role: membership.role,
            scopes: allowed(membership.role, scopes),
            quota: membership.quota,
        }
    }

    /// Returns whether the caller has a scope: `worker` also if it is for one queue only.
    pub fn may(&self, scope: Scope) -> bool {
        self.grants().any(|grant| grant.scope() == scope)
    }

    /// Returns whether the caller's programs may serve a queue, and a tool of it if one is given.
    pub fn may_serve(&self, queue: &str, tool: Option<&str>) -> bool {
        self.grants().any(|grant| grant.serves(queue, tool))
    }

    /// Returns whether the caller has everything that this grants.
    pub fn has(&self, wanted: &Grant) -> bool {
        self.grants().any(|grant| grant.covers(wanted))
    }

    fn grants(&self) -> impl Iterator<Item = Grant> {
        self.scopes.iter().filter_map(|scope| scope.parse().ok())
    }
}

/// Returns those of a credential's scopes that a role allows.
pub(crate) fn allowed(role: Role, scopes: Vec<String>) -> Vec<String> {
    let allowed = role.scopes();
    let scopes = scopes.into_iter().filter(|scope| {
        scope
            .parse::<Grant>()
            .is_ok_and(|grant| allowed.contains(&grant.scope()))
    });
    scopes.collect()
}

/// A key as listed.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyInfo {
    pub id: Uuid,
    pub name: String,
    pub prefix: String,
    pub user_id: Uuid,
    #[serde(rename = "projectId")]
    pub workspace_id: Option<Uuid>,
    pub scopes: Vec<String>,
    pub created_at: DateTime<Utc>,
    pub expires_at: Option<DateTime<Utc>>,
    pub revoked_at: Option<DateTime<Utc>>,
}

/// Returns 256 random bits as text.
pub fn random_secret() -> String {
    let bytes: [u8; 32] = rand::random();
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Returns the code challenge of a code verifier by the method `S256` (RFC 7636, section 4.2).
pub fn code_challenge(verifier: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()))
}

/// Returns the stored hash of a secret.
pub fn hash_secret(secret: &str) -> Vec<u8> {
    Sha256::digest(secret.as_bytes()).to_vec()
}

/// Creates a key and returns it with its id. The key itself is shown only here.
pub async fn create_key(
    db: &mut PgConnection,
    user_id: Uuid,
    workspace_id: Option<Uuid>,
    name: &str,
    scopes: &[Scope],
    expires_in_s: Option<i64>,
) -> Result<(Uuid, String), sqlx::Error> {
    let grants: Vec<Grant> = scopes.iter().copied().map(Grant::from).collect();
    create_key_with(db, user_id, workspace_id, name, &grants, expires_in_s).await
}

/// The same with grants.
pub async fn create_key_with(
    db: &mut PgConnection,
    user_id: Uuid,
    workspace_id: Option<Uuid>,
    name: &str,
    grants: &[Grant],
    expires_in_s: Option<i64>,
) -> Result<(Uuid, String), sqlx::Error> {
    insert_key(db, user_id, workspace_id, name, grants, expires_in_s, None).await
}

/// The user who creates a key over HTTP.
pub(crate) struct Maker {
    pub(crate) user_id: Uuid,
    /// The key, or the session, that was used to create it: the new key expires no later.
    pub(crate) key_id: Option<Uuid>,
}

/// Like [`create_key`], by a user over HTTP.
pub(crate) async fn insert_key(
    db: &mut PgConnection,
    user_id: Uuid,
    workspace_id: Option<Uuid>,
    name: &str,
    grants: &[Grant],
    expires_in_s: Option<i64>,
    maker: Option<Maker>,
) -> Result<(Uuid, String), sqlx::Error> {
    let key = format!("{KEY_PREFIX}{}", random_secret());
    let id = ids::new();
    let scopes: Vec<String> = grants.iter().map(Grant::to_string).collect();
    sqlx::query!(
        "insert into kb.api_keys (id, user_id, project_id, name, prefix, hash, scopes, made_by, expires_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8,
                 -- the least that is not null
                 least(now() + $9::bigint * interval '1 second',
                       (select case k.kind when 'session' then parent.expires_at else k.expires_at end
                        from kb.api_keys k left join kb.api_keys parent on parent.id = k.parent_id where k.id = $10)))",
        id,
        user_id,
        workspace_id,
        name,
        &key[..KEY_PREFIX.len() + 6],
        hash_secret(&key),
        &scopes,
        maker.as_ref().map(|maker| maker.user_id),
        expires_in_s,
        maker.as_ref().and_then(|maker| maker.key_id),
    )
    .execute(db)
    .await?;
    Ok((id, key))
}

/// The reason why a request was rejected.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    #[error("the API key is unknown, expired or revoked")]
    UnknownKey,
    /// Also if the workspace exists but is not the key's: its existence is not revealed.
    #[error("the project does not exist, or this caller has no access to it")]
    UnknownWorkspace,
    #[error("this caller has access to several projects; select one with the header X-Project-ID")]
    WorkspaceNeeded,
    #[error("the token is valid, but its subject is not a user of this server")]
    UnknownUser,
    #[error("the token has expired")]
    TokenExpired,
    #[error("the token is not yet valid")]
    TokenNotYetValid,
    #[error("looking up the caller failed")]
    Database(#[from] sqlx::Error),
}

rejoin_types::text_enum! {
    /// Where a credential was sent: each kind is valid in one place only.
    pub enum Kind {
        /// In the header `Authorization`: an API key.
        Key = "key",
        /// In a cookie: a browser's session.
        Session = "session",
    }
}

/// Authenticates `key` for a workspace: the key's own, or the one chosen by `wanted_project`.
pub async fn authenticate(
    db: &PgPool,
    kind: Kind,
    key: &str,
    wanted_workspace: Option<Uuid>,
) -> Result<Caller, AuthError> {
    let mut db = rls::begin(db, rls::Scope::Login).await?;
    let rows = sqlx::query!(
        r#"select k.id, k.user_id, k.scopes, m.project_id as "project_id?", m.role as "role?", p.runs_per_day, p.tokens_per_day,
                  (k.last_used_at is null or k.last_used_at < now() - interval '1 minute') as "tell_use!"
           from kb.api_keys k
           -- the projects that the key opens
           left join kb.project_members m on m.user_id = k.user_id and m.project_id = coalesce(k.project_id, m.project_id)
           left join kb.projects p on p.id = m.project_id
           where k.hash = $1 and k.kind = $2 and k.revoked_at is null and (k.expires_at is null or k.expires_at > now())
           order by m.created_at"#,
        hash_secret(key),
        kind.as_str()
    )
    .fetch_all(&mut *db)
    .await?;
    let memberships: Vec<Membership> = rows
        .iter()
        .filter_map(|row| {
            Some(Membership {
                workspace_id: row.project_id?,
                role: Role::stored(row.role.as_deref()?),
                quota: Quota {
                    runs_per_day: row.runs_per_day,
                    tokens_per_day: row.tokens_per_day,
                },
            })
        })
        .collect();
    let found = rows.into_iter().next().ok_or(AuthError::UnknownKey)?;
    let membership = choose_workspace(&memberships, wanted_workspace)?;
    if found.tell_use {
        sqlx::query!("select kb.key_used($1)", found.id)
            .execute(&mut *db)
            .await?;
        db.commit().await?;
    }
    let credential = Credential::Key(found.id);
    Ok(Caller {
        shown_in: kind,
        ..Caller::new(credential, found.user_id, membership, found.scopes)
    })
}

/// Returns the workspace of a request: among the caller's, the one that it names, or the only one.
pub(crate) fn choose_workspace(open: &[Membership], wanted: Option<Uuid>) -> Result<&Membership, AuthError> {
    match (wanted, open) {
        (Some(wanted), open) => open
            .iter()
            .find(|membership| membership.workspace_id == wanted)
            .ok_or(AuthError::UnknownWorkspace),
        (None, [only]) => Ok(only),
        (None, [_, _, ..]) => Err(AuthError::WorkspaceNeeded),
        (None, []) => Err(AuthError::UnknownWorkspace),
    }
}

/// The basis of an open stream, beside the expiry of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionBasis {
    /// None: a token.
    pub key_id: Option<Uuid>,
    pub user_id: Uuid,
    pub workspace_id: Uuid,
}

impl Caller {
    pub fn session_basis(&self) -> SessionBasis {
        SessionBasis {
            key_id: self.credential.key_id(),
            user_id: self.user_id,
            workspace_id: self.workspace_id,
        }
    }
}

/// Returns which of these are still valid: the key is valid and opens the workspace, and the user is a member of it. The others'
/// streams are closed, also those of a session that has moved to another workspace.
pub async fn still_valid(db: &PgPool, bases: &[SessionBasis]) -> Result<Vec<SessionBasis>, sqlx::Error> {
    let keys: Vec<Option<Uuid>> = bases.iter().map(|basis| basis.key_id).collect();
    let users: Vec<Uuid> = bases.iter().map(|basis| basis.user_id).collect();
    let workspaces: Vec<Uuid> = bases.iter().map(|basis| basis.workspace_id).collect();
    let mut db = rls::begin(db, rls::Scope::Login).await?;
    sqlx::query_as!(
        SessionBasis,
        r#"select g.key_id, g.user_id as "user_id!", g.project_id as "workspace_id!"
           from unnest($1::uuid[], $2::uuid[], $3::uuid[]) g (key_id, user_id, project_id)
           join kb.project_members m on m.user_id = g.user_id and m.project_id = g.project_id
           left join kb.api_keys k on k.id = g.key_id
           where g.key_id is null
              or (k.id is not null and k.revoked_at is null and (k.expires_at is null or k.expires_at > now())
                  and (k.project_id is null or k.project_id = g.project_id))"#,
        &keys as &[Option<Uuid>],
        &users,
        &workspaces
    )
    .fetch_all(&mut *db)
    .await
}

/// Returns all keys of a workspace, newest first.
pub async fn list_keys(db: &PgPool, workspace_id: Uuid) -> Result<Vec<KeyInfo>, sqlx::Error> {
    sqlx::query_as!(
        KeyInfo,
        "select k.id, k.name, k.prefix, k.user_id, k.project_id as workspace_id, k.scopes, k.created_at, k.expires_at, k.revoked_at
         from kb.api_keys k
         where (k.project_id = $1
                or (k.project_id is null and exists (select from kb.project_members m where m.user_id = k.user_id and m.project_id = $1)))
           -- what has come and gone in a browser is of no interest to anybody
           and (k.kind = 'key' or (k.revoked_at is null and k.expires_at > now()))
         order by k.created_at desc",
        workspace_id
    )
    .fetch_all(db)
    .await
}

/// Revokes a key and the sessions created with it; false if it does not exist. Idempotent.
pub async fn revoke_key(db: impl PgExecutor<'_>, id: Uuid) -> Result<bool, sqlx::Error> {
    let done = sqlx::query!(
        "update kb.api_keys set revoked_at = coalesce(revoked_at, now()) where id = $1 or parent_id = $1",
        id
    )
    .execute(db)
    .await?;
    Ok(done.rows_affected() > 0)
}

#[cfg(test)]
mod tests;
