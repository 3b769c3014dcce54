//! Imports an iCalendar file into a calendar. Called by the API, in one transaction.
//!
//! Invariant: importing a file again has no further effect: events are matched by UID.

use std::collections::HashMap;
use std::time::Instant;

use chrono::{DateTime, Utc};
use rejoin_types::owner::Owner;
use sqlx::PgConnection;
use uuid::Uuid;

use super::events::{self, Calendar, Event};
use super::expand::CalendarError;
use super::ical::{self, Found, ImportNote, LIMIT, Read, refuse};

/// Maximum number of changed occurrences of one event in a file.
const MAX_REPLACING: usize = 500;
/// Number of events inserted by one statement.
const BATCH: usize = 1_000;

/// The result of an import.
#[derive(Debug, Default, PartialEq)]
pub struct Imported {
    pub added: usize,
    pub changed: usize,
    pub unchanged: usize,
    pub refused: Vec<ImportNote>,
    pub notes: Vec<ImportNote>,
}

/// Returns the local id for a file's UID: deterministic within a calendar.
fn id_of(calendar: Uuid, uid: &str, replaces: Option<DateTime<Utc>>) -> Uuid {
    let replaces = replaces.map_or(i64::MIN, |at| at.timestamp()).to_be_bytes();
    events::id_in(calendar, &[&replaces, uid.as_bytes()])
}

/// An import under way: what the calendar has, and what is to be inserted with the next statement.
struct Import<'a> {
    db: &'a mut PgConnection,
    calendar: Uuid,
    /// The events of the calendar that the file names by their UIDs, and those that it adds.
    known: HashMap<Uuid, Event>,
    /// Added, but not inserted yet; with their lines and UIDs.
    pending: Vec<(Event, usize, String)>,
    done: Imported,
}

/// Imports a file's events into an owner's calendar; replacements of occurrences after their series.
///
/// # Errors
/// The database can't be queried.
pub async fn import(
    db: &mut PgConnection,
    owner: Owner,
    calendar: &Calendar,
    read: Read,
) -> Result<Imported, CalendarError> {
    let mut ids: Vec<Uuid> = read
        .events
        .iter()
        .flat_map(|found| [ical::id_of(&found.uid), Some(id_of(calendar.id, &found.uid, None))])
        .flatten()
        .collect();
    ids.sort_unstable();
    ids.dedup();
    let known = events::all_locked(db, owner, &ids).await?;
    let mut import = Import {
        db,
        calendar: calendar.id,
        known: known.into_iter().map(|event| (event.id, event)).collect(),
        pending: Vec::new(),
        done: Imported {
            refused: read.refused,
            notes: read.notes,
            ..Imported::default()
        },
    };
    import.all(read.events).await?;
    Ok(import.done)
}

impl Import<'_> {
    async fn all(&mut self, found: Vec<Found>) -> Result<(), CalendarError> {
        let began = Instant::now();
        let (replacing, whole): (Vec<_>, Vec<_>) = found.into_iter().partition(|found| found.replaces.is_some());
        for found in whole {
            if found.is_cancelled {
                self.refuse(&found, "the event is cancelled");
                continue;
            }
            let (id, event) = self.known(&found.uid).await?;
            self.put(id, event, &found, None).await?;
        }
        self.insert().await?;
        let mut of_series: HashMap<String, Vec<Found>> = HashMap::new();
        for found in replacing {
            of_series.entry(found.uid.clone()).or_default().push(found);
        }
        let mut of_series: Vec<_> = of_series.into_iter().collect();
        of_series.sort_by_key(|(_, list)| list.first().map(|found| found.line));
        for (uid, list) in of_series {
            self.replace_occurrences(&uid, list, began).await?;
        }
        self.insert().await?;
        Ok(())
    }

    /// Finds the calendar's event with a file's UID: exported from here, or imported.
    async fn known(&mut self, uid: &str) -> Result<(Uuid, Option<Event>), sqlx::Error> {
        let id = id_of(self.calendar, uid, None);
        if self.pending.iter().any(|(event, ..)| event.id == id) {
            // The file has it twice. Whether its id was free is seen when it is inserted.
            self.insert().await?;
        }
        let of_calendar = |id: &Uuid| self.known.get(id).filter(|event| event.calendar_id == self.calendar);
        if let Some(exported) = ical::id_of(uid)
            && let Some(event) = of_calendar(&exported)
        {
            return Ok((exported, Some(event.clone())));
        }
        Ok((id, self.known.get(&id).cloned()))
    }

    /// Changes occurrences of the event with this UID.
    async fn replace_occurrences(&mut self, uid: &str, list: Vec<Found>, began: Instant) -> Result<(), CalendarError> {
        let (series_id, series) = self.known(uid).await?;
        let series = series.filter(|series| !series.is_deleted);
        let Some((series, rrule)) = series.and_then(|series| series.content.rrule.clone().map(|rrule| (series, rrule)))
        else {
            for found in list {
                self.refuse(&found, "its series does not exist or does not repeat");
            }
            return Ok(());
        };
        let mut others: HashMap<_, _> = events::replacing(self.db, series_id)
            .await?
            .into_iter()
            .filter_map(|other| other.replaces.map(|(_, at)| (at, other)))
            .collect();
        let mut exdates = series.exdates.clone();
        for (nth, found) in list.into_iter().enumerate() {
            let Some(at) = found.replaces else { continue };
            let happens = series.content.series(&rrule);
            let why = if nth >= MAX_REPLACING {
                Some(format!(
                    "at most {MAX_REPLACING} occurrences of an event can be changed"
                ))
            } else if began.elapsed() > LIMIT {
                Some("importing the file takes too long; import it in parts".to_owned())
            } else {
                match happens.has(at) {
                    Ok(true) => None,
                    Ok(false) => Some("the event does not occur at that time".to_owned()),
                    Err(why) => Some(why),
                }
            };
            if let Some(why) = why {
                self.refuse(&found, &why);
                continue;
            }
            if found.is_cancelled {
                if exdates.contains(&at) {
                    self.done.unchanged += 1;
                } else {
                    exdates.push(at);
                    self.done.changed += 1;
                }
                continue;
            }
            let other = others.remove(&at);
            let id = other
                .as_ref()
                .map_or_else(|| id_of(self.calendar, uid, Some(at)), |other| other.id);
            self.put(id, other, &found, Some((series_id, at))).await?;
        }
        if exdates != series.exdates {
            events::set(self.db, series_id, &series.content, &exdates).await?;
        }
        Ok(())
    }

    /// Adds an event, or sets it to the file's content.
    async fn put(
        &mut self,
        id: Uuid,
        event: Option<Event>,
        found: &Found,
        replaces: Option<(Uuid, DateTime<Utc>)>,
    ) -> Result<(), sqlx::Error> {
        let mut exdates = found.exdates.clone();
        exdates.sort();
        exdates.dedup();
        match event {
            Some(event) if event.is_deleted => {
                self.refuse(found, "it was deleted here; import it into another calendar");
            }
            Some(event) => {
                let mut before = event.exdates.clone();
                before.sort();
                // Occurrences cancelled separately in the file are omitted here, and stay so.
                let is_known = exdates.iter().all(|exdate| before.contains(exdate));
                if event.content == found.content && is_known {
                    self.done.unchanged += 1;
                } else {
                    events::set(self.db, id, &found.content, &exdates).await?;
                    if let Some(known) = self.known.get_mut(&id) {
                        known.content = found.content.clone();
                        known.exdates = exdates;
                    }
                    self.done.changed += 1;
                }
            }
            None => {
                let event = Event {
                    id,
                    calendar_id: self.calendar,
                    content: found.content.clone(),
                    exdates,
                    replaces,
                    version: 1,
                    is_deleted: false,
                };
                self.pending.push((event, found.line, found.uid.clone()));
                if self.pending.len() >= BATCH {
                    self.insert().await?;
                }
            }
        }
        Ok(())
    }

    /// Inserts the pending events.
    async fn insert(&mut self) -> Result<(), sqlx::Error> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let (rows, places): (Vec<Event>, Vec<(usize, String)>) = self
            .pending
            .drain(..)
            .map(|(event, line, uid)| (event, (line, uid)))
            .unzip();
        let mut added = events::add_all(self.db, &rows).await?;
        for (event, (line, uid)) in rows.into_iter().zip(places) {
            // Not twice, if the file has it twice.
            if added.remove(&event.id) {
                self.done.added += 1;
                self.known.insert(event.id, event);
            } else {
                refuse(&mut self.done.refused, line, Some(&uid), "its id is already taken");
            }
        }
        Ok(())
    }

    fn refuse(&mut self, found: &Found, why: &str) {
        refuse(&mut self.done.refused, found.line, Some(&found.uid), why);
    }
}
