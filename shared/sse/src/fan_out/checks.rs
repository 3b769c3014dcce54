//! The hub's checks of open streams: of their keys, of the logs that they follow, and of the epoch of the database.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use rejoin_db::failure_log::ErrorChain;
use rejoin_event_log::reader::LogEnd;
use rejoin_identity::auth::SessionBasis;
use tracing::debug;
use uuid::Uuid;

use super::{Hub, QUERY_LIMIT, lock};
use crate::ring::LogTail;
use crate::source::Cursor;
use crate::sync::atomic::Ordering;
use crate::sync::{Instant, Mutex, sleep, timeout};

/// Interval of checks of open streams' keys and logs. With the cache lifetime of keys: a stream ends within 5 s of its
/// key's end.
const CHECK_EVERY: Duration = Duration::from_secs(2);
/// How long an epoch that was asked for is taken for the current one.
const RECENT: Duration = Duration::from_secs(4);

/// What the hub knows of the database's epochs (`rejoin_event_log::epochs`).
#[derive(Default)]
pub(super) struct Epochs {
    /// In which the followed logs were last checked, or their first reader began. None: there was no log to check.
    of_logs: Mutex<Option<Uuid>>,
    /// The last one that was asked for, and when.
    recent: Mutex<Option<(Uuid, Instant)>>,
}

impl Hub {
    /// Returns the epoch of the database, if it was asked for recently. It may just have ended: a reader that is given it gets a snapshot that it
    /// does not need when it comes back.
    pub fn recent_epoch(&self) -> Option<Uuid> {
        let (epoch, at) = (*lock(&self.epochs.recent))?;
        (at.elapsed() < RECENT).then_some(epoch)
    }

    /// A reader begins in this epoch.
    pub fn begin_in(&self, epoch: Uuid) {
        lock(&self.epochs.of_logs).get_or_insert(epoch);
    }

    /// Remembers the current epoch.
    pub fn note_epoch(&self, epoch: Uuid) {
        *lock(&self.epochs.recent) = Some((epoch, Instant::now()));
    }

    /// Ends streams with a revoked key, an expired token, a former member, or a deleted log; and frees the memory of logs without news.
    pub(super) async fn check_streams(self: Arc<Self>) {
        loop {
            sleep(CHECK_EVERY).await;
            if self.streams.end_expired() > 0 {
                self.wake_all();
            }
            let bases = self.streams.bases();
            if !bases.is_empty() {
                match timeout(QUERY_LIMIT, self.source.still_valid(&bases)).await {
                    Ok(Ok(valid)) => {
                        let valid: HashSet<SessionBasis> = valid.into_iter().collect();
                        let ended = bases.into_iter().filter(|basis| !valid.contains(basis)).collect();
                        if self.streams.end(&ended) > 0 {
                            self.wake_all();
                        }
                    }
                    // Checked again soon; while the database is unreachable, streams have no events anyway.
                    Ok(Err(error)) => debug!(error = %ErrorChain(&*error), "checking the credentials of open streams \
                        failed"),
                    Err(_) => debug!("checking the credentials of open streams timed out"),
                }
            }
            self.check_logs().await;
            let tails: Vec<Arc<LogTail>> = lock(&self.followed).values().map(|entry| entry.tail.clone()).collect();
            tails.iter().for_each(|tail| tail.drop_idle());
        }
    }

    /// Ends the streams of logs that were deleted, or taken back: shorter than what their readers have, or, in another epoch, with other events;
    /// and of those that were archived before the tail had read them. False: the database could not be queried.
    pub(super) async fn check_logs(&self) -> bool {
        let logs: Vec<Cursor> = {
            let followed = lock(&self.followed);
            followed
                .iter()
                .map(|(id, entry)| (*id, entry.tail.last_seq()))
                .collect()
        };
        if logs.is_empty() {
            // Those who come now read what there is now.
            *lock(&self.epochs.of_logs) = None;
            return true;
        }
        let ids: Vec<Uuid> = logs.iter().map(|(id, _)| *id).collect();
        let known = *lock(&self.epochs.of_logs);
        match timeout(QUERY_LIMIT, self.source.ends(&ids, known)).await {
            Ok(Ok(ends)) => {
                self.end_logs(&logs, &ends.logs.into_iter().map(|end| (end.log_id, end)).collect());
                *lock(&self.epochs.of_logs) = Some(ends.epoch);
                self.note_epoch(ends.epoch);
                return true;
            }
            Ok(Err(error)) => debug!(error = %ErrorChain(&*error), "checking the logs of open streams failed"),
            Err(_) => debug!("checking the logs of open streams timed out"),
        }
        false
    }

    fn end_logs(&self, known: &[Cursor], ends: &HashMap<Uuid, LogEnd>) {
        let mut ended = Vec::new();
        for (log_id, last_seq) in known {
            let end = ends.get(log_id);
            // The tail reads rows only. Readers that reconnect read what was archived from its objects.
            if end.is_some_and(|end| end.last_seq >= *last_seq && end.archived_seq <= *last_seq) {
                continue;
            }
            // The next follower begins with a new tail.
            if let Some(entry) = lock(&self.followed).remove(log_id) {
                match end {
                    None => entry.tail.end(),
                    Some(_) => entry.tail.take_back(),
                }
                ended.push(entry.tail);
            }
        }
        if ended.is_empty() {
            return;
        }
        self.tick.fetch_add(1, Ordering::Release);
        ended.iter().for_each(|tail| tail.wake());
    }
}
