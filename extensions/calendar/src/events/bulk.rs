//! Reads and inserts many events with one statement each: of a file that is imported.

use std::collections::HashSet;

use rejoin_types::owner::Owner;
use serde_json::{Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

use super::{Event, Row};

/// Locks and returns those of an owner's events that exist, including deleted ones, until the transaction ends.
pub async fn all_locked(db: &mut PgConnection, owner: Owner, ids: &[Uuid]) -> Result<Vec<Event>, sqlx::Error> {
    let rows = sqlx::query_as!(
        Row,
        r#"select e.id, calendar_id, title, description, location, starts_at, ends_at, all_day, e.time_zone, rrule, exdates, series_id,
                  recurrence_id, version, deleted_at is not null as "is_deleted!"
           from kb.calendar_events e join kb.calendars c on c.id = calendar_id
           where c.project_id = $1 and c.owner_user_id = $2 and e.id = any($3)
           order by e.id
           for update of e"#,
        owner.workspace_id,
        owner.user_id,
        ids
    )
    .fetch_all(db)
    .await?;
    Ok(rows.into_iter().map(Event::from).collect())
}

/// Inserts validated events. Returns the ids of those that it has inserted: the other ids are taken, or their occurrences already
/// replaced.
pub async fn add_all(db: &mut PgConnection, events: &[Event]) -> Result<HashSet<Uuid>, sqlx::Error> {
    fn column<'a, T>(events: &'a [Event], value: impl Fn(&'a Event) -> T) -> Vec<T> {
        events.iter().map(value).collect()
    }
    let exdates: Vec<Value> = column(events, |event| json!(event.exdates));
    let added = sqlx::query_scalar!(
        r#"insert into kb.calendar_events
               (id, calendar_id, title, description, location, starts_at, ends_at, all_day, time_zone, rrule, series_id, recurrence_id, exdates)
           select id, calendar_id, title, description, location, starts_at, ends_at, all_day, time_zone, rrule, series_id, recurrence_id,
                  array(select value::timestamptz from jsonb_array_elements_text(exdates))
           from unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::timestamptz[], $7::timestamptz[], $8::boolean[],
                       $9::text[], $10::text[], $11::uuid[], $12::timestamptz[], $13::jsonb[])
               as event (id, calendar_id, title, description, location, starts_at, ends_at, all_day, time_zone, rrule, series_id,
                         recurrence_id, exdates)
           on conflict do nothing
           returning id"#,
        &column(events, |event| event.id),
        &column(events, |event| event.calendar_id),
        &column(events, |event| event.content.title.as_str()) as _,
        &column(events, |event| event.content.description.as_str()) as _,
        &column(events, |event| event.content.location.as_str()) as _,
        &column(events, |event| event.content.start),
        &column(events, |event| event.content.end),
        &column(events, |event| event.content.all_day),
        &column(events, |event| event.content.time_zone.name()) as _,
        &column(events, |event| event.content.rrule.as_deref()) as _,
        &column(events, |event| event.replaces.map(|(series, _)| series)) as _,
        &column(events, |event| event.replaces.map(|(_, at)| at)) as _,
        &exdates
    )
    .fetch_all(db)
    .await?;
    Ok(added.into_iter().collect())
}
