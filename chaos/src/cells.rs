//! `chaos cells`: runs over two databases, between which some of the projects move all the time, while users work and processes die.

use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::ha::seeds;
use crate::moves::Moves;
use crate::recovery::quantile;
use crate::run::{self, Options};
use crate::servers::Kind;
use crate::world::{self, Shape};
use crate::{faults, load, report};

#[derive(Debug, clap::Args)]
#[group(id = "chaos-cells")]
pub struct Args {
    /// Seeds of the plans of load, faults and moves: `3`, or `1..10`, both included
    #[arg(long, default_value = "1", value_parser = seeds)]
    seeds: RangeInclusive<u64>,
    /// How long faults are injected, and projects moved, in each run [seconds]
    #[arg(long, default_value_t = 120)]
    seconds: u64,
    /// On average, from one fault to the next [milliseconds]
    #[arg(long, default_value_t = 3_000)]
    every_ms: u64,
    /// Half of them are on each database
    #[arg(long, default_value_t = 20)]
    projects: usize,
    /// How many of them move
    #[arg(long, default_value_t = 5)]
    moving: usize,
    /// At once
    #[arg(long, default_value_t = 60)]
    users: usize,
    /// Only these, separated by commas
    #[arg(long, value_delimiter = ',')]
    faults: Vec<String>,
    /// Only these, separated by commas
    #[arg(long, value_delimiter = ',')]
    loads: Vec<String>,
    #[arg(long, default_value_t = 2)]
    apis: usize,
    /// For each database
    #[arg(long, default_value_t = 2)]
    workers: usize,
    #[arg(long, default_value_t = 3_000)]
    lease_ms: u64,
    /// Where evidence goes, in a folder for each seed; below the temporary folder, and removed if all is well, unless given
    #[arg(long)]
    evidence: Option<PathBuf>,
    /// Write the report there, too
    #[arg(long)]
    report: Option<PathBuf>,
}

/// Executes the runs. `command`: how it was called; `commit`: of the sources. Returns whether all is well.
///
/// # Errors
/// PostgreSQL is missing, or a project can't be moved.
#[expect(clippy::print_stdout, reason = "the report is what was asked for")]
pub async fn run(args: &Args, command: &str, commit: &str) -> Result<bool> {
    let (mut whole, mut are_well) = (String::new(), true);
    for seed in args.seeds.clone() {
        let options = options(args, seed)?;
        let outcome = run::run(&options).await.with_context(|| format!("seed {seed}"))?;
        let is_well = outcome.violations.is_empty();
        are_well &= is_well;
        let moves = outcome.moves.as_ref().context("a run with cells has its moves")?;
        let page = format!(
            "{}\n{}\n",
            report::markdown(&options, &outcome, command, commit),
            page(args, moves)
        );
        println!("{page}");
        whole.push_str(&page);
        if is_well && args.evidence.is_none() {
            std::fs::remove_dir_all(&outcome.evidence)?;
        } else {
            println!("evidence: {}", outcome.evidence.display());
        }
    }
    if let Some(path) = &args.report {
        std::fs::write(path, &whole).with_context(|| format!("can't write {}", path.display()))?;
    }
    Ok(are_well)
}

fn options(args: &Args, seed: u64) -> Result<Options> {
    let label = format!("cells-{seed}");
    let directory = match &args.evidence {
        Some(folder) => folder.join(&label),
        None => world::directory(&label),
    };
    Ok(Options {
        seed,
        span: Duration::from_secs(args.seconds),
        every: Duration::from_millis(args.every_ms),
        users: args.users,
        loads: if args.loads.is_empty() {
            load::without_packages()
        } else {
            load::named(&args.loads)?
        },
        faults: if args.faults.is_empty() {
            faults::of_cells()
        } else {
            faults::named(&faults::of_cells(), &args.faults)?
        },
        overture: false,
        moving: args.moving,
        patience: run::PATIENCE,
        shape: Shape {
            apis: args.apis,
            workers: args.workers,
            lease: Duration::from_millis(args.lease_ms),
            projects: args.projects,
            directory,
            environment: Vec::new(),
            servers: Kind::WithCell,
            other_build: None,
        },
    })
}

/// Formats the moves in Markdown.
fn page(args: &Args, moves: &Moves) -> String {
    let mut sorted = moves.took_ms.clone();
    sorted.sort_by(f64::total_cmp);
    let at = |q| quantile(&sorted, q).map_or("–".to_owned(), |ms| format!("{:.1}", ms / 1_000.0));
    let mut page = format!(
        "{} of {} projects moved between two databases {} times; a move took {} s (p50), at most {} s. {} commands were killed, and {} moves undone.\n",
        args.moving,
        args.projects,
        sorted.len(),
        at(0.5),
        at(1.0),
        moves.killed,
        moves.undone
    );
    if !moves.failed.is_empty() {
        page.push_str("\n| commands that failed, and were repeated | times |\n| --- | ---: |\n");
        for (error, times) in &moves.failed {
            let _ = writeln!(page, "| {} | {times} |", error.replace('|', " "));
        }
    }
    page
}
