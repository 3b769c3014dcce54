//! Programs whose claims wait here, and those whose last claim has ended a moment ago. One statement renews the registrations of many; a program
//! that claims again at once need not look first.
//!
//! Invariants:
//! - A known program has looked and found nothing since it is notified. A notification that comes between two of its claims is kept for the next one.
//! - What is known of a program is forgotten when its registration has changed, here within two intervals of renewals, and its claims that wait end.
//! - A program that has closed its connection counts as alive no more, unless it was heard of since, by whichever process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use rejoin_db::Db;
use rejoin_db::failure_log::{ErrorChain, FailureLog};
use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::registrations;

/// How long a program is known after its last claim has ended.
const KEEP: Duration = Duration::from_secs(5);
/// Maximum interval of looks for programs that must be renewed.
const TICK_MAX: Duration = Duration::from_secs(1);
/// Renewals per lease.
const RENEWALS: u32 = 3;

/// When programs are renewed, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct Renewals {
    lease: Duration,
}

impl Renewals {
    pub fn of_lease(lease: Duration) -> Self {
        Self { lease }
    }

    /// Interval of the renewals of a program.
    fn every(self) -> Duration {
        self.lease / RENEWALS
    }

    fn tick(self) -> Duration {
        self.every().min(TICK_MAX)
    }

    /// How long a program counts as alive whose claim waits: until the next renewal, and a lease.
    pub fn alive(self) -> Duration {
        self.every() + self.lease
    }

    /// How long the connection of a program is closed before the program counts as gone. Another process at which it claims now has recorded that
    /// by then.
    fn gone_after(self) -> Duration {
        self.tick() * 5 / 2
    }
}

/// The worker of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimant {
    pub workspace_id: Uuid,
    /// The group of workers.
    pub queue: String,
    pub worker_id: Uuid,
}

/// By worker.
#[derive(Default)]
pub struct Programs(Mutex<HashMap<Uuid, Program>>);

struct Program {
    claimant: Claimant,
    /// The number of the registration whose queues these are.
    revision: i32,
    queues: Vec<Arc<Notify>>,
    /// Number of its claims that wait.
    claims: usize,
    /// Since when no claim waits, if none does.
    idle_since: Instant,
    /// The last claim ended because the connection was closed.
    is_cut_off: bool,
    /// None: not yet by this process.
    renewed_at: Option<Instant>,
    /// Ends the claims that wait: the registration has changed.
    changed: CancellationToken,
}

/// What is to be recorded.
#[derive(Debug, Default, PartialEq)]
struct Round {
    /// Programs that wait, each with the number of its registration.
    here: Vec<(Uuid, i32)>,
    /// Programs that have closed their connection: how many seconds ago.
    gone: Vec<(Uuid, f64)>,
}

impl Programs {
    fn lock(&self) -> MutexGuard<'_, HashMap<Uuid, Program>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what is to be recorded now, and forgets programs that have gone or that do not claim.
    fn round(&self, now: Instant, times: Renewals) -> Round {
        let mut round = Round::default();
        self.lock().retain(|id, program| {
            if program.claims > 0 {
                let due = program
                    .renewed_at
                    .is_none_or(|at| now.duration_since(at) >= times.every());
                if due {
                    program.renewed_at = Some(now);
                    round.here.push((*id, program.revision));
                }
                return true;
            }
            let idle = now.duration_since(program.idle_since);
            if program.is_cut_off && idle >= times.gone_after() {
                round.gone.push((*id, idle.as_secs_f64()));
                return false;
            }
            idle < KEEP
        });
        round
    }

    /// Forgets a program, and ends its claims that wait. `revision`: only if this registration is known.
    pub fn forget(&self, worker_id: Uuid, revision: Option<i32>) {
        let mut programs = self.lock();
        if let Some(program) = programs.get(&worker_id)
            && revision.is_none_or(|revision| program.revision == revision)
        {
            program.changed.cancel();
            programs.remove(&worker_id);
        }
    }
}

/// The queues that a program waits for.
type Waited = Vec<Arc<Notify>>;

impl Programs {
    /// The next wait of a program that is known.
    pub fn resume(self: &Arc<Self>, claimant: &Claimant) -> Option<(Wait, Waited)> {
        let mut programs = self.lock();
        let program = programs.get_mut(&claimant.worker_id)?;
        if program.claimant != *claimant {
            return None;
        }
        program.claims += 1;
        Some((self.wait(program), program.queues.clone()))
    }

    /// The wait of a program whose look has found nothing.
    pub fn begin(self: &Arc<Self>, claimant: &Claimant, revision: i32, queues: Waited) -> Wait {
        let mut programs = self.lock();
        let program = programs.entry(claimant.worker_id).or_insert_with(|| Program {
            claimant: claimant.clone(),
            revision,
            queues: Vec::new(),
            claims: 0,
            idle_since: Instant::now(),
            is_cut_off: false,
            renewed_at: None,
            changed: CancellationToken::new(),
        });
        if (program.revision, &program.claimant) != (revision, claimant) {
            // Those of the former registration.
            program.changed.cancel();
            program.changed = CancellationToken::new();
            program.claims = 0;
            (program.revision, program.claimant) = (revision, claimant.clone());
        }
        program.queues = queues;
        program.claims += 1;
        self.wait(program)
    }

    fn wait(self: &Arc<Self>, program: &Program) -> Wait {
        Wait {
            programs: self.clone(),
            worker_id: program.claimant.worker_id,
            revision: program.revision,
            changed: program.changed.clone(),
            has_ended: false,
        }
    }
}

/// The wait of a claim. Dropped before its end: its program has closed the connection.
pub struct Wait {
    programs: Arc<Programs>,
    worker_id: Uuid,
    /// The number of the registration that it is for.
    pub revision: i32,
    changed: CancellationToken,
    has_ended: bool,
}

impl Wait {
    /// Returns when the registration has changed.
    pub async fn changed(&self) {
        self.changed.cancelled().await;
    }

    /// The claim gets its response.
    pub fn end(mut self) {
        self.has_ended = true;
    }

    /// The claim gets its response, and the program must look before it waits again.
    pub fn forget(self) {
        self.programs.forget(self.worker_id, Some(self.revision));
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        let mut programs = self.programs.lock();
        // Otherwise it was forgotten; what is known now is of other claims.
        if !self.changed.is_cancelled()
            && let Some(program) = programs.get_mut(&self.worker_id)
        {
            program.claims = program.claims.saturating_sub(1);
            program.idle_since = Instant::now();
            program.is_cut_off = !self.has_ended;
        }
    }
}

/// Renews programs while the process takes claims.
pub(super) async fn renew(programs: Weak<Programs>, db: Db, times: Renewals) {
    let mut tick = interval(times.tick());
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut outage = FailureLog::of("renewing the registrations of remote workers");
    loop {
        tick.tick().await;
        let Some(programs) = programs.upgrade() else { return };
        let round = programs.round(Instant::now(), times);
        if round == Round::default() {
            continue;
        }
        let here: Vec<Uuid> = round.here.iter().map(|(id, _)| *id).collect();
        match registrations::renew(&db.pool_sqlx, &here, times.alive(), &round.gone).await {
            Ok(registered) => {
                outage.over();
                let changed = round
                    .here
                    .iter()
                    .filter(|(id, revision)| registered.get(id) != Some(revision));
                changed.for_each(|(id, revision)| programs.forget(*id, Some(*revision)));
            }
            Err(error) => outage.failed(ErrorChain(&error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: Renewals = Renewals {
        lease: Duration::from_secs(15),
    };

    fn claimant() -> Claimant {
        Claimant {
            workspace_id: Uuid::from_u128(1),
            queue: "default".to_owned(),
            worker_id: Uuid::from_u128(2),
        }
    }

    fn round(programs: &Programs, later_s: f64) -> Round {
        programs.round(Instant::now() + Duration::from_secs_f64(later_s), TIMES)
    }

    #[test]
    fn a_program_that_claims_again_need_not_look() {
        let programs = Arc::new(Programs::default());
        assert!(programs.resume(&claimant()).is_none(), "it is not known");
        let queue = Arc::new(Notify::new());
        programs.begin(&claimant(), 1, vec![queue.clone()]).end();
        let other = Claimant {
            workspace_id: Uuid::from_u128(9),
            ..claimant()
        };
        assert!(programs.resume(&other).is_none(), "another workspace's");
        let (wait, queues) = programs.resume(&claimant()).expect("it is known");
        assert!(Arc::ptr_eq(&queues[0], &queue));
        wait.end();
        assert_eq!(round(&programs, 4.9), Round::default());
        assert!(programs.resume(&claimant()).is_some());
    }

    #[test]
    fn a_program_that_waits_is_renewed_three_times_a_lease() {
        let programs = Arc::new(Programs::default());
        let wait = programs.begin(&claimant(), 7, Vec::new());
        let here = Round {
            here: vec![(claimant().worker_id, 7)],
            gone: Vec::new(),
        };
        assert_eq!(round(&programs, 0.0), here, "at once");
        assert_eq!(round(&programs, 4.0), Round::default());
        assert_eq!(round(&programs, 5.1), here);
        wait.end();
        assert_eq!(round(&programs, 60.0), Round::default());
        assert!(programs.resume(&claimant()).is_none(), "it is forgotten");
    }

    #[test]
    fn a_program_that_is_cut_off_is_gone_unless_it_claims_again() {
        let programs = Arc::new(Programs::default());
        drop(programs.begin(&claimant(), 1, Vec::new()));
        assert_eq!(round(&programs, 1.0), Round::default(), "it may claim again");
        let (again, _) = programs.resume(&claimant()).expect("it is known");
        assert_eq!(round(&programs, 3.0).gone, []);
        drop(again);
        let gone = round(&programs, 3.0).gone;
        assert_eq!(gone.len(), 1);
        assert_eq!(gone[0].0, claimant().worker_id);
        assert!((2.9..3.1).contains(&gone[0].1), "{gone:?}");
    }

    #[tokio::test]
    async fn a_changed_registration_ends_the_claims_that_wait() {
        let programs = Arc::new(Programs::default());
        let first = programs.begin(&claimant(), 1, Vec::new());
        programs.forget(claimant().worker_id, Some(2));
        assert!(!first.changed.is_cancelled(), "another registration was forgotten");
        let second = programs.begin(&claimant(), 2, Vec::new());
        first.changed().await;
        drop(first);
        assert_eq!(round(&programs, 0.0).here, [(claimant().worker_id, 2)]);
        programs.forget(claimant().worker_id, None);
        second.changed().await;
        assert!(programs.resume(&claimant()).is_none());
    }
}
