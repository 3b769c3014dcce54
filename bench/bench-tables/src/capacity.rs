//! `bench capacity`: a model of large fleets from measured costs. It reads the costs of bench/results/latest.json that bench/capacity.json names, and
//! the assumptions there, and writes docs/reports/capacity.md.
//!
//! The model is linear: costs are per event, delivery and turn, as they were measured on one machine. It knows no contention, and no limits that
//! were not measured; the page names them.
//!
//! - `page` the report

mod page;

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Args;
use serde::Deserialize;

use crate::results::{Results, median};

const PAGE: &str = "capacity.md";
/// Maximum number of runs that is looked at when the largest number is searched.
const RUNS_MAX: f64 = 1e9;

#[derive(Debug, Args)]
pub struct CapacityArgs {
    /// The inputs, assumptions and prices
    #[arg(long, default_value = "bench/capacity.json")]
    pub inputs: PathBuf,

    /// Results of `bench run`
    #[arg(long, default_value = "bench/results/latest.json")]
    pub results: PathBuf,

    /// Where the page goes
    #[arg(long, default_value = "docs/reports")]
    pub docs: PathBuf,
}

/// bench/capacity.json.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Inputs {
    inputs: BTreeMap<String, Input>,
    shapes: Vec<Shape>,
    assumptions: Assumptions,
    prices: Prices,
}

/// A measured cost: a cell of a table of the results.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    what: String,
    scenario: String,
    table: String,
    row: String,
    column: String,
    /// The cost is the cell, times this; with `reciprocal`, this divided by the cell.
    #[serde(default = "one")]
    times: f64,
    #[serde(default)]
    reciprocal: bool,
}

fn one() -> f64 {
    1.0
}

/// A load: each reader follows a run that is active.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct Shape {
    readers: f64,
    runs: f64,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct Assumptions {
    events_per_run_per_s: f64,
    /// Duration of a run, of one turn with a tool call.
    run_seconds: f64,
    /// The part of a machine that is planned with.
    busy: f64,
    /// Cores of an API process.
    api_cores: f64,
    /// Cores of a PostgreSQL server.
    primary_cores: f64,
    standbys: f64,
    worker_slots: f64,
    streams_per_api: f64,
    connections_per_process: f64,
    max_connections: f64,
    /// The most that a process sends: one message per millisecond (`shared/event-log/src/wakeup/outbox.rs`).
    hints_per_process_per_s: f64,
    nats_servers: f64,
    /// The average load, as a part of the peak.
    average_load: f64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Prices {
    core_hour_usd: f64,
    what: String,
    date: String,
    source: String,
}

/// Where the readers of a conversation are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Routing {
    /// At any API process.
    Spread,
    /// All at one: the balancer routes by conversation.
    ByConversation,
}

/// What a load needs.
#[derive(Debug, Clone, Copy)]
struct Needs {
    events_per_s: f64,
    deliveries_per_s: f64,
    turns_per_s: f64,
    api_cores: f64,
    apis: f64,
    api_memory_mb: f64,
    worker_cores: f64,
    workers: f64,
    /// API processes that read an event.
    followers: f64,
    postgres_cores: f64,
    cells: f64,
    connections_per_cell: f64,
    /// Messages per second that each API process receives, at most.
    hints_per_api: f64,
    written_per_hour_gb: f64,
    kept_per_day_gb: f64,
    usd_per_month: f64,
}

/// The costs, by their names in bench/capacity.json.
struct Model {
    inputs: Inputs,
    costs: BTreeMap<String, f64>,
}

impl Model {
    fn new(inputs: Inputs, results: &Results) -> Result<Self> {
        let mut costs = BTreeMap::new();
        for (name, input) in &inputs.inputs {
            costs.insert(name.clone(), cost(input, results).with_context(|| name.clone())?);
        }
        Ok(Self { inputs, costs })
    }

    fn cost(&self, name: &str) -> f64 {
        *self
            .costs
            .get(name)
            .unwrap_or_else(|| panic!("bench/capacity.json has no input {name}"))
    }

    fn needs(&self, shape: Shape, routing: Routing) -> Needs {
        let of = &self.inputs.assumptions;
        let events_per_s = shape.runs * of.events_per_run_per_s;
        let deliveries_per_s = shape.readers * of.events_per_run_per_s;
        let turns_per_s = shape.runs / of.run_seconds;
        let api_cores = deliveries_per_s * self.cost("api_us_per_delivery") / 1e6
            + turns_per_s * self.cost("api_ms_per_turn") / 1e3;
        let apis = (api_cores / (of.api_cores * of.busy)).max(shape.readers / of.streams_per_api);
        let apis = apis.ceil().max(1.0);
        let worker_cores =
            events_per_s * self.cost("writer_us_per_event") / 1e6 + turns_per_s * self.cost("worker_ms_per_turn") / 1e3;
        let workers = (shape.runs / of.worker_slots)
            .max(worker_cores / of.busy)
            .ceil()
            .max(1.0);
        let followers = match routing {
            Routing::ByConversation => 1.0,
            // The expected number of different processes among the readers of a run.
            Routing::Spread => apis * (1.0 - (1.0 - 1.0 / apis).powf(shape.readers / shape.runs)),
        };
        let postgres_cores = events_per_s
            * (self.cost("postgres_us_per_event") + (followers - 1.0).max(0.0) * self.cost("postgres_us_per_read"))
            / 1e6
            + turns_per_s * self.cost("postgres_ms_per_turn") / 1e3;
        let by_cores = postgres_cores / (of.primary_cores * of.busy);
        let by_appends = events_per_s / (self.cost("appends_per_s") * of.busy);
        let cells = by_cores.max(by_appends).ceil().max(1.0);
        let cores = apis * of.api_cores + worker_cores / of.busy + cells * of.primary_cores * (1.0 + of.standbys);
        Needs {
            events_per_s,
            deliveries_per_s,
            turns_per_s,
            api_cores,
            apis,
            api_memory_mb: self.cost("api_idle_mb") + shape.readers / apis * self.cost("api_kb_per_reader") / 1024.0,
            worker_cores,
            workers,
            followers,
            postgres_cores,
            cells,
            connections_per_cell: of.connections_per_process * (apis + workers / cells),
            hints_per_api: workers * of.hints_per_process_per_s,
            written_per_hour_gb: events_per_s * 3_600.0 * self.cost("bytes_new") / 1e9,
            kept_per_day_gb: events_per_s * 86_400.0 * of.average_load * self.cost("bytes_compacted") / 1e9,
            usd_per_month: cores * self.inputs.prices.core_hour_usd * 730.0,
        }
    }

    /// The largest number of runs, with `readers_per_run` readers each, whose needs fit.
    fn largest(&self, readers_per_run: f64, routing: Routing, fits: impl Fn(&Needs) -> bool) -> f64 {
        let fit = |runs: f64| {
            let shape = Shape {
                readers: runs * readers_per_run,
                runs,
            };
            fits(&self.needs(shape, routing))
        };
        let (mut low, mut high) = (0.0, 1.0);
        while high < RUNS_MAX && fit(high) {
            low = high;
            high *= 2.0;
        }
        while high - low > 1.0 {
            let middle = f64::midpoint(low, high).floor();
            if fit(middle) {
                low = middle;
            } else {
                high = middle;
            }
        }
        low
    }

    /// What one PostgreSQL carries, by what ends first: each with the number of runs.
    fn limits(&self, readers_per_run: f64) -> Vec<(String, f64)> {
        let of = self.inputs.assumptions;
        let cores = of.primary_cores * of.busy;
        let appends = self.cost("appends_per_s") * of.busy;
        let by_conversation = Routing::ByConversation;
        let mut limits = vec![
            (
                format!(
                    "connections without a pooler: {:.0} of each process, {:.0} in all",
                    of.connections_per_process, of.max_connections
                ),
                self.largest(readers_per_run, by_conversation, |needs| {
                    (needs.apis + needs.workers) * of.connections_per_process <= of.max_connections
                }),
            ),
            (
                "appended events, at the measured rate of two cores".to_owned(),
                self.largest(readers_per_run, by_conversation, |needs| needs.events_per_s <= appends),
            ),
            (
                format!(
                    "cores of PostgreSQL ({:.0}), readers of a conversation at one API process",
                    of.primary_cores
                ),
                self.largest(readers_per_run, by_conversation, |needs| needs.postgres_cores <= cores),
            ),
            (
                format!(
                    "cores of PostgreSQL ({:.0}), readers spread over all API processes",
                    of.primary_cores
                ),
                self.largest(readers_per_run, Routing::Spread, |needs| needs.postgres_cores <= cores),
            ),
        ];
        limits.sort_by(|(_, a), (_, b)| a.total_cmp(b));
        limits
    }
}

/// Reads a cost from the results.
fn cost(input: &Input, results: &Results) -> Result<f64> {
    let scenario = results
        .scenarios
        .get(&input.scenario)
        .with_context(|| format!("{} was not measured: make bench SCENARIO={0}", input.scenario))?;
    let table = scenario
        .tables
        .iter()
        .find(|table| table.key == input.table)
        .with_context(|| format!("{} has no table {}", input.scenario, input.table))?;
    let value = median(table.values(&input.row, &input.column))
        .with_context(|| format!("{}: no {} of {}", input.scenario, input.column, input.row))?;
    Ok(if input.reciprocal {
        input.times / value
    } else {
        input.times * value
    })
}

/// Writes the page.
pub fn write(arguments: &CapacityArgs) -> Result<()> {
    let text = std::fs::read_to_string(&arguments.inputs)
        .with_context(|| format!("reading {}", arguments.inputs.display()))?;
    let inputs: Inputs =
        serde_json::from_str(&text).with_context(|| format!("reading {}", arguments.inputs.display()))?;
    let results = Results::read(&arguments.results)?;
    let model = Model::new(inputs, &results)?;
    let file = arguments.docs.join(PAGE);
    std::fs::write(&file, page::render(&model, &results)).with_context(|| format!("writing {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model() -> Model {
        let inputs = serde_json::from_str(include_str!("../../capacity.json")).unwrap();
        let results = serde_json::from_str(include_str!("../../results/latest.json")).unwrap();
        Model::new(inputs, &results).unwrap()
    }

    #[test]
    fn needs_grow_with_the_load() {
        let model = model();
        let of = |runs: f64| {
            model.needs(
                Shape {
                    readers: runs * 10.0,
                    runs,
                },
                Routing::ByConversation,
            )
        };
        let (one, ten) = (of(10_000.0), of(100_000.0));
        assert!((ten.api_cores / one.api_cores - 10.0).abs() < 1e-6);
        assert!((ten.postgres_cores / one.postgres_cores - 10.0).abs() < 1e-6);
        assert!(ten.cells > one.cells && ten.apis > one.apis);
    }

    #[test]
    fn readers_that_are_spread_cost_the_database_more() {
        let model = model();
        let shape = Shape {
            readers: 100_000.0,
            runs: 10_000.0,
        };
        let (spread, one) = (
            model.needs(shape, Routing::Spread),
            model.needs(shape, Routing::ByConversation),
        );
        assert!(
            spread.followers > 1.0 && spread.followers <= 10.0,
            "{}",
            spread.followers
        );
        assert!(spread.postgres_cores > one.postgres_cores);
        assert!((spread.api_cores - one.api_cores).abs() < 1e-9);
    }

    #[test]
    fn the_limits_are_in_the_order_in_which_they_are_reached() {
        let limits = model().limits(10.0);
        assert_eq!(limits.len(), 4);
        assert!(limits.is_sorted_by(|(_, a), (_, b)| a <= b), "{limits:?}");
        assert!(limits.iter().all(|(_, runs)| *runs > 0.0), "{limits:?}");
    }
}
