//! The event format of Google's Calendar API (version 3): parsing and writing.
//!
//! Invariant: only changed fields are written, so that unknown ones (guests, colours, meetings) stay as they are.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use icalendar::parser::Property as Line;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::snapshot::{Snapshot, When, read, written};
use crate::events::Content;
use crate::ical::{self, times};

/// The requested fields of events: without guests, who may be many.
pub const FIELDS: &str =
    "id,status,etag,summary,description,location,start,end,recurrence,recurringEventId,originalStartTime";
const TITLE_MAX_CHARS: usize = 200;
const LOCATION_MAX_CHARS: usize = 500;
const DESCRIPTION_MAX_CHARS: usize = 8_000;
/// Maximum number of omitted occurrences of one event.
const MAX_LEFT_OUT: usize = 1_000;
/// Maximum length of an id or etag, in bytes.
const ID_MAX_BYTES: usize = 1_100;
const UNTITLED: &str = "Untitled";

/// A page of Google's list of events.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Page {
    /// Unparsed: an unreadable one must not block the others.
    #[serde(default)]
    pub items: Vec<Value>,
    pub next_page_token: Option<String>,
    pub next_sync_token: Option<String>,
    /// The calendar's.
    pub time_zone: Option<String>,
}

/// A time: a day, or a moment.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Time {
    pub date: Option<String>,
    pub date_time: Option<String>,
    pub time_zone: Option<String>,
}

/// An event.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Item {
    pub id: String,
    #[serde(default)]
    pub status: String,
    #[serde(default)]
    pub etag: String,
    #[serde(default)]
    pub summary: String,
    #[serde(default)]
    pub description: String,
    #[serde(default)]
    pub location: String,
    pub start: Option<Time>,
    pub end: Option<Time>,
    #[serde(default)]
    pub recurrence: Vec<String>,
    /// The series of this occurrence.
    pub recurring_event_id: Option<String>,
    pub original_start_time: Option<Time>,
}

impl Item {
    /// Err: its title, and that it can't be parsed.
    pub fn of(value: Value) -> Result<Self, String> {
        let name = value["summary"].as_str().or(value["id"].as_str()).unwrap_or("an event");
        let name: String = name.chars().take(100).collect();
        let broken = |_| format!("{name:?} cannot be parsed as a Google event");
        let item: Item = serde_json::from_value(value).map_err(broken)?;
        let is_sound = |text: &str| !text.is_empty() && text.len() <= ID_MAX_BYTES && !text.contains('\0');
        if is_sound(&item.id)
            && item.etag.len() <= ID_MAX_BYTES
            && item.recurring_event_id.as_deref().is_none_or(is_sound)
        {
            Ok(item)
        } else {
            Err(format!("{name:?} has no valid id"))
        }
    }

    pub fn is_cancelled(&self) -> bool {
        self.status == "cancelled"
    }

    /// Returns the start replaced by a changed occurrence; days begin in this time zone.
    pub fn original(&self, zone: Tz) -> Option<DateTime<Utc>> {
        let time = self.original_start_time.as_ref()?;
        let text = time.date.as_deref().or(time.date_time.as_deref())?;
        Some(read(text, zone)?.0)
    }

    /// Converts to a snapshot, for a remote calendar with this time zone. Err: why it is rejected, in words.
    pub fn snapshot(&self, calendar: Tz) -> Result<Snapshot, String> {
        let title = self.summary();
        let refused = |why: &str| format!("{title:?} was not imported: {why}");
        let (Some(start), Some(end)) = (&self.start, &self.end) else {
            return Err(refused("it has no start or end time"));
        };
        let zone = match &start.time_zone {
            Some(name) => times::zone(name).ok_or_else(|| refused(&format!("unknown time zone {name:?}")))?,
            None => calendar,
        };
        let of_days = start.date.is_some();
        let at = |time: &Time| {
            let text = if of_days { &time.date } else { &time.date_time };
            let (moment, is_day) = read(text.as_deref()?, zone)?;
            (is_day == of_days).then(|| written(moment, of_days, zone))
        };
        let (Some(from), Some(to)) = (at(start), at(end)) else {
            return Err(refused("its start or end time is invalid"));
        };
        let (rule, left_out) = recurrence(&self.recurrence, zone, of_days).map_err(|why| refused(&why))?;
        let rule = rule.map(|rule| normal(&rule, of_days, zone));
        let snapshot = Snapshot {
            description: text(&self.description, DESCRIPTION_MAX_CHARS),
            location: text(&self.location, LOCATION_MAX_CHARS),
            when: When {
                start: from,
                end: to,
                zone: (!of_days).then(|| zone.name().to_owned()),
                rule,
            },
            left_out,
            title: title.clone(),
        };
        // Validated like any local event.
        snapshot.content(calendar).map_err(|why| refused(&why))?;
        Ok(snapshot)
    }

    fn summary(&self) -> String {
        let title = text(&self.summary, TITLE_MAX_CHARS).replace('\n', " ");
        if title.trim().is_empty() {
            UNTITLED.to_owned()
        } else {
            title
        }
    }
}

fn text(text: &str, most: usize) -> String {
    ical::plain(text).chars().take(most).collect()
}

/// Normalizes a rule's end to the local form: for days a day, else a moment.
fn normal(rule: &str, of_days: bool, zone: Tz) -> String {
    let content = Content {
        title: String::new(),
        description: String::new(),
        location: String::new(),
        start: DateTime::UNIX_EPOCH,
        end: DateTime::UNIX_EPOCH,
        all_day: of_days,
        time_zone: zone,
        rrule: None,
    };
    ical::rule_told(&ical::rule_read(rule, &content), &content)
}

/// Parses the recurrence lines of RFC 5545: the rule, and omitted occurrences.
fn recurrence(lines: &[String], zone: Tz, of_days: bool) -> Result<(Option<String>, BTreeSet<String>), String> {
    let mut rule = None;
    let mut left_out = BTreeSet::new();
    for text in lines {
        let line = Line::try_from(text.as_str()).map_err(|_| format!("{text:?} is not a valid recurrence rule"))?;
        match line.name.as_str().to_ascii_uppercase().as_str() {
            "RRULE" if rule.is_none() => rule = Some(line.val.as_str().to_owned()),
            "RRULE" => return Err("it has more than one RRULE".to_owned()),
            "EXDATE" => {
                for value in line.val.as_str().split(',') {
                    let (at, _) = times::read_at(&line, value, zone)?;
                    left_out.insert(written(at, of_days, zone));
                    if left_out.len() > MAX_LEFT_OUT {
                        return Err(format!("it excludes more than {MAX_LEFT_OUT} occurrences"));
                    }
                }
            }
            name => return Err(format!("recurrence by {name} is not supported")),
        }
    }
    Ok((rule, left_out))
}

/// Formats a time; clears the other form, day or moment.
fn time(text: &str, zone: Option<&str>) -> Value {
    match zone {
        Some(zone) => json!({ "dateTime": text, "timeZone": zone, "date": null }),
        None => json!({ "date": text, "dateTime": null, "timeZone": null }),
    }
}

fn lines(snapshot: &Snapshot) -> Value {
    let Some(rule) = &snapshot.when.rule else {
        return Value::Null;
    };
    let mut lines = vec![format!("RRULE:{rule}")];
    let compact = |text: &String| text.replace(['-', ':'], "");
    if !snapshot.left_out.is_empty() {
        let kind = if snapshot.is_of_days() { ";VALUE=DATE" } else { "" };
        let list: Vec<String> = snapshot.left_out.iter().map(compact).collect();
        lines.push(format!("EXDATE{kind}:{}", list.join(",")));
    }
    json!(lines)
}

/// Returns the patch that turns the remote event into the local one. Null: none.
pub fn patch(here: &Snapshot, there: &Snapshot) -> Value {
    let mut body = Map::new();
    for (name, mine, theirs) in [
        ("summary", &here.title, &there.title),
        ("description", &here.description, &there.description),
        ("location", &here.location, &there.location),
    ] {
        if mine != theirs {
            body.insert(name.to_owned(), json!(mine));
        }
    }
    let zone = here.when.zone.as_deref();
    let is_moved = here.when != there.when;
    if is_moved {
        body.insert("start".to_owned(), time(&here.when.start, zone));
        body.insert("end".to_owned(), time(&here.when.end, zone));
    }
    let comes_back = here.when.rule.is_some() || there.when.rule.is_some();
    if comes_back && (is_moved || here.left_out != there.left_out) {
        body.insert("recurrence".to_owned(), lines(here));
    }
    if body.is_empty() {
        Value::Null
    } else {
        Value::Object(body)
    }
}

/// Returns a new event for Google.
pub fn whole(id: &str, here: &Snapshot) -> Value {
    let zone = here.when.zone.as_deref();
    let time = |text: &str| match zone {
        Some(zone) => json!({ "dateTime": text, "timeZone": zone }),
        None => json!({ "date": text }),
    };
    let mut body = json!({
        "id": id,
        "summary": here.title,
        "description": here.description,
        "location": here.location,
        "start": time(&here.when.start),
        "end": time(&here.when.end),
    });
    if here.when.rule.is_some() {
        body["recurrence"] = lines(here);
    }
    body
}

/// Returns the day or moment that identifies an occurrence.
pub fn original(at: DateTime<Utc>, series: &Content) -> String {
    written(at, series.all_day, series.time_zone)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(value: Value) -> Result<Snapshot, String> {
        Item::of(value).and_then(|item| item.snapshot(Tz::Europe__Berlin))
    }

    #[test]
    fn what_is_written_is_read_as_it_was() {
        let read = json!({
            "id": "abcde", "etag": "\"1\"", "summary": "Standup", "location": "Room 1",
            "start": {"dateTime": "2027-03-01T10:00:00+01:00", "timeZone": "Europe/Berlin"},
            "end": {"dateTime": "2027-03-01T10:15:00+01:00", "timeZone": "Europe/Berlin"},
            "recurrence": ["RRULE:FREQ=DAILY;UNTIL=20270401T080000Z", "EXDATE;TZID=Europe/Berlin:20270302T100000,20270303T100000"],
        });
        let snapshot = item(read).unwrap();
        assert_eq!(snapshot.when.start, "2027-03-01T09:00:00Z");
        assert_eq!(snapshot.left_out.len(), 2);
        assert_eq!(item(whole("abcde", &snapshot)).unwrap(), snapshot);
        let days = json!({
            "id": "abcde", "summary": "", "start": {"date": "2027-03-01"}, "end": {"date": "2027-03-02"},
            "recurrence": ["EXDATE;VALUE=DATE:20270308", "RRULE:FREQ=WEEKLY;UNTIL=20270601"],
        });
        let days = item(days).unwrap();
        assert_eq!(
            (days.title.as_str(), days.when.rule.as_deref()),
            (UNTITLED, Some("FREQ=WEEKLY;UNTIL=20270601"))
        );
        assert_eq!(item(whole("abcde", &days)).unwrap(), days);
    }

    #[test]
    fn only_what_has_changed_is_written() {
        let snapshot = item(json!({
            "id": "abcde", "summary": "Standup",
            "start": {"dateTime": "2027-03-01T10:00:00Z"}, "end": {"dateTime": "2027-03-01T11:00:00Z"},
        }))
        .unwrap();
        assert_eq!(patch(&snapshot, &snapshot), Value::Null);
        let renamed = Snapshot {
            title: "Daily".to_owned(),
            ..snapshot.clone()
        };
        assert_eq!(patch(&renamed, &snapshot), json!({"summary": "Daily"}));
        let mut days = snapshot.clone();
        days.when = When {
            start: "2027-03-01".to_owned(),
            end: "2027-03-02".to_owned(),
            zone: None,
            rule: None,
        };
        assert_eq!(
            patch(&days, &snapshot),
            json!({
                "start": {"date": "2027-03-01", "dateTime": null, "timeZone": null},
                "end": {"date": "2027-03-02", "dateTime": null, "timeZone": null},
            })
        );
    }

    #[test]
    fn what_cannot_be_imported_is_reported_by_its_name() {
        let at = json!({"dateTime": "2027-03-01T10:00:00Z"});
        for (change, word) in [
            (json!({"start": null}), "no start or end time"),
            (json!({"start": {"date": "soon"}}), "start or end time is invalid"),
            (json!({"end": {"date": "2027-03-01"}}), "start or end time is invalid"),
            (
                json!({"start": {"dateTime": "2027-03-01T10:00:00Z", "timeZone": "Mars/Base"}}),
                "Mars/Base",
            ),
            (json!({"recurrence": ["RRULE:FREQ=HOURLY"]}), "daily at most"),
            (json!({"recurrence": ["RDATE:20270301T100000Z"]}), "RDATE"),
            (
                json!({"recurrence": ["RRULE:FREQ=DAILY", "RRULE:FREQ=WEEKLY"]}),
                "more than one",
            ),
            (json!({"summary": 7}), "cannot be parsed as a Google event"),
            (json!({"end": {"dateTime": "2029-03-01T10:00:00Z"}}), "31 days"),
        ] {
            let mut event = json!({"id": "abcde", "summary": "Standup", "start": at, "end": at});
            for (name, value) in change.as_object().unwrap() {
                event[name] = value.clone();
            }
            let refused = item(event).unwrap_err();
            assert!(refused.contains(word), "{word}: {refused}");
        }
        assert!(item(json!({"summary": "Standup"})).is_err());
        assert!(item(json!({"id": "x".repeat(2_000)})).is_err());
    }
}
