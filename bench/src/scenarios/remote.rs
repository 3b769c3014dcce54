//! `remote`: what a call of a tool in a user's program costs: the run is suspended, the program takes the call over HTTP, and its result resumes
//! the run. Compared with a tool of the worker in the same run. And what idle programs cost.
//!
//! - `functions` steps of durable functions, beside those of DBOS and Restate

mod functions;

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use async_trait::async_trait;
use futures::future::join_all;
use serde_json::{Value, json};
use tokio::task::{JoinHandle, JoinSet};

use super::steps::runs;
use crate::model::{REMOTE_TOOLS, Script};
use crate::product::Fleet;
use crate::results::{Better, Claim, Column, Of, PlotKind, Table};
use crate::scenario::{Context, Recorder, Scenario};

pub struct Remote;

const TABLE: &str = "remote";
const IDLE: &str = "idle";
/// Calls that the program executes at once.
const SLOTS: u32 = 200;
/// Maximum number of results in a request.
const TOGETHER: usize = 100;
/// Programs that wait for calls.
const IDLE_PROGRAMS: usize = 1_000;
/// The row that shows how many calls a second there can be.
const CLAIMED: &str = "10 at once, 10 calls a step";
/// How many of them register at the same time.
const REGISTER_AT_ONCE: usize = 20;

#[async_trait]
impl Scenario for Remote {
    fn name(&self) -> &'static str {
        "remote"
    }

    fn about(&self) -> &'static str {
        "calls of a tool that a user's program serves over HTTP, with a model and a tool that answer at once"
    }

    fn tables(&self) -> Vec<Table> {
        let columns = vec![
            Column::new("remote", "remote tool: p50", "ms", Better::Lower, Of::Rejoin).ratio_to("own"),
            Column::new("p99", "p99", "ms", Better::Lower, Of::Rejoin),
            Column::new("own", "tool of the worker: p50", "ms", Better::Lower, Of::Rejoin),
            Column::new(
                "rate",
                "remote calls a second, all runs",
                "1/s",
                Better::Higher,
                Of::Rejoin,
            ),
            Column::new(
                "own_rate",
                "calls of the worker's tool a second",
                "1/s",
                Better::Higher,
                Of::Rejoin,
            ),
        ];
        let table = Table::new(
            TABLE,
            "Milliseconds between two model calls, with the tool calls of a step",
            "runs",
            columns,
        );
        let column = |key: &str, title: &str, unit: &str| Column::new(key, title, unit, Better::Lower, Of::Rejoin);
        let idle = vec![
            column("memory", "memory of the API, more than without them", "MB"),
            column("api_cpu", "CPU of the API, more than without them", "% of a core"),
            column("worker_cpu", "of the worker", "% of a core"),
            column("postgres_cpu", "of PostgreSQL", "% of a core"),
            column("without", "all processes without them", "% of a core"),
        ];
        let mut tables = vec![
            table.plot(PlotKind::Bars, &["remote", "own"], false),
            Table::new(IDLE, "Programs that wait for calls", "programs", idle),
        ];
        tables.extend(functions::tables());
        tables
    }

    fn claims(&self, found: &Recorder) -> Vec<Claim> {
        let remote = found.table(TABLE);
        let calls = remote.values(CLAIMED, "rate");
        let idle = found.table(IDLE);
        let row = format!("{IDLE_PROGRAMS} programs");
        let memory = idle.values(&row, "memory");
        let cpu = ["api_cpu", "worker_cpu", "postgres_cpu"].map(|column| idle.values(&row, column));
        let mut claims = vec![
            claim(
                "a call of a user's program, 1 at a time: p50",
                "ms",
                8.0,
                Better::Lower,
                remote.values("1 at a time", "remote").to_vec(),
            ),
            claim(
                "calls of a user's program a second, 10 a step",
                "1/s",
                1_000.0,
                Better::Higher,
                calls.to_vec(),
            ),
            claim(
                "1,000 idle programs: memory of the API",
                "MB",
                50.0,
                Better::Lower,
                memory.to_vec(),
            ),
            claim(
                "1,000 idle programs: CPU of all processes, more than without them",
                "% of a core",
                2.0,
                Better::Lower,
                (0..memory.len())
                    .map(|nth| cpu.iter().map(|of| of.get(nth).copied().unwrap_or(f64::NAN)).sum())
                    .collect(),
            ),
        ];
        claims.extend(functions::claims(found, calls));
        claims
    }

    async fn measure(&self, context: &Context, out: &mut Recorder) -> Result<()> {
        let fleet = Fleet::start(context, &[]).await?;
        let program = Program::start(&fleet).await?;
        let remote = fleet
            .agent_with("remote", REMOTE_TOOLS.map(str::to_owned).to_vec())
            .await?;
        let own = fleet.agent().await?;
        let script = Script {
            calls: context.sized(50, 4),
            tokens: 1,
            ..Script::default()
        };
        // Connections, prepared statements.
        runs(&fleet, remote, script, 1, 1).await?;
        runs(&fleet, own, script, 1, 1).await?;
        for (row, together, each, calls, more) in [
            ("1 at a time", 1, context.sized(6, 1), script.calls, 0),
            ("10 at once", 10, context.sized(4, 1), script.calls, 0),
            ("50 at once", context.sized(50, 10), 2, context.sized(20, 4), 0),
            (CLAIMED, 10, context.sized(4, 1), context.sized(20, 4), 9),
        ] {
            let script = Script { calls, more, ..script };
            let found = runs(&fleet, remote, script, together, each).await?;
            let calls = (script.calls * (1 + more) * together * each) as f64;
            out.record(TABLE, row, "remote", found.between.quantile_ms(0.5));
            out.record(TABLE, row, "p99", found.between.quantile_ms(0.99));
            out.record(TABLE, row, "rate", calls / (found.took_us as f64 / 1_000_000.0));
            let found = runs(&fleet, own, script, together, each).await?;
            out.record(TABLE, row, "own", found.between.quantile_ms(0.5));
            out.record(TABLE, row, "own_rate", calls / (found.took_us as f64 / 1_000_000.0));
        }
        out.note(format!(
            "Runs of {} steps with a tool call each, of 20 with 50 runs and with 10 calls a step. The program is a process on the same machine with {SLOTS} slots; it takes calls by long polls and \
             returns their results as our packages do: those that are there at the same time together.",
            script.calls
        ));
        program.stop().await?;
        fleet.stop(context).await?;
        idle(context, out).await?;
        functions::measure(context, out).await
    }
}

/// A claim without a paragraph.
fn claim(what: &str, unit: &str, bound: f64, better: Better, values: Vec<f64>) -> Claim {
    Claim {
        what: what.to_owned(),
        unit: unit.to_owned(),
        bound,
        better,
        values,
        why_not: None,
    }
}

/// Programs that register, and wait.
async fn idle(context: &Context, out: &mut Recorder) -> Result<()> {
    let fleet = Fleet::start(context, &[]).await?;
    let settle = context.sized(Duration::from_secs(3), Duration::from_millis(200));
    let span = context.sized(Duration::from_secs(40), Duration::from_millis(500));
    tokio::time::sleep(settle).await;
    let without = cpu_percent(context, &fleet, span).await?;
    let before = fleet.apis[0].usage()?.rss_bytes;
    let count = context.sized(IDLE_PROGRAMS, 20);
    let mut programs = Vec::with_capacity(count);
    while programs.len() < count {
        let some = (programs.len()..count).take(REGISTER_AT_ONCE);
        for started in join_all(some.map(|_| Program::start(&fleet))).await {
            programs.push(started?);
        }
    }
    tokio::time::sleep(settle).await;
    let row = format!("{count} programs");
    let with = cpu_percent(context, &fleet, span).await?;
    for (index, column) in ["api_cpu", "worker_cpu", "postgres_cpu"].into_iter().enumerate() {
        out.record(IDLE, &row, column, with[index] - without[index]);
    }
    out.record(IDLE, &row, "without", without.iter().sum());
    let grown = fleet.apis[0].usage()?.rss_bytes.saturating_sub(before);
    out.record(IDLE, &row, "memory", grown as f64 / 1_000_000.0);
    out.note(format!(
        "An idle program repeats a claim that waits two thirds of a lease, as that of our packages. CPU over {} s each, before and with them; memory (RSS) at the end.",
        span.as_secs()
    ));
    for program in programs {
        program.stop().await?;
    }
    fleet.stop(context).await
}

/// CPU of APIs, workers and PostgreSQL during this time, in percent of a core.
async fn cpu_percent(context: &Context, fleet: &Fleet, span: Duration) -> Result<[f64; 3]> {
    let (before, began) = (fleet.cpu_us(context)?, Instant::now());
    tokio::time::sleep(span).await;
    let (after, took) = (fleet.cpu_us(context)?, began.elapsed());
    let used = |index: usize| after[index].saturating_sub(before[index]) as f64 / took.as_micros() as f64 * 100.0;
    Ok([used(0), used(1), used(2)])
}

/// A program that serves the tools.
struct Program(JoinHandle<Result<()>>);

impl Program {
    async fn start(fleet: &Fleet) -> Result<Self> {
        let client = reqwest::Client::new();
        let base = format!("{}/api/workers/default", fleet.urls[0]);
        let key = fleet.database.api_key.clone();
        let tools: Vec<Value> = REMOTE_TOOLS
            .iter()
            .map(|name| json!({"name": name, "description": "", "inputSchema": {"type": "object", "properties": {}}, "idempotent": true}))
            .collect();
        let registration = json!({"name": "bench", "slots": SLOTS, "tools": tools});
        let registered = post(&client, &key, &format!("{base}/registrations"), registration).await?;
        let worker = registered["workerId"].as_str().context("an id")?.to_owned();
        let wait_s = registered["leaseS"].as_u64().context("a lease")? * 2 / 3;
        Ok(Self(tokio::spawn(serve(client, key, base, worker, wait_s))))
    }

    /// # Errors
    /// It has ended by itself: for example, a result was refused.
    async fn stop(self) -> Result<()> {
        if self.0.is_finished() {
            return self.0.await?;
        }
        self.0.abort();
        Ok(())
    }
}

/// Takes calls and completes them, until it is stopped. Each claim waits `wait_s` seconds.
async fn serve(client: reqwest::Client, key: String, base: String, worker: String, wait_s: u64) -> Result<()> {
    let mut sent = JoinSet::new();
    loop {
        let claim = json!({"workerId": worker, "max": SLOTS, "waitS": wait_s});
        let claimed = post(&client, &key, &format!("{base}/claims"), claim).await?;
        let calls = claimed["calls"].as_array().context("calls")?.clone();
        // The next claim does not wait for these results.
        for calls in calls.chunks(TOGETHER) {
            let outputs: Vec<Value> = calls
                .iter()
                .map(|call| json!({"callId": call["id"], "attempt": call["attempt"], "output": {"done": true}}))
                .collect();
            let (client, key, path) = (client.clone(), key.clone(), format!("{base}/records"));
            let body = json!({"workerId": worker, "records": outputs});
            sent.spawn(async move {
                let answer = post(&client, &key, &path, body).await?;
                let records = answer["records"].as_array().context("records")?;
                let refused = records.iter().find(|record| !record["problem"].is_null());
                refused.map_or(Ok(()), |record| Err(anyhow!("a result was refused: {record}")))
            });
        }
        while let Some(ended) = sent.try_join_next() {
            ended??;
        }
    }
}

async fn post(client: &reqwest::Client, key: &str, url: &str, body: Value) -> Result<Value> {
    let request = client
        .post(url)
        .bearer_auth(key)
        .timeout(Duration::from_secs(60))
        .json(&body);
    let response = request.send().await?;
    let status = response.status();
    let answer: Value = response.json().await?;
    ensure!(status.is_success(), "{url} was answered with {status}: {answer}");
    Ok(answer)
}
