//! The report: docs/reports/capacity.md.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::{Model, Needs, Routing};
use crate::print::{count, figure};
use crate::results::Results;

/// A row of the table of needs: its heading, how its values are written, and its value.
type Row = (&'static str, fn(f64) -> String, fn(&Needs) -> f64);

const ROWS: [Row; 14] = [
    ("events written [1/s]", figure, |needs| needs.events_per_s),
    ("events sent to readers [1/s]", figure, |needs| needs.deliveries_per_s),
    ("turns [1/s]", figure, |needs| needs.turns_per_s),
    ("cores of all API processes", figure, |needs| needs.api_cores),
    ("API processes", whole, |needs| needs.apis),
    ("memory of each, with its readers [MB]", figure, |needs| {
        needs.api_memory_mb
    }),
    ("cores of all workers, without models and tools", figure, |needs| {
        needs.worker_cores
    }),
    ("worker processes", whole, |needs| needs.workers),
    ("cores of all PostgreSQL primaries", figure, |needs| {
        needs.postgres_cores
    }),
    ("PostgreSQL clusters (cells)", whole, |needs| needs.cells),
    ("connections to each, without a pooler", whole, |needs| {
        needs.connections_per_cell
    }),
    ("hints that each API process receives, at most [1/s]", figure, |needs| {
        needs.hints_per_api
    }),
    ("space written in an hour [GB]", figure, |needs| {
        needs.written_per_hour_gb
    }),
    ("space kept of a day [GB]", figure, |needs| needs.kept_per_day_gb),
];

/// A number of things.
fn whole(number: f64) -> String {
    count(number.round() as usize)
}

pub(super) fn render(model: &Model, results: &Results) -> String {
    let mut page = String::new();
    write(&mut page, model, results).expect("a string takes all");
    page
}

fn write(page: &mut String, model: &Model, results: &Results) -> std::fmt::Result {
    let (inputs, of) = (&model.inputs, &model.inputs.assumptions);
    writeln!(
        page,
        "<!-- Made by `bench capacity` from bench/capacity.json and bench/results/latest.json. Change these or bench/bench-tables/src/capacity.rs, not this page. -->\n\
         # Capacity\n\n\
         What large fleets would need: a calculation from measured costs, not a measurement. `cargo run --profile fast -p rejoin-bench --bin bench -- capacity` writes \
         this page.\n\n\
         The model multiplies. Costs per event, delivery and turn were measured on one machine with two cores ([performance](performance.md)), and are taken to be the \
         same at any size: it knows no contention, no network, and no model or tool. What was not measured is not in it.\n\n\
         ## Measured inputs\n\n\
         | input | value | measured by | on |\n| --- | ---: | --- | --- |"
    )?;
    for (name, input) in &inputs.inputs {
        let measured_at = results
            .scenarios
            .get(&input.scenario)
            .map_or("", |scenario| scenario.measured_at.as_str());
        writeln!(
            page,
            "| {} | {} | `make bench{} SCENARIO={}`: {}, {} | {measured_at} |",
            input.what,
            figure(model.cost(name)),
            if input.scenario == "scale" { "-scale" } else { "" },
            input.scenario,
            input.row,
            input.column
        )?;
    }
    writeln!(
        page,
        "\n## Assumptions\n\n\
         - Each reader follows one active run. A run is one turn with a tool call, takes {:.0} s, and writes {:.0} events a second, none of which are merged.\n\
         - Machines are used to {:.0} %. An API process has {:.0} cores and at most {} streams (`REJOIN_MAX_STREAMS`), a worker {:.0} slots (`REJOIN_SLOTS`). A PostgreSQL server has {:.0} \
         cores, and {:.0} standbys of the same size.\n\
         - A process holds {:.0} connections to each cell that it works with: an API process with all, a worker with one.\n\
         - A process sends at most {} hints a second, because it waits a millisecond between two (`shared/event-log/src/wakeup/outbox.rs`). Each API process receives those of all workers.\n\
         - On average, the load is {:.0} % of the peak.\n",
        of.run_seconds,
        of.events_per_run_per_s,
        of.busy * 100.0,
        of.api_cores,
        figure(of.streams_per_api),
        of.worker_slots,
        of.primary_cores,
        of.standbys,
        of.connections_per_process,
        figure(of.hints_per_process_per_s),
        of.average_load * 100.0,
    )?;
    needs(page, model)?;
    limits(page, model)?;
    write_unknown(page, model)
}

fn needs(page: &mut String, model: &Model) -> std::fmt::Result {
    let shapes = &model.inputs.shapes;
    writeln!(
        page,
        "## What is needed\n\nThe readers of a conversation are at the same API process, where the balancer routes by the conversation's id.\n"
    )?;
    let heads: Vec<String> = shapes
        .iter()
        .map(|shape| format!("{} readers, {} runs", figure(shape.readers), figure(shape.runs)))
        .collect();
    writeln!(page, "| | {} |", heads.join(" | "))?;
    writeln!(page, "| --- |{}", " ---: |".repeat(heads.len()))?;
    let all: Vec<Needs> = shapes
        .iter()
        .map(|shape| model.needs(*shape, Routing::ByConversation))
        .collect();
    for (what, text, value) in ROWS {
        let cells: Vec<String> = all.iter().map(|needs| text(value(needs))).collect();
        writeln!(page, "| {what} | {} |", cells.join(" | "))?;
    }
    let money: Vec<String> = all.iter().map(|needs| figure(needs.usd_per_month)).collect();
    writeln!(page, "| machines [USD a month] | {} |", money.join(" | "))?;
    let spread: Vec<Needs> = shapes
        .iter()
        .map(|shape| model.needs(*shape, Routing::Spread))
        .collect();
    writeln!(
        page,
        "\nWithout such routing, an event is read by several API processes, and PostgreSQL answers more:\n"
    )?;
    writeln!(page, "| | {} |", heads.join(" | "))?;
    writeln!(page, "| --- |{}", " ---: |".repeat(heads.len()))?;
    let rows: [Row; 3] = [
        ("API processes that read an event", figure, |needs| needs.followers),
        ("cores of all PostgreSQL primaries", figure, |needs| {
            needs.postgres_cores
        }),
        ("PostgreSQL clusters (cells)", whole, |needs| needs.cells),
    ];
    for (what, text, value) in rows {
        let cells: Vec<String> = spread.iter().map(|needs| text(value(needs))).collect();
        writeln!(page, "| {what} | {} |", cells.join(" | "))?;
    }
    let prices = &model.inputs.prices;
    writeln!(
        page,
        "\nMoney: {} USD for a core and hour ({}; [source]({}), {}), 730 hours a month, for the API processes, the workers' cores and all PostgreSQL servers, and nothing else: neither disks, \
         nor traffic, nor NATS, nor models.\n",
        prices.core_hour_usd, prices.what, prices.source, prices.date
    )
}

fn limits(page: &mut String, model: &Model) -> std::fmt::Result {
    let readers_per_run = model
        .inputs
        .shapes
        .first()
        .map_or(1.0, |shape| shape.readers / shape.runs);
    writeln!(
        page,
        "## Where the first limit is\n\nOne PostgreSQL, with {} readers for each run, carries at most:\n\n| limit | runs at once | readers |\n| --- | ---: | ---: |",
        whole(readers_per_run)
    )?;
    for (what, runs) in model.limits(readers_per_run) {
        writeln!(
            page,
            "| {what} | {} | {} |",
            figure(runs),
            figure(runs * readers_per_run)
        )?;
    }
    writeln!(
        page,
        "\nThe first one is lifted by a [pooler](../operations/poolers.md) and more slots for each worker; the others by more cells, each with its own PostgreSQL.\n"
    )
}

fn write_unknown(page: &mut String, model: &Model) -> std::fmt::Result {
    let largest = model.inputs.shapes.last().copied();
    let hints = largest.map(|shape| model.needs(shape, Routing::ByConversation).hints_per_api);
    let scenarios: BTreeSet<&str> = model
        .inputs
        .inputs
        .values()
        .map(|input| input.scenario.as_str())
        .collect();
    writeln!(
        page,
        "## What is not known\n\n\
         - **Hints.** All hints have one subject, so each API process may receive up to {} a second in the largest fleet above, most of them about logs that it does not follow. How many a process, or a NATS server, \
         can take was not measured; {:.0} servers are the least of a cluster that survives a lost one. This is where a subject for each cell, or each log, would be needed first \
         ([decision 0066](../decisions/0066-nats-bus.md)).\n\
         - **Contention** in PostgreSQL above two cores: the rate of appends was measured there, and is not scaled up. So the number of cells is rather too high.\n\
         - **Reconnects.** A reader that reconnects costs an API process {} ms; if one with 50,000 of them is lost, that is {} s of a core, on top of the load.\n\
         - **Memory** of a run in a worker, disks and the network.\n\n\
         The inputs are repeated by `make bench SCENARIO=…` for {}.",
        hints.map_or_else(String::new, figure),
        model.inputs.assumptions.nats_servers,
        figure(model.cost("api_ms_per_reconnect")),
        figure(model.cost("api_ms_per_reconnect") * 50.0),
        scenarios.into_iter().collect::<Vec<_>>().join(", ")
    )
}
