//! Mappings between local and Google events (`kb.google_events`). Called by `apply_remote` and `push`, in a job's turn.
//!
//! Invariant: a mapping follows from ids alone, on both sides, so that a lost mapping is found again.

use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

use super::snapshot::Snapshot;
use crate::events;

/// Prefix of the ids of events created here. Google accepts `0-9` and `a-v` (base32hex of RFC 2938).
const OURS: &str = "rejoin";

/// Returns the Google id of an event created here.
pub fn google_id_of(event: Uuid) -> String {
    format!("{OURS}{}", event.simple())
}

/// Returns the local id of a Google id, if created here; else as [`event_id_of_others`].
pub fn event_id_of(calendar: Uuid, google_id: &str) -> Uuid {
    let made_here = google_id.strip_prefix(OURS).filter(|id| id.len() == 32);
    let id = made_here.and_then(|id| Uuid::try_parse(id).ok());
    id.unwrap_or_else(|| event_id_of_others(calendar, google_id))
}

/// Returns the local id of an event created at Google: deterministic within a calendar.
pub fn event_id_of_others(calendar: Uuid, google_id: &str) -> Uuid {
    events::id_in(calendar, &[b"google\0", google_id.as_bytes()])
}

/// A mapping between a local and a remote event.
#[derive(Debug, Clone, PartialEq)]
pub struct Mapping {
    pub event_id: Uuid,
    pub google_id: String,
    /// Empty: the remote event must be read first.
    pub etag: String,
    pub version: i32,
    pub base: Option<Snapshot>,
    /// Starts of occurrences cancelled separately at Google, in the format of [`Snapshot::left_out`].
    pub left_out: Vec<String>,
    /// For a changed occurrence: its series, and the start that it replaces.
    pub replaces: Option<(Uuid, DateTime<Utc>)>,
    pub listing: i64,
}

struct Row {
    event_id: Uuid,
    google_id: String,
    etag: String,
    version: i32,
    base: Value,
    left_out: Vec<String>,
    series_id: Option<Uuid>,
    original: Option<DateTime<Utc>>,
    listing: i64,
}

impl From<Row> for Mapping {
    fn from(row: Row) -> Self {
        Self {
            event_id: row.event_id,
            google_id: row.google_id,
            etag: row.etag,
            version: row.version,
            base: serde_json::from_value(row.base).ok(),
            left_out: row.left_out,
            replaces: row.series_id.zip(row.original),
            listing: row.listing,
        }
    }
}

pub async fn by_event(db: impl PgExecutor<'_>, calendar: Uuid, event: Uuid) -> Result<Option<Mapping>, sqlx::Error> {
    let row = sqlx::query_as!(
        Row,
        "select event_id, google_id, etag, version, base, left_out, series_id, original, listing
         from kb.google_events where calendar_id = $1 and event_id = $2",
        calendar,
        event
    );
    Ok(row.fetch_optional(db).await?.map(Mapping::from))
}

pub async fn by_google(
    db: impl PgExecutor<'_>,
    calendar: Uuid,
    google_id: &str,
) -> Result<Option<Mapping>, sqlx::Error> {
    let row = sqlx::query_as!(
        Row,
        "select event_id, google_id, etag, version, base, left_out, series_id, original, listing
         from kb.google_events where calendar_id = $1 and google_id = $2",
        calendar,
        google_id
    );
    Ok(row.fetch_optional(db).await?.map(Mapping::from))
}

/// Stores a mapping, replacing the event's previous one.
pub async fn put(db: &mut PgConnection, calendar: Uuid, mapping: &Mapping) -> Result<(), sqlx::Error> {
    // Removes the remote event's mapping with another event, such as an occurrence whose series was split.
    sqlx::query!(
        "delete from kb.google_events where calendar_id = $1 and google_id = $2 and event_id <> $3",
        calendar,
        mapping.google_id,
        mapping.event_id
    )
    .execute(&mut *db)
    .await?;
    let (series_id, original) = mapping.replaces.unzip();
    sqlx::query!(
        "insert into kb.google_events (calendar_id, event_id, google_id, etag, version, base, left_out, series_id, original, listing)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
         on conflict (calendar_id, event_id) do update
         set google_id = $3, etag = $4, version = $5, base = $6, left_out = $7, series_id = $8, original = $9, listing = $10",
        calendar,
        mapping.event_id,
        mapping.google_id,
        mapping.etag,
        mapping.version,
        json!(mapping.base),
        &mapping.left_out,
        series_id,
        original,
        mapping.listing
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Records that an event was in a full list.
pub async fn seen(db: impl PgExecutor<'_>, calendar: Uuid, event: Uuid, listing: i64) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update kb.google_events set listing = $3 where calendar_id = $1 and event_id = $2 and listing <> $3",
        calendar,
        event,
        listing
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Returns local events that were missing from the last full list.
pub async fn unseen(
    db: impl PgExecutor<'_>,
    calendar: Uuid,
    listing: i64,
    most: i64,
) -> Result<Vec<Mapping>, sqlx::Error> {
    let rows = sqlx::query_as!(
        Row,
        "select p.event_id, p.google_id, p.etag, p.version, p.base, p.left_out, p.series_id, p.original, p.listing
         from kb.google_events p join kb.calendar_events e on e.id = p.event_id and e.deleted_at is null
         where p.calendar_id = $1 and p.listing < $2 order by p.google_id limit $3",
        calendar,
        listing,
        most
    );
    Ok(rows.fetch_all(db).await?.into_iter().map(Mapping::from).collect())
}

/// Returns events that differ from their remote version: series before their occurrences.
pub async fn changed(db: impl PgExecutor<'_>, calendar: Uuid, most: i64) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        "select e.id from kb.calendar_events e
         left join kb.google_events p on p.calendar_id = e.calendar_id and p.event_id = e.id
         where e.calendar_id = $1
           and (p.event_id is null and e.deleted_at is null or p.version <> e.version
                or p.event_id is not null and e.deleted_at is null
                   and (p.series_id is distinct from e.series_id or p.original is distinct from e.recurrence_id))
         order by e.series_id is not null, e.created_at, e.id limit $2",
        calendar,
        most
    )
    .fetch_all(db)
    .await
}

pub async fn remove(db: impl PgExecutor<'_>, calendar: Uuid, event: Uuid) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "delete from kb.google_events where calendar_id = $1 and event_id = $2",
        calendar,
        event
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Counts a calendar's events that are not deleted.
pub async fn count(db: impl PgExecutor<'_>, calendar: Uuid) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar!(
        r#"select count(*) as "count!" from kb.calendar_events where calendar_id = $1 and deleted_at is null"#,
        calendar
    )
    .fetch_one(db)
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_follow_from_each_other_and_are_such_as_google_takes() {
        let (calendar, event) = (Uuid::now_v7(), Uuid::now_v7());
        let at_google = google_id_of(event);
        assert!(at_google.chars().all(|c| matches!(c, '0'..='9' | 'a'..='v')) && (5..=1024).contains(&at_google.len()));
        assert_eq!(event_id_of(calendar, &at_google), event);
        let theirs = event_id_of(calendar, "4v1b0n9k2");
        assert_eq!(theirs, event_id_of(calendar, "4v1b0n9k2"));
        assert_ne!(theirs, event_id_of(Uuid::now_v7(), "4v1b0n9k2"));
        assert_ne!(theirs, event_id_of(calendar, "rejoin"));
    }
}
