//! Benchmarks: Rejoin compared with its peers, and with the limits of PostgreSQL and the machine.
//!
//! # Layout
//! - `scenario`   the scenario trait and its runner
//! - `scenarios/` one scenario per file, and the list of all
//! - `server`     the private PostgreSQL of a run, and fresh migrated databases on it
//! - `product`    the deployed product, with a model
//! - `model`      that model: instant, and it reports its request times
//! - `chat`       a client that posts a message and times its answer
//! - `process`    real processes of the product, their CPU time and memory
//! - `part`       parts of a load in separate processes
//! - `fleet`      such a part: thousands of readers
//! - `producer`   such a part: writes events on a schedule
//! - `pace_limit` such a part: the minimum cost of any server
//! - `paced`      one paced load over live readers, measured
//! - `posted`     claimed runs of posted messages
//! - `peers/`     the compared systems, fetched and started
//! - `runs`       runs held by a worker: logs with claimed jobs
//! - `follow`     a tailing connection, as in an API process
//! - `limits`     raw limits, measured in the same run: COPY, commits, fsync, loopback
//!
//! What is measured is kept in the tables of `rejoin_bench_tables`, which also draws and prints them, and calculates with them.
//!
//! Only ratios within one run on one machine are meaningful: machines are noisy. Nothing here is asserted.
#![expect(clippy::print_stdout, reason = "a command-line program: its tables go to stdout")]

mod chat;
mod fleet;
mod follow;
mod limits;
mod model;
mod pace_limit;
mod paced;
mod part;
mod peers;
mod posted;
mod process;
mod producer;
mod product;
mod runs;
mod scenario;
mod scenarios;
mod server;

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use rejoin_bench_tables::{capacity, compare, here, load, machine, print, report, results};

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
    /// Writes docs/reports/performance.md and its plots
    Report(report::ReportArgs),
    /// Writes docs/reports/capacity.md: what large fleets would need, from the results
    Capacity(capacity::CapacityArgs),
    /// Sets two results beside each other
    Compare(compare::CompareArgs),
    /// Is the model that scenarios talk to
    #[command(hide = true)]
    Model { address: String },
    /// A part of a load, which a scenario starts
    #[command(hide = true)]
    Part { role: part::Role },
}

/// The default location of results.
fn default_results() -> PathBuf {
    PathBuf::from("target/bench/results.json")
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match Arguments::parse().verb {
        Verb::Run(arguments) => scenario::run(scenarios::all(), arguments).await,
        Verb::Part { role } => run_part(role).await,
        Verb::List => {
            for scenario in scenarios::all() {
                println!("{:<10} {}", scenario.name(), scenario.about());
            }
            Ok(())
        }
        Verb::Report(arguments) => {
            let scenarios = scenarios::all();
            let order: Vec<&str> = scenarios.iter().map(|scenario| scenario.name()).collect();
            report::write(&arguments, &order)
        }
        Verb::Capacity(arguments) => capacity::write(&arguments),
        Verb::Model { address } => model::serve(&address).await,
        Verb::Compare(arguments) => compare::run(&arguments),
    }
}

/// Runs a part of a load.
async fn run_part(role: part::Role) -> anyhow::Result<()> {
    match role {
        part::Role::Fleet => tokio::task::spawn_blocking(fleet::run).await?,
        part::Role::Producer => producer::run().await,
        part::Role::PaceLimit => tokio::task::spawn_blocking(pace_limit::run).await?,
    }
}
