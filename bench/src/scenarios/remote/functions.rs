//! Steps of durable functions: of programs that use our packages, of DBOS and of Restate. Each does nothing, in order, and its result is durable
//! before the next one begins (bench/peers/remote/README.md).

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use tokio::process::Command;

use crate::peers::packages;
use crate::peers::restate::Restate;
use crate::product::Fleet;
use crate::results::{Better, Claim, Column, Of, PlotKind, Table};
use crate::scenario::{Context, Recorder};

const TABLE: &str = "functions";
const CALLS: &str = "services";
/// Rows.
const ONE: &str = "1 at a time";
const MANY: &str = "50 at once";
const FOLDER: &str = ".cache/bench/peers/remote";
const SOURCES: &str = "bench/peers/remote";
const PYTHON_PACKAGE: &str = "sdk/python/src";
const NODE_PACKAGE: &str = "sdk/typescript/dist/index.js";

/// How often a single function is executed, one after another: one takes a fraction of a second.
const ROUNDS: usize = 10;
/// Timeout of a driver.
const LIMIT: Duration = Duration::from_secs(240);
/// How much of an output that can't be read is shown.
const SHOWN_CHARS: usize = 200;

/// Who executes the steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Python,
    Node,
    Dbos,
    Restate,
}

const ALL: [Who; 4] = [Who::Python, Who::Node, Who::Dbos, Who::Restate];

impl Who {
    fn key(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::Node => "node",
            Self::Dbos => "dbos",
            Self::Restate => "restate",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Python => "Rejoin, Python",
            Self::Node => "Rejoin, TypeScript",
            Self::Dbos => "DBOS (Python, in the process)",
            Self::Restate => "Restate (TypeScript)",
        }
    }

    fn of(self) -> Of {
        match self {
            Self::Python | Self::Node => Of::Rejoin,
            Self::Dbos | Self::Restate => Of::Peer,
        }
    }
}

pub fn tables() -> Vec<Table> {
    let mut columns = Vec::new();
    for who in ALL {
        let title = |what: &str| format!("{}: {what}", who.title());
        columns.push(Column::new(who.key(), &title("p50"), "ms", Better::Lower, who.of()));
        let rate = format!("{}_rate", who.key());
        columns.push(Column::new(
            &rate,
            &title("steps a second"),
            "1/s",
            Better::Higher,
            who.of(),
        ));
    }
    let calls = vec![
        Column::new("restate", "Restate: p50", "ms", Better::Lower, Of::Peer),
        Column::new("restate_rate", "calls a second", "1/s", Better::Higher, Of::Peer),
    ];
    let plotted: Vec<&str> = ALL.iter().map(|who| who.key()).collect();
    vec![
        Table::new(TABLE, "A step of a durable function", "functions", columns).plot(PlotKind::Bars, &plotted, true),
        Table::new(
            CALLS,
            "A durable call of another service by a function",
            "functions",
            calls,
        ),
    ]
}

/// Beside the durable peers: `calls` a second of programs, and steps a second of functions.
pub fn claims(found: &Recorder, calls: &[f64]) -> Vec<Claim> {
    let steps = found.table(TABLE);
    let of_peers = |row: &str| -> Vec<f64> {
        let (dbos, restate) = (steps.values(row, "dbos_rate"), steps.values(row, "restate_rate"));
        dbos.iter()
            .zip(restate)
            .map(|(dbos, restate)| dbos.max(*restate))
            .collect()
    };
    let relative = |ours: &[f64], peer: &[f64]| ours.iter().zip(peer).map(|(ours, peer)| ours / peer).collect();
    let claim = |what: String, values: Vec<f64>, why_not: &str| Claim {
        what,
        unit: "times".to_owned(),
        bound: 1.0,
        better: Better::Higher,
        values,
        why_not: Some(why_not.to_owned()),
    };
    let mut claims = vec![claim(
        "calls of a user's program a second, relative to Restate's of another service".to_owned(),
        relative(calls, found.table(CALLS).values(MANY, "restate_rate")),
        "A call is a job with a record, in a run of an agent whose steps are recorded, too: one for ten calls here.",
    )];
    for row in [ONE, MANY] {
        let ours = steps.values(row, "node_rate");
        let what = format!("steps of durable functions a second (TypeScript), {row}, relative to the best peer");
        let why_not = "Restate's server appends a step to a file and answers over one connection that stays open; a step of ours is a row \
                       in PostgreSQL, with an index, under the fence of its attempt, sent by HTTP. Many at once share a request and a transaction.";
        claims.push(claim(what, relative(ours, &of_peers(row)), why_not));
    }
    claims
}

/// What a driver prints.
#[derive(Debug, Deserialize)]
struct Measured {
    steps: u64,
    s: f64,
    /// Of each step, in µs.
    lat: Vec<u64>,
}

impl Measured {
    fn p50_ms(&mut self) -> f64 {
        self.lat.sort_unstable();
        self.lat.get(self.lat.len() / 2).copied().unwrap_or_default() as f64 / 1_000.0
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .map_or_else(PathBuf::new, Path::to_owned)
}

fn folder(kind: &str) -> PathBuf {
    root().join(FOLDER).join(kind)
}

pub async fn measure(context: &Context, out: &mut Recorder) -> Result<()> {
    for (kind, installed) in [
        (
            "python",
            packages::install_python(&root().join(SOURCES).join("python"), &folder("python")).await,
        ),
        (
            "node",
            packages::install_node(&root().join(SOURCES).join("node"), &folder("node")).await,
        ),
    ] {
        if let Err(error) = installed {
            out.note(format!(
                "Not measured, since the packages for {kind} can't be installed here: {error:#}"
            ));
        }
    }
    let steps = context.sized(200, 4);
    for (row, functions, rounds) in [
        (ONE, 1, context.sized(ROUNDS, 1)),
        ("10 at once", 10, 1),
        (MANY, context.sized(50, 10), 1),
    ] {
        for who in ALL {
            if matches!(who, Who::Dbos | Who::Restate) && !context.peers {
                continue;
            }
            match driven(context, who, [functions, steps, rounds], "").await {
                Ok(mut measured) => {
                    out.record(TABLE, row, who.key(), measured.p50_ms());
                    let rate = format!("{}_rate", who.key());
                    out.record(TABLE, row, &rate, measured.steps as f64 / measured.s);
                }
                Err(error) => out.note(format!("{}, {row}: not measured: {error:#}", who.title())),
            }
        }
        if context.peers {
            match driven(context, Who::Restate, [functions, steps, rounds], "call").await {
                Ok(mut measured) => {
                    out.record(CALLS, row, "restate", measured.p50_ms());
                    out.record(CALLS, row, "restate_rate", measured.steps as f64 / measured.s);
                }
                Err(error) => out.note(format!("Restate's calls, {row}: not measured: {error:#}")),
            }
        }
    }
    out.note(
        "Each function is a loop of 200 steps that do nothing; a step's result is durable before the next one begins. One at a time: ten functions. Rejoin's programs record steps by HTTP \
         at the API; DBOS is a library that writes to PostgreSQL; Restate's program speaks with its server, which keeps its own log. \
         Programs, servers and PostgreSQL share this machine.",
    );
    Ok(())
}

/// Runs a driver on a fresh server: the number of functions at once, of steps of each, and of repetitions.
async fn driven(context: &Context, who: Who, size: [usize; 3], kind: &str) -> Result<Measured> {
    let node = packages::node_program(&folder("node"));
    let python = packages::python_program(&folder("python"));
    let (program, driver) = match who {
        Who::Python => (python, folder("python").join("rejoin_driver.py")),
        Who::Dbos => (python, folder("python").join("dbos_driver.py")),
        Who::Node => (node, folder("node").join("rejoin.mjs")),
        Who::Restate => (node, folder("node").join("restate.mjs")),
    };
    let mut command = Command::new(program);
    command.arg(driver).args(size.map(|number| number.to_string()));
    match who {
        Who::Python | Who::Node => {
            let fleet = Fleet::start(context, &[]).await?;
            command
                .env("REJOIN_URL", &fleet.urls[0])
                .env("REJOIN_API_KEY", &fleet.database.api_key)
                .env("PYTHONPATH", root().join(PYTHON_PACKAGE))
                .env("BENCH_SDK", root().join(NODE_PACKAGE));
            let measured = output(&mut command).await;
            fleet.stop(context).await?;
            measured
        }
        Who::Dbos => {
            let name = "bench_dbos";
            let drop = format!("drop database if exists {name} with (force)");
            context.server.admin(&drop).await?;
            context.server.admin(&format!("create database {name}")).await?;
            command.env("DATABASE_URL", context.server.url(name));
            let measured = output(&mut command).await;
            context.server.admin(&drop).await?;
            measured
        }
        Who::Restate => {
            let server = Restate::start(&folder("node")).await?;
            command
                .env("RESTATE_INGRESS", &server.ingress)
                .env("RESTATE_ADMIN", &server.admin)
                .env("RESTATE_LOGGING", "ERROR")
                .env("KIND", kind);
            let measured = output(&mut command).await;
            server.stop().await?;
            measured
        }
    }
}

async fn output(command: &mut Command) -> Result<Measured> {
    let running = command.stdin(Stdio::null()).kill_on_drop(true).output();
    let output = tokio::time::timeout(LIMIT, running)
        .await
        .with_context(|| format!("it has not ended within {} s", LIMIT.as_secs()))?
        .with_context(|| format!("starting {:?}", command.as_std()))?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {}", output.status, complaint.trim());
    let printed = String::from_utf8_lossy(&output.stdout);
    let last = printed.lines().last().unwrap_or_default();
    serde_json::from_str(last).with_context(|| {
        let beginning: String = last.chars().take(SHOWN_CHARS).collect();
        format!("reading {} bytes that begin with {beginning:?}", last.len())
    })
}
