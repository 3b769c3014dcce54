//! The queues that claims wait for, and what wakes these claims.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use futures::future::select_all;
use tokio::sync::Notify;

/// The queues that are waited for.
#[derive(Default)]
pub struct Queues {
    /// The number of wake-ups so far.
    version: AtomicU64,
    /// By queue; one without a waiting claim is removed.
    notify: Mutex<HashMap<String, Weak<Notify>>>,
}

impl Queues {
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::SeqCst)
    }

    pub fn next_version(&self) {
        self.version.fetch_add(1, Ordering::SeqCst);
    }

    pub fn entry(&self, queue: &str) -> Arc<Notify> {
        let mut notify = self.notify.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = notify.get(queue).and_then(Weak::upgrade) {
            return known;
        }
        let new = Arc::new(Notify::new());
        notify.insert(queue.to_owned(), Arc::downgrade(&new));
        new
    }

    /// The queues that are waited for.
    pub fn names(&self) -> Vec<String> {
        let mut notify = self.notify.lock().unwrap_or_else(PoisonError::into_inner);
        notify.retain(|_, waiting| waiting.strong_count() > 0);
        notify.keys().cloned().collect()
    }

    pub fn wake(&self, queue: &str) {
        let waiting = {
            let notify = self.notify.lock().unwrap_or_else(PoisonError::into_inner);
            notify.get(queue).and_then(Weak::upgrade)
        };
        if let Some(waiting) = waiting {
            waiting.notify_one();
        }
    }
}

/// Whether a claim looks before it waits.
#[derive(Debug, Clone, Copy)]
pub enum FirstLook {
    Now,
    /// It has looked at this version.
    IfWokenSince(u64),
    /// It has looked since it is notified, and the queues have kept what came since.
    Skip,
}

/// Interest in queues: [`changed_after`](Self::changed_after) returns when one of them may have a call.
pub struct Interest {
    queues: Arc<Queues>,
    notify: Vec<Arc<Notify>>,
}

impl Interest {
    pub fn new(queues: &Arc<Queues>, notify: Vec<Arc<Notify>>) -> Self {
        Self {
            queues: queues.clone(),
            notify,
        }
    }

    /// Wakes the next claim: this one has got as many calls as it may, and there may be more.
    pub fn pass_on(&self) {
        self.notify.iter().for_each(|notify| notify.notify_one());
    }

    /// Begins to listen, looks (`look`), and waits until something changes after that.
    pub async fn changed_after<T, F: Future<Output = Option<T>>>(
        &self,
        first: FirstLook,
        look: impl FnOnce() -> F,
    ) -> Option<T> {
        let mut changes: Vec<_> = self.notify.iter().map(|notify| Box::pin(notify.notified())).collect();
        for change in &mut changes {
            // From now on, no notification is missed.
            change.as_mut().enable();
        }
        let looks = match first {
            FirstLook::Now => true,
            FirstLook::IfWokenSince(version) => version != self.queues.version(),
            FirstLook::Skip => false,
        };
        if looks && let Some(found) = look().await {
            return Some(found);
        }
        if changes.is_empty() {
            return std::future::pending().await;
        }
        select_all(changes).await;
        None
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use tokio::task::{JoinSet, yield_now};

    use super::*;

    /// Claims that wait for a queue. Each takes one call if there is one.
    struct Claims {
        queues: Arc<Queues>,
        calls: Arc<AtomicUsize>,
        looks: Arc<AtomicUsize>,
        tasks: JoinSet<()>,
    }

    impl Claims {
        async fn waiting(count: usize) -> Self {
            let mut claims = Self {
                queues: Arc::default(),
                calls: Arc::default(),
                looks: Arc::default(),
                tasks: JoinSet::new(),
            };
            for _ in 0..count {
                let interest = Interest::new(
                    &claims.queues,
                    ["q", "r"].map(|queue| claims.queues.entry(queue)).into(),
                );
                let (calls, looks) = (claims.calls.clone(), claims.looks.clone());
                claims.tasks.spawn(async move {
                    let look = || async {
                        looks.fetch_add(1, Ordering::Relaxed);
                        calls
                            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |calls| calls.checked_sub(1))
                            .ok()
                    };
                    while interest.changed_after(FirstLook::Now, look).await.is_none() {}
                    interest.pass_on();
                });
            }
            claims.settled().await;
            claims
        }

        /// All tasks have done what they can. Everything is in one thread.
        async fn settled(&self) {
            for _ in 0..1_000 {
                yield_now().await;
            }
        }

        async fn woken_for(&self, calls: usize) -> usize {
            let before = self.looks.load(Ordering::Relaxed);
            self.calls.fetch_add(calls, Ordering::Relaxed);
            self.queues.wake("q");
            self.settled().await;
            self.looks.load(Ordering::Relaxed) - before
        }
    }

    #[tokio::test]
    async fn a_call_wakes_few_of_the_claims_that_wait() {
        let mut claims = Claims::waiting(100).await;
        // That which takes it, and one for each of its queues.
        assert_eq!(claims.woken_for(1).await, 3);
        assert!(claims.woken_for(10).await <= 10 * 3);
        assert_eq!(claims.calls.load(Ordering::Relaxed), 0, "all are taken");
        assert_eq!(claims.tasks.len(), 100);
        let mut ended = 0;
        while claims.tasks.try_join_next().is_some() {
            ended += 1;
        }
        assert_eq!(ended, 11);
    }

    #[tokio::test]
    async fn what_came_before_the_wait_wakes_it() {
        let queues = Arc::new(Queues::default());
        let entries = vec![queues.entry("q")];
        queues.wake("q");
        let interest = Interest::new(&queues, entries);
        let woken = interest.changed_after(FirstLook::Skip, || async { Some("looked without need") });
        assert_eq!(woken.await, None);
    }
}
