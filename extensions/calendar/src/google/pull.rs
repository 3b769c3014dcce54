//! Pulls Google's list of changes, page by page; each event is applied in its own transaction. Called by `sync`.
//!
//! Invariants: the list's cursor is stored after its events were applied, so that after a crash an event may be applied
//! twice but is never missed; an event that is missing from a full list is requested by itself before it counts as
//! deleted.

use std::collections::HashSet;

use chrono_tz::Tz;
use sqlx::PgPool;

use super::apply_remote;
use super::client::{Client, GoogleError};
use super::error::SyncError;
use super::links::SyncJob;
use super::mappings;
use super::wire::{Item, Page};

/// Maximum number of pages read by one job: far more than a calendar may have.
const MAX_PAGES: usize = 4_000;
/// Number of events requested at a time.
const LOOKED_FOR: i64 = 100;

pub(super) async fn pull(client: &Client, db: &PgPool, work: &mut SyncJob, since: &str) -> Result<(), SyncError> {
    if work.sync_token.is_none() && work.page_token.is_none() {
        work.listing += 1;
        store(db, work).await?;
    }
    let mut has_begun_anew = false;
    for _ in 0..MAX_PAGES {
        let (sync, page) = (work.sync_token.clone(), work.page_token.clone());
        let page = match client
            .page(&work.google_id, sync.as_deref(), page.as_deref(), since)
            .await
        {
            Ok(page) => page,
            // The sync token has expired, or the page token is unknown.
            Err(GoogleError::Gone | GoogleError::Refused(_))
                if !has_begun_anew && (work.sync_token.is_some() || work.page_token.is_some()) =>
            {
                has_begun_anew = true;
                (work.sync_token, work.page_token) = (None, None);
                work.listing += 1;
                store(db, work).await?;
                continue;
            }
            Err(GoogleError::Gone) => {
                let detail = "the calendar no longer exists, or this account cannot see it".to_owned();
                return Err(GoogleError::Failed(detail).into());
            }
            Err(error) => return Err(error.into()),
        };
        let zone = take_page(client, db, work, &page).await?;
        let before = work.page_token.take();
        match (page.next_page_token, page.next_sync_token) {
            (Some(next), _) if Some(&next) == before.as_ref() => {
                return Err(GoogleError::Failed("the event list repeats the same page token".to_owned()).into());
            }
            (Some(next), _) => work.page_token = Some(next),
            (None, Some(next)) => {
                let was_from_nothing = work.sync_token.is_none();
                if was_from_nothing {
                    look_for_unseen(client, db, work, zone).await?;
                }
                work.sync_token = Some(next);
                store(db, work).await?;
                return Ok(());
            }
            (None, None) => {
                return Err(
                    GoogleError::Failed("the event list has neither a next page nor a sync token".to_owned()).into(),
                );
            }
        }
        store(db, work).await?;
    }
    Err(GoogleError::Failed(format!("the event list has more than {MAX_PAGES} pages")).into())
}

async fn store(db: &PgPool, work: &SyncJob) -> Result<(), SyncError> {
    let mut tx = work.begin(db).await?;
    work.go_on(&mut tx).await?;
    tx.commit().await?;
    Ok(())
}

async fn take_page(client: &Client, db: &PgPool, work: &SyncJob, page: &Page) -> Result<Tz, SyncError> {
    let zone = page
        .time_zone
        .as_deref()
        .and_then(|name| name.parse().ok())
        .unwrap_or(Tz::UTC);
    let mut broken = Vec::new();
    let mut items = Vec::new();
    for value in &page.items {
        match Item::of(value.clone()) {
            Ok(item) => items.push(item),
            Err(why) => broken.push(why),
        }
    }
    if !broken.is_empty() {
        let mut tx = work.begin(db).await?;
        work.note(&mut tx, &broken).await?;
        tx.commit().await?;
    }
    let (occurrences, whole): (Vec<_>, Vec<_>) = items.into_iter().partition(|item| item.recurring_event_id.is_some());
    for item in &whole {
        take(db, work, zone, item).await?;
    }
    // An occurrence's series may be on a later page.
    let mut asked = HashSet::new();
    for item in &occurrences {
        let Some(series) = &item.recurring_event_id else {
            continue;
        };
        if mappings::by_google(db, work.calendar_id, series).await?.is_none() && asked.insert(series.clone()) {
            match client.get(&work.google_id, series).await {
                Ok(series) => take(db, work, zone, &series).await?,
                Err(GoogleError::Gone) => {}
                Err(error) => return Err(error.into()),
            }
        }
        take(db, work, zone, item).await?;
    }
    Ok(zone)
}

/// Applies one remote event.
pub(super) async fn take(db: &PgPool, work: &SyncJob, zone: Tz, item: &Item) -> Result<(), SyncError> {
    let mut tx = work.begin(db).await?;
    let notes = apply_remote::apply(&mut tx, work, zone, item).await?;
    work.note(&mut tx, &notes).await?;
    tx.commit().await?;
    Ok(())
}

/// Requests events that Google did not list, because they were deleted long ago, or precede the requested period.
async fn look_for_unseen(client: &Client, db: &PgPool, work: &SyncJob, zone: Tz) -> Result<(), SyncError> {
    loop {
        let unseen = mappings::unseen(db, work.calendar_id, work.listing, LOOKED_FOR).await?;
        if unseen.is_empty() {
            return Ok(());
        }
        for mapping in unseen {
            // Not sent yet: a worker was lost in between.
            if !mapping.etag.is_empty() {
                match client.get(&work.google_id, &mapping.google_id).await {
                    Ok(item) => take(db, work, zone, &item).await?,
                    Err(GoogleError::Gone) => take(db, work, zone, &apply_remote::gone(&mapping)).await?,
                    Err(error) => return Err(error.into()),
                }
            }
            let mut tx = work.begin(db).await?;
            mappings::seen(&mut *tx, work.calendar_id, mapping.event_id, work.listing).await?;
            tx.commit().await?;
        }
    }
}
