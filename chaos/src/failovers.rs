//! Faults of a Patroni cluster, one after the other: after each, the cluster is whole again before the next one. And the
//! time that each took.
//!
//! - `faults` the kinds of faults
//! - `plan`   their order
//! - `writes` a client that writes all the time
//! - `times`  how long nothing was written, and when readers were resumed
//! - `page`   the report

pub mod faults;
pub mod page;
mod plan;
mod times;
mod writes;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use sqlx::PgPool;
use tokio::time::{Instant, sleep};
use tracing::info;

use self::times::Times;
use self::writes::{Accepted, Writer};
use crate::checker::Case;
use crate::cluster::Cluster;
use crate::evidence::{Injected, now_us};
use crate::faults::{Fault, Tally, heal, revive};
use crate::world::World;

/// Undisturbed period before a fault, in milliseconds.
const CALM_MS: std::ops::Range<u64> = 2_000..6_000;

/// What was measured during a run.
pub struct Failovers {
    /// By fault, in order.
    pub times: Vec<Times>,
    /// The number of acknowledged writes.
    pub writes: usize,
    /// How many of them are missing at the end.
    pub lost_writes: usize,
    /// What was taken back. None: commits can't be lost.
    pub taken_back: Option<TakenBack>,
}

/// What failovers took back, by asynchronous replication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TakenBack {
    /// Messages that were accepted, and are missing at the end.
    pub messages: usize,
    /// How often a reader was notified that its log was taken back, or is gone.
    pub notices: usize,
}

impl TakenBack {
    fn of(case: &Case) -> Self {
        let runs = case.accepted_posts().map(|(_, _, run_id)| run_id);
        Self {
            messages: runs.filter(|run_id| !case.runs.contains_key(run_id)).count(),
            notices: case.sessions.iter().filter(|session| session.taken_back).count(),
        }
    }
}

impl Failovers {
    /// # Errors
    /// The database can't be read.
    pub async fn of(case: &Case, accepted: &[Accepted], db: &PgPool) -> Result<Self> {
        Ok(Self {
            times: times::of(case, accepted),
            writes: accepted.len(),
            lost_writes: writes::lost(db, accepted).await?,
            taken_back: case.notes.may_lose_commits.then(|| TakenBack::of(case)),
        })
    }
}

/// Injects faults until `until`, the last of them as a whole. Returns what happened, and the writes that were acknowledged.
///
/// # Errors
/// The cluster does not become whole after a fault.
pub async fn rage(
    world: &World,
    cluster: &Cluster,
    faults: &[Arc<dyn Fault>],
    seed: u64,
    until: Instant,
) -> Result<(Tally, Vec<Accepted>)> {
    writes::install(&world.db).await?;
    let place = world.servers.place(&world.watchdog).await?;
    let writer = Writer::start(cluster.url(&place.database));
    let mut dice = StdRng::seed_from_u64(seed);
    let mut order = plan::order(faults.len(), seed);
    let mut tally = Tally::default();
    while Instant::now() < until {
        let Some(fault) = order.next().and_then(|nth| faults.get(nth)) else {
            break;
        };
        sleep(Duration::from_millis(dice.random_range(CALM_MS))).await;
        info!(fault = fault.name(), "a fault of the cluster");
        inject(world, cluster, fault.as_ref(), &mut dice, &mut tally).await?;
        tally.ended.extend(revive(world).await);
    }
    heal(world).await;
    Ok((tally, writer.end().await?))
}

/// Injects a fault, waits until the cluster is whole, and records both as one.
async fn inject(
    world: &World,
    cluster: &Cluster,
    fault: &dyn Fault,
    dice: &mut StdRng,
    tally: &mut Tally,
) -> Result<()> {
    let from_us = now_us();
    let injected = fault.inject(world, dice).await;
    cluster.heal()?;
    cluster
        .settled()
        .await
        .with_context(|| format!("after the fault {}", fault.name()))?;
    let (detail, at_us) = match injected {
        Ok(injection) => {
            *tally.happened.entry(fault.name()).or_default() += 1;
            (injection.detail, injection.at_us)
        }
        Err(error) => {
            let why = format!("{error:#}");
            tally.impossible.entry(fault.name()).or_insert_with(|| why.clone());
            (why, None)
        }
    };
    world.evidence.fault(&Injected {
        fault: fault.name().to_owned(),
        number: fault.number().to_owned(),
        from_us: at_us.unwrap_or(from_us),
        until_us: now_us(),
        detail,
        worker: None,
        workspace_id: None,
    });
    Ok(())
}
