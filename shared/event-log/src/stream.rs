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

    /// Records that a command in progress appended events up to this number. It has checked that they follow what was
    /// seen.
    pub fn appended(&self, last: i64) {
        self.0.appended.store(last, Ordering::Release);
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
    fn what_a_command_appends_is_seen_when_it_is_committed() {
        let seen = Seen::through(10);
        seen.appended(14);
        assert_eq!(seen.last(), 10, "nothing is committed yet");
        seen.committed();
        assert_eq!(seen.last(), 14);
        seen.advance(12);
        assert_eq!(seen.last(), 14, "a log never ends earlier than it was seen to");
    }
}
