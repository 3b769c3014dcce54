//! Claims that wait for a call. The bus says when a queue has one; because hints may be lost, and calls may be due later, one query a second
//! looks into all queues that are waited for, however many workers wait.
//!
//! Invariant: while no claim waits, there is no query.

use std::collections::HashMap;
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
            waiting.notify_waiters();
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

    /// Registers interest in these queues, before the caller looks into them: [`Interest::changed_after`] returns when one of them may have a call.
    pub fn interest(&self, queues: &[String]) -> Interest {
        Interest(queues.iter().map(|queue| self.0.entry(queue)).collect())
    }
}

/// Interest in queues.
pub struct Interest(Vec<Arc<Notify>>);

impl Interest {
    /// Begins to listen, looks (`look`), and waits until something changes after that.
    pub async fn changed_after<T, F: Future<Output = Option<T>>>(&self, look: impl FnOnce() -> F) -> Option<T> {
        let mut changes: Vec<_> = self.0.iter().map(|notify| Box::pin(notify.notified())).collect();
        for change in &mut changes {
            // From now on, no notification is missed.
            change.as_mut().enable();
        }
        if let Some(found) = look().await {
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
