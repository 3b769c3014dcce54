//! The scenario trait and its runner.
//!
//! A scenario declares its tables and measures one repetition at a time; the runner collects the values. Ours, its
//! peers and its limits are measured within each repetition, one after the other, so that noise affects them alike.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use async_trait::async_trait;
use clap::Args;

use crate::machine::Machine;
use crate::results::{Claim, Results, Row, ScenarioResult, Size, Table};
use crate::server::Server;
use crate::{default_results, here, print};

#[derive(Debug, Args)]
pub struct RunArgs {
    /// Which (all, unless named)
    pub scenarios: Vec<String>,

    /// Repetitions of each
    #[arg(long, env = "BENCH_REPS", default_value_t = 3)]
    pub reps: u32,

    /// How much: `full`, `smoke` (does it run at all), `large` (what takes an hour)
    #[arg(long, value_enum, env = "BENCH_SIZE", default_value_t = Size::Full)]
    pub size: Size,

    /// Where the results go; scenarios that are there and not measured now stay
    #[arg(long, default_value_os_t = default_results())]
    pub out: PathBuf,

    /// Leaves the peers out: ours and the limits alone
    #[arg(long, env = "BENCH_NO_PEERS", value_parser = clap::builder::FalseyValueParser::new())]
    pub no_peers: bool,
}

/// The context of a repetition.
pub struct Context {
    pub size: Size,
    /// 0, 1, 2 …
    pub rep: u32,
    /// Of how many.
    pub reps: u32,
    /// Whether available peers are measured, too.
    pub peers: bool,
    /// Where the results go, for what is too long for a table.
    pub folder: PathBuf,
    /// The run's PostgreSQL: durable, as `rejoin dev` starts it.
    pub server: Server,
}

impl Context {
    /// Whether this is the last repetition.
    pub fn is_last(&self) -> bool {
        self.rep + 1 >= self.reps
    }

    /// `full` in a measured run, `smoke` if only function matters.
    pub fn sized<T>(&self, full: T, smoke: T) -> T {
        if self.size == Size::Smoke { smoke } else { full }
    }
}

/// Records the values of one repetition.
#[derive(Debug)]
pub struct Recorder {
    tables: Vec<Table>,
    notes: Vec<String>,
}

impl Recorder {
    /// Adds a value to a cell. Tables and columns are those that the scenario declared; rows appear in the order of their first value.
    pub fn record(&mut self, table: &str, row: &str, column: &str, value: f64) {
        let found = self.tables.iter_mut().find(|candidate| candidate.key == table);
        let table = found.unwrap_or_else(|| panic!("the scenario declares no table {table}"));
        assert!(
            table.columns.iter().any(|candidate| candidate.key == column),
            "table {} has no column {column}",
            table.key
        );
        let index = table
            .rows
            .iter()
            .position(|candidate| candidate.label == row)
            .unwrap_or_else(|| {
                table.rows.push(Row {
                    label: row.to_owned(),
                    cells: std::collections::BTreeMap::new(),
                });
                table.rows.len() - 1
            });
        table.rows[index]
            .cells
            .entry(column.to_owned())
            .or_default()
            .push(value);
    }

    /// Adds a note for readers of the tables, once.
    pub fn note(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.notes.contains(&text) {
            self.notes.push(text);
        }
    }

    /// Returns the values so far (for claims).
    pub fn table(&self, key: &str) -> &Table {
        self.tables
            .iter()
            .find(|table| table.key == key)
            .unwrap_or_else(|| panic!("no table {key}"))
    }
}

#[async_trait]
pub trait Scenario: Send + Sync {
    /// One word.
    fn name(&self) -> &'static str;
    /// One sentence.
    fn about(&self) -> &'static str;
    fn tables(&self) -> Vec<Table>;
    /// Called once, before the repetitions, unless peers are excluded: installs and builds them. Unavailable ones cause
    /// a note, not an error.
    async fn prepare(&self, _size: Size, _out: &mut Recorder) -> Result<()> {
        Ok(())
    }
    /// One repetition.
    async fn measure(&self, context: &Context, out: &mut Recorder) -> Result<()>;
    /// Returns the claims about Rejoin, from all repetitions.
    fn claims(&self, _found: &Recorder) -> Vec<Claim> {
        Vec::new()
    }
}

/// Runs the scenarios named in the arguments, or all of them.
pub async fn run(all: Vec<Box<dyn Scenario>>, arguments: RunArgs) -> Result<()> {
    if let Some(unknown) = arguments
        .scenarios
        .iter()
        .find(|name| all.iter().all(|scenario| scenario.name() != **name))
    {
        let names: Vec<&str> = all.iter().map(|scenario| scenario.name()).collect();
        bail!("there is no scenario {unknown}; there are: {}", names.join(", "));
    }
    let mut results = Results::read(&arguments.out)?;
    let machine = here::machine()?;
    println!("{}", machine.line());
    // Fresh for each scenario, so that leftovers don't slow the next. One for all if figures don't matter.
    let shared = match arguments.size {
        Size::Smoke => Some(Server::start().await?),
        Size::Full | Size::Large => None,
    };
    let mut failed = Vec::new();
    for scenario in all {
        if !arguments.scenarios.is_empty() && !arguments.scenarios.iter().any(|name| name == scenario.name()) {
            continue;
        }
        println!("\n== {}: {}", scenario.name(), scenario.about());
        match one(scenario.as_ref(), &arguments, &machine, shared.clone()).await {
            Ok(result) => {
                print::scenario(&result);
                results.scenarios.insert(scenario.name().to_owned(), result);
                results.write(&arguments.out)?;
            }
            // The others are still measured.
            Err(error) => {
                println!("{} failed: {error:#}", scenario.name());
                failed.push(scenario.name());
            }
        }
    }
    if let Some(server) = shared {
        server.stop().await?;
    }
    println!("\nresults: {}", arguments.out.display());
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}

async fn one(
    scenario: &dyn Scenario,
    arguments: &RunArgs,
    machine: &Machine,
    shared: Option<Server>,
) -> Result<ScenarioResult> {
    let began = Instant::now();
    let mut out = Recorder {
        tables: scenario.tables(),
        notes: Vec::new(),
    };
    if !arguments.no_peers {
        scenario.prepare(arguments.size, &mut out).await.context("preparing")?;
    }
    let mut context = Context {
        size: arguments.size,
        rep: 0,
        reps: 1,
        peers: !arguments.no_peers,
        folder: arguments.out.parent().map(PathBuf::from).unwrap_or_default(),
        server: match &shared {
            Some(server) => server.clone(),
            None => Server::start().await?,
        },
    };
    let reps = if arguments.size == Size::Smoke {
        1
    } else {
        arguments.reps
    };
    context.reps = reps;
    for rep in 0..reps {
        context.rep = rep;
        println!("-- repetition {} of {reps}", rep + 1);
        scenario
            .measure(&context, &mut out)
            .await
            .with_context(|| format!("repetition {}", rep + 1))?;
    }
    if shared.is_none() {
        context.server.stop().await?;
    }
    let claims = scenario.claims(&out);
    Ok(ScenarioResult {
        about: scenario.about().to_owned(),
        machine: machine.clone(),
        commit: here::commit(),
        measured_at: here::today(),
        size: arguments.size,
        reps,
        took_s: began.elapsed().as_secs_f64(),
        tables: out.tables.into_iter().map(Table::measured).collect(),
        claims,
        notes: out.notes,
    })
}
