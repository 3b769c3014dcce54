//! Runs that hold their slot while users' programs execute their calls: for a moment, before they are suspended. Most calls end within it, and
//! then cost neither a suspension nor another attempt of the run (docs/decisions/0056-held-runs.md).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rejoin_event_log::wakeup::Wake;
use tokio::sync::Notify;
use tokio::time::Instant;
use uuid::Uuid;

/// The held runs of this worker. Cheap to clone.
#[derive(Clone, Default)]
pub struct HeldRuns(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// By run: notified when one of its calls has ended.
    held: Mutex<HashMap<Uuid, Arc<Notify>>>,
    /// By queue of the calls: tools that take long, and until when they are taken to.
    slow: Mutex<HashMap<String, Instant>>,
}

impl HeldRuns {
    /// Holds a run, until the returned value is dropped. A call that ends from now on wakes it.
    pub fn hold(&self, run_id: Uuid) -> HeldRun {
        let returned = Arc::new(Notify::new());
        lock(&self.0.held).insert(run_id, returned.clone());
        HeldRun {
            runs: self.clone(),
            run_id,
            returned,
        }
    }

    /// Passes a wake-up on to the runs that it is about.
    pub fn wake(&self, wake: &Wake) {
        if wake.returns.is_empty() && !wake.all {
            return;
        }
        let held = lock(&self.0.held);
        if wake.all {
            held.values().for_each(|returned| returned.notify_one());
        } else {
            let returned = wake.returns.iter().filter_map(|run_id| held.get(run_id));
            returned.for_each(|returned| returned.notify_one());
        }
    }

    /// Records that a call of this queue took longer than its run was held: it [is slow](Self::is_slow) for this long.
    pub fn was_slow(&self, queue: String, slow_for: Duration) {
        let now = Instant::now();
        let mut slow = lock(&self.0.slow);
        slow.retain(|_, until| *until > now);
        slow.insert(queue, now + slow_for);
    }

    /// Returns whether calls of this queue take long.
    pub fn is_slow(&self, queue: &str) -> bool {
        lock(&self.0.slow)
            .get(queue)
            .is_some_and(|until| *until > Instant::now())
    }
}

/// A run that is held.
pub struct HeldRun {
    runs: HeldRuns,
    run_id: Uuid,
    returned: Arc<Notify>,
}

impl HeldRun {
    /// Returns when one of its calls may have ended.
    pub async fn returned(&self) {
        self.returned.notified().await;
    }
}

impl Drop for HeldRun {
    fn drop(&mut self) {
        lock(&self.runs.0.held).remove(&self.run_id);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use rejoin_types::ids;

    use super::*;

    #[test]
    fn only_the_run_of_a_call_is_woken() {
        let runs = HeldRuns::default();
        let (one, other) = (ids::new(), ids::new());
        let (held, beside) = (runs.hold(one), runs.hold(other));
        // Before anything waits for it.
        runs.wake(&Wake::returned(one));
        assert!(held.returned().now_or_never().is_some());
        assert!(beside.returned().now_or_never().is_none());
        runs.wake(&Wake::everything());
        assert!(beside.returned().now_or_never().is_some());
        drop((held, beside));
        assert!(lock(&runs.0.held).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_tool_is_tried_again_later() {
        let runs = HeldRuns::default();
        let minute = Duration::from_secs(60);
        runs.was_slow("slow".to_owned(), minute);
        assert!(runs.is_slow("slow") && !runs.is_slow("quick"));
        tokio::time::advance(minute).await;
        assert!(!runs.is_slow("slow"));
        runs.was_slow("other".to_owned(), minute);
        assert_eq!(lock(&runs.0.slow).len(), 1);
    }
}
