//! Stream tickets: a short-lived credential for one stream, redeemed once.

use chrono::{DateTime, Utc};
use deadpool_postgres::Pool;
use rejoin_db::{PgError, rls};
use rejoin_types::access::Scope;
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::{Caller, Credential, Expiry, hash_secret, random_secret};
use crate::workspaces::{Membership, Quota, Role};

/// Lifetime of a ticket, which opens one stream once, in seconds.
pub const TICKET_LIFETIME_S: i64 = 60;

/// Creates a ticket that opens the stream of `target_id` (a conversation or a run) once, as `caller`.
pub async fn create_ticket(
    db: &mut PgConnection,
    caller: &Caller,
    target_id: Uuid,
) -> Result<(String, DateTime<Utc>), sqlx::Error> {
    let ticket = random_secret();
    let expires_at = sqlx::query_scalar!(
        "insert into kb.stream_tickets (hash, key_id, token_expires_at, project_id, user_id, target_id, expires_at)
         values ($1, $2, $3, $4, $5, $6, now() + $7::bigint * interval '1 second') returning expires_at",
        hash_secret(&ticket),
        caller.credential.key_id(),
        caller.credential.expiry().map(|expiry| expiry.at),
        caller.workspace_id,
        caller.user_id,
        target_id,
        TICKET_LIFETIME_S,
    )
    .fetch_one(db)
    .await?;
    Ok((ticket, expires_at))
}

/// Returns the workspace of a ticket, without redeeming it. None: it is unknown, used or expired.
pub async fn workspace_of_ticket(db: &PgPool, ticket: &str) -> Result<Option<Uuid>, sqlx::Error> {
    let mut db = rls::begin(db, rls::Scope::Login).await?;
    sqlx::query_scalar!(
        "select project_id from kb.stream_tickets where hash = $1 and expires_at > now()",
        hash_secret(ticket)
    )
    .fetch_optional(&mut *db)
    .await
}

/// Redeems a ticket. None: unknown, used, expired, for another stream, or its key or token is no longer valid in its workspace. One
/// round trip: after a restart, all browsers present one.
pub async fn redeem_ticket(pool: &Pool, ticket: &str, target_id: Uuid) -> Result<Option<Caller>, PgError> {
    let sql = "delete from kb.stream_tickets t
               where t.hash = $1 and t.target_id = $2 and t.expires_at > now()
                 and exists (select from kb.project_members m where m.user_id = t.user_id and m.project_id = t.project_id)
                 and (t.token_expires_at > now()
                      or exists (select from kb.api_keys k
                                 where k.id = t.key_id and k.revoked_at is null
                                   and (k.expires_at is null or k.expires_at > now())
                                   and (k.project_id is null or k.project_id = t.project_id)))
               returning t.key_id, t.token_expires_at, t.user_id, t.project_id, now()";
    let row = rls::query_one_scoped(pool, rls::Scope::Login, sql, &[&hash_secret(ticket), &target_id]).await?;
    Ok(row.and_then(|row| {
        let credential = match (row.get(0), row.get(1)) {
            (Some(id), _) => Credential::Key(id),
            (None, Some(at)) => Credential::Token(Expiry::of(at, row.get(4))?),
            // A check constraint forbids it.
            (None, None) => return None,
        };
        // It opens a stream, for any role.
        let membership = Membership {
            workspace_id: row.get(3),
            role: Role::Viewer,
            quota: Quota::default(),
        };
        let scopes = vec![Scope::Read.as_str().to_owned()];
        Some(Caller::new(credential, row.get(2), &membership, scopes))
    }))
}
