//! Pushes local changes to Google, event by event: first those that others depend on. Called by `sync`, after `pull`.
//!
//! Invariants: no unseen change is overwritten, since each request names the remote version that it is based on; a new
//! event gets an id that derives from the local one, and its mapping is stored before it is sent, so that a job after a
//! crash finds it.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use sqlx::PgPool;
use uuid::Uuid;

use super::apply_remote::gone;
use super::client::{Client, GoogleError};
use super::error::SyncError;
use super::links::SyncJob;
use super::mappings::{self, Mapping};
use super::pull::take;
use super::snapshot::{Snapshot, written};
use super::wire::{self, Item};
use crate::events::{self, Event};

/// Number of changes fetched at a time.
const BATCH: i64 = 200;
/// Maximum number of attempts of one change per job: each after Google had a newer version.
const TRIES: u32 = 5;

/// Sends changes to Google. Returns the number of remaining ones: they change there as fast as we read.
pub(super) async fn push(client: &Client, db: &PgPool, work: &SyncJob) -> Result<usize, SyncError> {
    let mut tries: HashMap<Uuid, u32> = HashMap::new();
    let push = Push { client, db, work };
    loop {
        let changed = mappings::changed(db, work.calendar_id, BATCH).await?;
        let due: Vec<Uuid> = changed
            .iter()
            .copied()
            .filter(|id| tries.get(id).is_none_or(|&tried| tried < TRIES))
            .collect();
        if due.is_empty() {
            return Ok(changed.len());
        }
        for id in due {
            *tries.entry(id).or_default() += 1;
            push.one(id).await?;
        }
    }
}

struct Push<'a> {
    client: &'a Client,
    db: &'a PgPool,
    work: &'a SyncJob,
}

impl Push<'_> {
    async fn one(&self, id: Uuid) -> Result<(), SyncError> {
        let mut tx = self.work.begin(self.db).await?;
        let event = events::locked(&mut tx, self.work.owner, id).await?;
        let mapping = mappings::by_event(&mut *tx, self.work.calendar_id, id).await?;
        tx.commit().await?;
        let Some(event) = event else { return Ok(()) };
        match mapping {
            // It replaces another occurrence now.
            Some(mapping) if mapping.replaces != event.replaces => self.replace(&event, &mapping).await,
            Some(mapping) if mapping.etag.is_empty() => self.look_or_insert(&event, &mapping).await,
            Some(mapping) if event.is_deleted => self.delete(&event, &mapping).await,
            Some(mapping) => self.change(&event, &mapping).await,
            None if event.is_deleted => Ok(()),
            None => self.add(&event).await,
        }
    }

    fn calendar(&self) -> &str {
        &self.work.google_id
    }

    async fn put(&self, mapping: &Mapping) -> Result<(), SyncError> {
        let mut tx = self.work.begin(self.db).await?;
        mappings::put(&mut tx, self.work.calendar_id, mapping).await?;
        tx.commit().await?;
        Ok(())
    }

    /// Records that Google has this version of the event.
    async fn settle(&self, event: &Event, mapping: &Mapping, item: &Item) -> Result<(), SyncError> {
        // As stored by Google; days do not depend on the time zone.
        let there = item.snapshot(event.content.time_zone);
        let mut base = there
            .ok()
            .or_else(|| mapping.base.clone())
            .unwrap_or_else(|| Snapshot::of(event));
        base.left_out.extend(mapping.left_out.iter().cloned());
        self.put(&Mapping {
            google_id: item.id.clone(),
            etag: item.etag.clone(),
            version: event.version,
            base: Some(base),
            ..mapping.clone()
        })
        .await
    }

    /// Google rejects this version: notifies the user; the next version is tried.
    async fn refused(&self, event: &Event, mapping: &Mapping, why: &str) -> Result<(), SyncError> {
        let mut tx = self.work.begin(self.db).await?;
        let mapping = Mapping {
            version: event.version,
            ..mapping.clone()
        };
        mappings::put(&mut tx, self.work.calendar_id, &mapping).await?;
        let text = format!(
            "{:?}: Google rejected this change, so it exists only here: {why}",
            event.content.title
        );
        self.work.note(&mut tx, &[text]).await?;
        tx.commit().await?;
        Ok(())
    }

    /// Applies the remote version first.
    async fn look(&self, event: &Event, mapping: &Mapping) -> Result<(), SyncError> {
        let item = match self.client.get(self.calendar(), &mapping.google_id).await {
            Ok(item) => item,
            Err(GoogleError::Gone) => gone(mapping),
            Err(error) => return Err(error.into()),
        };
        take(self.db, self.work, event.content.time_zone, &item).await
    }

    fn fresh(&self, event: &Event, google_id: String, base: Snapshot) -> Mapping {
        Mapping {
            event_id: event.id,
            google_id,
            etag: String::new(),
            version: 0,
            base: Some(base),
            left_out: Vec::new(),
            replaces: event.replaces,
            listing: self.work.listing,
        }
    }

    async fn add(&self, event: &Event) -> Result<(), SyncError> {
        if let Some((series, at)) = event.replaces {
            return self.add_occurrence(event, series, at).await;
        }
        let mapping = self.fresh(event, mappings::google_id_of(event.id), Snapshot::of(event));
        // Before it is sent: after a crash, the next job knows the intended event.
        self.put(&mapping).await?;
        self.insert(event, &mapping).await
    }

    /// A lost job may or may not have sent the event.
    async fn look_or_insert(&self, event: &Event, mapping: &Mapping) -> Result<(), SyncError> {
        match self.client.get(self.calendar(), &mapping.google_id).await {
            Ok(item) => take(self.db, self.work, event.content.time_zone, &item).await,
            Err(GoogleError::Gone) if event.is_deleted => {
                self.put(&Mapping {
                    version: event.version,
                    ..mapping.clone()
                })
                .await
            }
            Err(GoogleError::Gone) if event.replaces.is_none() => self.insert(event, mapping).await,
            Err(GoogleError::Gone) => take(self.db, self.work, event.content.time_zone, &gone(mapping)).await,
            Err(error) => Err(error.into()),
        }
    }

    async fn insert(&self, event: &Event, mapping: &Mapping) -> Result<(), SyncError> {
        let here = Snapshot::of(event);
        let body = wire::whole(&mapping.google_id, &here);
        match self.client.insert(self.calendar(), &body).await {
            Ok(item) => self.settle(event, mapping, &item).await,
            // It existed before this calendar was linked again.
            Err(GoogleError::Taken) => match self.client.get(self.calendar(), &mapping.google_id).await {
                Ok(item) if item.is_cancelled() => self.bring_back(event, mapping, &item).await,
                Ok(item) => take(self.db, self.work, event.content.time_zone, &item).await,
                Err(GoogleError::Gone) => self.refused(event, mapping, "its id is already taken").await,
                Err(error) => Err(error.into()),
            },
            Err(GoogleError::Refused(why)) => self.refused(event, mapping, &why).await,
            Err(error) => Err(error.into()),
        }
    }

    /// Restores an event that is cancelled at Google but exists here.
    async fn bring_back(&self, event: &Event, mapping: &Mapping, item: &Item) -> Result<(), SyncError> {
        let mut body = wire::whole(&item.id, &Snapshot::of(event));
        if let Value::Object(body) = &mut body {
            body.remove("id");
            body.insert("status".to_owned(), json!("confirmed"));
        }
        self.write(event, mapping, &item.id, &item.etag, &body).await
    }

    async fn write(
        &self,
        event: &Event,
        mapping: &Mapping,
        id: &str,
        etag: &str,
        body: &Value,
    ) -> Result<(), SyncError> {
        match self.client.patch(self.calendar(), id, etag, body).await {
            Ok(item) => self.settle(event, mapping, &item).await,
            Err(GoogleError::Changed | GoogleError::Gone) => self.look(event, mapping).await,
            Err(GoogleError::Refused(why)) => self.refused(event, mapping, &why).await,
            Err(error) => Err(error.into()),
        }
    }

    async fn change(&self, event: &Event, mapping: &Mapping) -> Result<(), SyncError> {
        let here = Snapshot::of(event);
        let Some(base) = &mapping.base else {
            return self.look_anew(mapping).await;
        };
        match wire::patch(&here, base) {
            Value::Null => {
                self.put(&Mapping {
                    version: event.version,
                    ..mapping.clone()
                })
                .await
            }
            body => {
                self.write(event, mapping, &mapping.google_id, &mapping.etag, &body)
                    .await
            }
        }
    }

    /// The common base is unreadable: Google's version is applied.
    async fn look_anew(&self, mapping: &Mapping) -> Result<(), SyncError> {
        self.put(&Mapping {
            etag: String::new(),
            ..mapping.clone()
        })
        .await
    }

    async fn delete(&self, event: &Event, mapping: &Mapping) -> Result<(), SyncError> {
        match self
            .client
            .delete(self.calendar(), &mapping.google_id, &mapping.etag)
            .await
        {
            Ok(()) | Err(GoogleError::Gone) => {
                self.put(&Mapping {
                    version: event.version,
                    ..mapping.clone()
                })
                .await
            }
            Err(GoogleError::Changed) => self.look(event, mapping).await,
            Err(GoogleError::Refused(why)) => self.refused(event, mapping, &why).await,
            Err(error) => Err(error.into()),
        }
    }

    /// Adds an occurrence changed here: at Google it already has an id, and its unchanged state.
    async fn add_occurrence(&self, event: &Event, series: Uuid, at: DateTime<Utc>) -> Result<(), SyncError> {
        let mut tx = self.work.begin(self.db).await?;
        let whole = events::locked(&mut tx, self.work.owner, series).await?;
        let of_series = mappings::by_event(&mut *tx, self.work.calendar_id, series).await?;
        tx.commit().await?;
        // It is sent once its series exists.
        let (Some(whole), Some(of_series)) = (whole, of_series) else {
            return Ok(());
        };
        if of_series.version != whole.version || whole.is_deleted {
            return Ok(());
        }
        let original = written(at, whole.content.all_day, whole.content.time_zone);
        let found = self.client.occurrence(self.calendar(), &of_series.google_id, &original);
        let item = match found.await {
            Ok(Some(item)) => item,
            Ok(None) | Err(GoogleError::Gone) => {
                let compact = original.replace(['-', ':'], "");
                let mapping = self.fresh(event, format!("{}_{compact}", of_series.google_id), Snapshot::of(event));
                return self
                    .refused(event, &mapping, "the series has no occurrence at that time")
                    .await;
            }
            Err(error) => return Err(error.into()),
        };
        let zone = whole.content.time_zone;
        let there = item.snapshot(zone).unwrap_or_else(|_| Snapshot::of(event));
        let mapping = Mapping {
            etag: item.etag.clone(),
            ..self.fresh(event, item.id.clone(), there.clone())
        };
        // Before it is changed there, as above.
        self.put(&mapping).await?;
        if item.is_cancelled() {
            return self.bring_back(event, &mapping, &item).await;
        }
        self.change(event, &mapping).await
    }

    /// Handles an occurrence that replaces another one now: of another event, or at another time of the same one.
    async fn replace(&self, event: &Event, mapping: &Mapping) -> Result<(), SyncError> {
        match self.client.delete(self.calendar(), &mapping.google_id, "").await {
            Ok(()) | Err(GoogleError::Gone | GoogleError::Refused(_) | GoogleError::Changed) => {}
            Err(error) => return Err(error.into()),
        }
        let mut tx = self.work.begin(self.db).await?;
        mappings::remove(&mut *tx, self.work.calendar_id, event.id).await?;
        tx.commit().await?;
        if event.is_deleted {
            Ok(())
        } else {
            self.add(event).await
        }
    }
}
