//! Recurrence rules (RFC 5545), in the local time of their time zone. Called by `expand` and `edit_series`.
//!
//! Invariant: any rule costs no more than [`MAX_OCCURRENCES`] results and a scan of a bounded number of days.

use chrono::{DateTime, Datelike, Duration, LocalResult, NaiveDate, NaiveDateTime, NaiveTime, TimeZone, Utc};
use chrono_tz::Tz;
use rrule::{Frequency, RRule, RRuleSet, Unvalidated};

/// Maximum period of a query, in days: two years.
pub const MAX_SPAN_DAYS: i64 = 731;
/// Maximum number of starts returned by one query.
pub const MAX_OCCURRENCES: usize = 1_000;
/// Maximum length of a rule, in bytes.
const RULE_MAX_BYTES: usize = 500;
/// Allowed years of events' starts.
const YEARS: std::ops::RangeInclusive<i32> = 1970..=2199;

/// A recurring event.
#[derive(Debug, Clone, Copy)]
pub struct Series<'a> {
    pub rrule: &'a str,
    /// The first start.
    pub start: DateTime<Utc>,
    pub time_zone: Tz,
}

impl Series<'_> {
    fn set(&self) -> Result<RRuleSet, String> {
        let broken = |error: rrule::RRuleError| format!("invalid rrule {:?}: {error}", self.rrule);
        if self.rrule.len() > RULE_MAX_BYTES {
            return Err(format!("an rrule can have at most {RULE_MAX_BYTES} bytes"));
        }
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '=' | ';' | ',' | '+' | '-');
        if !self.rrule.chars().all(is_plain) {
            return Err(format!(
                "invalid rrule {:?}; use RFC 5545 syntax such as FREQ=WEEKLY;BYDAY=MO",
                self.rrule
            ));
        }
        let rule: RRule<Unvalidated> = self.rrule.parse().map_err(broken)?;
        let often = matches!(
            rule.get_freq(),
            Frequency::Hourly | Frequency::Minutely | Frequency::Secondly
        );
        let by_time = [rule.get_by_hour(), rule.get_by_minute(), rule.get_by_second()];
        if often || by_time.iter().any(|list| !list.is_empty()) {
            return Err(
                "an event repeats daily at most: FREQ must be DAILY, WEEKLY, MONTHLY or YEARLY, without BYHOUR, \
                BYMINUTE and BYSECOND"
                    .to_owned(),
            );
        }
        let start = self.start.with_timezone(&rrule::Tz::Tz(self.time_zone));
        rule.build(start).map_err(broken)
    }

    /// Err: why the rule is invalid, for the author.
    pub fn check(&self) -> Result<(), String> {
        if !YEARS.contains(&self.start.year()) {
            return Err(format!(
                "an event must begin between the years {} and {}",
                YEARS.start(),
                YEARS.end()
            ));
        }
        if self
            .between(self.start, self.start + Duration::days(MAX_SPAN_DAYS), 1)?
            .is_empty()
        {
            // Rules that never match take longest.
            Err(format!("the rrule {:?} has no occurrence within two years", self.rrule))
        } else {
            Ok(())
        }
    }

    /// Returns the starts from a moment on and before another, up to a maximum.
    pub fn between(&self, from: DateTime<Utc>, to: DateTime<Utc>, most: usize) -> Result<Vec<DateTime<Utc>>, String> {
        let zone = rrule::Tz::Tz(self.time_zone);
        let set = self.set()?;
        // Both bounds are inclusive in the library.
        let last = to - Duration::seconds(1);
        let set = set.after(from.with_timezone(&zone)).before(last.with_timezone(&zone));
        let found = set.all(u16::try_from(most).unwrap_or(u16::MAX));
        Ok(found.dates.into_iter().map(|date| date.with_timezone(&Utc)).collect())
    }

    /// Returns whether an occurrence starts at this time.
    pub fn has(&self, start: DateTime<Utc>) -> Result<bool, String> {
        Ok(!self.between(start, start + Duration::seconds(1), 1)?.is_empty())
    }

    /// Splits the rule at a moment: before it, and from it on.
    pub fn split(&self, at: DateTime<Utc>) -> Result<(String, String), String> {
        let count = self.set()?.get_rrule().first().and_then(RRule::get_count);
        let without = |names: &[&str]| {
            let parts = self.rrule.split(';').filter(|part| {
                let name = part.split('=').next().unwrap_or_default();
                !names.iter().any(|dropped| name.eq_ignore_ascii_case(dropped))
            });
            parts.collect::<Vec<_>>().join(";")
        };
        let until = (at - Duration::seconds(1)).format("%Y%m%dT%H%M%SZ");
        let before = format!("{};UNTIL={until}", without(&["COUNT", "UNTIL"]));
        let after = match count {
            None => self.rrule.to_owned(),
            Some(count) => {
                let gone = self.between(self.start, at, MAX_OCCURRENCES)?.len();
                let left = usize::try_from(count).unwrap_or(usize::MAX).saturating_sub(gone).max(1);
                format!("{};COUNT={left}", without(&["COUNT"]))
            }
        };
        Ok((before, after))
    }
}

/// Returns the moment of a local time. An ambiguous one is the first; a skipped one is an hour later.
pub fn at_wall(time_zone: Tz, wall: NaiveDateTime) -> DateTime<Utc> {
    let moment = match time_zone.from_local_datetime(&wall) {
        LocalResult::Single(moment) | LocalResult::Ambiguous(moment, _) => Some(moment),
        LocalResult::None => time_zone.from_local_datetime(&(wall + Duration::hours(1))).earliest(),
    };
    moment.map_or_else(|| Utc.from_utc_datetime(&wall), |moment| moment.with_timezone(&Utc))
}

/// Moves a moment by local time.
pub fn moved(moment: DateTime<Utc>, time_zone: Tz, by: Duration) -> DateTime<Utc> {
    at_wall(time_zone, moment.with_timezone(&time_zone).naive_local() + by)
}

/// Parses a time from a model or user: with an offset, in local time, or a day; returns whether it is a day.
///
/// # Errors
/// It is invalid; worded to show the format.
pub fn read_time(text: &str, time_zone: Tz) -> Result<(DateTime<Utc>, bool), String> {
    let text = text.trim();
    let by_wall = || {
        ["%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M"]
            .iter()
            .find_map(|format| NaiveDateTime::parse_from_str(text, format).ok())
    };
    let read = match DateTime::parse_from_rfc3339(text) {
        Ok(moment) => Some((moment.with_timezone(&Utc), false)),
        Err(_) => by_wall().map(|wall| (at_wall(time_zone, wall), false)),
    };
    let day = || NaiveDate::parse_from_str(text, "%Y-%m-%d").ok();
    let read = read.or_else(|| day().map(|day| (at_wall(time_zone, day.and_time(NaiveTime::MIN)), true)));
    match read {
        Some((moment, is_day)) if YEARS.contains(&moment.year()) => Ok((moment, is_day)),
        Some(_) => Err(format!(
            "{text:?} is not between the years {} and {}",
            YEARS.start(),
            YEARS.end()
        )),
        None => Err(format!(
            "{text:?} is not a valid time; use 2026-03-01T10:00 (in the event's time zone), \
            2026-03-01T10:00:00+01:00, or a date, 2026-03-01"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BERLIN: Tz = Tz::Europe__Berlin;

    fn series<'a>(rrule: &'a str, start: &str) -> Series<'a> {
        Series {
            rrule,
            start: read_time(start, BERLIN).unwrap().0,
            time_zone: BERLIN,
        }
    }

    /// Starts within two years, in local time.
    fn walls(rrule: &str, start: &str, most: usize) -> Vec<String> {
        let series = series(rrule, start);
        let found = series
            .between(series.start, series.start + Duration::days(MAX_SPAN_DAYS), most)
            .unwrap();
        found
            .iter()
            .map(|at| at.with_timezone(&BERLIN).format("%m-%d %H:%M %z").to_string())
            .collect()
    }

    /// Requirements: E10.
    #[test]
    fn recurrences_keep_wall_clock_time_through_clock_changes() {
        assert_eq!(
            walls("FREQ=DAILY;COUNT=3", "2026-03-28T09:00", 10),
            ["03-28 09:00 +0100", "03-29 09:00 +0200", "03-30 09:00 +0200"]
        );
        assert_eq!(
            walls("FREQ=WEEKLY;COUNT=2", "2026-10-20T09:00", 10),
            ["10-20 09:00 +0200", "10-27 09:00 +0100"]
        );
        assert_eq!(
            walls("FREQ=MONTHLY;BYDAY=-1FR;COUNT=2", "2026-01-30T18:00", 10),
            ["01-30 18:00 +0100", "02-27 18:00 +0100"]
        );
    }

    /// Requirements: E10.
    #[test]
    fn hostile_rules_are_refused_in_words_and_soon() {
        let began = std::time::Instant::now();
        for (rule, words) in [
            ("FREQ=SECONDLY", "daily at most"),
            ("FREQ=MINUTELY;INTERVAL=1", "daily at most"),
            ("FREQ=DAILY;BYHOUR=0,1,2,3,4,5,6,7;BYMINUTE=0,1,2,3", "daily at most"),
            ("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", "has no occurrence"),
            ("FREQ=DAILY;INTERVAL=65535", ""),
            ("FREQ=NEVER", "invalid rrule"),
            ("", "invalid rrule"),
            ("FREQ=DAILY\nRRULE:FREQ=DAILY", "invalid rrule"),
            (
                &format!("FREQ=DAILY;BYMONTHDAY={}1", "1,".repeat(300)),
                "at most 500 bytes",
            ),
        ] {
            let checked = series(rule, "2026-03-01T10:00").check();
            match words {
                "" => assert_eq!(checked, Ok(()), "{rule}"),
                words => assert!(
                    checked.as_ref().is_err_and(|error| error.contains(words)),
                    "{rule}: {checked:?}"
                ),
            }
        }
        // Bounded in number, however often it recurs.
        assert_eq!(walls("FREQ=DAILY", "2026-03-01T10:00", 100).len(), 100);
        assert!(
            began.elapsed() < std::time::Duration::from_secs(10),
            "{:?}",
            began.elapsed()
        );
    }

    /// Requirements: E10.
    #[test]
    fn a_series_is_split_in_two_that_make_the_same() {
        for rule in ["FREQ=DAILY;COUNT=5", "FREQ=DAILY;UNTIL=20260305T090000Z"] {
            let whole = series(rule, "2026-03-01T10:00");
            let to = whole.start + Duration::days(100);
            let all = whole.between(whole.start, to, 100).unwrap();
            assert_eq!(all.len(), 5);
            let (before, after) = whole.split(all[2]).unwrap();
            let first = Series {
                rrule: &before,
                ..whole
            };
            let second = Series {
                rrule: &after,
                start: all[2],
                ..whole
            };
            assert_eq!(first.between(whole.start, to, 100).unwrap(), all[..2]);
            assert_eq!(second.between(whole.start, to, 100).unwrap(), all[2..]);
            assert!(whole.has(all[2]).unwrap() && !first.has(all[2]).unwrap());
            assert!(!whole.has(all[2] + Duration::minutes(1)).unwrap());
        }
    }

    #[test]
    fn times_are_read_by_the_wall_clock() {
        let read = |text| read_time(text, BERLIN).map(|(at, is_day)| (at.to_rfc3339(), is_day));
        assert_eq!(
            read("2026-07-01T10:00"),
            Ok(("2026-07-01T08:00:00+00:00".to_owned(), false))
        );
        assert_eq!(
            read("2026-07-01T10:00:00Z"),
            Ok(("2026-07-01T10:00:00+00:00".to_owned(), false))
        );
        assert_eq!(read("2026-07-01"), Ok(("2026-06-30T22:00:00+00:00".to_owned(), true)));
        // Skipped in spring; ambiguous in autumn.
        assert_eq!(
            read("2026-03-29T02:30"),
            Ok(("2026-03-29T01:30:00+00:00".to_owned(), false))
        );
        assert_eq!(
            read("2026-10-25T02:30"),
            Ok(("2026-10-25T00:30:00+00:00".to_owned(), false))
        );
        assert!(read("tomorrow").unwrap_err().contains("2026-03-01T10:00"));
        assert!(read("9999-01-01").unwrap_err().contains("years"));
    }
}
