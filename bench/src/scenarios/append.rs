//! `append`: events of running jobs into their logs, through the product's event writer under its fence.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use async_trait::async_trait;
use rejoin_db::config::DatabaseArgs;
use rejoin_db::{Db, Role};
use rejoin_event_log::EventWriter;
use rejoin_event_log::group_commit::WriterOptions;
use rejoin_event_log::stream::RunStream;
use rejoin_event_log::wakeup;
use rejoin_types::events::{Event, Kind};
use tokio::runtime::Handle;

use crate::follow::{self, Follower};
use crate::load::{Latencies, Schedule};
use crate::process::OwnRuntime;
use crate::results::{Better, Claim, Column, Of, PlotKind, Table};
use crate::scenario::{Context, Recorder, Scenario};
use crate::server::Database;
use crate::{limits, process, runs};

/// A typical token of a model's reply.
pub const TOKEN: &str = "word ";
/// Number of concurrently writing runs at full throttle.
const RUNS: usize = 100;
/// Number of appending tasks per process, for some of its runs each.
const POURERS: usize = 4;
/// Events per second appended by each run of a paced load: a fast model.
const PACE_PER_S: f64 = 50.0;
/// Timeout of pouring by count.
const POUR_LIMIT: Duration = Duration::from_secs(120);
/// Number of connections of the naive method.
const NAIVE_CONNECTIONS: usize = 8;

const THROTTLE: &str = "throttle";
const PACED: &str = "paced";
/// The load at full throttle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// Alternating kinds: nothing can be merged, and each event is a separate row.
    Mixed,
    /// Deltas that the writer must not merge: each is a separate event, and a row holds several.
    Single,
    /// Deltas of a model's reply: waiting ones are merged into one event.
    Deltas,
}

/// (row, load, writers): the measurements at full throttle.
const POURED: [(&str, Load, usize); 6] = [
    ("events of changing kinds, 1 writer", Load::Mixed, 1),
    ("events of changing kinds, 2 writers", Load::Mixed, 2),
    (SINGLE, Load::Single, 1),
    ("single deltas, 2 writers", Load::Single, 2),
    (MERGED, Load::Deltas, 1),
    ("deltas, 2 writers", Load::Deltas, 2),
];
const SINGLE: &str = "single deltas, 1 writer";
const MERGED: &str = "deltas, 1 writer";

pub struct Append;

#[async_trait]
impl Scenario for Append {
    fn name(&self) -> &'static str {
        "append"
    }

    fn about(&self) -> &'static str {
        "fenced and durable event appends: throughput, and latency until visible"
    }

    fn tables(&self) -> Vec<Table> {
        let throttle = vec![
            Column::new("rejoin", "Rejoin", "1/s", Better::Higher, Of::Rejoin).ratio_to("copy"),
            Column::new("copy", "COPY of such rows", "1/s", Better::Higher, Of::Limit),
            Column::new("naive", "a commit with NOTIFY each", "1/s", Better::Higher, Of::Peer),
        ];
        let paced = vec![
            Column::new("reached", "reached", "1/s", Better::Higher, Of::Rejoin),
            Column::new("p50", "visible p50", "ms", Better::Lower, Of::Rejoin),
            Column::new("p99", "visible p99", "ms", Better::Lower, Of::Rejoin),
            Column::new("cores", "PostgreSQL", "cores", Better::Lower, Of::Rejoin),
        ];
        vec![
            Table::new(THROTTLE, "Appends at full throttle, 100 runs", "what", throttle).plot(
                PlotKind::Bars,
                &["rejoin", "copy", "naive"],
                false,
            ),
            Table::new(
                PACED,
                "Append to visible, 50 events a second and run, open loop",
                "runs",
                paced,
            )
            .plot(PlotKind::Lines, &["p50", "p99"], false),
        ]
    }

    async fn measure(&self, context: &Context, out: &mut Recorder) -> Result<()> {
        out.note(
            "Visible: read by a connection that is woken by the product's bus and then uses the API's query for all \
             woken logs at once. (Under load, the API waits up to 15 ms between two such reads; this connection does \
             not.)",
        );
        out.note(
            "At full throttle, events of changing kinds are one row each. Single deltas are separate events with \
             separate numbers; the writer stores several events of one commit in one row. Mergeable deltas that wait \
             together become one event (the figure counts deltas).",
        );
        throttle(context, out).await?;
        for runs in context.sized(vec![1, 10, 100, 1_000], vec![10]) {
            context.server.settle().await?;
            paced(context, out, runs).await?;
        }
        Ok(())
    }

    fn claims(&self, found: &Recorder) -> Vec<Claim> {
        let of_copy = |row: &str| {
            let table = found.table(THROTTLE);
            let pairs = table.values(row, "rejoin").iter().zip(table.values(row, "copy"));
            pairs.map(|(ours, copy)| ours / copy).collect::<Vec<f64>>()
        };
        let claim = |what: &str, unit: &str, bound, better, values: Vec<f64>| Claim {
            what: what.to_owned(),
            unit: unit.to_owned(),
            bound,
            better,
            values,
            why_not: None,
        };
        vec![
            claim(
                "full throttle, single events: rate relative to COPY",
                "x",
                0.6,
                Better::Higher,
                of_copy(SINGLE),
            ),
            claim(
                "full throttle, deltas: rate relative to COPY",
                "x",
                1.5,
                Better::Higher,
                of_copy(MERGED),
            ),
            claim(
                "100 runs x 50/s, append to visible: p50",
                "ms",
                7.5,
                Better::Lower,
                found.table(PACED).values("100", "p50").to_vec(),
            ),
        ]
    }
}

async fn throttle(context: &Context, out: &mut Recorder) -> Result<()> {
    let span = context.sized(Duration::from_millis(1_500), Duration::from_millis(300));
    let database = context.server.database().await?;
    let streams = runs::start(&database, RUNS).await?;
    let row_bytes = runs::token(&streams[0], TOKEN.to_owned()).to_json().len();
    let copy = limits::copy_rows_per_s(&database, context.sized(300_000, 5_000), row_bytes).await?;
    let mut naive = None;
    for (row, load, writers) in POURED {
        context.server.settle().await?;
        let rate = Pourer::start(&database.url, load, &streams, writers)?
            .pour_for(span)
            .await?;
        out.record(THROTTLE, row, "rejoin", rate);
        out.record(THROTTLE, row, "copy", copy);
        if naive.is_none() {
            naive = Some(naive_rate(&database, &streams, span / 2).await?);
        }
        if let Some(naive) = naive {
            out.record(THROTTLE, row, "naive", naive);
        }
    }
    context.server.drop(database).await
}

/// Writers, each like a worker process's, fed with events as fast as possible.
pub struct Pourer {
    load: Load,
    /// With the runs that use it.
    writers: Vec<(Writer, Vec<Arc<RunStream>>)>,
}

impl Pourer {
    pub fn start(url: &str, load: Load, streams: &[Arc<RunStream>], writers: usize) -> Result<Self> {
        let shares = streams.chunks(streams.len().div_ceil(writers));
        let writers = shares.map(|share| Ok((Writer::start(url, load == Load::Deltas)?, share.to_vec())));
        Ok(Self {
            load,
            writers: writers.collect::<Result<_>>()?,
        })
    }

    /// Committed events (deltas) per second over a period.
    pub async fn pour_for(&self, span: Duration) -> Result<f64> {
        self.pour(Instant::now() + span, u64::MAX).await
    }

    /// Events (deltas) per second, for about this many.
    pub async fn pour_count(&self, events: u64) -> Result<f64> {
        self.pour(Instant::now() + POUR_LIMIT, events).await
    }

    async fn pour(&self, until: Instant, events: u64) -> Result<f64> {
        let began = Instant::now();
        let left = events / (self.writers.len() * POURERS) as u64;
        let mut tasks = Vec::new();
        for (writer, share) in &self.writers {
            for some in share.chunks(share.len().div_ceil(POURERS)) {
                let pouring = pour(writer.events.clone(), self.load, some.to_vec(), until, left);
                tasks.push(writer.runtime.spawn(pouring));
            }
        }
        let mut written = 0;
        for task in tasks {
            written += task.await??;
        }
        Ok(written as f64 / began.elapsed().as_secs_f64())
    }
}

/// A worker process's writer, with its own connections and threads.
pub struct Writer {
    pub events: EventWriter,
    runtime: OwnRuntime,
}

impl Writer {
    pub fn start(url: &str, merged: bool) -> Result<Self> {
        let runtime = OwnRuntime::new()?;
        let db = Db::connect_lazy(&DatabaseArgs::new(url), "rejoin-bench-writer", Role::Login)?;
        let events = {
            let _inside = runtime.enter();
            let bus = wakeup::over_postgres(&db);
            let mut options = WriterOptions::default();
            if !merged {
                options.max_delta_bytes = 0;
            }
            EventWriter::start(db, bus, options)
        };
        Ok(Self { events, runtime })
    }
}

/// Appends to all of these runs in turns until the deadline or count, and waits until everything is committed.
async fn pour(
    writer: EventWriter,
    load: Load,
    streams: Vec<Arc<RunStream>>,
    until: Instant,
    enough: u64,
) -> Result<u64> {
    let token = |stream: &Arc<RunStream>| (stream.clone(), runs::token(stream, TOKEN.to_owned()));
    let reasoning = |stream: &Arc<RunStream>| {
        let text = TOKEN.to_owned();
        (stream.clone(), Event::of(stream.run_id, Kind::Reasoning { text }))
    };
    let mut events: Vec<_> = streams.iter().map(token).collect();
    if load == Load::Mixed {
        events.extend(streams.iter().map(reasoning));
    }
    let mut written = 0;
    while written < enough && Instant::now() < until {
        for (stream, event) in &events {
            writer.append(stream, event).await?;
            written += 1;
        }
    }
    for stream in &streams {
        writer.flush(stream).await?;
    }
    Ok(written)
}

/// Events per second with a transaction each, with the same fence, and with NOTIFY in it.
async fn naive_rate(database: &Database, streams: &[Arc<RunStream>], span: Duration) -> Result<f64> {
    let written = Arc::new(AtomicU64::new(0));
    let began = Instant::now();
    let mut tasks = Vec::new();
    for share in streams.chunks(streams.len().div_ceil(NAIVE_CONNECTIONS)) {
        let (client, connection) = tokio_postgres::connect(&database.url, tokio_postgres::NoTls).await?;
        tokio::spawn(connection);
        let (share, written) = (share.to_vec(), written.clone());
        tasks.push(tokio::spawn(async move {
            let statement = client
                .prepare(
                    "with fenced as (
                         select from queue.jobs where run_id = $1 and attempt = $2 and state = 'running' for key share),
                     told as (select pg_notify('rejoin', $1::uuid::text))
                     select stream.append($1, $1, array['token'], array[$3]) from fenced, told",
                )
                .await?;
            for stream in share.iter().cycle() {
                if began.elapsed() > span {
                    break;
                }
                let data = runs::token(stream, TOKEN.to_owned()).to_json();
                client
                    .execute(&statement, &[&stream.run_id, &stream.attempt, &data])
                    .await?;
                written.fetch_add(1, Ordering::Relaxed);
            }
            anyhow::Ok(())
        }));
    }
    for task in tasks {
        task.await??;
    }
    Ok(written.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64())
}

/// `n` runs, each at a steady pace.
async fn paced(context: &Context, out: &mut Recorder, n: usize) -> Result<()> {
    let database = context.server.database().await?;
    let streams = runs::start(&database, n).await?;
    let (warm, span) = context.sized((0.5, 2.0), (0.1, 0.3));
    // The first appends open connections and prepare statements.
    append_at_pace(&database, &streams, warm).await?;
    let before = server_cpu_us(context)?;
    let began = Instant::now();
    let (latencies, rate) = append_at_pace(&database, &streams, span).await?;
    let cores = server_cpu_us(context)?.saturating_sub(before) as f64 / began.elapsed().as_micros() as f64;
    let row = n.to_string();
    out.record(PACED, &row, "cores", cores);
    out.record(PACED, &row, "reached", rate);
    out.record(PACED, &row, "p50", latencies.quantile_ms(0.5));
    out.record(PACED, &row, "p99", latencies.quantile_ms(0.99));
    context.server.drop(database).await
}

/// CPU time of the server and all its backends so far, in µs.
fn server_cpu_us(context: &Context) -> Result<u64> {
    let pid = context.server.pid().context("the server runs")?;
    Ok(process::tree_usage(pid)?.cpu_us)
}

/// Appends to these runs in turns, each at [`PACE_PER_S`]; returns the latencies of visibility, and the rate.
pub async fn append_at_pace(database: &Database, streams: &[Arc<RunStream>], span_s: f64) -> Result<(Latencies, f64)> {
    let ends: Vec<(uuid::Uuid, i64)> = sqlx::query_as("select log_id, last_seq from stream.log_ends")
        .fetch_all(&database.db.pool_sqlx)
        .await?;
    let follower = Follower::start(&database.url, ends).await?;
    let writer = Writer::start(&database.url, true)?;
    let per_s = PACE_PER_S * streams.len() as f64;
    let schedule = Schedule::new(per_s, Duration::from_millis(20));
    let total = (per_s * span_s) as u32;
    let began = Instant::now();
    let (events, streams, runtime) = (writer.events.clone(), streams.to_vec(), Handle::current());
    // A separate thread: the runtime's clock is up to a millisecond late, unlike a model's stream.
    let driver = tokio::task::spawn_blocking(move || {
        for n in 0..total {
            let due = schedule.reached_blocking(n);
            let stream = &streams[n as usize % streams.len()];
            runtime.block_on(events.append(stream, &runs::token(stream, follow::text_at(due))))?;
        }
        anyhow::Ok(())
    });
    driver.await??;
    let latencies = follower.wait_for(u64::from(total)).await?;
    let rate = f64::from(total) / began.elapsed().as_secs_f64();
    Ok((latencies, rate))
}
