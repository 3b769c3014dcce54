//! API keys and stream tickets: making, checking, revoking.
//!
//! A key is 256 random bits behind a prefix; only its SHA-256 is stored, so that a stolen database opens nothing. A key
//! belongs to a user, and opens one project or, if it names none, all of its user's.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, Utc};
use serde::Serialize;
use sha2::{Digest, Sha256};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use crate::ids;

/// Marks our keys for people and for secret scanners.
pub const KEY_PREFIX: &str = "rejoin_";
/// A ticket opens one stream, once, within this time.
pub const TICKET_LIFETIME_S: i64 = 60;

/// What a key may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// GET
    Read,
    /// everything else outside `/api/admin`
    Write,
    /// `/api/admin`
    Admin,
}

impl Scope {
    pub const ALL: [Scope; 3] = [Scope::Read, Scope::Write, Scope::Admin];

    pub fn as_str(self) -> &'static str {
        match self {
            Scope::Read => "read",
            Scope::Write => "write",
            Scope::Admin => "admin",
        }
    }
}

/// An authenticated caller: who, in which project, with which rights.
#[derive(Debug, Clone)]
pub struct Caller {
    pub key_id: Uuid,
    pub user_id: Uuid,
    pub project_id: Uuid,
    pub scopes: Vec<String>,
}

impl Caller {
    pub fn may(&self, scope: Scope) -> bool {
        self.scopes.iter().any(|s| s == scope.as_str())
    }
}

/// A key as lists show it.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyInfo {
    pub id: Uuid,
    pub name: String,
    pub prefix: String,
    pub user_id: Uuid,
    pub project_id: Option<Uuid>,
    pub scopes: Vec<String>,
    pub created_at: DateTime<Utc>,
    pub expires_at: Option<DateTime<Utc>>,
    pub revoked_at: Option<DateTime<Utc>>,
}

/// 256 random bits as text.
fn random_secret() -> String {
    let bytes: [u8; 32] = rand::random();
    URL_SAFE_NO_PAD.encode(bytes)
}

/// What is stored of a secret.
pub fn hash_secret(secret: &str) -> Vec<u8> {
    Sha256::digest(secret.as_bytes()).to_vec()
}

/// Makes a key and returns it with its id. The key itself is shown only here.
pub async fn create_key(
    db: &mut PgConnection,
    user_id: Uuid,
    project_id: Option<Uuid>,
    name: &str,
    scopes: &[Scope],
    expires_in_s: Option<i64>,
) -> Result<(Uuid, String), sqlx::Error> {
    let key = format!("{KEY_PREFIX}{}", random_secret());
    let id = ids::new();
    let scopes: Vec<String> = scopes.iter().map(|scope| scope.as_str().to_owned()).collect();
    sqlx::query!(
        "insert into kb.api_keys (id, user_id, project_id, name, prefix, hash, scopes, expires_at)
         values ($1, $2, $3, $4, $5, $6, $7, now() + $8::bigint * interval '1 second')",
        id,
        user_id,
        project_id,
        name,
        &key[..KEY_PREFIX.len() + 6],
        hash_secret(&key),
        &scopes,
        expires_in_s,
    )
    .execute(db)
    .await?;
    Ok((id, key))
}

/// Why a request was not let in.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    #[error("the API key is unknown, expired or revoked")]
    UnknownKey,
    /// Also where the project exists but is not the key's: existence is not told.
    #[error("there is no such project for this key")]
    UnknownProject,
    #[error("the key opens several projects: name one with the header X-Project-ID")]
    ProjectNeeded,
    #[error("looking up the API key failed")]
    Database(#[from] sqlx::Error),
}

/// Finds out who holds `key`, and for which project: the key's own, or the one that `wanted_project` chooses.
pub async fn authenticate(db: &PgPool, key: &str, wanted_project: Option<Uuid>) -> Result<Caller, AuthError> {
    let row = sqlx::query!(
        r#"select k.id, k.user_id, k.scopes,
                  -- the projects that the key opens
                  coalesce((select array_agg(m.project_id order by m.created_at) from kb.project_members m
                            where m.user_id = k.user_id and m.project_id = coalesce(k.project_id, m.project_id)),
                           '{}') as "projects!: Vec<Uuid>"
           from kb.api_keys k
           where k.hash = $1 and k.revoked_at is null and (k.expires_at is null or k.expires_at > now())"#,
        hash_secret(key)
    )
    .fetch_optional(db)
    .await?
    .ok_or(AuthError::UnknownKey)?;
    let project_id = match (wanted_project, row.projects.as_slice()) {
        (Some(wanted), projects) if projects.contains(&wanted) => wanted,
        (None, [only]) => *only,
        (None, [_, _, ..]) => return Err(AuthError::ProjectNeeded),
        (Some(_), _) | (None, []) => return Err(AuthError::UnknownProject),
    };
    Ok(Caller {
        key_id: row.id,
        user_id: row.user_id,
        project_id,
        scopes: row.scopes,
    })
}

/// Which of `keys` still open anything: open streams are closed when theirs does not.
pub async fn still_valid(db: &PgPool, keys: &[Uuid]) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        "select id from kb.api_keys
         where id = any($1) and revoked_at is null and (expires_at is null or expires_at > now())",
        keys
    )
    .fetch_all(db)
    .await
}

/// All keys of a project, newest first.
pub async fn list_keys(db: &PgPool, project_id: Uuid) -> Result<Vec<KeyInfo>, sqlx::Error> {
    sqlx::query_as!(
        KeyInfo,
        "select k.id, k.name, k.prefix, k.user_id, k.project_id, k.scopes, k.created_at, k.expires_at, k.revoked_at
         from kb.api_keys k
         where k.project_id = $1
            or (k.project_id is null and exists (select from kb.project_members m where m.user_id = k.user_id and m.project_id = $1))
         order by k.created_at desc",
        project_id
    )
    .fetch_all(db)
    .await
}

/// Revokes a key; false where there is none. Idempotent.
pub async fn revoke_key(db: &PgPool, id: Uuid) -> Result<bool, sqlx::Error> {
    let done = sqlx::query!(
        "update kb.api_keys set revoked_at = coalesce(revoked_at, now()) where id = $1",
        id
    )
    .execute(db)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Makes a ticket that opens the stream of `target_id` (a conversation or a run) once, as `caller`.
pub async fn create_ticket(
    db: &PgPool,
    caller: &Caller,
    target_id: Uuid,
) -> Result<(String, DateTime<Utc>), sqlx::Error> {
    let ticket = random_secret();
    let expires_at = sqlx::query_scalar!(
        "insert into kb.stream_tickets (hash, key_id, project_id, user_id, target_id, expires_at)
         values ($1, $2, $3, $4, $5, now() + $6::bigint * interval '1 second') returning expires_at",
        hash_secret(&ticket),
        caller.key_id,
        caller.project_id,
        caller.user_id,
        target_id,
        TICKET_LIFETIME_S,
    )
    .fetch_one(db)
    .await?;
    Ok((ticket, expires_at))
}

/// Uses a ticket up. None: unknown, used, expired, of another stream, or of a key that was revoked.
pub async fn redeem_ticket(db: &PgPool, ticket: &str, target_id: Uuid) -> Result<Option<Caller>, sqlx::Error> {
    let row = sqlx::query!(
        "delete from kb.stream_tickets t using kb.api_keys k
         where t.hash = $1 and t.target_id = $2 and t.expires_at > now()
           and k.id = t.key_id and k.revoked_at is null and (k.expires_at is null or k.expires_at > now())
         returning t.key_id, t.user_id, t.project_id",
        hash_secret(ticket),
        target_id
    )
    .fetch_optional(db)
    .await?;
    Ok(row.map(|row| Caller {
        key_id: row.key_id,
        user_id: row.user_id,
        project_id: row.project_id,
        scopes: vec![Scope::Read.as_str().to_owned()],
    }))
}
