//! Times in iCalendar files: moments, days, zones and durations. Called by `ical`.

use std::str::FromStr;

use chrono::{DateTime, Duration, NaiveDate, NaiveDateTime, NaiveTime, Utc};
use chrono_tz::Tz;
use icalendar::parser::Property as Line;
use windows_timezones::WindowsTimezone;

use super::{DAY, WALL};
use crate::recurrence::at_wall;

/// Returns the value of a line's parameter, without its quotes.
pub fn parameter<'a>(line: &'a Line<'_>, name: &str) -> Option<&'a str> {
    let found = line
        .params
        .iter()
        .find(|found| found.key.as_str().eq_ignore_ascii_case(name))?;
    Some(found.val.as_ref()?.as_str().trim_matches('"'))
}

/// Parses a time zone: an IANA name, which some programs prefix by a path, or its Windows name.
pub fn zone(name: &str) -> Option<Tz> {
    let tail = || {
        name.match_indices('/')
            .filter_map(|(at, _)| name[at + 1..].parse().ok())
            .next()
    };
    let of_windows = || WindowsTimezone::from_str(name).ok()?.tzdb_id().parse().ok();
    name.parse().ok().or_else(tail).or_else(of_windows)
}

/// Parses a line's time, and whether it is a day. Without a time zone, the event's applies.
pub fn read_at(line: &Line<'_>, value: &str, event_zone: Tz) -> Result<(DateTime<Utc>, bool), String> {
    let value = value.trim();
    if let Ok(day) = NaiveDate::parse_from_str(value, DAY) {
        return Ok((at_wall(event_zone, day.and_time(NaiveTime::MIN)), true));
    }
    let (wall, is_utc) = match value.strip_suffix('Z') {
        Some(wall) => (wall, true),
        None => (value, false),
    };
    let wall = NaiveDateTime::parse_from_str(wall, WALL)
        .map_err(|_| format!("{} {value:?} is not a valid time", line.name.as_str()))?;
    let zone = parameter(line, "TZID").and_then(zone).unwrap_or(event_zone);
    if is_utc {
        Ok((wall.and_utc(), false))
    } else {
        Ok((at_wall(zone, wall), false))
    }
}

/// Parses a duration such as `PT1H30M` or `P1D` (RFC 5545, 3.3.6).
pub fn duration(text: &str) -> Option<Duration> {
    let mut rest = text.trim().trim_start_matches('+').strip_prefix('P')?;
    let mut seconds = 0_i64;
    while !rest.is_empty() {
        rest = rest.strip_prefix('T').unwrap_or(rest);
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: i64 = rest[..digits].parse().ok()?;
        let unit = match rest.as_bytes().get(digits)? {
            b'W' => 604_800,
            b'D' => 86_400,
            b'H' => 3_600,
            b'M' => 60,
            b'S' => 1,
            _ => return None,
        };
        seconds = seconds.checked_add(number.checked_mul(unit)?)?;
        rest = &rest[digits + 1..];
    }
    Duration::try_seconds(seconds)
}
