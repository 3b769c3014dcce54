//! Where Rejoin stands beside its peers, and beside what PostgreSQL and the machine can do.
//!
//! # Layout
//! - `scenario`   what a scenario is, the list of all, and the runner that repeats them
//! - `scenarios/` one scenario a file
//! - `results`    the model of what was measured: tables of values, claims, plots; read and written as JSON
//! - `machine`    what it was measured on
//! - `server`     the private PostgreSQL of a run, and fresh migrated databases on it
//! - `process`    real processes of the product, their CPU time and memory
//! - `part`       parts of a load in processes of their own: `fleet` (thousands of readers), `producer` (writes events on a schedule),
//!                `pace_limit` (the least that any server can do)
//! - `paced`      one paced load over live readers, measured
//! - `runs`       runs that are claimed and go on
//! - `peers/`     what is compared with, fetched and started
//! - `load`       open-loop schedules, latency histograms, the monotonic clock that all processes share
//! - `limits`     raw limits, measured in the same run: COPY, commits, fsync, loopback
//! - `print`      tables for a terminal
//! - `report`     docs/PERFORMANCE.md with its plots, made from the results
//! - `compare`    two results beside each other
//!
//! Ratios of one run on one machine are what counts: these machines are noisy. Nothing here is asserted.
#![expect(clippy::print_stdout, reason = "a command-line program: its tables go to stdout")]

mod fleet;
mod limits;
mod load;
mod machine;
mod pace_limit;
mod paced;
mod part;
mod peers;
mod print;
mod process;
mod producer;
mod results;
mod runs;
mod scenario;
mod scenarios;
mod server;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(about = "Measures Rejoin beside its peers and its limits")]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Measures
    Run(scenario::RunArgs),
    /// Names the scenarios
    List,
    /// A part of a load, which a scenario starts
    #[command(hide = true)]
    Part { role: part::Role },
}

/// Where results are kept unless the command line says otherwise.
fn default_results() -> PathBuf {
    PathBuf::from("target/bench/results.json")
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match Arguments::parse().verb {
        Verb::Run(arguments) => scenario::run(arguments).await,
        Verb::Part { role } => part::run(role).await,
        Verb::List => {
            for scenario in scenarios::all() {
                println!("{:<10} {}", scenario.name(), scenario.about());
            }
            Ok(())
        }
    }
}
