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

use super::client::{Client, GoogleError};
use super::error::SyncError;
use super::links::Working;
use super::pairs::{self, Pair};
use super::pull::take;
use super::side::{Side, written};
use super::taking::gone;
use super::wire::{self, Item};
use crate::events::{self, Event};

/// Number of changes fetched at a time.
const BATCH: i64 = 200;
/// Maximum number of attempts of one change per job: each after Google had a newer version.
const TRIES: u32 = 5;

/// Sends changes to Google. Returns the number of remaining ones: they change there as fast as we read.
pub(super) async fn push(client: &Client, db: &PgPool, work: &Working) -> Result<usize, SyncError> {
    let mut tries: HashMap<Uuid, u32> = HashMap::new();
    let push = Push { client, db, work };
    loop {
        let changed = pairs::changed(db, work.calendar_id, BATCH).await?;
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
    work: &'a Working,
}

impl Push<'_> {
    async fn one(&self, id: Uuid) -> Result<(), SyncError> {
        let mut tx = self.work.begin(self.db).await?;
        let event = events::locked(&mut tx, self.work.owner, id).await?;
        let pair = pairs::by_event(&mut *tx, self.work.calendar_id, id).await?;
        tx.commit().await?;
        let Some(event) = event else { return Ok(()) };
        match pair {
            // It replaces another occurrence now.
            Some(pair) if pair.replaces != event.replaces => self.replace(&event, &pair).await,
            Some(pair) if pair.etag.is_empty() => self.look_or_insert(&event, &pair).await,
            Some(pair) if event.is_deleted => self.delete(&event, &pair).await,
            Some(pair) => self.change(&event, &pair).await,
            None if event.is_deleted => Ok(()),
            None => self.add(&event).await,
        }
    }

    fn calendar(&self) -> &str {
        &self.work.google_id
    }

    async fn put(&self, pair: &Pair) -> Result<(), SyncError> {
        let mut tx = self.work.begin(self.db).await?;
        pairs::put(&mut tx, self.work.calendar_id, pair).await?;
        tx.commit().await?;
        Ok(())
    }

    /// Records that Google has this version of the event.
    async fn settle(&self, event: &Event, pair: &Pair, item: &Item) -> Result<(), SyncError> {
        // As stored by Google; days do not depend on the time zone.
        let there = item.side(event.content.time_zone);
        let mut base = there
            .ok()
            .or_else(|| pair.base.clone())
            .unwrap_or_else(|| Side::of(event));
        base.left_out.extend(pair.left_out.iter().cloned());
        self.put(&Pair {
            google_id: item.id.clone(),
            etag: item.etag.clone(),
            version: event.version,
            base: Some(base),
            ..pair.clone()
        })
        .await
    }

    /// Google rejects this version: notifies the user; the next version is tried.
    async fn refused(&self, event: &Event, pair: &Pair, why: &str) -> Result<(), SyncError> {
        let mut tx = self.work.begin(self.db).await?;
        let pair = Pair {
            version: event.version,
            ..pair.clone()
        };
        pairs::put(&mut tx, self.work.calendar_id, &pair).await?;
        let text = format!(
            "{:?}: Google rejected this change, so it exists only here: {why}",
            event.content.title
        );
        self.work.note(&mut tx, &[text]).await?;
        tx.commit().await?;
        Ok(())
    }

    /// Applies the remote version first.
    async fn look(&self, event: &Event, pair: &Pair) -> Result<(), SyncError> {
        let item = match self.client.get(self.calendar(), &pair.google_id).await {
            Ok(item) => item,
            Err(GoogleError::Gone) => gone(pair),
            Err(error) => return Err(error.into()),
        };
        take(self.db, self.work, event.content.time_zone, &item).await
    }

    fn fresh(&self, event: &Event, google_id: String, base: Side) -> Pair {
        Pair {
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
        let pair = self.fresh(event, pairs::google_id_of(event.id), Side::of(event));
        // Before it is sent: after a crash, the next job knows the intended event.
        self.put(&pair).await?;
        self.insert(event, &pair).await
    }

    /// A lost job may or may not have sent the event.
    async fn look_or_insert(&self, event: &Event, pair: &Pair) -> Result<(), SyncError> {
        match self.client.get(self.calendar(), &pair.google_id).await {
            Ok(item) => take(self.db, self.work, event.content.time_zone, &item).await,
            Err(GoogleError::Gone) if event.is_deleted => {
                self.put(&Pair {
                    version: event.version,
                    ..pair.clone()
                })
                .await
            }
            Err(GoogleError::Gone) if event.replaces.is_none() => self.insert(event, pair).await,
            Err(GoogleError::Gone) => take(self.db, self.work, event.content.time_zone, &gone(pair)).await,
            Err(error) => Err(error.into()),
        }
    }

    async fn insert(&self, event: &Event, pair: &Pair) -> Result<(), SyncError> {
        let here = Side::of(event);
        let body = wire::whole(&pair.google_id, &here);
        match self.client.insert(self.calendar(), &body).await {
            Ok(item) => self.settle(event, pair, &item).await,
            // It existed before this calendar was linked again.
            Err(GoogleError::Taken) => match self.client.get(self.calendar(), &pair.google_id).await {
                Ok(item) if item.is_cancelled() => self.bring_back(event, pair, &item).await,
                Ok(item) => take(self.db, self.work, event.content.time_zone, &item).await,
                Err(GoogleError::Gone) => self.refused(event, pair, "its id is already taken").await,
                Err(error) => Err(error.into()),
            },
            Err(GoogleError::Refused(why)) => self.refused(event, pair, &why).await,
            Err(error) => Err(error.into()),
        }
    }

    /// Restores an event that is cancelled at Google but exists here.
    async fn bring_back(&self, event: &Event, pair: &Pair, item: &Item) -> Result<(), SyncError> {
        let mut body = wire::whole(&item.id, &Side::of(event));
        if let Value::Object(body) = &mut body {
            body.remove("id");
            body.insert("status".to_owned(), json!("confirmed"));
        }
        self.write(event, pair, &item.id, &item.etag, &body).await
    }

    async fn write(&self, event: &Event, pair: &Pair, id: &str, etag: &str, body: &Value) -> Result<(), SyncError> {
        match self.client.patch(self.calendar(), id, etag, body).await {
            Ok(item) => self.settle(event, pair, &item).await,
            Err(GoogleError::Changed | GoogleError::Gone) => self.look(event, pair).await,
            Err(GoogleError::Refused(why)) => self.refused(event, pair, &why).await,
            Err(error) => Err(error.into()),
        }
    }

    async fn change(&self, event: &Event, pair: &Pair) -> Result<(), SyncError> {
        let here = Side::of(event);
        let Some(base) = &pair.base else {
            return self.look_anew(pair).await;
        };
        match wire::patch(&here, base) {
            Value::Null => {
                self.put(&Pair {
                    version: event.version,
                    ..pair.clone()
                })
                .await
            }
            body => self.write(event, pair, &pair.google_id, &pair.etag, &body).await,
        }
    }

    /// The common base is unreadable: Google's version is applied.
    async fn look_anew(&self, pair: &Pair) -> Result<(), SyncError> {
        self.put(&Pair {
            etag: String::new(),
            ..pair.clone()
        })
        .await
    }

    async fn delete(&self, event: &Event, pair: &Pair) -> Result<(), SyncError> {
        match self.client.delete(self.calendar(), &pair.google_id, &pair.etag).await {
            Ok(()) | Err(GoogleError::Gone) => {
                self.put(&Pair {
                    version: event.version,
                    ..pair.clone()
                })
                .await
            }
            Err(GoogleError::Changed) => self.look(event, pair).await,
            Err(GoogleError::Refused(why)) => self.refused(event, pair, &why).await,
            Err(error) => Err(error.into()),
        }
    }

    /// Adds an occurrence changed here: at Google it already has an id, and its unchanged state.
    async fn add_occurrence(&self, event: &Event, series: Uuid, at: DateTime<Utc>) -> Result<(), SyncError> {
        let mut tx = self.work.begin(self.db).await?;
        let whole = events::locked(&mut tx, self.work.owner, series).await?;
        let of_series = pairs::by_event(&mut *tx, self.work.calendar_id, series).await?;
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
                let pair = self.fresh(event, format!("{}_{compact}", of_series.google_id), Side::of(event));
                return self
                    .refused(event, &pair, "the series has no occurrence at that time")
                    .await;
            }
            Err(error) => return Err(error.into()),
        };
        let zone = whole.content.time_zone;
        let there = item.side(zone).unwrap_or_else(|_| Side::of(event));
        let pair = Pair {
            etag: item.etag.clone(),
            ..self.fresh(event, item.id.clone(), there.clone())
        };
        // Before it is changed there, as above.
        self.put(&pair).await?;
        if item.is_cancelled() {
            return self.bring_back(event, &pair, &item).await;
        }
        self.change(event, &pair).await
    }

    /// Handles an occurrence that replaces another one now: of another event, or at another time of the same one.
    async fn replace(&self, event: &Event, pair: &Pair) -> Result<(), SyncError> {
        match self.client.delete(self.calendar(), &pair.google_id, "").await {
            Ok(()) | Err(GoogleError::Gone | GoogleError::Refused(_) | GoogleError::Changed) => {}
            Err(error) => return Err(error.into()),
        }
        let mut tx = self.work.begin(self.db).await?;
        pairs::remove(&mut *tx, self.work.calendar_id, event.id).await?;
        tx.commit().await?;
        match event.is_deleted {
            true => Ok(()),
            false => self.add(event).await,
        }
    }
}
