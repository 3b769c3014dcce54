//! Tracks database outages as seen by this process, so that a run's time limits exclude them.
//!
//! The heartbeat reports outages; `run/limits.rs` reads them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// A clock of database outages, shared by the whole process.
#[derive(Debug, Clone, Default)]
pub struct Downtime(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// Total duration of past outages.
    total: Duration,
    since: Option<Instant>,
}

impl Downtime {
    fn state(&self) -> MutexGuard<'_, State> {
        // A panicking holder never leaves it half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the total duration of outages since this process began.
    pub fn total(&self) -> Duration {
        let state = self.state();
        state.total + state.since.map(|since| since.elapsed()).unwrap_or_default()
    }

    /// Returns whether the database did not respond last time.
    pub fn is_down(&self) -> bool {
        self.state().since.is_some()
    }

    /// Returns an observer, for code that queries the database regularly.
    pub fn observe(&self) -> DowntimeObserver {
        DowntimeObserver {
            downtime: self.clone(),
            answered_at: Instant::now(),
        }
    }
}

/// Queries the database regularly, and reports whether it responded.
pub struct DowntimeObserver {
    downtime: Downtime,
    answered_at: Instant,
}

impl DowntimeObserver {
    /// Records a failure: the outage lasts since the last response.
    pub fn record_failure(&mut self) {
        self.downtime.state().since.get_or_insert(self.answered_at);
    }

    /// Records a response.
    pub fn record_answer(&mut self) {
        self.answered_at = Instant::now();
        let mut state = self.downtime.state();
        if let Some(since) = state.since.take() {
            state.total += since.elapsed();
        }
    }

    pub fn is_down(&self) -> bool {
        self.downtime.is_down()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_counts_from_the_last_answer_to_the_next() {
        let downtime = Downtime::default();
        let mut observer = downtime.observe();
        for _ in 0..2 {
            tokio::time::advance(Duration::from_secs(3)).await;
            observer.record_failure();
        }
        assert_eq!(downtime.total(), Duration::from_secs(6));
        tokio::time::advance(Duration::from_secs(1)).await;
        observer.record_answer();
        assert!(!observer.is_down());
        tokio::time::advance(Duration::from_secs(9)).await;
        assert_eq!(downtime.total(), Duration::from_secs(7));
    }
}
