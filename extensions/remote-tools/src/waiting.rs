//! Claims that wait for a call. The bus says when a queue has one; because hints may be lost, and calls may be due later, one query a second
//! looks into all queues that are waited for, however many workers wait.
//!
//! Invariants:
//! - While no program waits, and none has claimed in the last seconds, there is no query.
//! - A wake-up wakes one claim of its queue, that which waits longest. One that gets as many calls as it may wakes the next one. So a call costs
//!   the same, however many workers wait.
//! - Claims that find nothing end together, at multiples of [`END_EVERY`]: an idle process wakes up a few times a second, however many wait.
//!
//! - `queues`   what wakes them
//! - `programs` which programs wait

mod programs;
mod queues;

use std::sync::{Arc, Weak};
use std::time::Duration;

use rejoin_db::Db;
use rejoin_db::failure_log::{ErrorChain, FailureLog};
use rejoin_event_log::wakeup::{self, SharedBus};
use tokio::time::{Instant, MissedTickBehavior, interval};
use uuid::Uuid;

pub use programs::{Claimant, Renewals, Wait};
pub use queues::{FirstLook, Interest};

use crate::calls;
use programs::Programs;
use queues::Queues;

/// Interval of looks into the queues that are waited for.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Interval of the ends of claims that find nothing.
const END_EVERY: Duration = Duration::from_millis(500);
/// A claim that waits less ends exactly when it asks for that.
const END_EXACTLY: Duration = Duration::from_secs(5);

/// The claims of a process that wait. Cheap to clone.
#[derive(Clone)]
pub struct Waiting {
    queues: Arc<Queues>,
    programs: Arc<Programs>,
    started_at: Instant,
}

impl Waiting {
    /// Listens to the bus, and renews programs, while it is in use.
    pub fn start(db: Db, bus: &SharedBus, times: Renewals) -> Self {
        let waiting = Self {
            queues: Arc::default(),
            programs: Arc::default(),
            started_at: Instant::now(),
        };
        let wakes = bus.subscribe();
        tokio::spawn(look(Arc::downgrade(&waiting.queues), db.clone(), wakes));
        tokio::spawn(programs::renew(Arc::downgrade(&waiting.programs), db, times));
        waiting
    }

    /// When a claim that waits this long from now on ends, if it finds nothing: together with others, and not later than it asks for.
    pub fn end_of(&self, wait: Duration) -> Instant {
        let until = Instant::now() + wait;
        if wait < END_EXACTLY {
            return until;
        }
        let beyond = until.duration_since(self.started_at).as_nanos() % END_EVERY.as_nanos();
        until - Duration::from_nanos(u64::try_from(beyond).unwrap_or_default())
    }

    /// The number of wake-ups so far. A look after which it is the same has missed no call that was announced.
    pub fn version(&self) -> u64 {
        self.queues.version()
    }

    /// The wait of a program whose last claim found nothing, or took calls, a moment ago: what came since wakes it. None: look first, then
    /// [`begin`](Self::begin).
    pub fn resume(&self, claimant: &Claimant) -> Option<(Wait, Interest)> {
        let (wait, queues) = self.programs.resume(claimant)?;
        Some((wait, Interest::new(&self.queues, queues)))
    }

    /// The wait of a program whose look has found nothing: the number of its registration, and the queues of its calls.
    pub fn begin(&self, claimant: &Claimant, revision: i32, queues: &[String]) -> (Wait, Interest) {
        let queues: Vec<_> = queues.iter().map(|queue| self.queues.entry(queue)).collect();
        let wait = self.programs.begin(claimant, revision, queues.clone());
        (wait, Interest::new(&self.queues, queues))
    }

    /// Forgets what is known of a program: its registration has changed.
    pub fn forget(&self, worker_id: Uuid) {
        self.programs.forget(worker_id, None);
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
        queues.next_version();
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
