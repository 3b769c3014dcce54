//! Writes a calendar's events as an iCalendar file, with UIDs of our own.

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use icalendar::{Calendar as File, Component, Event as Block, Property};

use super::{DAY, WALL, ZONE, plain, rule_told};
use crate::events::{Calendar, Content, Event};
use crate::recurrence::at_wall;

/// Suffix of our UIDs, after the event's id.
const OURS: &str = "@rejoin";

/// Returns the UID of a written event.
pub fn uid(id: uuid::Uuid) -> String {
    format!("{id}{OURS}")
}

/// Returns the event named by one of our UIDs.
pub fn id_of(uid: &str) -> Option<uuid::Uuid> {
    uid.strip_suffix(OURS)?.parse().ok()
}

/// Returns a time property: a day, local time or, if that is ambiguous, UTC.
fn time(name: &str, at: DateTime<Utc>, content: &Content) -> Property {
    let wall = at.with_timezone(&content.time_zone).naive_local();
    if content.all_day {
        return Property::new(name, wall.format(DAY).to_string())
            .add_parameter("VALUE", "DATE")
            .done();
    }
    let second = at_wall(content.time_zone, wall) != at;
    if second || content.time_zone == Tz::UTC {
        return Property::new(name, at.format("%Y%m%dT%H%M%SZ").to_string());
    }
    Property::new(name, wall.format(WALL).to_string())
        .add_parameter("TZID", content.time_zone.name())
        .done()
}

/// Writes a calendar's events as a file. The same events give the same file.
pub fn write(calendar: &Calendar, events: &[Event]) -> String {
    let mut file = File::empty();
    file.append_property(Property::new("VERSION", "2.0"));
    file.append_property(Property::new("PRODID", "-//Rejoin//Calendars//EN"));
    file.append_property(Property::new("X-WR-CALNAME", plain(&calendar.name).replace('\n', " ")));
    file.append_property(Property::new("X-WR-TIMEZONE", calendar.zone().name()));
    for event in events {
        let series = event.replaces.and_then(|(series, at)| {
            events
                .iter()
                .find(|other| other.id == series)
                .map(|series| (series, at))
        });
        file.push(block(event, series));
    }
    file.to_string()
}

fn block(event: &Event, series: Option<(&Event, DateTime<Utc>)>) -> Block {
    let content = &event.content;
    let mut block = Block::new();
    block.append_property(Property::new(
        "UID",
        uid(series.map_or(event.id, |(series, _)| series.id)),
    ));
    // The creation time, from its id.
    let made = event.id.get_timestamp().map(|made| made.to_unix().0);
    let made = made.and_then(|made| DateTime::from_timestamp(i64::try_from(made).ok()?, 0));
    let stamp = made.unwrap_or_default().format("%Y%m%dT%H%M%SZ").to_string();
    block.append_property(Property::new("DTSTAMP", stamp));
    block.append_property(Property::new("SEQUENCE", (event.version - 1).to_string()));
    block.append_property(Property::new("SUMMARY", plain(&content.title)));
    for (name, text) in [("DESCRIPTION", &content.description), ("LOCATION", &content.location)] {
        if !text.is_empty() {
            block.append_property(Property::new(name, plain(text)));
        }
    }
    block.append_property(time("DTSTART", content.start, content));
    block.append_property(time("DTEND", content.end, content));
    block.append_property(Property::new(ZONE, content.time_zone.name()));
    if let Some(rrule) = &content.rrule {
        block.append_property(Property::new("RRULE", rule_told(rrule, content)));
    }
    for exdate in &event.exdates {
        block.append_multi_property(time("EXDATE", *exdate, content));
    }
    if let Some((series, at)) = series {
        block.append_property(time("RECURRENCE-ID", at, &series.content));
    }
    block.done()
}
