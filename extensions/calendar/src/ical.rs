//! iCalendar files (RFC 5545): written for other programs, and parsed. Called by the API and by `imports`.
//!
//! Invariant: parsing any file takes bounded time and memory, and unsupported content is reported with its line.

use std::time::{Duration as Span, Instant};

use chrono::{DateTime, Duration, NaiveDate, NaiveDateTime, NaiveTime, Utc};
use chrono_tz::Tz;
use icalendar::parser::Property as Line;
use serde::Serialize;

use super::events::{Calendar, Content};
use super::recurrence::{at_wall, moved};
use times::{duration, parameter, read_at, zone};
pub use writing::{id_of, uid, write};

pub mod times;
mod writing;

/// Maximum size of a file, in bytes.
pub const MAX_BYTES: usize = 5 * 1024 * 1024;
/// Maximum number of components of a file, including nested ones.
pub const MAX_COMPONENTS: usize = 10_000;
/// Maximum nesting of components.
const MAX_DEPTH: usize = 8;
/// Maximum length of an unfolded line, in bytes.
const MAX_LINE_BYTES: usize = 64 * 1024;
/// Maximum number of an event's lines.
const MAX_LINES: usize = 1_100;
/// Maximum number of an event's exceptions.
const MAX_EXDATES: usize = 1_000;
/// Maximum number of reported problems per file.
pub const MAX_TOLD: usize = 1_000;
/// Time limit of checking rules, which can be slow: unread events are reported.
pub const LIMIT: Span = Span::from_secs(10);

/// The time zone of an event whose times can't express it.
const ZONE: &str = "X-REJOIN-TIME-ZONE";
const DAY: &str = "%Y%m%d";
const WALL: &str = "%Y%m%dT%H%M%S";
const UNTITLED: &str = "Untitled";
/// The parsed properties of an event.
const READ: [&str; 14] = [
    "UID",
    "SUMMARY",
    "DESCRIPTION",
    "LOCATION",
    "DTSTART",
    "DTEND",
    "DURATION",
    "RRULE",
    "RDATE",
    "EXRULE",
    "EXDATE",
    "RECURRENCE-ID",
    "STATUS",
    ZONE,
];

/// Removes characters that may break a line.
pub fn plain(text: &str) -> String {
    let text = text.replace("\r\n", "\n");
    text.chars().filter(|c| *c == '\n' || !c.is_control()).collect()
}

/// Changes the end of a rule.
fn with_until(rrule: &str, change: impl Fn(&str) -> String) -> String {
    let parts = rrule.split(';').map(|part| match part.split_once('=') {
        Some((name, until)) if name.eq_ignore_ascii_case("UNTIL") => format!("UNTIL={}", change(until)),
        _ => part.to_owned(),
    });
    parts.collect::<Vec<_>>().join(";")
}

/// The rule of an all-day event ends on a day (RFC 5545, 3.3.10).
pub fn rule_told(rrule: &str, content: &Content) -> String {
    with_until(rrule, |until| {
        let moment = NaiveDateTime::parse_from_str(until, "%Y%m%dT%H%M%SZ");
        match moment {
            Ok(moment) if content.all_day => {
                let local = moment.and_utc().with_timezone(&content.time_zone);
                local.format(DAY).to_string()
            }
            _ => until.to_owned(),
        }
    })
}

/// A local rule ends at a moment in UTC.
pub fn rule_read(rrule: &str, content: &Content) -> String {
    let zone = content.time_zone;
    with_until(rrule, |until| {
        let wall = match NaiveDate::parse_from_str(until, DAY) {
            Ok(day) if content.all_day => Some(day.and_time(NaiveTime::MIN)),
            Ok(day) => day.and_hms_opt(23, 59, 59),
            Err(_) => NaiveDateTime::parse_from_str(until, WALL).ok(),
        };
        let moment = wall.map(|wall| at_wall(zone, wall).format("%Y%m%dT%H%M%SZ").to_string());
        moment.unwrap_or_else(|| until.to_owned())
    })
}

/// An event in a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    pub line: usize,
    pub uid: String,
    pub content: Content,
    pub exdates: Vec<DateTime<Utc>>,
    /// The start of the occurrence that it replaces.
    pub replaces: Option<DateTime<Utc>>,
    pub is_cancelled: bool,
}

/// A reported problem of a component.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ImportNote {
    /// The line of the file at which it begins.
    pub line: usize,
    pub uid: Option<String>,
    pub why: String,
}

/// The parsed file.
#[derive(Debug, Default, PartialEq)]
pub struct Read {
    pub events: Vec<Found>,
    /// Rejected components.
    pub refused: Vec<ImportNote>,
    /// Components accepted with changes.
    pub notes: Vec<ImportNote>,
}

/// An event being parsed.
#[derive(Default)]
struct Open {
    line: usize,
    lines: Vec<String>,
    /// The reason of its rejection.
    broken: Option<String>,
}

/// Parses a file for a calendar.
///
/// # Errors
/// It is invalid or too large; worded for its sender.
pub fn read(text: &str, calendar: &Calendar) -> Result<Read, String> {
    let began = Instant::now();
    if text.len() > MAX_BYTES {
        return Err(format!("a file can have at most {MAX_BYTES} bytes; import it in parts"));
    }
    let mut read = Read::default();
    let mut stack: Vec<String> = Vec::new();
    let mut open: Option<Open> = None;
    let mut components = 0;
    for (number, line) in unfolded(text) {
        let (name, value) = line.split_once(':').unwrap_or((&line, ""));
        let name = name.trim();
        if name.eq_ignore_ascii_case("BEGIN") {
            let kind = value.trim().to_ascii_uppercase();
            components += 1;
            if components > MAX_COMPONENTS {
                return Err(format!(
                    "a file can have at most {MAX_COMPONENTS} components; import it in parts"
                ));
            }
            match (stack.len(), kind.as_str()) {
                (0, "VCALENDAR") | (1.., _) if stack.len() < MAX_DEPTH => {}
                (0, _) => {
                    return Err(format!(
                        "line {number} is not iCalendar; a file begins with BEGIN:VCALENDAR"
                    ));
                }
                _ => {
                    return Err(format!(
                        "line {number}: components can be nested at most {MAX_DEPTH} deep"
                    ));
                }
            }
            if stack.len() == 1 && kind == "VEVENT" {
                open = Some(Open {
                    line: number,
                    ..Open::default()
                });
            } else if stack.len() == 1 && kind != "VTIMEZONE" {
                refuse(&mut read.refused, number, None, "only events (VEVENT) are imported");
            }
            stack.push(kind);
        } else if name.eq_ignore_ascii_case("END") {
            let kind = value.trim().to_ascii_uppercase();
            if stack.pop().as_ref() != Some(&kind) {
                return Err(format!("line {number}: END without a matching BEGIN"));
            }
            if stack.len() == 1
                && let Some(open) = open.take()
            {
                close(&open, calendar, began, &mut read);
            }
        } else if stack.is_empty() {
            if !line.trim().is_empty() {
                return Err(format!(
                    "line {number} is not iCalendar; a file begins with BEGIN:VCALENDAR"
                ));
            }
        } else if let Some(open) = &mut open
            && stack.len() == 2
        {
            let bare = name.split(';').next().unwrap_or_default();
            if !READ.iter().any(|read| read.eq_ignore_ascii_case(bare)) {
                continue;
            }
            if open.lines.len() >= MAX_LINES || line.len() > MAX_LINE_BYTES {
                open.broken = Some(format!("line {number}: the event is too long"));
            } else {
                open.lines.push(line);
            }
        }
    }
    if components == 0 {
        return Err("the file is empty; an iCalendar file begins with BEGIN:VCALENDAR".to_owned());
    }
    if let Some(open) = open {
        refuse(&mut read.refused, open.line, None, "the file ends inside this event");
    } else if !stack.is_empty() {
        return Err("the file ends before END:VCALENDAR".to_owned());
    }
    Ok(read)
}

/// Reports a component's problem, up to the limit.
pub fn refuse(notes: &mut Vec<ImportNote>, line: usize, uid: Option<&str>, why: &str) {
    if notes.len() < MAX_TOLD {
        let uid = uid.map(|uid| uid.chars().take(200).collect());
        let why = why.chars().take(500).collect();
        notes.push(ImportNote { line, uid, why });
    }
}

/// Unfolds lines; returns them with their numbers.
fn unfolded(text: &str) -> impl Iterator<Item = (usize, String)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = text.lines().enumerate().peekable();
    std::iter::from_fn(move || {
        let (number, line) = lines.next()?;
        let mut whole = line.trim_end_matches('\r').to_owned();
        while let Some((_, more)) = lines.next_if(|(_, line)| line.starts_with([' ', '\t'])) {
            whole.push_str(more[1..].trim_end_matches('\r'));
        }
        Some((number + 1, whole))
    })
}

fn close(open: &Open, calendar: &Calendar, began: Instant, read: &mut Read) {
    let properties: Vec<Line<'_>> = open
        .lines
        .iter()
        .filter_map(|line| Line::try_from(line.as_str()).ok())
        .collect();
    let block = Lines(&properties);
    let uid = block.value("UID").map(str::trim).filter(|uid| !uid.is_empty());
    let mut notes = Vec::new();
    let found = match (&open.broken, uid) {
        (Some(why), _) => Err(why.clone()),
        _ if began.elapsed() > LIMIT => Err("reading the file takes too long; import it in parts".to_owned()),
        _ if properties.len() < open.lines.len() => Err("one of its lines cannot be parsed".to_owned()),
        (None, None) => Err("it has no UID, so importing it again would duplicate it".to_owned()),
        (None, Some(uid)) => block.found(open.line, uid, calendar, &mut notes),
    };
    match found {
        Ok(found) => {
            for note in notes {
                refuse(&mut read.notes, open.line, uid, &note);
            }
            read.events.push(found);
        }
        Err(why) => refuse(&mut read.refused, open.line, uid, &why),
    }
}

/// The lines of an event.
struct Lines<'a>(&'a [Line<'a>]);

impl Lines<'_> {
    fn all<'b>(&'b self, name: &'b str) -> impl Iterator<Item = &'b Line<'b>> {
        self.0
            .iter()
            .filter(move |line| line.name.as_str().eq_ignore_ascii_case(name))
    }

    fn one(&self, name: &str) -> Option<&Line<'_>> {
        self.0.iter().find(|line| line.name.as_str().eq_ignore_ascii_case(name))
    }

    fn value(&self, name: &str) -> Option<&str> {
        self.one(name).map(|line| line.val.as_str())
    }

    fn text(&self, name: &str) -> String {
        plain(self.value(name).unwrap_or_default())
    }

    fn found(&self, line: usize, uid: &str, calendar: &Calendar, notes: &mut Vec<String>) -> Result<Found, String> {
        if self.one("RDATE").is_some() || self.one("EXRULE").is_some() {
            return Err("RDATE and EXRULE are not supported; use separate events for those dates".to_owned());
        }
        if self.all("RRULE").count() > 1 {
            return Err("an event can have at most one RRULE".to_owned());
        }
        let start = self.one("DTSTART").ok_or("it has no DTSTART")?;
        let rrule = self.value("RRULE").filter(|rule| !rule.is_empty());
        let named: Option<Tz> = self.value(ZONE).and_then(|name| name.parse().ok());
        let time_zone = match (named, parameter(start, "TZID")) {
            (Some(zone), _) => zone,
            (None, Some(name)) => zone(name).unwrap_or_else(|| {
                notes.push(format!(
                    "unknown time zone {name:?}; the calendar's time zone {} is used",
                    calendar.zone()
                ));
                calendar.zone()
            }),
            // A time in UTC recurs in UTC.
            (None, None) if start.val.as_str().ends_with('Z') && rrule.is_some() => Tz::UTC,
            (None, None) => calendar.zone(),
        };
        let (start, all_day) = read_at(start, start.val.as_str(), time_zone)?;
        let end = match (self.one("DTEND"), self.value("DURATION")) {
            (Some(end), _) => read_at(end, end.val.as_str(), time_zone)?.0,
            (None, Some(length)) => duration(length)
                .and_then(|length| start.checked_add_signed(length))
                .ok_or("its DURATION is invalid or too long")?,
            (None, None) if all_day => moved(start, time_zone, Duration::days(1)),
            (None, None) => start,
        };
        let title = self.text("SUMMARY").replace('\n', " ");
        let mut content = Content {
            title: if title.trim().is_empty() {
                UNTITLED.to_owned()
            } else {
                title
            },
            description: self.text("DESCRIPTION"),
            location: self.text("LOCATION"),
            start,
            end,
            all_day,
            time_zone,
            rrule: None,
        };
        content.rrule = rrule.map(|rule| rule_read(rule, &content));
        let replaces = match self.one("RECURRENCE-ID") {
            Some(_) if content.rrule.is_some() => return Err("a single occurrence cannot have an RRULE".to_owned()),
            Some(id) if parameter(id, "RANGE").is_some() => {
                return Err("RECURRENCE-ID with RANGE is not supported".to_owned());
            }
            Some(id) => Some(read_at(id, id.val.as_str(), time_zone)?.0),
            None => None,
        };
        let mut exdates = Vec::new();
        for line in self.all("EXDATE") {
            for value in line.val.as_str().split(',') {
                exdates.push(read_at(line, value, time_zone)?.0);
                if exdates.len() > MAX_EXDATES {
                    return Err(format!("an event can have at most {MAX_EXDATES} exceptions"));
                }
            }
        }
        content.check()?;
        Ok(Found {
            line,
            uid: uid.to_owned(),
            content,
            exdates,
            replaces,
            is_cancelled: self
                .value("STATUS")
                .is_some_and(|status| status.eq_ignore_ascii_case("CANCELLED")),
        })
    }
}
