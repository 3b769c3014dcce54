//! Comparable snapshots of a local or remote event, and their merge.

use std::collections::BTreeSet;

use chrono::{DateTime, NaiveDate, NaiveTime, Utc};
use chrono_tz::Tz;
use serde::{Deserialize, Serialize};

use crate::events::{Content, Event};
use crate::ical;
use crate::recurrence::at_wall;

const DAY: &str = "%Y-%m-%d";
const MOMENT: &str = "%Y-%m-%dT%H:%M:%SZ";

/// The time of an event. Its parts are merged together: a rule depends on its start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct When {
    /// A day, or a moment in UTC.
    pub start: String,
    pub end: String,
    /// An IANA time zone; none for days.
    pub zone: Option<String>,
    /// In RFC 5545 format: for days it ends on a day.
    pub rule: Option<String>,
}

/// A snapshot of an event on one side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    pub title: String,
    pub description: String,
    pub location: String,
    pub when: When,
    /// Starts of omitted occurrences, in the format of [`When::start`].
    pub left_out: BTreeSet<String>,
}

/// Formats a moment for comparison.
pub fn written(at: DateTime<Utc>, all_day: bool, zone: Tz) -> String {
    if all_day {
        at.with_timezone(&zone).format(DAY).to_string()
    } else {
        at.format(MOMENT).to_string()
    }
}

/// Parses this format; returns whether it is a day, which begins in this time zone.
pub fn read(text: &str, zone: Tz) -> Option<(DateTime<Utc>, bool)> {
    if let Ok(day) = NaiveDate::parse_from_str(text, DAY) {
        return Some((at_wall(zone, day.and_time(NaiveTime::MIN)), true));
    }
    let at = DateTime::parse_from_rfc3339(text).ok()?;
    Some((at.with_timezone(&Utc), false))
}

impl Snapshot {
    pub fn of(event: &Event) -> Self {
        let content = &event.content;
        let at = |moment: DateTime<Utc>| written(moment, content.all_day, content.time_zone);
        Self {
            title: content.title.clone(),
            description: content.description.clone(),
            location: content.location.clone(),
            when: When {
                start: at(content.start),
                end: at(content.end),
                zone: (!content.all_day).then(|| content.time_zone.name().to_owned()),
                rule: content.rrule.as_deref().map(|rule| ical::rule_told(rule, content)),
            },
            left_out: event.exdates.iter().map(|&exdate| at(exdate)).collect(),
        }
    }

    pub fn is_of_days(&self) -> bool {
        self.when.zone.is_none()
    }

    /// Converts to local content; days begin in this time zone. Err: why it is invalid, in words.
    pub fn content(&self, zone: Tz) -> Result<(Content, Vec<DateTime<Utc>>), String> {
        let time_zone = match &self.when.zone {
            Some(name) => name.parse().map_err(|_| format!("unknown time zone {name:?}"))?,
            None => zone,
        };
        let moment = |text: &str| match read(text, time_zone) {
            Some((moment, is_day)) if is_day == self.is_of_days() => Ok(moment),
            Some(_) | None => Err(format!("{text:?} is not a valid time for this event")),
        };
        let mut content = Content {
            title: self.title.clone(),
            description: self.description.clone(),
            location: self.location.clone(),
            start: moment(&self.when.start)?,
            end: moment(&self.when.end)?,
            all_day: self.is_of_days(),
            time_zone,
            rrule: None,
        };
        content.rrule = self.when.rule.as_deref().map(|rule| ical::rule_read(rule, &content));
        content.check()?;
        // Without a rule there are no omitted occurrences, nor moments among days.
        let left_out = self.left_out.iter().filter(|_| content.rrule.is_some());
        let exdates = left_out.filter_map(|text| moment(text).ok()).collect();
        Ok((content, exdates))
    }
}

/// The merge of both sides.
#[derive(Debug, PartialEq)]
pub struct Merged {
    pub snapshot: Snapshot,
    /// Fields changed differently on both sides: the local change is lost.
    pub lost: Vec<&'static str>,
}

/// Three-way merge of the local and the remote event, with their last common version as base. On conflicts, and without
/// a base, Google's version wins.
pub fn merge(base: Option<&Snapshot>, here: &Snapshot, there: &Snapshot) -> Merged {
    let mut lost = Vec::new();
    let title = one(
        base.map(|base| &base.title),
        &here.title,
        &there.title,
        "the title",
        &mut lost,
    );
    let description = one(
        base.map(|base| &base.description),
        &here.description,
        &there.description,
        "the description",
        &mut lost,
    );
    let location = one(
        base.map(|base| &base.location),
        &here.location,
        &there.location,
        "the location",
        &mut lost,
    );
    let when = one(
        base.map(|base| &base.when),
        &here.when,
        &there.when,
        "the time",
        &mut lost,
    );
    let known = base.map(|base| &base.left_out);
    let in_base = |text: &String| known.is_some_and(|known| known.contains(text));
    // Omitted on either side, and not restored on the other.
    let all = here.left_out.union(&there.left_out);
    let left_out = all.filter(|text| {
        let (here, there) = (here.left_out.contains(*text), there.left_out.contains(*text));
        here && there || !in_base(text)
    });
    Merged {
        snapshot: Snapshot {
            left_out: left_out.cloned().collect(),
            title,
            description,
            location,
            when,
        },
        lost,
    }
}

fn one<T: PartialEq + Clone>(
    base: Option<&T>,
    here: &T,
    there: &T,
    name: &'static str,
    lost: &mut Vec<&'static str>,
) -> T {
    if here == there || base == Some(here) {
        return there.clone();
    }
    if base == Some(there) {
        return here.clone();
    }
    lost.push(name);
    there.clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(title: &str, start: &str, left_out: &[&str]) -> Snapshot {
        Snapshot {
            title: title.to_owned(),
            description: String::new(),
            location: String::new(),
            when: When {
                start: start.to_owned(),
                end: "2027-03-01T11:00:00Z".to_owned(),
                zone: Some("Europe/Berlin".to_owned()),
                rule: Some("FREQ=DAILY;COUNT=9".to_owned()),
            },
            left_out: left_out.iter().map(|&text| text.to_owned()).collect(),
        }
    }

    const NINE: &str = "2027-03-01T09:00:00Z";
    const TEN: &str = "2027-03-01T10:00:00Z";
    const SECOND: &str = "2027-03-02T09:00:00Z";
    const THIRD: &str = "2027-03-03T09:00:00Z";

    #[test]
    fn both_sides_changes_are_kept_and_google_wins_conflicts() {
        let base = snapshot("Standup", NINE, &[]);
        let merged = merge(
            Some(&base),
            &snapshot("Daily", NINE, &[]),
            &snapshot("Standup", TEN, &[]),
        );
        assert_eq!((merged.snapshot, merged.lost), (snapshot("Daily", TEN, &[]), vec![]));
        let merged = merge(
            Some(&base),
            &snapshot("Daily", NINE, &[]),
            &snapshot("Round", NINE, &[]),
        );
        assert_eq!(
            (merged.snapshot, merged.lost),
            (snapshot("Round", NINE, &[]), vec!["the title"])
        );
        let same = merge(
            Some(&base),
            &snapshot("Daily", NINE, &[]),
            &snapshot("Daily", NINE, &[]),
        );
        assert_eq!((same.snapshot, same.lost), (snapshot("Daily", NINE, &[]), vec![]));
        let unknown = merge(None, &snapshot("Daily", NINE, &[]), &snapshot("Round", NINE, &[]));
        assert_eq!(
            (unknown.snapshot.title.as_str(), unknown.lost),
            ("Round", vec!["the title"])
        );
    }

    #[test]
    fn exceptions_of_either_side_are_added_and_withdrawn() {
        let merged = |base: &[&str], here: &[&str], there: &[&str]| {
            let base = snapshot("", NINE, base);
            merge(Some(&base), &snapshot("", NINE, here), &snapshot("", NINE, there))
                .snapshot
                .left_out
        };
        let set = |texts: &[&str]| snapshot("", NINE, texts).left_out;
        assert_eq!(merged(&[], &[SECOND], &[THIRD]), set(&[SECOND, THIRD]));
        assert_eq!(merged(&[SECOND], &[SECOND, THIRD], &[]), set(&[THIRD]));
        assert_eq!(merged(&[SECOND], &[], &[SECOND]), set(&[]));
    }

    #[test]
    fn an_event_is_the_same_after_it_was_written_and_read() {
        let days = Snapshot {
            when: When {
                start: "2027-03-01".to_owned(),
                end: "2027-03-02".to_owned(),
                zone: None,
                rule: Some("FREQ=WEEKLY;UNTIL=20270601".to_owned()),
            },
            ..snapshot("Holiday", NINE, &["2027-03-08"])
        };
        for snapshot in [days, snapshot("Standup", NINE, &[SECOND])] {
            let (content, exdates) = snapshot.content(Tz::Europe__Berlin).unwrap();
            let event = Event {
                id: uuid::Uuid::nil(),
                calendar_id: uuid::Uuid::nil(),
                content,
                exdates,
                replaces: None,
                version: 1,
                is_deleted: false,
            };
            assert_eq!(Snapshot::of(&event), snapshot);
        }
        assert!(snapshot("Standup", "2027-03-01", &[]).content(Tz::UTC).is_err());
        assert!(snapshot("", NINE, &[]).content(Tz::UTC).is_err());
    }
}
