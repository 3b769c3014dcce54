//! Tracks database outages as seen by this process, so that a run's time limits exclude them.
//!
//! The heartbeat reports outages; `run/limits.rs` reads them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// A clock of database outages, shared by the whole process.
#[derive(Debug, Clone, Default)]
pub struct Absence(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// Total duration of past outages.
    total: Duration,
    since: Option<Instant>,
}

impl Absence {
    fn state(&self) -> MutexGuard<'_, State> {
        // A panicking holder never leaves it half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the total duration of outages since this process began.
    pub fn total(&self) -> Duration {
        let state = self.state();
        state.total + state.since.map(|since| since.elapsed()).unwrap_or_default()
    }

    /// Returns an observer, for code that queries the database regularly.
    pub fn observe(&self) -> Observer {
        Observer {
            absence: self.clone(),
            answered_at: Instant::now(),
        }
    }
}

/// Queries the database regularly, and reports whether it responded.
pub struct Observer {
    absence: Absence,
    answered_at: Instant,
}

impl Observer {
    /// Records a failure: the outage lasts since the last response.
    pub fn away(&mut self) {
        self.absence.state().since.get_or_insert(self.answered_at);
    }

    /// Records a response.
    pub fn back(&mut self) {
        self.answered_at = Instant::now();
        let mut state = self.absence.state();
        if let Some(since) = state.since.take() {
            state.total += since.elapsed();
        }
    }

    pub fn is_away(&self) -> bool {
        self.absence.state().since.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_counts_from_the_last_answer_to_the_next() {
        let absence = Absence::default();
        let mut observer = absence.observe();
        for _ in 0..2 {
            tokio::time::advance(Duration::from_secs(3)).await;
            observer.away();
        }
        assert_eq!(absence.total(), Duration::from_secs(6));
        tokio::time::advance(Duration::from_secs(1)).await;
        observer.back();
        assert!(!observer.is_away());
        tokio::time::advance(Duration::from_secs(9)).await;
        assert_eq!(absence.total(), Duration::from_secs(7));
    }
}
