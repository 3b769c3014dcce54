//! Changes or deletes events: one occurrence, this and following, or the whole series. Called by the tools, in one
//! transaction each.
//!
//! Invariant: repeating a change with the same id has no further effect.

use chrono::{DateTime, Duration, Utc};
use rejoin_types::owner::Owner;
use sqlx::PgConnection;
use uuid::Uuid;

use super::events::{self, Content, Event};
use super::expand::CalendarError;
use super::recurrence::moved;

/// Maximum number of omitted occurrences of one event.
const MAX_EXDATES: usize = 1_000;

/// The affected part of a recurring event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    This(DateTime<Utc>),
    Following(DateTime<Utc>),
    All,
}

fn wrong<T>(words: impl Into<String>) -> Result<T, CalendarError> {
    Err(CalendarError::Wrong(words.into()))
}

async fn found(db: &mut PgConnection, owner: Owner, id: Uuid) -> Result<Event, CalendarError> {
    match events::locked(db, owner, id).await? {
        Some(event) => Ok(event),
        None => wrong(format!(
            "event {id} not found; list_calendar_events returns the existing events"
        )),
    }
}

/// Err: there is no occurrence at this time.
fn must_happen(event: &Event, rrule: &str, at: DateTime<Utc>) -> Result<(), CalendarError> {
    if event.content.series(rrule).has(at).map_err(CalendarError::Wrong)? {
        Ok(())
    } else {
        wrong(
            "the event does not occur at that time; pass `occurrence` exactly as list_calendar_events returns \
                it, with its offset",
        )
    }
}

/// Changes an event by `patch`, which receives the current content. `id` is for a newly created event, if any.
pub async fn update(
    db: &mut PgConnection,
    owner: Owner,
    event_id: Uuid,
    extent: Extent,
    id: Uuid,
    patch: impl Fn(&Content) -> Result<Content, String>,
) -> Result<Event, CalendarError> {
    if let Some(done) = events::locked(db, owner, id).await? {
        return Ok(done);
    }
    let event = found(db, owner, event_id).await?;
    if event.is_deleted {
        return wrong("the event was deleted");
    }
    let patched = |content: &Content| {
        let content = patch(content).map_err(CalendarError::Wrong)?;
        content.check().map_err(CalendarError::Wrong)?;
        Ok::<_, CalendarError>(content)
    };
    let rrule = event.content.rrule.clone();
    let changed = match (extent, rrule) {
        (Extent::This(at), Some(rrule)) => {
            let others = events::replacing(db, event.id).await?;
            let known = others.into_iter().find(|other| other.replaces == Some((event.id, at)));
            if event.exdates.contains(&at) || known.as_ref().is_some_and(|known| known.is_deleted) {
                return wrong("this occurrence was deleted");
            }
            let base = match &known {
                Some(known) => known.content.clone(),
                None => {
                    must_happen(&event, &rrule, at)?;
                    at_time(&event.content, at, None)
                }
            };
            let content = patched(&base)?;
            if content.rrule.is_some() {
                return wrong("a single occurrence cannot have an rrule; use scope `following` or `all`");
            }
            match known {
                Some(known) => {
                    events::set(db, known.id, &content, &[]).await?;
                    known.id
                }
                None => {
                    events::add(db, id, event.calendar_id, &content, Some((event.id, at))).await?;
                    id
                }
            }
        }
        (Extent::Following(at), Some(rrule)) if at > event.content.start => {
            must_happen(&event, &rrule, at)?;
            let (before, after) = event.content.series(&rrule).split(at).map_err(CalendarError::Wrong)?;
            let content = patched(&at_time(&event.content, at, Some(after)))?;
            events::add(db, id, event.calendar_id, &content, None).await?;
            let by = wall_distance(&event.content, at, content.start);
            let (earlier, later): (Vec<_>, Vec<_>) = event.exdates.iter().partition(|&&exdate| exdate < at);
            let old = Content {
                rrule: Some(before),
                ..event.content.clone()
            };
            events::set(db, event.id, &old, &earlier).await?;
            let later: Vec<_> = later
                .into_iter()
                .map(|exdate| moved(exdate, content.time_zone, by))
                .collect();
            events::set(db, id, &content, &later).await?;
            for other in events::replacing(db, event.id).await? {
                if let Some((_, replaced)) = other.replaces.filter(|(_, replaced)| *replaced >= at) {
                    events::re_place(db, other.id, id, moved(replaced, content.time_zone, by)).await?;
                }
            }
            id
        }
        // A single event has no other occurrences; a changed occurrence is changed itself.
        (Extent::This(_) | Extent::Following(_) | Extent::All, _) => {
            let content = patched(&event.content)?;
            if event.replaces.is_some() && content.rrule.is_some() {
                return wrong("a single occurrence cannot have an rrule; change the series instead");
            }
            let by = wall_distance(&event.content, event.content.start, content.start);
            let exdates: Vec<_> = event
                .exdates
                .iter()
                .map(|&exdate| moved(exdate, content.time_zone, by))
                .collect();
            events::set(db, event.id, &content, &exdates).await?;
            let mut others = events::replacing(db, event.id).await?;
            // In this order, no two of them ever have the same time.
            if by > Duration::zero() {
                others.reverse();
            }
            let is_ruled_anew = content.rrule != event.content.rrule;
            for other in others {
                let Some((_, replaced)) = other.replaces else { continue };
                let at = moved(replaced, content.time_zone, by);
                if by != Duration::zero() {
                    events::re_place(db, other.id, event.id, at).await?;
                }
                // Replacements of former occurrences are removed.
                let happens = match &content.rrule {
                    Some(rrule) if is_ruled_anew => content.series(rrule).has(at).map_err(CalendarError::Wrong)?,
                    Some(_) => true,
                    None => false,
                };
                if !happens {
                    events::delete(db, other.id).await?;
                }
            }
            event.id
        }
    };
    found(db, owner, changed).await
}

/// Deletes an event, or a part of it. Idempotent.
pub async fn delete(
    db: &mut PgConnection,
    owner: Owner,
    event_id: Uuid,
    extent: Extent,
) -> Result<Event, CalendarError> {
    let event = found(db, owner, event_id).await?;
    let rrule = event.content.rrule.clone();
    match (extent, rrule) {
        (Extent::This(at), Some(rrule)) => leave_out(db, &event, &rrule, at).await?,
        (Extent::Following(at), Some(rrule)) if at > event.content.start => {
            // No occurrences from then on: it ended before.
            if event.content.series(&rrule).has(at).map_err(CalendarError::Wrong)? {
                let (before, _) = event.content.series(&rrule).split(at).map_err(CalendarError::Wrong)?;
                let content = Content {
                    rrule: Some(before),
                    ..event.content.clone()
                };
                events::set(db, event.id, &content, &event.exdates).await?;
            }
            for other in events::replacing(db, event.id).await? {
                if other.replaces.is_some_and(|(_, replaced)| replaced >= at) {
                    events::delete(db, other.id).await?;
                }
            }
        }
        (Extent::This(_) | Extent::Following(_) | Extent::All, _) => {
            events::delete(db, event.id).await?;
            for other in events::replacing(db, event.id).await? {
                events::delete(db, other.id).await?;
            }
            // The replaced occurrence is omitted.
            if let Some((series, at)) = event.replaces {
                let whole = found(db, owner, series).await?;
                if let Some(rrule) = whole.content.rrule.clone() {
                    leave_out(db, &whole, &rrule, at).await?;
                }
            }
        }
    }
    Ok(event)
}

async fn leave_out(db: &mut PgConnection, event: &Event, rrule: &str, at: DateTime<Utc>) -> Result<(), CalendarError> {
    must_happen(event, rrule, at)?;
    let mut exdates = event.exdates.clone();
    if exdates.contains(&at) {
        return Ok(());
    }
    if exdates.len() >= MAX_EXDATES {
        return wrong(format!(
            "at most {MAX_EXDATES} occurrences of an event can be excluded; end the series and create a new one"
        ));
    }
    exdates.push(at);
    events::set(db, event.id, &event.content, &exdates).await?;
    for other in events::replacing(db, event.id).await? {
        if other.replaces == Some((event.id, at)) {
            events::delete(db, other.id).await?;
        }
    }
    Ok(())
}

/// Returns an event's content moved to this time.
fn at_time(content: &Content, at: DateTime<Utc>, rrule: Option<String>) -> Content {
    let by = wall_distance(content, content.start, at);
    Content {
        start: at,
        end: if content.all_day {
            moved(content.end, content.time_zone, by)
        } else {
            at + (content.end - content.start)
        },
        rrule,
        ..content.clone()
    }
}

/// Returns the local time between two moments.
fn wall_distance(content: &Content, from: DateTime<Utc>, to: DateTime<Utc>) -> Duration {
    let wall = |moment: DateTime<Utc>| moment.with_timezone(&content.time_zone).naive_local();
    wall(to) - wall(from)
}
