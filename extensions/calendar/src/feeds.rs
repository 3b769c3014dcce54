//! Feeds: secret addresses by which programs subscribe to a calendar.
//!
//! Invariants: only the SHA-256 of the secret part is stored; a feed is empty once its owner has left the project.

use rejoin_db::rls;
use rejoin_identity::auth::{hash_secret, random_secret};
use rejoin_types::owner::Owner;
use sqlx::{PgExecutor, PgPool};
use uuid::Uuid;

/// The calendar accessible by a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Feed {
    pub calendar_id: Uuid,
    pub owner: Owner,
}

/// Creates the feed of a calendar, which invalidates an existing one. None: the owner has no such calendar.
pub async fn create(db: impl PgExecutor<'_>, owner: Owner, calendar_id: Uuid) -> Result<Option<String>, sqlx::Error> {
    let secret = random_secret();
    let made = sqlx::query!(
        "insert into kb.calendar_feeds (calendar_id, project_id, owner_user_id, hash)
         select c.id, c.project_id, c.owner_user_id, $4
         from kb.calendars c where c.id = $1 and c.project_id = $2 and c.owner_user_id = $3
         on conflict (calendar_id) do update set hash = excluded.hash, created_at = now()",
        calendar_id,
        owner.workspace_id,
        owner.user_id,
        hash_secret(&secret),
    )
    .execute(db)
    .await?;
    Ok((made.rows_affected() > 0).then_some(secret))
}

/// False: there was none.
pub async fn remove(db: impl PgExecutor<'_>, owner: Owner, calendar_id: Uuid) -> Result<bool, sqlx::Error> {
    let removed = sqlx::query!(
        "delete from kb.calendar_feeds where calendar_id = $1 and project_id = $2 and owner_user_id = $3",
        calendar_id,
        owner.workspace_id,
        owner.user_id,
    )
    .execute(db)
    .await?;
    Ok(removed.rows_affected() > 0)
}

/// Returns an owner's calendars with a feed.
pub async fn list(db: impl PgExecutor<'_>, owner: Owner) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        "select calendar_id from kb.calendar_feeds where project_id = $1 and owner_user_id = $2",
        owner.workspace_id,
        owner.user_id,
    )
    .fetch_all(db)
    .await
}

/// Returns the calendar of a secret, while its owner is in the project.
pub async fn find(db: &PgPool, secret: &str) -> Result<Option<Feed>, sqlx::Error> {
    let mut gate = rls::begin(db, rls::Scope::Login).await?;
    let row = sqlx::query!(
        "select f.calendar_id, f.project_id, f.owner_user_id from kb.calendar_feeds f
         where f.hash = $1
           and exists (select from kb.project_members m where m.user_id = f.owner_user_id and m.project_id = f.project_id)",
        hash_secret(secret),
    )
    .fetch_optional(&mut *gate)
    .await?;
    Ok(row.map(|row| Feed {
        calendar_id: row.calendar_id,
        owner: Owner {
            workspace_id: row.project_id,
            user_id: row.owner_user_id,
        },
    }))
}
