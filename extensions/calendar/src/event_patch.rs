//! Patches of events, from users and models, and their application. Called by the tools and by the API.

use chrono::{DateTime, Duration, NaiveTime, Utc};
use chrono_tz::Tz;

use super::events::{Calendar, Content};
use super::recurrence::{moved, read_time};

/// The default duration of an event.
const HOUR: Duration = Duration::hours(1);
const DAY: Duration = Duration::days(1);

/// A patch of an event. Absent fields stay unchanged.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EventPatch {
    pub title: Option<String>,
    pub description: Option<String>,
    pub location: Option<String>,
    /// In the time zone's local time, with an offset, or a day.
    pub start: Option<String>,
    /// For an all-day event the day after its last.
    pub end: Option<String>,
    pub all_day: Option<bool>,
    /// An IANA time zone.
    pub time_zone: Option<String>,
    /// Empty: it does not recur.
    pub rrule: Option<String>,
}

impl EventPatch {
    fn zone(&self) -> Result<Option<Tz>, String> {
        let name = self.time_zone.as_deref();
        name.map(|name| {
            name.parse()
                .map_err(|_| format!("{name:?} is not a time zone; use an IANA name such as Europe/Berlin"))
        })
        .transpose()
    }

    /// Returns a new, validated event of a calendar: an hour or a day, by default.
    ///
    /// # Errors
    /// It is invalid; worded for the author.
    pub fn new_content(&self, calendar: &Calendar) -> Result<Content, String> {
        let time_zone = self.zone()?.unwrap_or_else(|| calendar.zone());
        let start = self
            .start
            .as_deref()
            .ok_or("start is empty; pass the time at which the event begins")?;
        let (start, is_day) = read_time(start, time_zone)?;
        let bare = Content {
            title: String::new(),
            description: String::new(),
            location: String::new(),
            start,
            end: moved(start, time_zone, if is_day { DAY } else { HOUR }),
            all_day: is_day,
            time_zone,
            rrule: None,
        };
        let content = self.apply_to(&bare)?;
        content.check()?;
        Ok(content)
    }

    /// Applies the patch to an event; a new start without an end keeps the duration. Not validated yet.
    ///
    /// # Errors
    /// A time or time zone can't be parsed; worded for the author.
    pub fn apply_to(&self, content: &Content) -> Result<Content, String> {
        let time_zone = self.zone()?.unwrap_or(content.time_zone);
        let text = |given: &Option<String>, before: &str| given.as_deref().unwrap_or(before).to_owned();
        let read = |given: &Option<String>| given.as_deref().map(|text| read_time(text, time_zone)).transpose();
        let (said_start, said_end) = (read(&self.start)?, read(&self.end)?);
        let is_day = said_start.map(|(_, is_day)| is_day);
        let all_day = self.all_day.or(is_day).unwrap_or(content.all_day);
        let start = said_start.map_or(content.start, |(start, _)| start);
        let wall = |moment: DateTime<Utc>| moment.with_timezone(&content.time_zone).naive_local();
        let end = match said_end {
            Some((end, _)) => end,
            None if all_day => moved(start, time_zone, wall(content.end) - wall(content.start)),
            None => start + (content.end - content.start),
        };
        let is_midnight = |moment: DateTime<Utc>| moment.with_timezone(&time_zone).time() == NaiveTime::MIN;
        if all_day && !(is_midnight(start) && is_midnight(end) && end > start) {
            let words = "an all-day event begins on one date and ends on a later one; give both as dates such as \
                2026-03-01";
            return Err(words.to_owned());
        }
        let rrule = self.rrule.clone().or_else(|| content.rrule.clone());
        Ok(Content {
            title: text(&self.title, &content.title),
            description: text(&self.description, &content.description),
            location: text(&self.location, &content.location),
            start,
            end,
            all_day,
            time_zone,
            rrule: rrule.filter(|rrule| !rrule.is_empty()),
        })
    }
}
