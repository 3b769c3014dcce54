//! A schedule's definition, its validation, and when it is due. No I/O.

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use serde_json::Value;

use super::{Missed, Schedule};
use crate::tasks::spec::DagSpec;

/// Maximum length of a name, in characters.
const NAME_MAX_CHARS: usize = 200;
/// Maximum length of an agent's input, in characters.
const INPUT_MAX_CHARS: usize = 100_000;
/// Delay after which a firing counts as missed, in seconds. Sweeps check every second.
pub const MISSED_AFTER_S: i64 = 60;
/// Maximum number of missed firings to catch up; of more, the newest.
pub const MAX_MISSED: usize = 100;

/// The definition of a schedule.
#[derive(Debug, Clone, PartialEq)]
pub struct ScheduleContent {
    pub name: String,
    pub when: When,
    /// An IANA time zone, such as `Europe/Berlin`.
    pub time_zone: String,
    pub target: Target,
    pub missed: Missed,
    pub enabled: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub enum When {
    Cron(String),
    At(DateTime<Utc>),
}

#[derive(Debug, Clone, PartialEq)]
pub enum Target {
    Agent {
        name: String,
        input: String,
    },
    /// A [`DagSpec`], unparsed.
    Dag(Value),
}

impl From<&Schedule> for ScheduleContent {
    fn from(stored: &Schedule) -> Self {
        Self {
            name: stored.name.clone(),
            when: match (&stored.cron, stored.at) {
                (Some(cron), _) => When::Cron(cron.clone()),
                (None, at) => When::At(at.expect("the table's check constraint wants one of them")),
            },
            time_zone: stored.time_zone.clone(),
            target: match (&stored.agent, &stored.dag) {
                (Some(name), _) => Target::Agent {
                    name: name.clone(),
                    input: stored.input.clone().unwrap_or_default(),
                },
                (None, dag) => Target::Dag(dag.clone().unwrap_or_default()),
            },
            missed: stored
                .missed
                .parse()
                .expect("the table's check constraint allows only known words"),
            enabled: stored.enabled,
        }
    }
}

impl ScheduleContent {
    /// Validates it. The error is a message for the author.
    pub fn check(&self) -> Result<(), String> {
        if self.name.trim().is_empty() || self.name.chars().count() > NAME_MAX_CHARS {
            return Err(format!("name must have 1 to {NAME_MAX_CHARS} characters"));
        }
        let zone = zone(&self.time_zone)?;
        if let When::Cron(text) = &self.when {
            let begin = DateTime::UNIX_EPOCH.with_timezone(&zone);
            cron(text)?
                .find_next_occurrence(&begin, true)
                .map_err(|_| format!("the cron expression {text:?} never matches"))?;
        }
        match &self.target {
            Target::Agent { input, .. } if input.trim().is_empty() => {
                Err("input is missing: pass the agent's input".to_owned())
            }
            Target::Agent { input, .. } if input.chars().count() > INPUT_MAX_CHARS => {
                Err(format!("input can have at most {INPUT_MAX_CHARS} characters"))
            }
            Target::Agent { input, .. } if input.contains('\0') => Err("input contains a NUL character".to_owned()),
            Target::Agent { .. } => Ok(()),
            Target::Dag(dag) => {
                let spec: DagSpec = serde_json::from_value(dag.clone()).map_err(|error| format!("tasks: {error}"))?;
                spec.check().map(|_| ()).map_err(|fault| format!("tasks: {fault}"))
            }
        }
    }

    /// Returns the first firing after `now`. The schedule is valid.
    pub fn next_after(&self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        match &self.when {
            When::At(at) => Some(*at).filter(|at| *at > now),
            When::Cron(text) => {
                let now = now.with_timezone(&zone(&self.time_zone).ok()?);
                let next = cron(text).ok()?.find_next_occurrence(&now, false).ok()?;
                Some(next.to_utc())
            }
        }
    }

    /// Decides at `now` about a firing that was due at `due`.
    pub fn due(&self, due: DateTime<Utc>, now: DateTime<Utc>) -> Due {
        let missed_before = now - chrono::TimeDelta::seconds(MISSED_AFTER_S);
        let newest = self.ticks_before(due, now, 1)[0];
        match self.missed {
            Missed::Skip => Due {
                fire: Some(newest).filter(|tick| *tick >= missed_before),
                next: self.next_after(now),
            },
            Missed::Once => Due {
                fire: Some(newest),
                next: self.next_after(now),
            },
            Missed::All => {
                let ticks = self.ticks_before(due, now, MAX_MISSED);
                let fire = ticks[ticks.len() - 1];
                Due {
                    fire: Some(fire),
                    next: self.next_after(fire),
                }
            }
        }
    }

    /// Returns the newest firings from `due` to `now`, at most `count`, newest first; never empty.
    fn ticks_before(&self, due: DateTime<Utc>, now: DateTime<Utc>, count: usize) -> Vec<DateTime<Utc>> {
        let (When::Cron(text), Ok(zone)) = (&self.when, zone(&self.time_zone)) else {
            return vec![due];
        };
        let Ok(cron) = cron(text) else { return vec![due] };
        let mut ticks = Vec::new();
        let mut before = now.with_timezone(&zone);
        while ticks.len() < count {
            let Ok(tick) = cron.find_previous_occurrence(&before, ticks.is_empty()) else {
                break;
            };
            if tick <= due {
                break;
            }
            ticks.push(tick.to_utc());
            before = tick;
        }
        if ticks.len() < count {
            ticks.push(due);
        }
        ticks
    }

    /// Returns the wire names of the fields in which `other` differs, except whether it is enabled.
    pub fn changed_fields(&self, other: &Self) -> Vec<&'static str> {
        [
            ("cron", self.when != other.when),
            ("timeZone", self.time_zone != other.time_zone),
            ("agent", self.target.agent() != other.target.agent()),
            ("input", self.target.input() != other.target.input()),
            ("tasks", self.target.dag() != other.target.dag()),
            ("missed", self.missed != other.missed),
        ]
        .into_iter()
        .filter_map(|(field, differs)| differs.then_some(field))
        .collect()
    }

    /// Converts a job of a product's manifest.
    pub fn of_job(job: &Value) -> Result<Self, String> {
        let words = |value: &Value| value.as_str().map(str::to_owned);
        let name = words(&job["name"]).unwrap_or_default();
        let config = &job["config"];
        let missed = match config.get("missed") {
            None => Missed::default(),
            Some(missed) => serde_json::from_value(missed.clone()).map_err(|error| format!("missed: {error}"))?,
        };
        let input = match &config["input"] {
            Value::Null => words(&job["description"]).unwrap_or_else(|| name.clone()),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let content = Self {
            when: When::Cron(words(&job["cron"]).unwrap_or_default()),
            time_zone: words(&config["time_zone"]).unwrap_or_else(|| UTC.to_owned()),
            target: Target::Agent {
                name: words(&job["agent"]).unwrap_or_default(),
                input,
            },
            missed,
            enabled: true,
            name,
        };
        content.check()?;
        Ok(content)
    }
}

impl Target {
    pub fn agent(&self) -> Option<&str> {
        match self {
            Target::Agent { name, .. } => Some(name),
            Target::Dag(_) => None,
        }
    }

    pub fn input(&self) -> Option<&str> {
        match self {
            Target::Agent { input, .. } => Some(input),
            Target::Dag(_) => None,
        }
    }

    pub fn dag(&self) -> Option<&Value> {
        match self {
            Target::Agent { .. } => None,
            Target::Dag(dag) => Some(dag),
        }
    }
}

/// The default time zone.
pub const UTC: &str = "UTC";

/// The decision about a due schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// The moment to fire for. None: it is skipped.
    pub fire: Option<DateTime<Utc>>,
    /// The next firing. None: there is none.
    pub next: Option<DateTime<Utc>>,
}

/// Five fields: at most one firing per minute.
fn cron(text: &str) -> Result<Cron, String> {
    let parser = CronParser::builder()
        .seconds(Seconds::Disallowed)
        .year(Year::Disallowed)
        .build();
    parser
        .parse(text)
        .map_err(|error| format!("the cron expression {text:?}: {error} (five fields: minute hour day month weekday)"))
}

fn zone(name: &str) -> Result<Tz, String> {
    name.parse()
        .map_err(|_| format!("{name:?} is not a time zone; use an IANA name such as UTC or Europe/Berlin"))
}

/// Converts JSON to text: strings as they are, the rest as JSON.
pub fn input_text(input: &Value) -> String {
    match input {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(cron: &str, time_zone: &str, missed: Missed) -> ScheduleContent {
        ScheduleContent {
            name: "nightly".to_owned(),
            when: When::Cron(cron.to_owned()),
            time_zone: time_zone.to_owned(),
            target: Target::Agent {
                name: "a".to_owned(),
                input: "go".to_owned(),
            },
            missed,
            enabled: true,
        }
    }

    fn time(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    #[test]
    fn the_clocks_of_a_time_zone_count_also_where_they_are_changed() {
        let berlin = schedule("30 2 * * *", "Europe/Berlin", Missed::Once);
        assert_eq!(
            berlin.next_after(time("2026-01-10T00:00:00Z")),
            Some(time("2026-01-10T01:30:00Z"))
        );
        assert_eq!(
            berlin.next_after(time("2026-07-10T00:00:00Z")),
            Some(time("2026-07-10T00:30:00Z"))
        );
        // 02:30 occurs twice in the night of 25 October, and fires once.
        let first = berlin.next_after(time("2026-10-24T12:00:00Z")).unwrap();
        assert!(
            berlin.next_after(first).unwrap() > time("2026-10-26T00:00:00Z"),
            "{first}"
        );
    }

    #[test]
    fn missed_firings_are_left_out_made_up_for_once_or_each() {
        let (due, now) = (time("2026-01-01T00:00:00Z"), time("2026-01-01T05:30:00Z"));
        let next = Some(time("2026-01-01T06:00:00Z"));
        let hourly = |missed| schedule("0 * * * *", "UTC", missed);
        assert_eq!(hourly(Missed::Skip).due(due, now), Due { fire: None, next });
        let fire = Some(time("2026-01-01T05:00:00Z"));
        assert_eq!(hourly(Missed::Once).due(due, now), Due { fire, next });
        let mut fired = vec![];
        let mut at = due;
        while at <= now {
            let step = hourly(Missed::All).due(at, now);
            fired.extend(step.fire);
            at = step.next.unwrap();
        }
        assert_eq!((fired.len(), fired[0], Some(at)), (6, due, next));
        // A short delay is not a miss.
        let late = time("2026-01-01T00:00:30Z");
        assert_eq!(hourly(Missed::Skip).due(due, late).fire, Some(due));
    }

    #[test]
    fn of_very_many_missed_firings_the_newest_are_made_up_for() {
        let minutely = schedule("* * * * *", "UTC", Missed::All);
        let step = minutely.due(time("2020-01-01T00:00:00Z"), time("2026-01-01T00:00:30Z"));
        assert_eq!(
            step.fire,
            Some(time("2025-12-31T22:21:00Z")),
            "the hundredth before the newest"
        );
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (cron, zone, words) in [
            ("every day", "UTC", "five fields"),
            ("0 0 3 * * *", "UTC", "five fields"),
            ("0 0 30 2 *", "UTC", "never matches"),
            ("0 3 * * *", "Mars/Olympus", "not a time zone"),
        ] {
            let fault = schedule(cron, zone, Missed::Once).check().unwrap_err();
            assert!(fault.contains(words), "{cron}: {fault}");
        }
    }
}
