//! The phases, each a measurement of one queue on a fresh database: they return figures for the scenario's tables.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::databases::{Observer, Place, Template};
use super::driver::{Done, Worker};
use super::figures::rows;
use crate::load::{Latencies, now_us};

/// A longer drain is cut, and rated by its progress.
const DRAIN_LIMIT: Duration = Duration::from_secs(12);
/// Polling interval of a drain: the workers' counts, then the table.
const COUNT_EVERY: Duration = Duration::from_millis(5);
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// The load of the latency measurement, in jobs/s.
const RATE_PER_S: u32 = 50;
/// Delay between the worker's start and the load, so that start-up work is done.
const IDLE: Duration = Duration::from_millis(500);
/// Maximum lateness of the last job.
const LATE_LIMIT: Duration = Duration::from_secs(3);
/// Numbers of producers of the single enqueues, with their rows.
const PRODUCERS: [(u32, &str); 2] = [(1, rows::SINGLE_1), (8, rows::SINGLE_8)];
const WORKERS: [(usize, &str); 2] = [(1, rows::DRAIN_1), (2, rows::DRAIN_2)];

/// The sizes of a measurement.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    /// Maximum number of jobs of a bulk enqueue and a drain.
    pub jobs: u64,
    /// Number of waiting or finished rows besides.
    pub rows: u64,
    /// Jobs of the drain among many waiting ones.
    pub of_queued: u64,
    pub single_s: f64,
    pub latency_s: u32,
    /// Duration of the uncounted warm-up with the same load.
    pub warm_up_s: u32,
}

rejoin_types::text_enum! {
    /// A phase. Its text is its name in the environment and the drivers' settings.
    pub enum Phase {
        /// Alone: if the drain is measured, its own bulk enqueues count.
        Bulk = "bulk",
        Single = "single",
        /// Bulk enqueue and drain.
        Work = "work",
        Backlog = "backlog",
        Finished = "finished",
        Latency = "latency",
    }
}

impl Phase {
    pub fn template(self) -> Template {
        match self {
            Self::Backlog => Template::Queued,
            Self::Finished => Template::Finished,
            Self::Bulk | Self::Single | Self::Work | Self::Latency => Template::Empty,
        }
    }
}

/// The results of a phase: values by row, and notes.
#[derive(Debug, Default)]
pub struct Measured {
    pub values: Vec<(&'static str, f64)>,
    pub notes: Vec<String>,
}

impl Measured {
    fn value(&mut self, row: &'static str, value: f64) {
        self.values.push((row, value));
    }

    fn drained(&mut self, row: &'static str, drained: &Drained) {
        self.value(row, drained.handled as f64 / drained.took_s);
        if let Some(n) = drained.cut_from {
            let (limit_s, handled) = (DRAIN_LIMIT.as_secs(), drained.handled);
            self.notes
                .push(format!("{row}: cut after {limit_s} s at {handled} of {n} jobs"));
        }
    }
}

pub async fn measure(phase: Phase, place: &Place<'_>, sizes: Sizes) -> Result<Measured> {
    place.fresh(phase.template()).await?;
    let mut found = Measured::default();
    match phase {
        Phase::Bulk => {
            let done = bulk(place, sizes, &mut found).await?;
            found.value(rows::BULK, done.per_s());
        }
        Phase::Single => {
            for (producers, row) in PRODUCERS {
                found.value(row, place.driver.single(sizes.single_s, producers).await?.per_s());
            }
        }
        Phase::Work => work(place, sizes, &mut found).await?,
        Phase::Backlog => {
            let n = sizes.of_queued.min(jobs(place, sizes));
            let drained = drain(place, &mut place.observer().await?, n, 1, Phase::Backlog).await?;
            found.drained(rows::DRAIN_QUEUED, &drained);
        }
        Phase::Finished => {
            place.driver.bulk(jobs(place, sizes)).await?;
            place.settle().await?;
            let mut observer = place.observer().await?;
            // The copied row waits, too.
            let n = observer.remaining().await?.unsigned_abs();
            let drained = drain(place, &mut observer, n, 1, Phase::Finished).await?;
            found.drained(rows::DRAIN_FINISHED, &drained);
        }
        Phase::Latency => latency(place, sizes, &mut found).await?,
    }
    Ok(found)
}

fn jobs(place: &Place<'_>, sizes: Sizes) -> u64 {
    place.driver.spec.n.min(sizes.jobs)
}

async fn bulk(place: &Place<'_>, sizes: Sizes, found: &mut Measured) -> Result<Done> {
    let mut observer = place.observer().await?;
    let before = observer.wal_bytes().await?;
    let done = place.driver.bulk(jobs(place, sizes)).await?;
    found.value(
        rows::WAL_IN,
        (observer.wal_bytes().await? - before) as f64 / done.n as f64,
    );
    Ok(done)
}

async fn work(place: &Place<'_>, sizes: Sizes, found: &mut Measured) -> Result<()> {
    let mut enqueued = Done { n: 0, seconds: 0.0 };
    for (workers, row) in WORKERS {
        if workers > 1 {
            place.fresh(Template::Empty).await?;
        }
        let mut wal = Measured::default();
        let done = bulk(place, sizes, &mut wal).await?;
        enqueued.n += done.n;
        enqueued.seconds += done.seconds;
        place.settle().await?;
        let mut observer = place.observer().await?;
        let before = observer.wal_bytes().await?;
        let drained = drain(place, &mut observer, done.n, workers, Phase::Work).await?;
        found.drained(row, &drained);
        if workers == 1 {
            found.values.append(&mut wal.values);
            let bytes = (observer.wal_bytes().await? - before) as f64;
            found.value(rows::WAL_OUT, bytes / drained.handled as f64);
        }
    }
    found.value(rows::BULK, enqueued.per_s());
    Ok(())
}

struct Drained {
    handled: u64,
    took_s: f64,
    /// The intended number, if it was not reached.
    cut_from: Option<u64>,
}

/// Measures from the first worker's start until all jobs were handled and, unless others wait behind them, the table
/// confirms it.
async fn drain(place: &Place<'_>, observer: &mut Observer, n: u64, workers: usize, phase: Phase) -> Result<Drained> {
    let mut workers: Vec<Worker> = (0..workers)
        .map(|_| place.driver.worker(phase.as_str(), &[]))
        .collect::<Result<_>>()?;
    let give_up = Instant::now() + DRAIN_LIMIT;
    let handled = |workers: &[Worker]| workers.iter().map(|worker| worker.handled().0).sum::<u64>();
    while handled(&workers) < n && Instant::now() < give_up {
        if workers.iter_mut().all(|worker| worker.ended().is_some()) {
            break;
        }
        tokio::time::sleep(COUNT_EVERY).await;
    }
    let mut end_us = workers
        .iter()
        .map(|worker| worker.handled().1)
        .max()
        .unwrap_or_default();
    let mut count = handled(&workers);
    let whole = count >= n;
    if whole && phase != Phase::Backlog {
        count = n;
        loop {
            end_us = now_us();
            if observer.remaining().await? == 0 {
                break;
            }
            if Instant::now() > give_up {
                bail!("all {n} jobs were handled, but the table does not say so");
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
    let started_us = workers.iter().filter_map(|worker| worker.heard().started_us).min();
    let started_us = started_us.context("no worker began")?;
    if count == 0 {
        bail!("no job was handled");
    }
    // The workers are killed: their remaining work is irrelevant, and their database is dropped.
    Ok(Drained {
        handled: count,
        took_s: end_us.saturating_sub(started_us) as f64 / 1e6,
        cut_from: (!whole).then_some(n),
    })
}

async fn latency(place: &Place<'_>, sizes: Sizes, found: &mut Measured) -> Result<()> {
    place.settle().await?;
    let mut worker = place.driver.worker(Phase::Latency.as_str(), &[("LAT", "1")])?;
    worker.started().await?;
    tokio::time::sleep(IDLE).await;
    let produced = place
        .driver
        .produce(RATE_PER_S, sizes.warm_up_s + sizes.latency_s)
        .await?;
    worker.reaches(produced.n, LATE_LIMIT).await;
    let all = worker
        .stop()
        .await
        .latencies_us
        .context("the worker did not tell its latencies")?;
    if (all.len() as u64) < produced.n {
        found.notes.push(format!(
            "latency: {} of {} jobs were never started",
            produced.n - all.len() as u64,
            produced.n
        ));
    }
    let warm_up = usize::try_from(sizes.warm_up_s * RATE_PER_S)?;
    let mut latencies = Latencies::default();
    all.iter().skip(warm_up).for_each(|&took_us| latencies.record(took_us));
    if latencies.count() == 0 {
        bail!("no job was started");
    }
    found.value(rows::P50, latencies.quantile_ms(0.5));
    found.value(rows::P99, latencies.quantile_ms(0.99));
    found.value(rows::MAX, latencies.max_ms());
    Ok(())
}
