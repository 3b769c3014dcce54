//! Claims that wait for a call. The bus says when a queue has one; because hints may be lost, and calls may be due later, one query a second
//! looks into all queues that are waited for, however many workers wait.
//!
//! Invariants:
//! - While no claim waits, there is no query.
//! - A wake-up wakes one claim of its queue, that which waits longest. One that gets as many calls as it may wakes the next one. So a call costs
//!   the same, however many workers wait.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use futures::future::select_all;
use rejoin_db::Db;
use rejoin_db::failure_log::{ErrorChain, FailureLog};
use rejoin_event_log::wakeup::{self, SharedBus};
use tokio::sync::Notify;
use tokio::time::{MissedTickBehavior, interval};

use crate::calls;

/// Interval of looks into the queues that are waited for.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The claims of a process that wait. Cheap to clone.
#[derive(Clone)]
pub struct Waiting(Arc<Queues>);

#[derive(Default)]
struct Queues {
    /// The number of wake-ups so far.
    version: AtomicU64,
    /// By queue; one without a waiting claim is removed.
    notify: Mutex<HashMap<String, Weak<Notify>>>,
}

impl Queues {
    fn entry(&self, queue: &str) -> Arc<Notify> {
        let mut notify = self.notify.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = notify.get(queue).and_then(Weak::upgrade) {
            return known;
        }
        let new = Arc::new(Notify::new());
        notify.insert(queue.to_owned(), Arc::downgrade(&new));
        new
    }

    /// The queues that are waited for.
    fn names(&self) -> Vec<String> {
        let mut notify = self.notify.lock().unwrap_or_else(PoisonError::into_inner);
        notify.retain(|_, waiting| waiting.strong_count() > 0);
        notify.keys().cloned().collect()
    }

    fn wake(&self, queue: &str) {
        let waiting = {
            let notify = self.notify.lock().unwrap_or_else(PoisonError::into_inner);
            notify.get(queue).and_then(Weak::upgrade)
        };
        if let Some(waiting) = waiting {
            waiting.notify_one();
        }
    }
}

impl Waiting {
    /// Listens to the bus while it is in use.
    pub fn start(db: Db, bus: &SharedBus) -> Self {
        let queues = Arc::new(Queues::default());
        let wakes = bus.subscribe();
        tokio::spawn(look(Arc::downgrade(&queues), db, wakes));
        Self(queues)
    }

    /// The number of wake-ups so far. A look after which it is the same has missed no call that was announced.
    pub fn version(&self) -> u64 {
        self.0.version.load(Ordering::SeqCst)
    }

    /// Registers interest in these queues: [`Interest::changed_after`] returns when one of them may have a call.
    pub fn interest(&self, queues: &[String]) -> Interest {
        Interest {
            waiting: self.clone(),
            notify: queues.iter().map(|queue| self.0.entry(queue)).collect(),
        }
    }
}

/// Interest in queues.
pub struct Interest {
    waiting: Waiting,
    notify: Vec<Arc<Notify>>,
}

impl Interest {
    /// Wakes the next claim: this one has got as many calls as it may, and there may be more.
    pub fn pass_on(&self) {
        self.notify.iter().for_each(|notify| notify.notify_one());
    }

    /// Begins to listen, looks (`look`), and waits until something changes after that. A caller that has looked at this version need not look again.
    pub async fn changed_after<T, F: Future<Output = Option<T>>>(
        &self,
        looked_at: Option<u64>,
        look: impl FnOnce() -> F,
    ) -> Option<T> {
        let mut changes: Vec<_> = self.notify.iter().map(|notify| Box::pin(notify.notified())).collect();
        for change in &mut changes {
            // From now on, no notification is missed.
            change.as_mut().enable();
        }
        if looked_at != Some(self.waiting.version())
            && let Some(found) = look().await
        {
            return Some(found);
        }
        if changes.is_empty() {
            return std::future::pending().await;
        }
        select_all(changes).await;
        None
    }
}

async fn look(queues: Weak<Queues>, db: Db, mut wakes: tokio::sync::broadcast::Receiver<Arc<wakeup::Wake>>) {
    let mut tick = interval(LOOK_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut outage = FailureLog::of("looking for calls of remote tools");
    loop {
        let wake = tokio::select! {
            wake = wakeup::next(&mut wakes) => Some(wake),
            _ = tick.tick() => None,
        };
        let Some(queues) = queues.upgrade() else { return };
        // Before the claims that it wakes: one that does not listen yet looks again.
        queues.version.fetch_add(1, Ordering::SeqCst);
        match wake {
            Some(wake) if !wake.all => wake.queues.iter().for_each(|queue| queues.wake(queue)),
            Some(_) | None => {
                let names = queues.names();
                if names.is_empty() {
                    continue;
                }
                match calls::with_calls(&db.pool_sqlx, &names).await {
                    Ok(found) => {
                        outage.over();
                        found.iter().for_each(|queue| queues.wake(queue));
                    }
                    Err(error) => outage.failed(ErrorChain(&error)),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use tokio::task::{JoinSet, yield_now};

    use super::*;

    /// Claims that wait for a queue. Each takes one call if there is one.
    struct Claims {
        waiting: Waiting,
        calls: Arc<AtomicUsize>,
        looks: Arc<AtomicUsize>,
        tasks: JoinSet<()>,
    }

    impl Claims {
        async fn waiting(count: usize) -> Self {
            let mut claims = Self {
                waiting: Waiting(Arc::default()),
                calls: Arc::default(),
                looks: Arc::default(),
                tasks: JoinSet::new(),
            };
            for _ in 0..count {
                let interest = claims.waiting.interest(&["q".to_owned(), "r".to_owned()]);
                let (calls, looks) = (claims.calls.clone(), claims.looks.clone());
                claims.tasks.spawn(async move {
                    let look = || async {
                        looks.fetch_add(1, Ordering::Relaxed);
                        calls
                            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |calls| calls.checked_sub(1))
                            .ok()
                    };
                    while interest.changed_after(None, look).await.is_none() {}
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
            self.waiting.0.wake("q");
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
}
