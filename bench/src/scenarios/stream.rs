//! `stream`: from the moment when a worker has an event until a client of the API has read it.

use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;

use crate::fleet;
use crate::limits;
use crate::paced::{self, Load, Measured};
use crate::part::{Part, Role};
use crate::peers::nchan::{self, Nchan};
use crate::peers::redis_sse::{self, RedisSse};
use crate::posted;
use crate::print::count;
use crate::process::{self, Process};
use crate::producer::{self, Settings};
use crate::results::{Better, Claim, Column, Of, PlotKind, Size, Table};
use crate::scenario::{Context, Recorder, Scenario};

pub struct Stream;

/// A very fast model's rate, in pieces of a few words.
const PER_RUN_PER_S: f64 = 50.0;
const WARM_UP: Duration = Duration::from_millis(500);
const CLAIMED: &str = "100 runs";
const MANY: &str = "1,000 runs";
const ALONE: &str = "one after the other, nothing else";

/// Numbers of runs, and the duration of the measurement.
fn loads(size: Size) -> Vec<(usize, Duration)> {
    let seconds = Duration::from_secs;
    match size {
        Size::Smoke => vec![(10, seconds(1))],
        Size::Full | Size::Large => vec![
            (1, seconds(2)),
            (10, seconds(2)),
            (100, seconds(4)),
            (1_000, seconds(2)),
        ],
    }
}

fn row(runs: usize) -> String {
    if runs == 1 {
        "1 run".to_owned()
    } else {
        format!("{} runs", count(runs))
    }
}

#[async_trait]
impl Scenario for Stream {
    fn name(&self) -> &'static str {
        "stream"
    }

    fn about(&self) -> &'static str {
        "event handed to the writer -> read by an HTTP client"
    }

    fn tables(&self) -> Vec<Table> {
        let ms = |key: &str, title: &str, of| Column::new(key, title, "ms", Better::Lower, of);
        let cores = |key: &str, title: &str, of| Column::new(key, title, "cores", Better::Lower, of);
        let latency = vec![
            ms("p50", "Rejoin p50", Of::Rejoin),
            ms("p99", "Rejoin p99", Of::Rejoin).ratio_to("redis-p99"),
            ms("p999", "Rejoin p99.9", Of::Rejoin),
            ms("redis-p50", "Redis + Node p50", Of::Peer),
            ms("redis-p99", "Redis + Node p99", Of::Peer),
            ms("redis-p999", "Redis + Node p99.9", Of::Peer),
            ms("nchan-p50", "nchan p50", Of::Peer),
            ms("nchan-p99", "nchan p99", Of::Peer),
            ms("nchan-p999", "nchan p99.9", Of::Peer),
        ];
        let cpu = vec![
            cores("api", "Rejoin: API", Of::Rejoin),
            cores("postgres", "Rejoin: PostgreSQL", Of::Rejoin),
            cores("writer", "Rejoin: writer", Of::Rejoin),
            cores("readers", "readers", Of::Limit),
            cores("node", "Node", Of::Peer),
            cores("redis", "Redis", Of::Peer),
            cores("nginx", "nginx", Of::Peer),
        ];
        let commit = vec![ms("p50", "p50", Of::Limit), ms("p99", "p99", Of::Limit)];
        vec![
            Table::new(
                "latency",
                "Event -> HTTP reader, 50 events/s and one reader a run",
                "runs at once",
                latency,
            )
            .plot(
                PlotKind::Lines,
                &["p50", "p99", "redis-p50", "redis-p99", "nchan-p50", "nchan-p99"],
                true,
            ),
            Table::new("cpu", "CPU time of the same loads", "runs at once", cpu),
            Table::new("commit", "A one-row commit on this server", "commits", commit),
        ]
    }

    async fn prepare(&self, _size: Size, out: &mut Recorder) -> Result<()> {
        out.note(
            "Open loop: each event carries its scheduled time, and its latency counts from there until the reader has \
             its bytes. Writer, API, readers and PostgreSQL are separate processes on the same cores",
        );
        match redis_sse::prepare() {
            Ok(()) => out.note(redis_sse::NOTE),
            Err(error) => out.note(format!("Redis + Node are not measured: {error:#}")),
        }
        match nchan::prepare() {
            Ok(()) => out.note(nchan::NOTE),
            Err(error) => out.note(format!("nchan is not measured: {error:#}")),
        }
        Ok(())
    }

    async fn measure(&self, context: &Context, out: &mut Recorder) -> Result<()> {
        let database = context.server.database().await?;
        let commits = limits::commits(&database, context.sized(1_000, 20)).await?;
        out.record("commit", ALONE, "p50", commits.quantile_ms(0.5));
        out.record("commit", ALONE, "p99", commits.quantile_ms(0.99));
        context.server.drop(database).await?;
        for (runs, measured) in loads(context.size) {
            let load = Load {
                logs: runs,
                per_log_per_s: PER_RUN_PER_S,
                readers: runs,
                warm_up: WARM_UP,
                measured,
            };
            rejoin(context, load, out).await?;
            if !context.peers {
                continue;
            }
            if let Err(error) = redis(load, out).await {
                out.note(format!("Redis + Node, {}: {error:#}", row(runs)));
            }
            if let Err(error) = nchan(load, out).await {
                out.note(format!("nchan, {}: {error:#}", row(runs)));
            }
        }
        Ok(())
    }

    fn claims(&self, found: &Recorder) -> Vec<Claim> {
        let latency = found.table("latency");
        let values = |column: &str| latency.values(CLAIMED, column).to_vec();
        let claim = |what: &str, unit: &str, bound: f64, values: Vec<f64>| Claim {
            what: format!("event -> HTTP reader, {CLAIMED} x 50/s: {what}"),
            unit: unit.to_owned(),
            bound,
            better: Better::Lower,
            values,
            why_not: None,
        };
        let to_redis = values("p99")
            .iter()
            .zip(values("redis-p99"))
            .map(|(ours, theirs)| ours / theirs)
            .collect();
        vec![
            claim("p50", "ms", 2.5, values("p50")).unless(format!(
                "Half of the time is the writer's: the events of all runs of its process wait for one commit together, for up to 5 ms. \
                 Commits alone, one after the other, take {} ms. A flush has a fixed cost of about 0.6 ms of CPU, and an event one of \
                 36 µs: for this bound, a flush each 1.5 ms would take about twice the CPU.",
                found.table("commit").cell_text(ALONE, "p50"),
            )),
            claim("p99", "ms", 5.0, values("p99")).unless(format!(
                "nchan, which keeps messages in memory and waits for nothing, has {} ms in the same run, and {} ms at \
                 p50: this is the scheduling delay on these cores, which load, readers, server and database share. \
                 Rejoin adds up to 5 ms of batching and a commit, which alone takes {} ms at p99.",
                latency.cell_text(CLAIMED, "nchan-p99"),
                latency.cell_text(CLAIMED, "nchan-p50"),
                found.table("commit").cell_text(ALONE, "p99"),
            )),
            claim("p99 as a share of Redis + Node's", "", 1.0, to_redis).unless(format!(
                "Redis delivers an event to readers before it is on disk (appendfsync everysec: a crash loses up to a \
                 second of events that readers have seen). Rejoin delivers only committed events, so an event waits \
                 for a commit: on this idle server, one takes {} ms at p50 and {} ms at p99. In addition, the writer \
                 batches the events of all runs of its process for up to 5 ms (group commit), so that one commit \
                 serves 100 runs.",
                found.table("commit").cell_text(ALONE, "p50"),
                found.table("commit").cell_text(ALONE, "p99"),
            )),
            Claim {
                what: format!("event -> HTTP reader, {MANY} x 50/s: p99"),
                unit: "ms".to_owned(),
                bound: 25.0,
                better: Better::Lower,
                values: latency.values(MANY, "p99").to_vec(),
                why_not: Some(
                    "50,000 events a second: writer, PostgreSQL, API and the readers of the benchmark share the processors, and all are busy."
                        .to_owned(),
                ),
            },
        ]
    }
}

/// Records latencies under `prefix`, and failures.
fn record(out: &mut Recorder, who: &str, prefix: &str, load: Load, measured: &Measured) {
    let row = row(load.logs);
    let report = &measured.report;
    for (key, value) in [("p50", report.p50_ms), ("p99", report.p99_ms), ("p999", report.p999_ms)] {
        out.record("latency", &row, &format!("{prefix}{key}"), value);
    }
    if let Some(trouble) = measured.trouble() {
        out.note(format!("{who}, {row}: {trouble}"));
    }
}

async fn rejoin(context: &Context, load: Load, out: &mut Recorder) -> Result<()> {
    let database = context.server.database().await?;
    let runs = posted::begin(&database, load.logs).await?;
    context.server.settle().await?;
    let (api, url) = Process::api(&database.url, &[]).await?;
    let key = &database.api_key;
    let requests = runs.iter().map(|(_, run)| {
        format!("GET /api/runs/{run}/events HTTP/1.1\r\nHost: rejoin\r\nAuthorization: Bearer {key}\r\n\r\n")
    });
    let mut fleet = Part::start(
        Role::Fleet,
        &fleet::Settings {
            gapless: true,
            live_mark: "\"caught_up\"".to_owned(),
            ..fleet::Settings::of(url.trim_start_matches("http://").parse()?, requests.collect())
        },
    )
    .await?;
    let settings = Settings::Rejoin {
        database_url: database.url.clone(),
        runs,
    };
    let mut producer = producer::start(&settings).await?;
    paced::live(&mut fleet).await?;
    let server = context.server.pid();
    let of_server = || server.map_or(Ok(process::Usage::default()), process::tree_usage);
    let (fleet_pid, producer_pid) = (fleet.pid()?, producer.pid()?);
    let measured = paced::run(
        &mut producer,
        &mut fleet,
        load,
        &[&|| api.usage(), &of_server, &|| process::usage(producer_pid), &|| {
            process::usage(fleet_pid)
        }],
    )
    .await?;
    record(out, "Rejoin", "", load, &measured);
    for (key, cores) in ["api", "postgres", "writer", "readers"].iter().zip(&measured.cores) {
        out.record("cpu", &row(load.logs), key, *cores);
    }
    drop((fleet, producer));
    api.stop().await?;
    context.server.drop(database).await
}

async fn redis(load: Load, out: &mut Recorder) -> Result<()> {
    let peer = RedisSse::start().await?;
    let requests = (0..load.logs).map(RedisSse::request).collect();
    let settings = fleet::Settings {
        live_mark: "\"caught_up\"".to_owned(),
        ..fleet::Settings::of(peer.address, requests)
    };
    let mut fleet = Part::start(Role::Fleet, &settings).await?;
    let settings = Settings::Redis {
        socket: peer.socket().to_owned(),
        keys: load.logs,
    };
    let mut producer = producer::start(&settings).await?;
    paced::live(&mut fleet).await?;
    let watched: [&(dyn Fn() -> Result<process::Usage> + Sync); 2] = [&|| peer.server_usage(), &|| peer.store_usage()];
    let measured = paced::run(&mut producer, &mut fleet, load, &watched).await?;
    record(out, "Redis + Node", "redis-", load, &measured);
    for (key, cores) in ["node", "redis"].iter().zip(&measured.cores) {
        out.record("cpu", &row(load.logs), key, *cores);
    }
    Ok(())
}

async fn nchan(load: Load, out: &mut Recorder) -> Result<()> {
    let peer = Nchan::start().await?;
    let requests = (0..load.logs).map(Nchan::request).collect();
    let mut fleet = Part::start(Role::Fleet, &fleet::Settings::of(peer.address, requests)).await?;
    let settings = Settings::Nchan {
        address: peer.address,
        channels: load.logs,
    };
    let mut producer = producer::start(&settings).await?;
    paced::live(&mut fleet).await?;
    let measured = paced::run(&mut producer, &mut fleet, load, &[&|| peer.usage()]).await?;
    record(out, "nchan", "nchan-", load, &measured);
    out.record("cpu", &row(load.logs), "nginx", measured.cores[0]);
    Ok(())
}
