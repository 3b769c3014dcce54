//! A run from its start to its verdict: starts everything, adds load, drops wake-ups while all else works, injects
//! faults, repairs everything and waits for rest, lets readers finish, and runs the checker.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use tokio::time::{Instant, interval, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::checker::{self, Case, Violation};
use crate::evidence::Notes;
use crate::failovers::{self, Failovers};
use crate::faults::{self, Fault, Tally};
use crate::load::{self, Crowd, Load};
use crate::moves::{self, Moves};
use crate::programs;
use crate::programs::processes::{self, Language};
use crate::recovery::Recoveries;
use crate::world::{Shape, World};

/// Undisturbed period before any fault.
const CALM: Duration = Duration::from_secs(2);
/// The default of [`Options::patience`].
pub const PATIENCE: Duration = Duration::from_secs(90);
const LOOK_EVERY: Duration = Duration::from_millis(50);
const SAMPLE_EVERY: Duration = Duration::from_millis(500);
/// Memory limit of each process: for hundreds of conversations and their readers, in a test build.
const MEMORY_BOUND_BYTES: u64 = 512 * 1024 * 1024;

pub struct Options {
    pub seed: u64,
    /// Duration of fault injection.
    pub span: Duration,
    /// Average interval between faults. (Those of a cluster wait for each other.)
    pub every: Duration,
    /// Number of concurrent users.
    pub users: usize,
    pub loads: Vec<Arc<dyn Load>>,
    pub faults: Vec<Arc<dyn Fault>>,
    /// Whether wake-ups are lost for a while at first.
    pub overture: bool,
    /// How many projects move between the databases all the time, if there are two.
    pub moving: usize,
    /// Timeout of coming to rest after the faults, besides the lease; and of readers finishing.
    pub patience: Duration,
    pub shape: Shape,
}

/// The result of a run.
pub struct Outcome {
    pub violations: Vec<Violation>,
    pub tally: Tally,
    pub recoveries: Recoveries,
    /// None: the database is not a cluster.
    pub failovers: Option<Failovers>,
    /// None: there are no cells.
    pub moves: Option<Moves>,
    pub counts: Counts,
    pub rest_after_ms: Option<u64>,
    pub evidence: PathBuf,
    pub postgres_major: u32,
    pub took: Duration,
}

#[derive(Debug, Default)]
pub struct Counts {
    pub posts: usize,
    pub conversations: usize,
    pub runs: usize,
    pub events: usize,
    pub effects: usize,
    pub connections: usize,
    pub heard: usize,
    /// Runs by their number of attempts, most first.
    pub resumed_runs: usize,
    pub most_attempts: i32,
}

impl Counts {
    fn of(case: &Case) -> Self {
        let conversations: std::collections::HashSet<_> =
            case.runs.values().filter_map(|run| run.conversation_id).collect();
        Self {
            posts: case.posts.len(),
            conversations: conversations.len(),
            runs: case.runs.len(),
            events: case.logs.values().map(Vec::len).sum(),
            effects: case.effects.len(),
            connections: case.sessions.len(),
            heard: case.sessions.iter().map(|session| session.heard.len()).sum(),
            resumed_runs: case.runs.values().filter(|run| run.attempt > 1).count(),
            most_attempts: case.runs.values().map(|run| run.attempt).max().unwrap_or_default(),
        }
    }
}

/// Executes a run, and returns the violations.
pub async fn run(options: &Options) -> Result<Outcome> {
    let began = Instant::now();
    let world = World::start(&options.shape).await?;
    info!(evidence = %options.shape.directory.display(), "everything runs");
    if let Some(cell) = &world.cell {
        moves::spread(&world, cell).await?;
    }
    let programs = programs::start(&world, options.seed, &packages(&options.loads)).await?;
    let mut crowd = Crowd::start(&world, &options.loads, options.users, options.seed);
    let sampling_ends = CancellationToken::new();
    let sampling = tokio::spawn(sample(world.clone(), sampling_ends.clone()));

    sleep(CALM).await;
    let mut tally = Tally::default();
    if options.overture {
        info!("wake-ups are lost, while all else is well");
        let lost = faults::named(&faults::all(), &[faults::LOSE_WAKEUPS.to_owned()])?.remove(0);
        faults::inject(&world, lost.as_ref(), &mut StdRng::seed_from_u64(options.seed)).await?;
        // Deaf connections are abandoned and reopened.
        sleep(Duration::from_secs(6)).await;
        *tally.happened.entry(faults::LOSE_WAKEUPS).or_default() += 1;
    }
    info!(seconds = options.span.as_secs(), "faults");
    let until = Instant::now() + options.span;
    let raged = async {
        if let Ok(cluster) = world.servers.cluster() {
            let (raged, writes) = failovers::rage(&world, cluster, &options.faults, options.seed, until).await?;
            return Ok((raged, Some(writes), None));
        }
        let raging = faults::rage(&world, &options.faults, options.seed, options.every, until);
        let Some(cell) = &world.cell else {
            return Ok((raging.await, None, None));
        };
        let moving = moves::rage(&world, cell, options.moving, options.seed, until);
        let (raged, moved) = tokio::join!(raging, moving);
        anyhow::Ok((raged, None, Some(moved?)))
    };
    let (raged, writes, moves) = raged
        .await
        .with_context(|| format!("the evidence of this run is in {}", options.shape.directory.display()))?;
    tally.add(raged);
    info!("everything is made good; waiting for it to come to rest");
    world.load_ends.cancel();
    let healed = Instant::now();
    let rest = timeout(world.lease + options.patience, rest(&world, &mut crowd)).await;
    let rest_after_ms = rest
        .is_ok()
        .then(|| u64::try_from(healed.elapsed().as_millis()).unwrap_or(u64::MAX));
    let left_open = world.open_work().await.unwrap_or(-1);
    world.readers_end.cancel();
    if rest_after_ms.is_none() {
        // Users still waiting see that it is over.
        let _ = timeout(options.patience, crowd.finish()).await;
    }
    crowd.readers.close();
    // Unfinished readers have missed events: the checker finds out.
    let _ = timeout(options.patience, crowd.readers.wait()).await;
    sampling_ends.cancel();
    let memory_bytes = sampling.await?;
    let mut ended = std::mem::take(&mut tally.ended);
    ended.extend(panics(&world)?);
    world.evidence.notes(&Notes {
        lease_ms: u64::try_from(world.lease.as_millis()).unwrap_or(u64::MAX),
        may_lose_commits: world.may_lose_commits,
        rest_after_ms,
        left_open,
        memory_bytes,
        memory_bound_bytes: MEMORY_BOUND_BYTES,
        model_refusals: world.model.violations(),
        ended,
    });
    world.evidence.flush()?;
    let case = checker::load(&world.databases(), &options.shape.directory).await?;
    info!("checking");
    let failovers = match &writes {
        Some(writes) => Some(Failovers::of(&case, writes, &world.db).await?),
        None => None,
    };
    let outcome = Outcome {
        violations: checker::check(&case),
        tally,
        recoveries: Recoveries::of(&case),
        failovers,
        moves,
        counts: Counts::of(&case),
        rest_after_ms,
        evidence: options.shape.directory.clone(),
        postgres_major: world.postgres_major,
        took: began.elapsed(),
    };
    drop(programs);
    stop(&world).await;
    Ok(outcome)
}

/// The languages of programs whose tools are used.
fn packages(loads: &[Arc<dyn Load>]) -> Vec<Language> {
    let languages = processes::languages().into_iter();
    languages
        .filter(|language| {
            let name = load::of_package(*language).name();
            loads.iter().any(|load| load.name() == name)
        })
        .collect()
}

/// Waits until users have finished, and nothing is pending.
async fn rest(world: &World, crowd: &mut Crowd) {
    crowd.finish().await;
    while !matches!(world.open_work().await, Ok(0)) {
        sleep(LOOK_EVERY).await;
    }
}

/// Records the peak memory of each process.
async fn sample(world: Arc<World>, ends: CancellationToken) -> Vec<(String, u64)> {
    let mut most = vec![0; world.members.len()];
    let mut ticks = interval(SAMPLE_EVERY);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = ends.cancelled() => break,
        }
        for (most, member) in most.iter_mut().zip(&world.members) {
            // A fault may hold the member for long.
            let sampled = timeout(LOOK_EVERY, member.memory_bytes()).await;
            *most = (*most).max(sampled.ok().flatten().unwrap_or_default());
        }
    }
    world
        .members
        .iter()
        .map(|member| member.name.clone())
        .zip(most)
        .collect()
}

/// Returns panics in the processes' output.
fn panics(world: &World) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for member in &world.members {
        let said = std::fs::read(world.logs().join(&member.name))?;
        let said = String::from_utf8_lossy(&said);
        let panics = said.lines().filter(|line| line.contains("panicked at"));
        found.extend(panics.map(|line| format!("{}: {line}", member.name)));
    }
    Ok(found)
}

pub async fn stop(world: &World) {
    for member in &world.members {
        let mut process = member.process.lock().await;
        if let Err(error) = member.kill(&mut process).await {
            tracing::warn!(error = format!("{error:#}"), "a process could not be ended");
        }
    }
    world.servers.end().await;
}
