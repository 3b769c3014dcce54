//! Imports an iCalendar file into a calendar. Called by the API, in one transaction.
//!
//! Invariant: importing a file again has no further effect: events are matched by UID.

use std::collections::HashMap;
use std::time::Instant;

use chrono::{DateTime, Utc};
use rejoin_types::owner::Owner;
use sqlx::PgConnection;
use uuid::Uuid;

use super::events::{self, Calendar, Event};
use super::expand::CalendarError;
use super::ical::{self, Found, ImportNote, LIMIT, Read, refuse};

/// Maximum number of changed occurrences of one event in a file.
const MAX_REPLACING: usize = 500;

/// The result of an import.
#[derive(Debug, Default, PartialEq)]
pub struct Imported {
    pub added: usize,
    pub changed: usize,
    pub unchanged: usize,
    pub refused: Vec<ImportNote>,
    pub notes: Vec<ImportNote>,
}

/// Returns the local id for a file's UID: deterministic within a calendar.
fn id_of(calendar: Uuid, uid: &str, replaces: Option<DateTime<Utc>>) -> Uuid {
    let replaces = replaces.map_or(i64::MIN, |at| at.timestamp()).to_be_bytes();
    events::id_in(calendar, &[&replaces, uid.as_bytes()])
}

/// Finds the calendar's event with a file's UID: exported from here, or imported.
async fn known(
    db: &mut PgConnection,
    owner: Owner,
    calendar: Uuid,
    uid: &str,
) -> Result<(Uuid, Option<Event>), sqlx::Error> {
    if let Some(id) = ical::id_of(uid)
        && let Some(event) = events::locked(db, owner, id).await?
        && event.calendar_id == calendar
    {
        return Ok((id, Some(event)));
    }
    let id = id_of(calendar, uid, None);
    Ok((id, events::locked(db, owner, id).await?))
}

/// Imports a file's events into an owner's calendar; replacements of occurrences after their series.
///
/// # Errors
/// The database can't be queried.
pub async fn import(
    db: &mut PgConnection,
    owner: Owner,
    calendar: &Calendar,
    read: Read,
) -> Result<Imported, CalendarError> {
    let began = Instant::now();
    let mut done = Imported {
        refused: read.refused,
        notes: read.notes,
        ..Imported::default()
    };
    let (replacing, whole): (Vec<_>, Vec<_>) = read.events.into_iter().partition(|found| found.replaces.is_some());
    for found in whole {
        if found.is_cancelled {
            refuse(
                &mut done.refused,
                found.line,
                Some(&found.uid),
                "the event is cancelled",
            );
            continue;
        }
        let (id, event) = known(db, owner, calendar.id, &found.uid).await?;
        put(db, calendar.id, id, event, &found, None, &mut done).await?;
    }
    let mut of_series: HashMap<String, Vec<Found>> = HashMap::new();
    for found in replacing {
        of_series.entry(found.uid.clone()).or_default().push(found);
    }
    let mut of_series: Vec<_> = of_series.into_iter().collect();
    of_series.sort_by_key(|(_, list)| list.first().map(|found| found.line));
    for (uid, list) in of_series {
        let (series_id, series) = known(db, owner, calendar.id, &uid).await?;
        let series = series.filter(|series| !series.is_deleted);
        let Some((series, rrule)) = series.and_then(|series| series.content.rrule.clone().map(|rrule| (series, rrule)))
        else {
            for found in list {
                let why = "its series does not exist or does not repeat";
                refuse(&mut done.refused, found.line, Some(&uid), why);
            }
            continue;
        };
        let mut others: HashMap<_, _> = events::replacing(db, series_id)
            .await?
            .into_iter()
            .filter_map(|other| other.replaces.map(|(_, at)| (at, other)))
            .collect();
        let mut exdates = series.exdates.clone();
        for (nth, found) in list.into_iter().enumerate() {
            let Some(at) = found.replaces else { continue };
            let happens = series.content.series(&rrule);
            let why = if nth >= MAX_REPLACING {
                Some(format!(
                    "at most {MAX_REPLACING} occurrences of an event can be changed"
                ))
            } else if began.elapsed() > LIMIT {
                Some("importing the file takes too long; import it in parts".to_owned())
            } else {
                match happens.has(at) {
                    Ok(true) => None,
                    Ok(false) => Some("the event does not occur at that time".to_owned()),
                    Err(why) => Some(why),
                }
            };
            if let Some(why) = why {
                refuse(&mut done.refused, found.line, Some(&uid), &why);
                continue;
            }
            if found.is_cancelled {
                if exdates.contains(&at) {
                    done.unchanged += 1;
                } else {
                    exdates.push(at);
                    done.changed += 1;
                }
                continue;
            }
            let other = others.remove(&at);
            let id = other
                .as_ref()
                .map_or_else(|| id_of(calendar.id, &uid, Some(at)), |other| other.id);
            put(db, calendar.id, id, other, &found, Some((series_id, at)), &mut done).await?;
        }
        if exdates != series.exdates {
            events::set(db, series_id, &series.content, &exdates).await?;
        }
    }
    Ok(done)
}

/// Adds an event, or sets it to the file's content.
async fn put(
    db: &mut PgConnection,
    calendar: Uuid,
    id: Uuid,
    event: Option<Event>,
    found: &Found,
    replaces: Option<(Uuid, DateTime<Utc>)>,
    done: &mut Imported,
) -> Result<(), sqlx::Error> {
    let mut exdates = found.exdates.clone();
    exdates.sort();
    exdates.dedup();
    match event {
        Some(event) if event.is_deleted => {
            let why = "it was deleted here; import it into another calendar";
            refuse(&mut done.refused, found.line, Some(&found.uid), why);
        }
        Some(event) => {
            let mut before = event.exdates.clone();
            before.sort();
            // Occurrences cancelled separately in the file are omitted here, and stay so.
            let is_known = exdates.iter().all(|exdate| before.contains(exdate));
            if event.content == found.content && is_known {
                done.unchanged += 1;
            } else {
                events::set(db, id, &found.content, &exdates).await?;
                done.changed += 1;
            }
        }
        None => {
            if events::add(db, id, calendar, &found.content, replaces).await? {
                if !exdates.is_empty() {
                    events::set(db, id, &found.content, &exdates).await?;
                }
                done.added += 1;
            } else {
                refuse(
                    &mut done.refused,
                    found.line,
                    Some(&found.uid),
                    "its id is already taken",
                )
            }
        }
    }
    Ok(())
}
