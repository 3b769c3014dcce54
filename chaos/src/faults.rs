//! Fault injection of a chaos run. A kind of fault is a [`Fault`]; a seeded scheduler injects them, some concurrently,
//! until the run's time ends, and then repairs everything.
//!
//! - `kills`     killed processes: at any time, during a call, between a commit and its response
//! - `pauses`    processes suspended for longer than their lease, then continued
//! - `graceful_restarts` processes asked to stop, and their replacements
//! - `network`   connections reset, half open, slow, sliced, refused; lost responses to commits
//! - `database`  PostgreSQL crashes or restarts, ends sessions, waits for locks, keeps an old snapshot
//! - `schema`    migrations under load
//! - `wakeups`   lost wake-ups
//! - `reconnect_storm` all readers reconnect at once
//! - `clocks`    a worker whose clock is off by an hour

mod clocks;
mod database;
mod graceful_restarts;
mod kills;
mod network;
mod pauses;
mod reconnect_storm;
mod schema;
mod wakeups;

use std::collections::BTreeMap;
use std::process::Child;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use async_trait::async_trait;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::sync::{Mutex, MutexGuard, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use crate::evidence::{Injected, now_us};
use crate::fleet::Member;
use crate::proxy::Proxy;
use crate::witness;
use crate::world::World;

pub use database::FailOver;
pub use graceful_restarts::DRAIN_WORKER;
pub use wakeups::LOSE_WAKEUPS;

/// Maximum number of concurrent faults.
const AT_ONCE: usize = 3;
/// Interval of checks until the fleet responds after the repair.
const HEAL_RETRY: Duration = Duration::from_millis(200);

/// A kind of fault.
#[async_trait]
pub trait Fault: Send + Sync {
    fn name(&self) -> &'static str;

    /// Its number in the table of faults (docs/reports/reliability/faults.md).
    fn number(&self) -> &'static str;

    /// Its relative frequency.
    fn weight(&self) -> usize {
        2
    }

    /// Injects the fault, and ends it. Err: it could not be injected.
    async fn inject(&self, world: &World, dice: &mut StdRng) -> Result<Injection>;
}

/// Details of an injected fault.
#[derive(Debug, Default)]
pub struct Injection {
    pub detail: String,
    /// The worker that died, was suspended or stopped.
    pub worker: Option<Uuid>,
    /// The time from which its work had to continue elsewhere, if not the fault's beginning, in µs since 1970.
    pub at_us: Option<i64>,
}

impl Injection {
    pub fn of(detail: impl Into<String>) -> Self {
        Self {
            detail: detail.into(),
            ..Self::default()
        }
    }
}

pub fn all() -> Vec<Arc<dyn Fault>> {
    vec![
        Arc::new(kills::Worker),
        Arc::new(kills::WorkerInCall),
        Arc::new(kills::WorkerAfterCall),
        Arc::new(kills::WorkerAtCommit),
        Arc::new(kills::ApiAtCommit),
        Arc::new(kills::Api),
        Arc::new(pauses::Zombie),
        Arc::new(graceful_restarts::Worker),
        Arc::new(graceful_restarts::Api),
        Arc::new(network::Reset),
        Arc::new(network::HalfOpen),
        Arc::new(network::Slow),
        Arc::new(network::Sliced),
        Arc::new(network::Refused),
        Arc::new(network::LostCommit),
        Arc::new(database::Crash),
        Arc::new(database::Restart),
        Arc::new(database::EndedSessions),
        Arc::new(database::Locks),
        Arc::new(database::OldSnapshot),
        Arc::new(schema::Migration),
        Arc::new(wakeups::Lost),
        Arc::new(reconnect_storm::Storm),
        Arc::new(clocks::HourOff),
    ]
}

/// Faults of processes and of their network, while projects move between databases.
pub fn of_cells() -> Vec<Arc<dyn Fault>> {
    vec![
        Arc::new(kills::Worker),
        Arc::new(kills::WorkerInCall),
        Arc::new(kills::WorkerAfterCall),
        Arc::new(kills::WorkerAtCommit),
        Arc::new(kills::ApiAtCommit),
        Arc::new(kills::Api),
        Arc::new(pauses::Zombie),
        Arc::new(pauses::Api),
        Arc::new(graceful_restarts::Worker),
        Arc::new(graceful_restarts::Api),
        Arc::new(network::Reset),
        Arc::new(network::HalfOpen),
        Arc::new(network::Slow),
        Arc::new(network::Sliced),
        Arc::new(network::Refused),
        Arc::new(network::LostCommit),
        Arc::new(reconnect_storm::Storm),
    ]
}

/// Returns those of `all` with these names.
pub fn named(all: &[Arc<dyn Fault>], names: &[String]) -> Result<Vec<Arc<dyn Fault>>> {
    let mut found = Vec::new();
    for name in names {
        match all.iter().find(|fault| fault.name() == name) {
            Some(fault) => found.push(fault.clone()),
            None => bail!(
                "there is no fault {name}; there are: {}",
                all.iter().map(|fault| fault.name()).collect::<Vec<_>>().join(", ")
            ),
        }
    }
    Ok(found)
}

/// The totals of a run.
#[derive(Debug, Default)]
pub struct Tally {
    /// Count by kind.
    pub happened: BTreeMap<&'static str, usize>,
    /// Kinds that could not be injected, with the first reason.
    pub impossible: BTreeMap<&'static str, String>,
    /// Processes that ended by themselves.
    pub ended: Vec<String>,
}

impl Tally {
    pub fn add(&mut self, other: Self) {
        for (fault, times) in other.happened {
            *self.happened.entry(fault).or_default() += times;
        }
        self.impossible.extend(other.impossible);
        self.ended.extend(other.ended);
    }

    /// Total number of faults.
    pub fn faults(&self) -> usize {
        self.happened.values().sum()
    }
}

/// Injects faults, one about every `every`, until `until`.
pub async fn rage(world: &Arc<World>, faults: &[Arc<dyn Fault>], seed: u64, every: Duration, until: Instant) -> Tally {
    let weighted: Vec<&Arc<dyn Fault>> = faults
        .iter()
        .flat_map(|fault| std::iter::repeat_n(fault, fault.weight()))
        .collect();
    let tally = Arc::new(Mutex::new(Tally::default()));
    let at_once = Arc::new(Semaphore::new(AT_ONCE));
    let mut dice = StdRng::seed_from_u64(seed);
    let mut raging = JoinSet::new();
    while Instant::now() < until && !weighted.is_empty() {
        let fault = weighted[dice.random_range(0..weighted.len())].clone();
        let mut own_dice = StdRng::seed_from_u64(dice.random());
        let turn = at_once.clone().acquire_owned().await.expect("never closed");
        let (its_world, its_tally) = (world.clone(), tally.clone());
        raging.spawn(async move {
            let done = inject(&its_world, fault.as_ref(), &mut own_dice).await;
            let mut tally = its_tally.lock().await;
            match done {
                Ok(()) => *tally.happened.entry(fault.name()).or_default() += 1,
                Err(error) => {
                    tally
                        .impossible
                        .entry(fault.name())
                        .or_insert_with(|| format!("{error:#}"));
                }
            }
            drop(turn);
        });
        let pause = every.mul_f64(dice.random_range(0.5..1.5));
        sleep(pause.min(until.saturating_duration_since(Instant::now()))).await;
        let ended = revive(world).await;
        tally.lock().await.ended.extend(ended);
    }
    while raging.join_next().await.is_some() {}
    heal(world).await;
    Arc::try_unwrap(tally).expect("all are done").into_inner()
}

/// Injects one fault, recorded.
pub async fn inject(world: &World, fault: &dyn Fault, dice: &mut StdRng) -> Result<()> {
    let from_us = now_us();
    let injection = fault.inject(world, dice).await?;
    world.evidence.fault(&Injected {
        fault: fault.name().to_owned(),
        number: fault.number().to_owned(),
        from_us: injection.at_us.unwrap_or(from_us),
        until_us: now_us(),
        detail: injection.detail,
        worker: injection.worker,
        workspace_id: None,
    });
    Ok(())
}

/// Restarts processes that ended by themselves, which none should, and returns them.
pub(crate) async fn revive(world: &World) -> Vec<String> {
    let mut ended = Vec::new();
    for member in &world.members {
        // Another fault holds it: not by itself.
        let Ok(mut process) = member.process.try_lock() else {
            continue;
        };
        match member.revive(&mut process) {
            Ok(said) => ended.extend(said),
            Err(error) => ended.push(format!("{error:#}")),
        }
    }
    ended
}

/// Ends all faults, and starts all processes.
pub async fn heal(world: &World) {
    loop {
        match try_heal(world).await {
            Ok(()) => return,
            Err(error) => tracing::warn!(error = format!("{error:#}"), "not everything runs yet"),
        }
        sleep(HEAL_RETRY).await;
    }
}

async fn try_heal(world: &World) -> Result<()> {
    for member in &world.members {
        for proxy in member.proxies() {
            proxy.clear();
            proxy.disarm();
        }
        member.start(&mut *member.process.lock().await)?;
    }
    world.wait_until_ready().await
}

/// A member's process, held by one fault.
struct Held<'a> {
    process: MutexGuard<'a, Option<Child>>,
    pid: u32,
    /// The worker's id in the queue. None: no worker, or the database is unreachable; not worth a failure.
    worker: Option<Uuid>,
}

/// Err: it is not running.
async fn hold(member: &Member) -> Result<Held<'_>> {
    let process = member.process.lock().await;
    let Some(pid) = process.as_ref().map(Child::id) else {
        bail!("{} does not run", member.name);
    };
    let worker = if member.is_worker() {
        witness::worker(&member.db, pid).await.ok().flatten()
    } else {
        None
    };
    Ok(Held { process, pid, worker })
}

/// Picks one of these.
fn pick<'a, T>(dice: &mut StdRng, of: &'a [T]) -> &'a T {
    &of[dice.random_range(0..of.len())]
}

fn pick_member<'a>(dice: &mut StdRng, of: &[&'a Member]) -> &'a Member {
    of[dice.random_range(0..of.len())]
}

/// Picks one of the member's databases: the proxy before it.
fn pick_proxy<'a>(dice: &mut StdRng, member: &'a Member) -> &'a Proxy {
    let proxies: Vec<&Proxy> = member.proxies().collect();
    match proxies.as_slice() {
        [only] => only,
        several => several[dice.random_range(0..several.len())],
    }
}

/// Picks a duration in milliseconds.
fn ms(dice: &mut StdRng, range: std::ops::Range<u64>) -> Duration {
    Duration::from_millis(dice.random_range(range))
}
