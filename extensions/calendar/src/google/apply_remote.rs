//! Applies a remote event to the local calendar, merging it with local edits. Called by `pull` and `push`, in one
//! transaction each.
//!
//! Invariants: applying an event again has no further effect; every lost local change is reported.

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use sqlx::PgConnection;
use uuid::Uuid;

use super::links::SyncJob;
use super::mappings::{self, Mapping};
use super::snapshot::{Merged, Snapshot, merge, written};
use super::wire::Item;
use crate::events::{self, Event, MAX_ROWS};

/// The placeholder of an event that no longer exists at Google.
pub(super) fn gone(mapping: &Mapping) -> Item {
    Item {
        id: mapping.google_id.clone(),
        status: "cancelled".to_owned(),
        etag: "gone".to_owned(),
        ..Item::default()
    }
}

/// Applies an event of a remote calendar with this time zone. Returns notes for the user.
pub(super) async fn apply(
    db: &mut PgConnection,
    work: &SyncJob,
    zone: Tz,
    item: &Item,
) -> Result<Vec<String>, sqlx::Error> {
    let mut change = RemoteChange {
        db,
        work,
        zone,
        item,
        notes: Vec::new(),
    };
    let mapping = mappings::by_google(&mut *change.db, work.calendar_id, &item.id).await?;
    if let Some(mapping) = &mapping
        && !mapping.etag.is_empty()
        && mapping.etag == item.etag
    {
        mappings::seen(&mut *change.db, work.calendar_id, mapping.event_id, work.listing).await?;
        return Ok(Vec::new());
    }
    // A deleted event has only an id.
    let replaced = mapping.as_ref().and_then(|mapping| mapping.replaces);
    match (&item.recurring_event_id, replaced) {
        (Some(series), _) => {
            let series = mappings::by_google(&mut *change.db, work.calendar_id, series).await?;
            if let Some(series) = series {
                change.occurrence(series, None, mapping).await?;
            }
        }
        (None, Some((series, at))) if item.is_cancelled() => {
            let series = mappings::by_event(&mut *change.db, work.calendar_id, series).await?;
            if let Some(series) = series {
                change.occurrence(series, Some(at), mapping).await?;
            }
        }
        (None, _) => change.whole(mapping).await?,
    }
    Ok(change.notes)
}

struct RemoteChange<'a> {
    db: &'a mut PgConnection,
    work: &'a SyncJob,
    zone: Tz,
    item: &'a Item,
    notes: Vec<String>,
}

impl RemoteChange<'_> {
    async fn event(&mut self, id: Uuid) -> Result<Option<Event>, sqlx::Error> {
        let event = events::locked(self.db, self.work.owner, id).await?;
        Ok(event.filter(|event| event.calendar_id == self.work.calendar_id))
    }

    /// Local days begin in the calendar's own time zone.
    async fn clock(&mut self) -> Result<Tz, sqlx::Error> {
        let calendar = events::calendar(&mut *self.db, self.work.owner, self.work.calendar_id).await?;
        Ok(calendar.map_or(Tz::UTC, |calendar| calendar.zone()))
    }

    async fn put(&mut self, mapping: Mapping) -> Result<(), sqlx::Error> {
        mappings::put(self.db, self.work.calendar_id, &mapping).await
    }

    fn mapping(&self, event_id: Uuid, version: i32, there: Snapshot) -> Mapping {
        Mapping {
            event_id,
            google_id: self.item.id.clone(),
            etag: self.item.etag.clone(),
            version,
            base: Some(there),
            left_out: Vec::new(),
            replaces: None,
            listing: self.work.listing,
        }
    }

    /// Applies an event that is not an occurrence of another one.
    async fn whole(&mut self, mapping: Option<Mapping>) -> Result<(), sqlx::Error> {
        let calendar = self.work.calendar_id;
        let id = match &mapping {
            Some(mapping) => mapping.event_id,
            None => mappings::event_id_of(calendar, &self.item.id),
        };
        let mut event = self.event(id).await?;
        let mut id = id;
        if event.is_none() && mapping.is_none() {
            // Created here, and moved there from another calendar, whose event is a different one.
            id = mappings::event_id_of_others(calendar, &self.item.id);
            event = self.event(id).await?;
        }
        if self.item.is_cancelled() {
            let Some(event) = event else { return Ok(()) };
            if !event.is_deleted {
                self.tell_deleted(&event, mapping.as_ref());
                self.delete(&event).await?;
            }
            let base = mapping
                .and_then(|mapping| mapping.base)
                .unwrap_or_else(|| Snapshot::of(&event));
            let version = event.version + i32::from(!event.is_deleted);
            let mapping = self.mapping(id, version, base);
            return self.put(mapping).await;
        }
        let there = match self.item.snapshot(self.zone) {
            Ok(mut there) => {
                let cancelled = mapping.iter().flat_map(|mapping| mapping.left_out.iter().cloned());
                there.left_out.extend(cancelled);
                there
            }
            Err(why) => return self.refuse(why, mapping).await,
        };
        let left_out = mapping
            .as_ref()
            .map(|mapping| mapping.left_out.clone())
            .unwrap_or_default();
        let version = match event {
            Some(event) => match self.reconcile(&event, mapping.as_ref(), &there).await? {
                Some(version) => version,
                None => return Ok(()),
            },
            None => match self.add(id, None, &there).await? {
                Some(version) => version,
                None => return Ok(()),
            },
        };
        let mapping = Mapping {
            left_out,
            ..self.mapping(id, version, there)
        };
        self.put(mapping).await
    }

    /// Applies an occurrence that was changed or cancelled separately; `at` if the event itself does not contain the
    /// start.
    async fn occurrence(
        &mut self,
        mut series: Mapping,
        at: Option<DateTime<Utc>>,
        mapping: Option<Mapping>,
    ) -> Result<(), sqlx::Error> {
        let Some(mut event) = self.event(series.event_id).await?.filter(|event| !event.is_deleted) else {
            return Ok(());
        };
        let time_zone = event.content.time_zone;
        let Some(rrule) = event.content.rrule.clone() else {
            return Ok(());
        };
        let Some(at) = at.or_else(|| self.item.original(time_zone)) else {
            let text = format!(
                "{:?}: Google does not say which occurrence was changed",
                event.content.title
            );
            self.notes.push(text);
            return Ok(());
        };
        if !event.content.series(&rrule).has(at).unwrap_or(false) {
            return Ok(());
        }
        let key = written(at, event.content.all_day, time_zone);
        let others = events::replacing(self.db, event.id).await?;
        let known = others.into_iter().find(|other| other.replaces == Some((event.id, at)));
        let is_left_out = event.exdates.contains(&at);
        let was_the_same = series.version == event.version;
        if self.item.is_cancelled() {
            if !series.left_out.contains(&key) {
                series.left_out.push(key.clone());
            }
            if let Some(base) = &mut series.base {
                base.left_out.insert(key);
            }
            if let Some(known) = known {
                if !known.is_deleted {
                    self.tell_deleted(&known, mapping.as_ref());
                    events::delete(self.db, known.id).await?;
                }
                let base = mapping
                    .and_then(|mapping| mapping.base)
                    .unwrap_or_else(|| Snapshot::of(&known));
                let version = known.version + i32::from(!known.is_deleted);
                let mapping = Mapping {
                    replaces: Some((event.id, at)),
                    ..self.mapping(known.id, version, base)
                };
                self.put(mapping).await?;
            }
            if !is_left_out {
                event.exdates.push(at);
                events::set(self.db, event.id, &event.content, &event.exdates).await?;
                event.version += 1;
            }
        } else {
            let there = match self.item.snapshot(self.zone) {
                Ok(there) => there,
                Err(why) => return self.refuse(why, mapping).await,
            };
            let is_known_so = mapping
                .as_ref()
                .is_some_and(|mapping| mapping.base.as_ref() == Some(&there));
            if is_left_out && is_known_so && !series.left_out.contains(&key) {
                // Omitted here, which will be sent to Google.
                if let Some(mapping) = mapping {
                    self.seen_as(mapping).await?;
                }
                return Ok(());
            }
            series.left_out.retain(|text| *text != key);
            if let Some(base) = &mut series.base {
                base.left_out.remove(&key);
            }
            if is_left_out {
                event.exdates.retain(|exdate| *exdate != at);
                events::set(self.db, event.id, &event.content, &event.exdates).await?;
                event.version += 1;
            }
            let version = match &known {
                Some(known) => self.reconcile(known, mapping.as_ref(), &there).await?,
                None => {
                    let id = mappings::event_id_of_others(self.work.calendar_id, &self.item.id);
                    self.add(id, Some((event.id, at)), &there).await?
                }
            };
            let Some(version) = version else { return Ok(()) };
            let id = known.map_or_else(
                || mappings::event_id_of_others(self.work.calendar_id, &self.item.id),
                |known| known.id,
            );
            let mapping = Mapping {
                replaces: Some((event.id, at)),
                ..self.mapping(id, version, there)
            };
            self.put(mapping).await?;
        }
        if was_the_same {
            series.version = event.version;
        }
        self.put(series).await
    }

    /// Adds an event that is new here. None: the calendar is full.
    async fn add(
        &mut self,
        id: Uuid,
        replaces: Option<(Uuid, DateTime<Utc>)>,
        there: &Snapshot,
    ) -> Result<Option<i32>, sqlx::Error> {
        let clock = self.clock().await?;
        let Ok((content, exdates)) = there.content(clock) else {
            return Ok(None);
        };
        if mappings::count(&mut *self.db, self.work.calendar_id).await? >= MAX_ROWS {
            let text = format!(
                "{:?} was not imported: a calendar can have at most {MAX_ROWS} events",
                there.title
            );
            self.notes.push(text);
            return Ok(None);
        }
        if !events::add(self.db, id, self.work.calendar_id, &content, replaces).await? {
            return Ok(None);
        }
        if exdates.is_empty() {
            return Ok(Some(1));
        }
        events::set(self.db, id, &content, &exdates).await?;
        Ok(Some(2))
    }

    /// Sets an event to the merge of both sides. Returns the local version that equals Google's; 0: none does.
    async fn reconcile(
        &mut self,
        event: &Event,
        mapping: Option<&Mapping>,
        there: &Snapshot,
    ) -> Result<Option<i32>, sqlx::Error> {
        let is_changed_here = mapping.is_none_or(|mapping| mapping.version != event.version);
        let base = mapping.and_then(|mapping| mapping.base.as_ref());
        if event.is_deleted {
            if is_changed_here && base == Some(there) {
                // Deleted here, which will be sent to Google.
                return Ok(Some(0));
            }
            if is_changed_here && mapping.is_some() {
                let text = format!(
                    "{:?} was deleted here but changed at Google, so it was restored",
                    there.title
                );
                self.notes.push(text);
            }
            events::revive(self.db, event.id).await?;
        }
        let here = Snapshot::of(event);
        let merged = if is_changed_here && !event.is_deleted {
            merge(base, &here, there)
        } else {
            Merged {
                snapshot: there.clone(),
                lost: Vec::new(),
            }
        };
        let clock = if event.content.all_day {
            event.content.time_zone
        } else {
            self.clock().await?
        };
        let (snapshot, (content, exdates)) = match merged.snapshot.content(clock) {
            Ok(content) => (merged.snapshot, content),
            // Each side was valid; the merge is not.
            Err(_) => match there.content(clock) {
                Ok(content) => (there.clone(), content),
                Err(_) => return Ok(None),
            },
        };
        if !merged.lost.is_empty() {
            let what = merged.lost.join(", ");
            let text = format!(
                "{:?}: {what} was changed both here and at Google; Google's version was kept",
                there.title
            );
            self.notes.push(text);
        }
        let mut version = event.version + i32::from(event.is_deleted);
        if snapshot != here || event.is_deleted {
            events::set(self.db, event.id, &content, &exdates).await?;
            version += 1;
        }
        if snapshot.when != here.when {
            // Replacements of former occurrences are removed.
            for other in events::replacing(self.db, event.id).await? {
                let Some((_, at)) = other.replaces.filter(|_| !other.is_deleted) else {
                    continue;
                };
                let rrule = content.rrule.as_deref();
                if !rrule.is_some_and(|rrule| content.series(rrule).has(at).unwrap_or(false)) {
                    events::delete(self.db, other.id).await?;
                }
            }
        }
        Ok(Some(if snapshot == *there { version } else { 0 }))
    }

    /// Deletes an event with the replacements of its occurrences; Google has done the same.
    async fn delete(&mut self, event: &Event) -> Result<(), sqlx::Error> {
        events::delete(self.db, event.id).await?;
        for other in events::replacing(self.db, event.id).await? {
            if !other.is_deleted {
                events::delete(self.db, other.id).await?;
            }
            if let Some(mapping) = mappings::by_event(&mut *self.db, self.work.calendar_id, other.id).await? {
                let version = other.version + i32::from(!other.is_deleted);
                self.put(Mapping { version, ..mapping }).await?;
            }
        }
        Ok(())
    }

    fn tell_deleted(&mut self, event: &Event, mapping: Option<&Mapping>) {
        if mapping.is_some_and(|mapping| mapping.version != event.version) {
            let text = format!(
                "{:?} was changed here but deleted at Google, so it was deleted",
                event.content.title
            );
            self.notes.push(text);
        }
    }

    /// Reports a rejected event, and keeps the local state.
    async fn refuse(&mut self, why: String, mapping: Option<Mapping>) -> Result<(), sqlx::Error> {
        self.notes.push(why);
        match mapping {
            Some(mapping) => self.seen_as(mapping).await,
            None => Ok(()),
        }
    }

    async fn seen_as(&mut self, mapping: Mapping) -> Result<(), sqlx::Error> {
        let mapping = Mapping {
            etag: self.item.etag.clone(),
            listing: self.work.listing,
            ..mapping
        };
        self.put(mapping).await
    }
}
