//! `queue`: our job queue compared with other PostgreSQL queues, all with a no-op job, each through its own driver
//! process. Drivers and rows: bench/peers/queue/README.md.
//!
//! - `peers`      the queues, with their settings
//! - `install`    installs them
//! - `driver`     talks to a driver's process
//! - `databases`  templates, and a fresh copy for each phase
//! - `phases`     the measurements
//! - `figures`    their tables and claims
//!
//! A part of it alone: `BENCH_QUEUES=pgmq,rejoin BENCH_PHASES=work,latency bench run queue --reps 1`. Phases are
//! single, work (with the bulk enqueue), backlog, finished, latency, and bulk alone. If several users measure on one
//! machine, `BENCH_LOCK=FILE` holds that file's lock during each phase, about a minute at most.

mod databases;
mod driver;
mod figures;
mod install;
mod peers;
mod phases;

use std::fs::File;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use async_trait::async_trait;

use self::databases::{Place, Template};
use self::driver::Driver;
use self::figures::{Values, rows};
use self::peers::{OURS, Spec};
use self::phases::{Measured, Phase, Sizes};
use crate::limits;
use crate::results::{Claim, Size, Table};
use crate::scenario::{Context, Recorder, Scenario};

const FULL: Sizes = Sizes {
    jobs: u64::MAX,
    rows: 500_000,
    of_queued: 20_000,
    single_s: 1.2,
    latency_s: 3,
    warm_up_s: 1,
};
const SMOKE: Sizes = Sizes {
    jobs: 500,
    rows: 2_000,
    of_queued: 500,
    single_s: 0.2,
    latency_s: 1,
    warm_up_s: 0,
};
/// Seed of shuffling the queues, with the repetition and the phase.
const SEED: u64 = 7_420;
/// Duration of measuring the machine's own commits, before each queue's single enqueues.
const COMMITS_FOR: Duration = Duration::from_millis(300);
/// Measures only these phases; separated by commas.
const ONLY: &str = "BENCH_PHASES";
/// A file to lock during each measurement.
const LOCK: &str = "BENCH_LOCK";
pub struct Queue;

#[async_trait]
impl Scenario for Queue {
    fn name(&self) -> &'static str {
        "queue"
    }

    fn about(&self) -> &'static str {
        "the job queue compared with other PostgreSQL queues, with a no-op job"
    }

    fn tables(&self) -> Vec<Table> {
        figures::tables()
    }

    async fn prepare(&self, size: Size, out: &mut Recorder) -> Result<()> {
        install::install(&peers::selected(size, true)?, out).await;
        Ok(())
    }

    async fn measure(&self, context: &Context, out: &mut Recorder) -> Result<()> {
        let sizes = context.sized(FULL, SMOKE);
        let phases = phases_asked_for()?;
        let specs = peers::selected(context.size, context.peers)?;
        say_what_differs(&specs, out);
        let mut places = Vec::new();
        for spec in specs {
            let url = context.server.url(&spec.database());
            // A missing installation was reported before.
            if let Some(driver) = Driver::new(spec, url) {
                places.push(Place {
                    server: &context.server,
                    driver,
                    rows: sizes.rows,
                });
            }
        }
        let mut ready = Vec::new();
        for place in places {
            let name = &place.driver.spec.name;
            match prepare(&place, &phases).await {
                Ok(()) => ready.push(place),
                Err(error) => failed(out, name, "setup", error)?,
            }
        }
        let raw = context.server.database().await?;
        let mut values = Values::default();
        for (number, &phase) in phases.iter().enumerate() {
            let _turn = turn()?;
            for index in shuffled(ready.len(), SEED + u64::from(context.rep) * 100 + number as u64) {
                let place = &ready[index];
                let name = &place.driver.spec.name;
                if phase == Phase::Finished && place.driver.spec.finished.is_none() {
                    values.copy(name, rows::DRAIN_1, rows::DRAIN_FINISHED);
                    continue;
                }
                if phase == Phase::Single {
                    values.commits(limits::commits_per_s(&raw, COMMITS_FOR).await?);
                }
                let began = Instant::now();
                match phases::measure(phase, place, sizes).await {
                    Ok(Measured { values: found, notes }) => {
                        let took_s = began.elapsed().as_secs_f64();
                        println!(
                            "   {:<9} {name:<16} {took_s:>4.1} s: {}",
                            phase.as_str(),
                            listed(&found)
                        );
                        found.into_iter().for_each(|(row, value)| values.add(name, row, value));
                        notes.into_iter().for_each(|note| out.note(format!("{name}: {note}")));
                    }
                    Err(error) => failed(out, name, phase.as_str(), error)?,
                }
                place.drop().await?;
            }
        }
        values.keep(out);
        context.server.drop(raw).await
    }

    fn claims(&self, found: &Recorder) -> Vec<Claim> {
        figures::claims(found)
    }
}

/// Notes beside the tables.
fn say_what_differs(specs: &[Spec], out: &mut Recorder) {
    if specs.iter().all(|spec| spec.name != OURS) {
        out.note("rejoin: not measured, since its driver is not there or was not asked for");
    }
    for spec in specs.iter().filter(|spec| install::command(spec).is_some()) {
        let mut note = format!("{}: {}; settings {}", spec.name, spec.version, settings(spec));
        if !spec.differs.is_empty() {
            note += "; ";
            note += &spec.differs;
        }
        out.note(note);
    }
    out.note(
        "rejoin runs with all features: lease and fencing by attempt, round-robin between projects, concurrency keys, \
         rows of finished jobs",
    );
    out.note(
        "a queue that deletes finished jobs has no rows of 500,000 finished jobs: its figure there is that of its \
         plain drain",
    );
}

/// Creates the templates needed by these phases.
async fn prepare(place: &Place<'_>, phases: &[Phase]) -> Result<()> {
    place.prepare(Template::Empty).await?;
    for &phase in phases {
        if phase == Phase::Finished && place.driver.spec.finished.is_none() {
            continue;
        }
        place.prepare(phase.template()).await?;
    }
    Ok(())
}

fn phases_asked_for() -> Result<Vec<Phase>> {
    let Ok(names) = std::env::var(ONLY) else {
        return Ok(Phase::ALL.into_iter().filter(|&phase| phase != Phase::Bulk).collect());
    };
    let phases: Result<Vec<Phase>, _> = names.split(',').map(|name| name.trim().parse()).collect();
    phases.with_context(|| format!("{ONLY} names {names}"))
}

/// A peer's failure is a result. Our own ends the scenario.
fn failed(out: &mut Recorder, queue: &str, phase: &str, error: anyhow::Error) -> Result<()> {
    if queue == OURS {
        return Err(error.context(format!("{queue}, {phase}")));
    }
    println!("   {phase:<9} {queue:<16} failed: {error:#}");
    out.note(format!("{queue}, {phase}: failed: {error:#}"));
    Ok(())
}

fn listed(values: &[(&str, f64)]) -> String {
    let told = values
        .iter()
        .map(|(row, value)| format!("{row} {}", crate::print::figure(*value)));
    told.collect::<Vec<_>>().join(", ")
}

/// Returns a driver's settings as in its file.
fn settings(spec: &Spec) -> String {
    let phases = spec.env.keys().map(|phase| {
        let of_phase = spec.settings(phase);
        let pairs: Vec<String> = of_phase.iter().map(|(name, value)| format!("{name}={value}")).collect();
        format!("{phase}: {}", pairs.join(" "))
    });
    let all = phases.collect::<Vec<_>>().join(", ");
    if all.is_empty() { "the default".to_owned() } else { all }
}

/// Waits for the lock, if one is named; held until the file is dropped.
fn turn() -> Result<Option<File>> {
    let Some(path) = std::env::var_os(LOCK) else {
        return Ok(None);
    };
    let file = File::options()
        .create(true)
        .append(true)
        .open(&path)
        .with_context(|| format!("opening {path:?}"))?;
    // Other measurements may take a while, and nothing else can be done meanwhile.
    tokio::task::block_in_place(|| file.lock()).context("waiting for the lock")?;
    Ok(Some(file))
}

/// Returns 0 … n-1 in an order that depends on the seed only.
fn shuffled(n: usize, seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..n).collect();
    let mut state = seed;
    // SplitMix64: any distribution suffices.
    order.sort_by_cached_key(|_| {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    });
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_a_permutation_that_the_seed_decides() {
        let mut order = shuffled(6, 1);
        assert_eq!(order, shuffled(6, 1));
        assert!((2..20).any(|seed| shuffled(6, seed) != order));
        order.sort_unstable();
        assert_eq!(order, [0, 1, 2, 3, 4, 5]);
    }
}
