//! `chaos`: runs, checks, the broken builds; and the processes started by a run.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::{Parser, Subcommand};
use rejoin_chaos::cluster::Replication;
use rejoin_chaos::run::Options;
use rejoin_chaos::servers::Kind;
use rejoin_chaos::world::{self, Shape};
use rejoin_chaos::{broken, cells, checker, dags, failovers, faults, ha, load, mcp_server, report, run, soak, worker};
use rejoin_cli::exit::Exit;
use rejoin_cli::global::Global;
use rejoin_cli::out::Out;
use sqlx::postgres::PgPoolOptions;

/// The product under load while everything fails that can fail.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Load, faults, and a verdict
    Run(RunArgs),
    /// Load over a Patroni cluster, faults of the cluster, and a verdict with their times (needs Patroni, etcd and HAProxy)
    Ha(ha::Args),
    /// Load over two databases, between which projects move, faults, and a verdict
    Cells(cells::Args),
    /// The verdict on what an earlier run (or a program of yours) left behind
    Check {
        #[arg(long, env = "DATABASE_URL")]
        database_url: String,
        /// The directory with posts, readers, ledger, faults and notes
        evidence: PathBuf,
    },
    /// Builds that break one promise each: the checker must fail each (a debug build, or one with the feature `fault-injection`)
    Broken { names: Vec<String> },
    /// DAGs of tasks and trees of agents while workers are killed at random: each task once, each join once
    Dags {
        #[arg(long, default_value_t = 20)]
        seeds: u64,
        #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u16).range(20..=2000))]
        tasks: u16,
        /// Write the report there, too
        #[arg(long)]
        report: Option<PathBuf>,
    },
    /// Thousands of conversations for an hour: do memory and tables stay as large as they are?
    Soak(SoakArgs),
    /// What can be done to the system, and what users do
    List,
    #[command(hide = true)]
    Api(Box<rejoin_cli::api::Args>),
    #[command(hide = true)]
    Worker(Box<worker::Args>),
    #[command(hide = true)]
    RejoinCells(rejoin_cli::cells::Args),
    #[command(hide = true)]
    McpServer(mcp_server::Args),
}

#[derive(clap::Args)]
struct RunArgs {
    /// The same seed makes the same plans of load and faults (not the same timing)
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How long faults rage [seconds]
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// On average, from one fault to the next [milliseconds]
    #[arg(long, default_value_t = 1_500)]
    every_ms: u64,
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
    #[arg(long, default_value_t = 3)]
    workers: usize,
    #[arg(long, default_value_t = 3_000)]
    lease_ms: u64,
    /// With a synchronous standby that takes over at some moment
    #[arg(long)]
    standby: bool,
    /// Another build of this program, of an earlier revision: processes begin with it, and each drain replaces a process by one of the other
    /// build (scripts/test-upgrade.sh)
    #[arg(long)]
    other_build: Option<PathBuf>,
    /// Without the time of lost wake-ups before all else
    #[arg(long)]
    no_overture: bool,
    /// Where evidence goes; a directory of its own below the temporary one, removed if all is well, unless given
    #[arg(long)]
    evidence: Option<PathBuf>,
    /// Write the report there, too
    #[arg(long)]
    report: Option<PathBuf>,
}

#[derive(clap::Args)]
struct SoakArgs {
    #[arg(long, default_value_t = 2_000)]
    conversations: usize,
    #[arg(long, default_value_t = 60)]
    minutes: u64,
    /// On average, between two turns of a conversation [seconds]
    #[arg(long, default_value_t = 100)]
    pause_s: u64,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where the report and its plots go
    #[arg(long, default_value = "docs/reports/reliability")]
    out: PathBuf,
}

fn main() -> ExitCode {
    if rustls::crypto::aws_lc_rs::default_provider().install_default().is_err() {
        eprintln!("chaos: another TLS provider was already chosen");
        return ExitCode::FAILURE;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let done = runtime
        .context("no runtime")
        .and_then(|runtime| runtime.block_on(obey(Cli::parse().command)));
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("chaos: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stdout, reason = "the verdict goes to whoever asked")]
async fn obey(command: Command) -> Result<ExitCode> {
    match command {
        Command::Run(args) => {
            rejoin_db::telemetry::init(false);
            start(args).await
        }
        Command::Ha(args) => {
            rejoin_db::telemetry::init(false);
            ha::run(&args, &words(), &commit()).await.map(code)
        }
        Command::Cells(args) => {
            rejoin_db::telemetry::init(false);
            cells::run(&args, &words(), &commit()).await.map(code)
        }
        Command::Check { database_url, evidence } => {
            let db = PgPoolOptions::new()
                .connect(&database_url)
                .await
                .context("can't reach the database")?;
            let case = checker::load(&[db], &evidence).await?;
            let violations = checker::check(&case);
            for violation in &violations {
                println!("{violation}");
            }
            println!("{} violations", violations.len());
            Ok(code(violations.is_empty()))
        }
        Command::Broken { names } => broken::run(&names).await.map(|()| ExitCode::SUCCESS),
        Command::Soak(args) => {
            rejoin_db::telemetry::init(false);
            let directory = world::directory("soak");
            let options = soak::Options {
                conversations: args.conversations,
                span: Duration::from_secs(args.minutes * 60),
                pause: Duration::from_secs(args.pause_s),
                seed: args.seed,
                shape: Shape {
                    apis: 2,
                    workers: 2,
                    lease: Duration::from_secs(15),
                    projects: world::PROJECTS,
                    directory: directory.clone(),
                    environment: Vec::new(),
                    servers: Kind::Single,
                    other_build: None,
                },
                out: args.out,
            };
            soak::run(&options).await?;
            std::fs::remove_dir_all(directory)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Dags { seeds, tasks, report } => {
            rejoin_db::telemetry::init(false);
            let directory = world::directory("dags");
            let options = dags::Options {
                seeds,
                tasks: usize::from(tasks),
                report,
                shape: Shape {
                    apis: 1,
                    workers: 3,
                    lease: Duration::from_millis(1_500),
                    projects: world::PROJECTS,
                    directory: directory.clone(),
                    environment: Vec::new(),
                    servers: Kind::Single,
                    other_build: None,
                },
            };
            let is_well = dags::run(&options).await?;
            if is_well {
                std::fs::remove_dir_all(directory)?;
            }
            Ok(code(is_well))
        }
        Command::McpServer(args) => mcp_server::run(&args).await.map(|()| ExitCode::SUCCESS),
        Command::List => {
            for fault in faults::all() {
                println!("fault {:<24} {}", fault.name(), fault.number());
            }
            for (replication, of) in [
                (Replication::Synchronous, "of a Patroni cluster"),
                (Replication::Asynchronous, "with `chaos ha --asynchronous`"),
            ] {
                for fault in failovers::faults::all(replication) {
                    println!("fault {:<24} {}, {of}", fault.name(), fault.number());
                }
            }
            for fault in faults::of_cells() {
                println!("fault {:<24} {}, of `chaos cells`", fault.name(), fault.number());
            }
            for load in load::all() {
                println!("load  {}", load.name());
            }
            Ok(ExitCode::SUCCESS)
        }
        Command::Api(args) => served(rejoin_cli::api::run(&global(), *args, Out::new(false)).await),
        Command::Worker(args) => served(worker::run(*args).await),
        Command::RejoinCells(args) => {
            let directory = Global {
                database_url: std::env::var("DATABASE_URL").ok(),
                ..global()
            };
            served(rejoin_cli::cells::run(&directory, args, Out::new(false)).await)
        }
    }
}

/// The global arguments of `rejoin api`.
fn global() -> Global {
    Global {
        json: false,
        database_url: None,
        url: None,
        api_key: None,
    }
}

fn served(exit: Result<Exit>) -> Result<ExitCode> {
    exit.map(Into::into)
}

fn code(is_well: bool) -> ExitCode {
    if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[expect(clippy::print_stdout, reason = "the report goes to whoever asked")]
async fn start(args: RunArgs) -> Result<ExitCode> {
    let label = format!("seed-{}", args.seed);
    let mut options = Options {
        seed: args.seed,
        span: Duration::from_secs(args.seconds),
        every: Duration::from_millis(args.every_ms),
        users: args.users,
        loads: if args.loads.is_empty() {
            load::all()
        } else {
            load::named(&args.loads)?
        },
        faults: if args.faults.is_empty() {
            faults::all()
        } else {
            faults::named(&faults::all(), &args.faults)?
        },
        overture: !args.no_overture,
        moving: 0,
        patience: run::PATIENCE,
        shape: Shape {
            apis: args.apis,
            workers: args.workers,
            lease: Duration::from_millis(args.lease_ms),
            projects: world::PROJECTS,
            directory: args.evidence.clone().unwrap_or_else(|| world::directory(&label)),
            environment: Vec::new(),
            servers: if args.standby { Kind::WithStandby } else { Kind::Single },
            other_build: args.other_build,
        },
    };
    if args.standby {
        options.faults.push(std::sync::Arc::new(faults::FailOver));
    }
    let outcome = run::run(&options).await?;
    let page = report::markdown(&options, &outcome, &words(), &commit());
    println!("{page}");
    if let Some(path) = &args.report {
        std::fs::write(path, &page).with_context(|| format!("can't write {}", path.display()))?;
    }
    let is_well = outcome.violations.is_empty();
    if is_well && args.evidence.is_none() {
        std::fs::remove_dir_all(&outcome.evidence)?;
    } else {
        println!("evidence: {}", outcome.evidence.display());
    }
    Ok(code(is_well))
}

/// How we were called.
fn words() -> String {
    let words: Vec<String> = std::env::args().skip(1).collect();
    format!("chaos {}", words.join(" "))
}

/// The commit of the sources, if known.
fn commit() -> String {
    let asked = std::process::Command::new("git")
        .args(["rev-parse", "--short=10", "HEAD"])
        .output();
    let said = asked.ok().filter(|output| output.status.success());
    said.map_or("unknown".to_owned(), |output| {
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    })
}
