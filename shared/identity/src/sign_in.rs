//! One-time sign-in codes, which let a browser sign in without an API key. The holder of a key creates one; whoever
//! presents the code gets a session of that key's user. Used by `/api/sign-in-codes` and `/api/session`.
//!
//! Invariant: a code creates one session, within [`LIFETIME_S`], and nothing else; only its SHA-256 is stored.

use chrono::{DateTime, Utc};
use sqlx::PgPool;
use uuid::Uuid;

use crate::auth::{self, Caller, Credential};
use crate::workspaces::{Membership, Quota, Role};
use rejoin_db::rls;
use rejoin_types::owner::Owner;

/// Lifetime of a code, in seconds.
pub const LIFETIME_S: i64 = 600;
/// Maximum number of unused codes of one user; the oldest are removed.
pub const MAX_PER_USER: i64 = 10;

/// A new code. It is shown only here.
pub struct Code {
    pub code: String,
    pub expires_at: DateTime<Utc>,
}

/// Creates a code for `caller`, whose API key has the id `key_id`.
pub async fn create(db: &PgPool, caller: &Caller, key_id: Uuid) -> Result<Code, sqlx::Error> {
    let owner = Owner {
        workspace_id: caller.workspace_id,
        user_id: caller.user_id,
    };
    let code = auth::random_secret();
    let mut tx = rls::begin(db, rls::Scope::UserLogin(owner)).await?;
    sqlx::query!(
        "delete from kb.sign_in_codes
         where expires_at < now()
            or hash in (select c.hash from kb.sign_in_codes c where c.user_id = $1 order by c.created_at desc, c.hash offset $2)",
        caller.user_id,
        MAX_PER_USER - 1
    )
    .execute(&mut *tx)
    .await?;
    let expires_at = sqlx::query_scalar!(
        "insert into kb.sign_in_codes (hash, key_id, project_id, user_id, expires_at)
         values ($1, $2, $3, $4, now() + $5::bigint * interval '1 second') returning expires_at",
        auth::hash_secret(&code),
        key_id,
        caller.workspace_id,
        caller.user_id,
        LIFETIME_S
    )
    .fetch_one(&mut *tx)
    .await?;
    tx.commit().await?;
    Ok(Code { code, expires_at })
}

/// Returns the caller that a code signs in, without using it up. None: it is unknown, used or expired, or its key is no
/// longer valid.
pub async fn whose(db: &PgPool, code: &str) -> Result<Option<Caller>, sqlx::Error> {
    let mut tx = rls::begin(db, rls::Scope::Login).await?;
    let row = sqlx::query!(
        "select c.key_id, c.user_id, c.project_id, k.scopes, m.role, p.runs_per_day, p.tokens_per_day
         from kb.sign_in_codes c
         join kb.api_keys k on k.id = c.key_id and k.revoked_at is null and (k.expires_at is null or k.expires_at > now())
         join kb.project_members m on m.user_id = c.user_id and m.project_id = c.project_id
         join kb.projects p on p.id = c.project_id
         where c.hash = $1 and c.expires_at > now()",
        auth::hash_secret(code)
    )
    .fetch_optional(&mut *tx)
    .await?;
    Ok(row.map(|row| {
        let membership = Membership {
            workspace_id: row.project_id,
            role: Role::stored(&row.role),
            quota: Quota {
                runs_per_day: row.runs_per_day,
                tokens_per_day: row.tokens_per_day,
            },
        };
        Caller::new(Credential::Key(row.key_id), row.user_id, &membership, row.scopes)
    }))
}

/// Uses a code up. False: it was already used.
pub async fn use_up(db: &PgPool, code: &str) -> Result<bool, sqlx::Error> {
    let mut tx = rls::begin(db, rls::Scope::Login).await?;
    let done = sqlx::query!("delete from kb.sign_in_codes where hash = $1", auth::hash_secret(code))
        .execute(&mut *tx)
        .await?;
    tx.commit().await?;
    Ok(done.rows_affected() > 0)
}

/// Returns the handles of two users, for a confirmation that names both.
pub async fn handles(db: &PgPool, first: Uuid, second: Uuid) -> Result<(String, String), sqlx::Error> {
    let mut tx = rls::begin(db, rls::Scope::Login).await?;
    let rows = sqlx::query!(
        "select id, handle from kb.users where id = $1 or id = $2",
        first,
        second
    )
    .fetch_all(&mut *tx)
    .await?;
    let of = |user: Uuid| {
        let row = rows.iter().find(|row| row.id == user);
        row.map(|row| row.handle.clone()).unwrap_or_default()
    };
    Ok((of(first), of(second)))
}
