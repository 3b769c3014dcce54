//! `chaos ha`: runs over a Patroni cluster with faults of the cluster, one run for each seed.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::cluster::Replication;
use crate::failovers::{faults, page};
use crate::run::{self, Options};
use crate::servers::Kind;
use crate::world::{self, Shape};
use crate::{load, report};

#[derive(Debug, clap::Args)]
#[group(id = "chaos-ha")]
pub struct Args {
    /// Seeds of the plans of load and faults: `3`, or `1..10`, both included
    #[arg(long, default_value = "1", value_parser = seeds)]
    seeds: RangeInclusive<u64>,
    /// How long faults are injected in each run [seconds]; the last one is finished
    #[arg(long, default_value_t = 300)]
    seconds: u64,
    /// With asynchronous replication, by which failovers lose commits: readers must be notified of what is taken back
    #[arg(long)]
    asynchronous: bool,
    /// At once
    #[arg(long, default_value_t = 24)]
    users: usize,
    /// Only these, separated by commas
    #[arg(long, value_delimiter = ',')]
    faults: Vec<String>,
    /// Only these, separated by commas
    #[arg(long, value_delimiter = ',')]
    loads: Vec<String>,
    #[arg(long, default_value_t = 2)]
    apis: usize,
    #[arg(long, default_value_t = 2)]
    workers: usize,
    #[arg(long, default_value_t = 15_000)]
    lease_ms: u64,
    /// Where evidence goes, in a folder for each seed; below the temporary folder, and removed if all is well, unless given
    #[arg(long)]
    evidence: Option<PathBuf>,
    /// Write the report there, too
    #[arg(long)]
    report: Option<PathBuf>,
}

/// Reads `3` or `1..10`.
pub(crate) fn seeds(text: &str) -> Result<RangeInclusive<u64>, String> {
    let (first, last) = text.split_once("..").unwrap_or((text, text));
    match (first.parse(), last.trim_start_matches('=').parse()) {
        (Ok(first), Ok(last)) if first <= last => Ok(first..=last),
        _ => Err(format!("{text:?} is neither a number nor a range as 1..10")),
    }
}

/// Executes the runs. `command`: how it was called; `commit`: of the sources. Returns whether all is well.
///
/// # Errors
/// A program of the cluster is missing, or the cluster does not become whole after a fault.
#[expect(clippy::print_stdout, reason = "the report is what was asked for")]
pub async fn run(args: &Args, command: &str, commit: &str) -> Result<bool> {
    let (mut whole, mut measured, mut are_well) = (String::new(), Vec::new(), true);
    for seed in args.seeds.clone() {
        let options = options(args, seed)?;
        let outcome = run::run(&options).await.with_context(|| format!("seed {seed}"))?;
        let failovers = outcome.failovers.as_ref().context("a cluster's run has its times")?;
        let are_kept = failovers.lost_writes == 0 || options.shape.servers.may_lose_commits();
        let is_well = outcome.violations.is_empty() && are_kept && outcome.tally.impossible.is_empty();
        are_well &= is_well;
        let report = report::markdown(&options, &outcome, command, commit);
        let page = format!("{report}\n{}\n", page::of_run(failovers));
        println!("{page}");
        whole.push_str(&page);
        if is_well && args.evidence.is_none() {
            std::fs::remove_dir_all(&outcome.evidence)?;
        } else {
            println!("evidence: {}", outcome.evidence.display());
        }
        measured.extend(outcome.failovers);
    }
    let summary = page::of_all(&measured);
    println!("{summary}");
    if let Some(path) = &args.report {
        whole.push_str(&summary);
        std::fs::write(path, &whole).with_context(|| format!("can't write {}", path.display()))?;
    }
    Ok(are_well)
}

fn options(args: &Args, seed: u64) -> Result<Options> {
    let replication = if args.asynchronous {
        Replication::Asynchronous
    } else {
        Replication::Synchronous
    };
    let label = format!("ha-{seed}");
    let directory = match &args.evidence {
        Some(folder) => folder.join(&label),
        None => world::directory(&label),
    };
    Ok(Options {
        seed,
        span: Duration::from_secs(args.seconds),
        every: Duration::ZERO,
        users: args.users,
        loads: if args.loads.is_empty() {
            load::all()
        } else {
            load::named(&args.loads)?
        },
        faults: faults::named(&args.faults, replication)?,
        overture: false,
        moving: 0,
        patience: run::PATIENCE,
        shape: Shape {
            apis: args.apis,
            workers: args.workers,
            lease: Duration::from_millis(args.lease_ms),
            projects: world::PROJECTS,
            directory,
            environment: Vec::new(),
            servers: Kind::Patroni(replication),
            other_build: None,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_a_number_or_a_range() {
        assert_eq!(seeds("3"), Ok(3..=3));
        assert_eq!(seeds("1..10"), Ok(1..=10));
        assert_eq!(seeds("1..=10"), Ok(1..=10));
        for wrong in ["", "..", "a", "3..1", "-1"] {
            assert!(seeds(wrong).is_err(), "{wrong}");
        }
    }
}
