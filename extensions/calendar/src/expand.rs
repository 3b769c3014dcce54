//! Expands events into occurrences between two moments, with changed occurrences in place of the originals. Called by
//! the tools and by the API.

use std::collections::HashSet;

use chrono::{DateTime, Duration, SecondsFormat, Utc};
use rejoin_types::owner::Owner;
use serde::Serialize;
use sqlx::PgConnection;
use uuid::Uuid;

use super::events::{self, Calendar, Event};
use super::recurrence::{MAX_OCCURRENCES, MAX_SPAN_DAYS};

/// Maximum number of rules expanded by one query.
const MAX_SERIES: usize = 500;

/// An occurrence of an event.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Occurrence {
    /// The event to change it by: for a changed occurrence, its own.
    pub event_id: Uuid,
    pub calendar_id: Uuid,
    pub title: String,
    pub location: String,
    /// In the local time of `time_zone`, with its offset.
    pub start: String,
    pub end: String,
    pub all_day: bool,
    pub time_zone: String,
    pub recurring: bool,
    #[serde(skip)]
    pub at: DateTime<Utc>,
}

/// The occurrences between two moments.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Happening {
    pub events: Vec<Occurrence>,
    /// There are more.
    pub truncated: bool,
}

/// The error of a query.
#[derive(Debug, thiserror::Error)]
pub enum CalendarError {
    /// Worded for the caller.
    #[error("{0}")]
    Wrong(String),
    #[error("reading the calendars from the database failed")]
    Database(#[from] sqlx::Error),
}

/// Returns an event's occurrence with this start.
pub fn occurrence(event: &Event, at: DateTime<Utc>) -> Occurrence {
    let content = &event.content;
    let shown = |moment: DateTime<Utc>| {
        let local = moment.with_timezone(&content.time_zone);
        if content.all_day {
            local.format("%Y-%m-%d").to_string()
        } else {
            local.to_rfc3339_opts(SecondsFormat::Secs, true)
        }
    };
    let end = if content.all_day {
        // Days, not hours: a day may have 23.
        super::recurrence::moved(at, content.time_zone, wall_length(event))
    } else {
        at + (content.end - content.start)
    };
    Occurrence {
        event_id: event.id,
        calendar_id: event.calendar_id,
        title: content.title.clone(),
        location: content.location.clone(),
        start: shown(at),
        end: shown(end),
        all_day: content.all_day,
        time_zone: content.time_zone.name().to_owned(),
        recurring: content.rrule.is_some() || event.replaces.is_some(),
        at,
    }
}

/// Returns an event's duration in local time.
fn wall_length(event: &Event) -> Duration {
    let wall = |moment: DateTime<Utc>| moment.with_timezone(&event.content.time_zone).naive_local();
    wall(event.content.end) - wall(event.content.start)
}

/// Returns the occurrences in an owner's calendars, in order; `named` filters by words.
pub async fn between(
    db: &mut PgConnection,
    calendars: &[Calendar],
    (from, to): (DateTime<Utc>, DateTime<Utc>),
    named: Option<&str>,
) -> Result<Happening, CalendarError> {
    if to <= from {
        return Err(CalendarError::Wrong(
            "the requested time range ends before it begins".to_owned(),
        ));
    }
    if to - from > Duration::days(MAX_SPAN_DAYS) {
        return Err(CalendarError::Wrong(format!(
            "the requested time range can span at most {MAX_SPAN_DAYS} days"
        )));
    }
    let ids: Vec<Uuid> = calendars.iter().map(|calendar| calendar.id).collect();
    let rows = events::within(db, &ids, from, to).await?;
    let mut truncated = rows.len() as i64 == events::MAX_ROWS;
    let named = named.map(str::to_lowercase);
    // Expanding takes time: on a blocking thread.
    let expanding = tokio::task::spawn_blocking(move || expand(&rows, from, to, named.as_deref()));
    let (mut found, more) = expanding
        .await
        .map_err(|_| CalendarError::Wrong("expanding the events failed".to_owned()))?;
    truncated |= more || found.len() > MAX_OCCURRENCES;
    found.sort_by_key(|occurrence| (occurrence.at, occurrence.event_id));
    found.truncate(MAX_OCCURRENCES);
    Ok(Happening {
        events: found,
        truncated,
    })
}

fn expand(rows: &[Event], from: DateTime<Utc>, to: DateTime<Utc>, named: Option<&str>) -> (Vec<Occurrence>, bool) {
    let replaced: HashSet<(Uuid, DateTime<Utc>)> = rows.iter().filter_map(|event| event.replaces).collect();
    let is_named = |event: &&Event| {
        let content = &event.content;
        let texts = [&content.title, &content.location, &content.description];
        named.is_none_or(|named| texts.iter().any(|text| text.to_lowercase().contains(named)))
    };
    let (mut found, mut more, mut series) = (Vec::new(), false, 0);
    for event in rows.iter().filter(is_named) {
        let length = event.content.end - event.content.start;
        let Some(rrule) = &event.content.rrule else {
            let (start, end) = (event.content.start, event.content.end);
            // An event without duration occurs at its start.
            if start < to && (end > from || start >= from) {
                found.push(occurrence(event, start));
            }
            continue;
        };
        series += 1;
        if series > MAX_SERIES || found.len() > MAX_OCCURRENCES {
            more = true;
            break;
        }
        // A rule was validated when it was stored.
        let starts = event
            .content
            .series(rrule)
            .between(from - length, to, MAX_OCCURRENCES)
            .unwrap_or_default();
        more |= starts.len() == MAX_OCCURRENCES;
        let shown = starts.into_iter().filter(|&at| {
            let is_left_out = event.exdates.contains(&at) || replaced.contains(&(event.id, at));
            !is_left_out && (at + length > from || at >= from)
        });
        found.extend(shown.map(|at| occurrence(event, at)));
    }
    (found, more)
}

/// Returns the owner's calendars, or the named one.
pub async fn asked(db: &mut PgConnection, owner: Owner, id: Option<Uuid>) -> Result<Vec<Calendar>, sqlx::Error> {
    let all = events::calendars(db, owner).await?;
    Ok(match id {
        None => all,
        Some(id) => all.into_iter().filter(|calendar| calendar.id == id).collect(),
    })
}
