//! Fault-injection builds that violate one invariant each, and runs in which the checker must detect it. Only in a
//! debug build, or one with the feature `fault-injection`.

use std::time::Duration;

use anyhow::{Result, bail};
use futures::{StreamExt as _, stream};
use rejoin_faults::Fault;
use tokio::time::Instant;

use crate::checker::Violation;
use crate::faults;
use crate::load;
use crate::run::{self, Options};
use crate::servers::Kind;
use crate::world::{self, PROJECTS, Shape};

/// Short, so that waiting for its end does not take long.
const LEASE: Duration = Duration::from_millis(1_500);
const USERS: usize = 24;
const EVERY: Duration = Duration::from_millis(500);
/// Timeout of coming to rest.
const PATIENCE: Duration = Duration::from_secs(12);
/// Concurrent runs: most of each is waiting.
const AT_ONCE: usize = 2;
/// Number and length of violations reported.
const TOLD: usize = 5;
const TOLD_CHARS: usize = 160;
/// Some faults show only at the right moment: seeds to try.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=3;

/// A run that shows a violation.
struct Scene {
    fault: Fault,
    loads: &'static [&'static str],
    faults: &'static [&'static str],
    overture: bool,
    /// Over two databases, between which all projects move.
    moves: bool,
    span_s: u64,
    /// One of these must be violated.
    invariants: &'static [&'static str],
}

const fn scene(
    fault: Fault,
    loads: &'static [&'static str],
    faults: &'static [&'static str],
    span_s: u64,
    invariants: &'static [&'static str],
) -> Scene {
    Scene {
        fault,
        loads,
        faults,
        overture: false,
        moves: false,
        span_s,
        invariants,
    }
}

const SCENES: [Scene; 24] = [
    // First: it takes longest.
    Scene {
        moves: true,
        ..scene(Fault::HoldWithoutWaiting, &["chat"], &[], 15, &["I1", "I3"])
    },
    scene(
        Fault::NoFence,
        &["stories"],
        &["stop-worker-past-lease"],
        10,
        &["I2", "I4"],
    ),
    Scene {
        overture: true,
        ..scene(Fault::NoPoll, &["chat"], &[], 1, &["I11"])
    },
    scene(Fault::SettleBeforeEvents, &["chat"], &[], 3, &["I2", "I4"]),
    scene(Fault::DroppedSeq, &["chat"], &[], 3, &["I2"]),
    scene(Fault::DoneTwice, &["chat"], &[], 3, &["I1"]),
    scene(Fault::ReaderSkips, &["chat"], &["all-readers-return"], 5, &["I3"]),
    scene(
        Fault::SweepWithoutBump,
        &["chat"],
        &["kill-worker", "stop-worker-past-lease"],
        8,
        &["I5"],
    ),
    scene(Fault::KeysShared, &["stranger"], &[], 3, &["I14"]),
    scene(
        Fault::AnswerBeforeCommit,
        &["chat"],
        &["slow-connections", "reset-connections", "crash-postgres"],
        10,
        &["I1", "I3"],
    ),
    scene(Fault::ActBeforeRecord, &["calls"], &["kill-worker-in-call"], 8, &["I7"]),
    scene(Fault::RepeatUnknown, &["calls"], &["kill-worker-in-call"], 8, &["I7"]),
    scene(Fault::CommitRepeated, &["chat"], &["lose-commit"], 8, &["I2", "I4"]),
    scene(Fault::CancelIgnored, &["cancels"], &[], 4, &["I13"]),
    scene(Fault::IdempotencyIgnored, &["insistent"], &[], 3, &["I8"]),
    scene(Fault::DrainDrops, &["chat"], &["drain-worker"], 10, &["I9"]),
    scene(Fault::RunsSideBySide, &["busy"], &[], 4, &["I5"]),
    scene(Fault::NoSweep, &["chat"], &["kill-worker"], 4, &["I6"]),
    scene(Fault::ReadersKeep, &["chat"], &[], 4, &["I10"]),
    scene(Fault::ParentSleeps, &["together"], &[], 4, &["I12"]),
    scene(Fault::LostCallRepeated, &["program"], &[], 8, &["I7"]),
    scene(Fault::StaleResultAccepted, &["program"], &[], 10, &["I15"]),
    scene(Fault::StepsForgotten, &["program"], &[], 8, &["I7", "I16"]),
    scene(Fault::TextKept, &["answers"], &[], 8, &["I4"]),
];

#[expect(clippy::print_stdout, reason = "the verdict goes to whoever asked")]
/// Runs each broken build (or those with these names), and fails if the checker does not detect it.
pub async fn run(names: &[String]) -> Result<()> {
    if !rejoin_faults::COMPILED_IN {
        bail!(
            "this build can't be broken: build without optimization, or with --features fault-injection (make chaos-broken does)"
        );
    }
    let scenes: Vec<&Scene> = SCENES
        .iter()
        .filter(|scene| names.is_empty() || names.iter().any(|name| name == scene.fault.name()))
        .collect();
    if scenes.is_empty() {
        bail!(
            "there is no such break; there are: {}",
            Fault::ALL.map(Fault::name).join(", ")
        );
    }
    let mut missed = Vec::new();
    let mut played = stream::iter(scenes)
        .map(|scene| async move { (scene.fault.name(), Instant::now(), play(scene).await) })
        .buffer_unordered(AT_ONCE);
    while let Some((name, began, caught)) = played.next().await {
        let took_s = began.elapsed().as_secs();
        match caught? {
            Caught::As(how) => println!("caught  {name:<22} {took_s:>3} s  {how}"),
            Caught::Not(instead) => {
                println!("MISSED  {name:<22} {took_s:>3} s  instead: {instead:?}");
                missed.push(name);
            }
        }
    }
    match missed.as_slice() {
        [] => Ok(()),
        missed => bail!("the checker did not notice: {}", missed.join(", ")),
    }
}

/// Whether the checker detected it, and how.
enum Caught {
    As(String),
    /// The other violations found instead.
    Not(Vec<String>),
}

async fn play(scene: &Scene) -> Result<Caught> {
    let mut found = Vec::new();
    for seed in SEEDS {
        match play_once(scene, seed).await? {
            Caught::Not(instead) => found.extend(instead),
            caught => return Ok(caught),
        }
    }
    Ok(Caught::Not(found))
}

async fn play_once(scene: &Scene, seed: u64) -> Result<Caught> {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let possible = if scene.moves { faults::of_cells() } else { faults::all() };
    let options = Options {
        seed,
        span: Duration::from_secs(scene.span_s),
        every: EVERY,
        users: USERS,
        loads: load::named(&owned(scene.loads))?,
        faults: faults::named(&possible, &owned(scene.faults))?,
        overture: scene.overture,
        moving: if scene.moves { PROJECTS } else { 0 },
        patience: PATIENCE,
        shape: Shape {
            apis: 2,
            workers: 3,
            lease: LEASE,
            projects: PROJECTS,
            directory: world::directory(scene.fault.name()),
            servers: if scene.moves { Kind::WithCell } else { Kind::Single },
            other_build: None,
            environment: vec![(rejoin_faults::VARIABLE.to_owned(), scene.fault.name().to_owned())],
        },
    };
    let outcome = run::run(&options).await?;
    let expected = outcome
        .violations
        .iter()
        .find(|violation| scene.invariants.contains(&violation.invariant));
    let told = |violation: &Violation| violation.to_string().chars().take(TOLD_CHARS).collect();
    Ok(match expected {
        Some(violation) => {
            std::fs::remove_dir_all(&outcome.evidence)?;
            Caught::As(told(violation))
        }
        None => Caught::Not(outcome.violations.iter().take(TOLD).map(told).collect()),
    })
}
