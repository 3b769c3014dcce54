//! A run's position in its log: the owner of its events, the fence under which they are written, and what is known to
//! be committed.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// A run's position in its log: the owner of its events, and the fence under which they are written.
#[derive(Debug, Clone)]
pub struct RunStream {
    pub log_id: Uuid,
    /// The run whose readers see the events.
    pub root_run_id: Uuid,
    pub run_id: Uuid,
    pub attempt: i32,
    /// Cancelled when the writer detects the loss of the lease.
    pub lost: CancellationToken,
    /// The log's last number that this attempt knows to be committed.
    pub seen: Seen,
}

/// The last number of its log that an attempt has seen committed. A log that ends before it is not the one that the
/// attempt wrote: the database was restored from a backup, or failed over to a server that lacks commits. The attempt
/// has then lost its lease, whatever the job's row says; the next one begins with `reset`.
#[derive(Debug, Clone, Default)]
pub struct Seen(Arc<SeenNumbers>);

#[derive(Debug, Default)]
struct SeenNumbers {
    committed: AtomicI64,
    /// Appended by a command in progress.
    appended: AtomicI64,
}

impl Seen {
    pub fn through(seq: i64) -> Self {
        let seen = Self::default();
        seen.advance(seq);
        seen
    }

    /// The last number known to be committed.
    pub fn last(&self) -> i64 {
        self.0.committed.load(Ordering::Acquire)
    }

    /// Records that this number is committed.
    pub fn advance(&self, seq: i64) {
        self.0.committed.fetch_max(seq, Ordering::AcqRel);
    }

    /// Records that a command appended `count` events, the last of which has the number `last`. False: they don't
    /// follow what was seen.
    pub fn follows(&self, last: i64, count: usize) -> bool {
        self.0.appended.store(last, Ordering::Release);
        last - i64::try_from(count).unwrap_or(i64::MAX) >= self.last()
    }

    /// Records that the command's transaction was committed.
    pub fn committed(&self) {
        self.advance(self.0.appended.load(Ordering::Acquire));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_has_the_numbers_after_the_last_that_was_seen() {
        let seen = Seen::through(10);
        assert_eq!(seen.last(), 10);
        assert!(seen.follows(13, 3), "11 to 13");
        assert!(seen.follows(15, 3), "another writer wrote 11 and 12");
        assert!(!seen.follows(12, 3), "10 was there before");
        assert_eq!(seen.last(), 10, "nothing is committed yet");
        assert!(seen.follows(14, 2));
        seen.committed();
        assert_eq!(seen.last(), 14);
        seen.advance(12);
        assert_eq!(seen.last(), 14, "a log never ends earlier than it was seen to");
    }
}
