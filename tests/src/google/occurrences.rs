//! Occurrences of events at the fake Google, expanded by their rules.

use std::collections::BTreeMap;

use chrono::{DateTime, NaiveDate, NaiveTime, Utc};
use chrono_tz::Tz;
use rejoin_calendar::recurrence::{Series, at_wall};
use serde_json::Value;

/// The time zone of all calendars.
pub const ZONE: Tz = Tz::Europe__Berlin;

/// Occurrences: title, start, end.
pub type Happening = Vec<(String, DateTime<Utc>, DateTime<Utc>)>;

pub fn is_cancelled(event: &Value) -> bool {
    event["status"] == "cancelled"
}

/// Parses an event's time; a day's is its beginning.
pub fn moment(time: &Value) -> Option<DateTime<Utc>> {
    if let Some(day) = time["date"].as_str() {
        let day = NaiveDate::parse_from_str(day, "%Y-%m-%d").ok()?;
        return Some(at_wall(ZONE, day.and_time(NaiveTime::MIN)));
    }
    let text = time["dateTime"].as_str()?;
    Some(DateTime::parse_from_rfc3339(text).ok()?.with_timezone(&Utc))
}

/// Returns whether an event's rule has any occurrence, regardless of omitted ones. Hourly rules, which Rejoin rejects,
/// are not expanded.
pub fn comes_back(event: &Value) -> bool {
    if event["recurrence"].to_string().contains("FREQ=HOURLY") {
        return true;
    }
    let mut whole = event.clone();
    if let Some(lines) = whole["recurrence"].as_array_mut() {
        lines.retain(|line| !line.to_string().contains("EXDATE"));
    }
    moment(&event["start"]).is_some_and(|start| {
        let at = |days: i64| start + chrono::Duration::days(days);
        (0..=366).any(|days| happens(&whole, at(days)))
    })
}

/// Returns whether a recurring event has an occurrence at this time.
pub fn happens(event: &Value, at: DateTime<Utc>) -> bool {
    let lines: Vec<&str> = event["recurrence"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let Some(rule) = lines.iter().find_map(|line| line.strip_prefix("RRULE:")) else {
        return false;
    };
    let time_zone: Tz = event["start"]["timeZone"]
        .as_str()
        .and_then(|name| name.parse().ok())
        .unwrap_or(ZONE);
    let is_days = event["start"]["date"].is_string();
    let compact = if is_days {
        at.with_timezone(&ZONE).format("%Y%m%d").to_string()
    } else {
        at.format("%Y%m%dT%H%M%SZ").to_string()
    };
    let by_wall = at.with_timezone(&time_zone).format("%Y%m%dT%H%M%S").to_string();
    let names = |line: &str| {
        if line.contains("TZID=") {
            line.contains(&by_wall)
        } else {
            line.contains(&compact)
        }
    };
    let left_out = lines.iter().any(|line| line.starts_with("EXDATE") && names(line));
    // For days a rule ends on a day.
    let rule = rule.split(';').map(|part| match part.strip_prefix("UNTIL=") {
        Some(day) if day.len() == 8 => format!("UNTIL={day}T235959Z"),
        _ => part.to_owned(),
    });
    let rule = rule.collect::<Vec<_>>().join(";");
    let Some(start) = moment(&event["start"]) else {
        return false;
    };
    let series = Series {
        rrule: &rule,
        start,
        time_zone,
    };
    !left_out && series.has(at).unwrap_or(false)
}

/// Returns the occurrences between two moments, in order.
pub fn within(events: &BTreeMap<String, Value>, from: DateTime<Utc>, to: DateTime<Utc>) -> Happening {
    let mut found = Vec::new();
    for event in events.values().filter(|event| !is_cancelled(event)) {
        let Some((start, end)) = moment(&event["start"]).zip(moment(&event["end"])) else {
            continue;
        };
        let title = event["summary"].as_str().unwrap_or_default().to_owned();
        if !event["recurrence"].is_array() {
            found.push((title, start, end));
            continue;
        }
        let wall = |at: DateTime<Utc>| at.with_timezone(&ZONE).naive_local();
        let days = wall(end) - wall(start);
        let mut at = start;
        while at < to {
            let name = if event["start"]["date"].is_string() {
                wall(at).format("%Y%m%d").to_string()
            } else {
                at.format("%Y%m%dT%H%M%SZ").to_string()
            };
            let is_changed = events.contains_key(&format!("{}_{name}", event["id"].as_str().unwrap_or_default()));
            if happens(event, at) && !is_changed {
                let end = if event["start"]["date"].is_string() {
                    at_wall(ZONE, wall(at) + days)
                } else {
                    at + (end - start)
                };
                found.push((title.clone(), at, end));
            }
            at = at_wall(ZONE, wall(at) + chrono::Duration::days(1));
        }
    }
    found.retain(|(_, start, end)| *start < to && *end > from);
    found.sort();
    found
}
