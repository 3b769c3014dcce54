//! Browser sessions. A session is a key of its own kind in an HttpOnly cookie. It is created with an API key or token,
//! has its rights in the workspace of its creation, and expires with it at the latest.

use chrono::{DateTime, Utc};
use serde_json::json;
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use crate::audit::{self, Action, Actor, NewEntry};
use crate::auth::{self, Caller, Kind};
use rejoin_db::rls;
use rejoin_types::ids;

/// Maximum number of sessions of one user; the oldest are ended.
pub const MAX_PER_USER: i64 = 50;

/// A new session. The cookie's value is shown only here.
pub struct Begun {
    pub id: Uuid,
    pub secret: String,
    pub expires_at: DateTime<Utc>,
    /// Its lifetime, in seconds.
    pub lasts_s: i64,
}

/// Begins a session of `caller` that lasts `lifetime_s`, or as long as the caller's key or token.
pub async fn begin(db: &PgPool, caller: &Caller, lifetime_s: i64) -> Result<Begun, sqlx::Error> {
    let (id, secret) = (ids::new(), auth::random_secret());
    let mut tx = rls::begin(db, rls::Scope::Login).await?;
    forget_old(&mut tx, caller.user_id).await?;
    let row = sqlx::query!(
        r#"insert into kb.api_keys (id, user_id, project_id, name, prefix, hash, scopes, kind, parent_id, expires_at)
           select $1, $2, $3, 'session of a browser', '', $4, $5, $6, $7,
                  -- the least that is not null
                  least(now() + $8::bigint * interval '1 second', (select k.expires_at from kb.api_keys k where k.id = $7), $9)
           returning expires_at as "expires_at!", ceil(extract(epoch from expires_at - now()))::bigint as "lasts_s!""#,
        id,
        caller.user_id,
        caller.workspace_id,
        auth::hash_secret(&secret),
        &caller.scopes,
        Kind::Session.as_str(),
        caller.credential.key_id(),
        lifetime_s,
        caller.credential.expiry().map(|expiry| expiry.at)
    )
    .fetch_one(&mut *tx)
    .await?;
    tell(&mut tx, caller, Action::SessionBegun, id).await?;
    tx.commit().await?;
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

async fn tell(db: &mut PgConnection, caller: &Caller, action: Action, id: Uuid) -> Result<(), sqlx::Error> {
    let entry = NewEntry {
        by: &Actor::caller(caller),
        workspace_id: Some(caller.workspace_id),
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
        tell(&mut tx, caller, Action::SessionEnded, id).await?;
    }
    tx.commit().await
}
