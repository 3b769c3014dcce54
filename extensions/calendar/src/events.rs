//! Rows of `kb.calendars` and `kb.calendar_events`, with their SQL. Called by the rest of `calendar`, and by the API.
//!
//! - `calendars` rows of `kb.calendars`
//! - `bulk`      many events with one statement
//!
//! Invariant: every statement names the owner, or a calendar that was found by its owner.

mod bulk;
mod calendars;

pub use bulk::{add_all, all_locked};
pub use calendars::{Calendar, MAX_CALENDARS, add_calendar, calendar, calendars, delete_calendar, id_in, is_time_zone};

use chrono::{DateTime, Duration, Utc};
use chrono_tz::Tz;
use rejoin_types::owner::Owner;
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

use super::recurrence::Series;

/// Maximum length of texts, in characters.
const TITLE_MAX_CHARS: usize = 200;
const LOCATION_MAX_CHARS: usize = 500;
const DESCRIPTION_MAX_CHARS: usize = 8_000;
/// Maximum duration of an event, in days.
pub const LONGEST_DAYS: i64 = 31;
/// Maximum number of rows examined by one query.
pub const MAX_ROWS: i64 = 5_000;

/// The content of an event.
#[derive(Debug, Clone, PartialEq)]
pub struct Content {
    pub title: String,
    pub description: String,
    pub location: String,
    pub start: DateTime<Utc>,
    pub end: DateTime<Utc>,
    pub all_day: bool,
    pub time_zone: Tz,
    pub rrule: Option<String>,
}

impl Content {
    /// Validates it. The error is a message for the author.
    pub fn check(&self) -> Result<(), String> {
        let bounded = |name: &str, text: &str, most: usize| {
            if text.chars().count() > most || text.contains('\0') {
                Err(format!("{name} must have at most {most} characters and no NUL"))
            } else {
                Ok(())
            }
        };
        if self.title.trim().is_empty() {
            return Err("title is empty; pass the event's title".to_owned());
        }
        bounded("title", &self.title, TITLE_MAX_CHARS)?;
        bounded("location", &self.location, LOCATION_MAX_CHARS)?;
        bounded("description", &self.description, DESCRIPTION_MAX_CHARS)?;
        if self.end < self.start {
            return Err("the event ends before it begins".to_owned());
        }
        if self.end - self.start > Duration::days(LONGEST_DAYS) {
            return Err(format!("an event can last at most {LONGEST_DAYS} days"));
        }
        match &self.rrule {
            Some(rrule) => self.series(rrule).check(),
            None => Ok(()),
        }
    }

    pub fn series<'a>(&self, rrule: &'a str) -> Series<'a> {
        Series {
            rrule,
            start: self.start,
            time_zone: self.time_zone,
        }
    }
}

/// An event as stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    pub id: Uuid,
    pub calendar_id: Uuid,
    pub content: Content,
    pub exdates: Vec<DateTime<Utc>>,
    /// The event one of whose occurrences it replaces, and that occurrence's start.
    pub replaces: Option<(Uuid, DateTime<Utc>)>,
    pub version: i32,
    pub is_deleted: bool,
}

struct Row {
    id: Uuid,
    calendar_id: Uuid,
    title: String,
    description: String,
    location: String,
    starts_at: DateTime<Utc>,
    ends_at: DateTime<Utc>,
    all_day: bool,
    time_zone: String,
    rrule: Option<String>,
    exdates: Vec<DateTime<Utc>>,
    series_id: Option<Uuid>,
    recurrence_id: Option<DateTime<Utc>>,
    version: i32,
    is_deleted: bool,
}

impl From<Row> for Event {
    fn from(row: Row) -> Self {
        Self {
            id: row.id,
            calendar_id: row.calendar_id,
            content: Content {
                title: row.title,
                description: row.description,
                location: row.location,
                start: row.starts_at,
                end: row.ends_at,
                all_day: row.all_day,
                time_zone: row.time_zone.parse().unwrap_or(Tz::UTC),
                rrule: row.rrule,
            },
            exdates: row.exdates,
            replaces: row.series_id.zip(row.recurrence_id),
            version: row.version,
            is_deleted: row.is_deleted,
        }
    }
}

/// Assigns a calendar to a project of the work graph, replacing another one. False: it does not exist.
pub async fn assign(db: &mut PgConnection, owner: Owner, id: Uuid, work_project: Uuid) -> Result<bool, sqlx::Error> {
    sqlx::query!(
        "update kb.calendars set work_project = null where project_id = $1 and owner_user_id = $2 and work_project = $3 and id <> $4",
        owner.workspace_id,
        owner.user_id,
        work_project,
        id
    )
    .execute(&mut *db)
    .await?;
    let assigned = sqlx::query!(
        "update kb.calendars set work_project = $3 where project_id = $1 and owner_user_id = $2 and id = $4",
        owner.workspace_id,
        owner.user_id,
        work_project,
        id
    )
    .execute(db)
    .await?;
    Ok(assigned.rows_affected() > 0)
}

/// Locks and returns an owner's event, including a deleted one, until the transaction ends.
pub async fn locked(db: &mut PgConnection, owner: Owner, id: Uuid) -> Result<Option<Event>, sqlx::Error> {
    Ok(all_locked(db, owner, &[id]).await?.pop())
}

/// Returns events that may occur between two moments: single ones, recurring ones, and replacements of occurrences in
/// between.
pub async fn within(
    db: impl PgExecutor<'_>,
    calendars: &[Uuid],
    from: DateTime<Utc>,
    to: DateTime<Utc>,
) -> Result<Vec<Event>, sqlx::Error> {
    let rows = sqlx::query_as!(
        Row,
        r#"select id, calendar_id, title, description, location, starts_at, ends_at, all_day, time_zone, rrule, exdates, series_id,
                  recurrence_id, version, deleted_at is not null as "is_deleted!"
           from kb.calendar_events
           where calendar_id = any($1) and deleted_at is null
             and (starts_at < $3 and (ends_at >= $2 or rrule is not null)
                  or recurrence_id < $3 and recurrence_id >= $2 - make_interval(days => $4))
           order by starts_at, id
           limit $5"#,
        calendars,
        from,
        to,
        i32::try_from(LONGEST_DAYS).unwrap_or(i32::MAX),
        MAX_ROWS
    )
    .fetch_all(db)
    .await?;
    Ok(rows.into_iter().map(Event::from).collect())
}

/// Inserts a validated event. False: the id is taken, or its occurrence is already replaced.
pub async fn add(
    db: &mut PgConnection,
    id: Uuid,
    calendar_id: Uuid,
    content: &Content,
    replaces: Option<(Uuid, DateTime<Utc>)>,
) -> Result<bool, sqlx::Error> {
    let added = sqlx::query!(
        "insert into kb.calendar_events
             (id, calendar_id, title, description, location, starts_at, ends_at, all_day, time_zone, rrule, series_id, recurrence_id)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
         on conflict do nothing",
        id,
        calendar_id,
        content.title,
        content.description,
        content.location,
        content.start,
        content.end,
        content.all_day,
        content.time_zone.name(),
        content.rrule.as_deref(),
        replaces.map(|(series, _)| series),
        replaces.map(|(_, at)| at),
    )
    .execute(db)
    .await?;
    Ok(added.rows_affected() > 0)
}

/// Sets an event's validated content and its omitted occurrences.
pub async fn set(
    db: &mut PgConnection,
    id: Uuid,
    content: &Content,
    exdates: &[DateTime<Utc>],
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update kb.calendar_events
         set title = $2, description = $3, location = $4, starts_at = $5, ends_at = $6, all_day = $7, time_zone = $8, rrule = $9,
             exdates = $10, version = version + 1, updated_at = now()
         where id = $1",
        id,
        content.title,
        content.description,
        content.location,
        content.start,
        content.end,
        content.all_day,
        content.time_zone.name(),
        content.rrule.as_deref(),
        exdates,
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Returns the replacements of an event's occurrences.
pub async fn replacing(db: &mut PgConnection, series: Uuid) -> Result<Vec<Event>, sqlx::Error> {
    let rows = sqlx::query_as!(
        Row,
        r#"select id, calendar_id, title, description, location, starts_at, ends_at, all_day, time_zone, rrule, exdates, series_id,
                  recurrence_id, version, deleted_at is not null as "is_deleted!"
           from kb.calendar_events where series_id = $1 order by recurrence_id limit $2"#,
        series,
        MAX_ROWS
    )
    .fetch_all(db)
    .await?;
    Ok(rows.into_iter().map(Event::from).collect())
}

/// Makes an event replace another occurrence, possibly of another event.
pub async fn re_place(db: &mut PgConnection, id: Uuid, series: Uuid, at: DateTime<Utc>) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update kb.calendar_events set series_id = $2, recurrence_id = $3 where id = $1",
        id,
        series,
        at
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Deletes an event; its deletion stays recorded.
pub async fn delete(db: &mut PgConnection, id: Uuid) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update kb.calendar_events set deleted_at = coalesce(deleted_at, now()), version = version + 1 where id = $1",
        id
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Restores a deleted event unchanged.
pub async fn revive(db: &mut PgConnection, id: Uuid) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update kb.calendar_events set deleted_at = null, version = version + 1, updated_at = now() where id = $1 and deleted_at is not null",
        id
    )
    .execute(db)
    .await?;
    Ok(())
}
