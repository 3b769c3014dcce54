//! Rows of `kb.calendars`.

use chrono_tz::Tz;
use rejoin_types::owner::Owner;
use sha2::{Digest, Sha256};
use sqlx::{PgConnection, PgExecutor};
use uuid::{Builder, Uuid};

/// Maximum number of calendars of one user in a project.
pub const MAX_CALENDARS: i64 = 100;

#[derive(Debug, Clone, PartialEq)]
pub struct Calendar {
    pub id: Uuid,
    pub name: String,
    /// An IANA time zone.
    pub time_zone: String,
    /// The work project (graph object) to which the calendar belongs.
    pub work_project: Option<Uuid>,
}

impl Calendar {
    pub fn zone(&self) -> Tz {
        self.time_zone.parse().unwrap_or(Tz::UTC)
    }
}

/// Returns a deterministic id within a calendar for an external name, given in unambiguous parts.
pub fn id_in(calendar: Uuid, name: &[&[u8]]) -> Uuid {
    let mut hasher = Sha256::new();
    hasher.update(calendar.as_bytes());
    for part in name {
        hasher.update(part);
    }
    let mut bytes = *calendar.as_bytes();
    // The first six bytes are the time.
    bytes[6..].copy_from_slice(&hasher.finalize()[..10]);
    Builder::from_bytes(bytes)
        .with_version(uuid::Version::SortRand)
        .with_variant(uuid::Variant::RFC4122)
        .into_uuid()
}

/// Returns whether this is an IANA time zone.
pub fn is_time_zone(name: &str) -> bool {
    name.parse::<Tz>().is_ok()
}

/// Returns an owner's calendars, oldest first.
pub async fn calendars(db: impl PgExecutor<'_>, owner: Owner) -> Result<Vec<Calendar>, sqlx::Error> {
    sqlx::query_as!(
        Calendar,
        "select id, name, time_zone, work_project from kb.calendars
         where project_id = $1 and owner_user_id = $2 order by created_at, id limit $3",
        owner.workspace_id,
        owner.user_id,
        MAX_CALENDARS
    )
    .fetch_all(db)
    .await
}

/// Inserts a calendar. False: the limit is reached, or the id is taken.
pub async fn add_calendar(db: &mut PgConnection, owner: Owner, calendar: &Calendar) -> Result<bool, sqlx::Error> {
    let added = sqlx::query!(
        "insert into kb.calendars (id, project_id, owner_user_id, name, time_zone, work_project)
         select $1, $2, $3, $4, $5, $6
         where (select count(*) from kb.calendars where project_id = $2 and owner_user_id = $3) < $7
         on conflict do nothing",
        calendar.id,
        owner.workspace_id,
        owner.user_id,
        calendar.name,
        calendar.time_zone,
        calendar.work_project,
        MAX_CALENDARS
    )
    .execute(db)
    .await?;
    Ok(added.rows_affected() > 0)
}

/// Deletes a calendar with all its events. False: it does not exist.
pub async fn delete_calendar(db: impl PgExecutor<'_>, owner: Owner, id: Uuid) -> Result<bool, sqlx::Error> {
    let deleted = sqlx::query!(
        "delete from kb.calendars where project_id = $1 and owner_user_id = $2 and id = $3",
        owner.workspace_id,
        owner.user_id,
        id
    )
    .execute(db)
    .await?;
    Ok(deleted.rows_affected() > 0)
}

/// Returns an owner's calendar.
pub async fn calendar(db: impl PgExecutor<'_>, owner: Owner, id: Uuid) -> Result<Option<Calendar>, sqlx::Error> {
    sqlx::query_as!(
        Calendar,
        "select id, name, time_zone, work_project from kb.calendars where project_id = $1 and owner_user_id = $2 and id = $3",
        owner.workspace_id,
        owner.user_id,
        id
    )
    .fetch_optional(db)
    .await
}
