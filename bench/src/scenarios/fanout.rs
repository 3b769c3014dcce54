//! `fanout`: many readers of few logs: the cost of a delivered event, the memory of a connection, and whether readers
//! that don't read affect others.

use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;

use crate::fleet::{self, Stuck};
use crate::pace_limit;
use crate::paced::{self, Load, Measured};
use crate::part::{Part, Role};
use crate::peers::nchan::{self, Nchan};
use crate::peers::redis_sse::{self, RedisSse};
use crate::posted;
use crate::print::count;
use crate::process::{self, Process, Usage};
use crate::producer;
use crate::product::ONE_USER_PLAYS_ALL;
use crate::results::{Better, Claim, Column, Of, PlotKind, Size, Table};
use crate::scenario::{Context, Recorder, Scenario};

pub struct Fanout;

const PER_LOG_PER_S: f64 = 20.0;
const WARM_UP: Duration = Duration::from_millis(500);
/// One in this many readers is stuck, in cases with stuck ones.
const STUCK_EVERY: usize = 10;
/// A stuck reader requests a history of this many events, which fill every buffer.
const STUCK_PAST: usize = 10_000;
const STUCK_RECEIVE_BUFFER_BYTES: usize = 4 * 1024;

#[derive(Debug, Clone, Copy)]
struct Case {
    readers: usize,
    logs: usize,
    some_stuck: bool,
    /// Whether peers and the limit are measured, too.
    beside: bool,
}

impl Case {
    fn row(self) -> String {
        let logs = if self.logs == 1 {
            "1 log".to_owned()
        } else {
            format!("{} logs", count(self.logs))
        };
        let stuck = if self.some_stuck { ", 10% read nothing" } else { "" };
        format!("{} readers, {logs}{stuck}", count(self.readers))
    }

    /// The number of reading readers.
    fn reading(self) -> usize {
        if self.some_stuck {
            self.readers - self.readers.div_ceil(STUCK_EVERY)
        } else {
            self.readers
        }
    }

    fn load(self, size: Size) -> Load {
        Load {
            logs: self.logs,
            per_log_per_s: PER_LOG_PER_S,
            readers: self.reading(),
            warm_up: WARM_UP,
            measured: Duration::from_secs(if size == Size::Smoke { 1 } else { 2 }),
        }
    }
}

const CLAIMED: Case = case(5_000, 1, true);

const fn case(readers: usize, logs: usize, beside: bool) -> Case {
    Case {
        readers,
        logs,
        some_stuck: false,
        beside,
    }
}

fn cases(size: Size) -> Vec<Case> {
    let stuck = |readers| Case {
        some_stuck: true,
        ..case(readers, 1, false)
    };
    match size {
        Size::Smoke => vec![case(100, 1, true), stuck(50)],
        Size::Full | Size::Large => vec![
            case(100, 1, false),
            case(1_000, 1, false),
            CLAIMED,
            stuck(5_000),
            case(5_000, 50, false),
            case(10_000, 1, false),
        ],
    }
}

#[async_trait]
impl Scenario for Fanout {
    fn name(&self) -> &'static str {
        "fanout"
    }

    fn about(&self) -> &'static str {
        "many readers of a log, 20 events/s: cost per delivered event and per connection"
    }

    fn tables(&self) -> Vec<Table> {
        let lower = |key: &str, title: &str, unit: &str, of| Column::new(key, title, unit, Better::Lower, of);
        let rejoin = vec![
            lower("p50", "p50", "ms", Of::Rejoin),
            lower("p99", "p99", "ms", Of::Rejoin),
            Column::new("delivered", "delivered", "1/s", Better::Higher, Of::Rejoin),
            lower("cpu", "CPU an event", "µs", Of::Rejoin).ratio_to("limit-cpu"),
            lower("rss", "memory a reader", "KB", Of::Rejoin),
            lower("limit-cpu", "bare sockets: CPU an event", "µs", Of::Limit),
            lower("limit-p99", "bare sockets: p99", "ms", Of::Limit),
        ];
        let peers = vec![
            lower("redis-p99", "Redis + Node p99", "ms", Of::Peer),
            lower("redis-cpu", "Redis + Node: CPU an event", "µs", Of::Peer),
            lower("redis-rss", "Redis + Node: memory a reader", "KB", Of::Peer),
            lower("nchan-p99", "nchan p99", "ms", Of::Peer),
            lower("nchan-cpu", "nchan: CPU an event", "µs", Of::Peer),
            lower("nchan-rss", "nchan: memory a reader", "KB", Of::Peer),
        ];
        vec![
            Table::new(
                "fanout",
                "Readers x 20 events/s a log: the API process",
                "readers",
                rejoin,
            )
            .plot(PlotKind::Bars, &["cpu", "limit-cpu"], false),
            Table::new("peers", "The same load on others", "readers", peers),
        ]
    }

    async fn prepare(&self, _size: Size, out: &mut Recorder) -> Result<()> {
        out.note(
            "CPU an event: CPU time of the process that streams (user and system, with the kernel's work for loopback TCP, which \
             includes the receiving side's), over the events that its readers read meanwhile. Memory a reader: growth of its \
             resident memory from before the first connection to the end of the load, over the readers",
        );
        out.note(
            "Bare sockets: one thread that writes ready-made bytes to all sockets at each moment; no HTTP, no log, no database. \
             With 10,000 readers, readers and server together take all cores there are",
        );
        if let Err(error) = redis_sse::prepare() {
            out.note(format!("Redis + Node are not measured: {error:#}"));
        }
        if let Err(error) = nchan::prepare() {
            out.note(format!("nchan is not measured: {error:#}"));
        }
        Ok(())
    }

    async fn measure(&self, context: &Context, out: &mut Recorder) -> Result<()> {
        for case in cases(context.size) {
            rejoin(context, case, out).await?;
            if case.beside {
                limit(context.size, case, out).await?;
            }
            if case.beside && context.peers {
                if let Err(error) = redis(context.size, case, out).await {
                    out.note(format!("Redis + Node, {}: {error:#}", case.row()));
                }
                if let Err(error) = nchan(context.size, case, out).await {
                    out.note(format!("nchan, {}: {error:#}", case.row()));
                }
            }
        }
        Ok(())
    }

    fn claims(&self, found: &Recorder) -> Vec<Claim> {
        let claim = |what: &str, unit: &str, bound: f64, column: &str| Claim {
            what: format!("{} x 20 events/s: {what}", CLAIMED.row()),
            unit: unit.to_owned(),
            bound,
            better: Better::Lower,
            values: found.table("fanout").values(&CLAIMED.row(), column).to_vec(),
            why_not: None,
        };
        vec![
            claim("CPU per delivered event", "µs", 10.0, "cpu"),
            claim("memory per reader", "KB", 12.0, "rss"),
            claim("p99", "ms", 50.0, "p99").unless(format!(
                "One thread that writes prepared bytes to 5,000 bare sockets, without HTTP, log or database, has a \
                 p99 of {} ms in the same run, with {} µs of CPU per write: the last reader of an event waits for \
                 4,999 writes, on cores shared with the readers. Rejoin's own part is the time beyond that.",
                found.table("fanout").cell_text(&CLAIMED.row(), "limit-p99"),
                found.table("fanout").cell_text(&CLAIMED.row(), "limit-cpu"),
            )),
        ]
    }
}

/// Reports failures.
fn trouble(out: &mut Recorder, who: &str, case: Case, measured: &Measured) {
    if let Some(trouble) = measured.trouble() {
        out.note(format!("{who}, {}: {trouble}", case.row()));
    }
}

/// Memory per reader, in KB.
fn kb_a_reader(before: Usage, after: Usage, readers: usize) -> f64 {
    after.rss_bytes.saturating_sub(before.rss_bytes) as f64 / 1_024.0 / readers as f64
}

async fn rejoin(context: &Context, case: Case, out: &mut Recorder) -> Result<()> {
    let database = context.server.database().await?;
    let runs = posted::begin(&database, case.logs).await?;
    if case.some_stuck {
        posted::add_past(&database, &runs, STUCK_PAST).await?;
    }
    context.server.settle().await?;
    let (api, url) = Process::api(&database.url, &ONE_USER_PLAYS_ALL).await?;
    let key = &database.api_key;
    let request = |log: &uuid::Uuid, after: &str| {
        format!(
            "GET /api/conversations/{log}/events?after={after} HTTP/1.1\r\nHost: rejoin\r\nAuthorization: Bearer {key}\r\n\r\n"
        )
    };
    let settings = fleet::Settings {
        readers: case.readers,
        gapless: true,
        live_mark: "\"caught_up\"".to_owned(),
        stuck: case.some_stuck.then(|| Stuck {
            every: STUCK_EVERY,
            request: request(&runs[0].0, "0"),
            receive_buffer_bytes: STUCK_RECEIVE_BUFFER_BYTES,
        }),
        ..fleet::Settings::of(
            url.trim_start_matches("http://").parse()?,
            runs.iter().map(|(log, _)| request(log, "now")).collect(),
        )
    };
    let before = api.usage()?;
    let mut fleet = Part::start(Role::Fleet, &settings).await?;
    let to = producer::Settings::Rejoin {
        database_url: database.url.clone(),
        runs,
    };
    let mut producer = producer::start(&to).await?;
    paced::live(&mut fleet).await?;
    let measured = paced::run(&mut producer, &mut fleet, case.load(context.size), &[&|| api.usage()]).await?;
    let row = case.row();
    out.record("fanout", &row, "p50", measured.report.p50_ms);
    out.record("fanout", &row, "p99", measured.report.p99_ms);
    out.record(
        "fanout",
        &row,
        "delivered",
        measured.report.meanwhile as f64 / measured.seconds,
    );
    out.record("fanout", &row, "cpu", measured.us_per_event(0));
    out.record(
        "fanout",
        &row,
        "rss",
        kb_a_reader(before, measured.at_end[0], case.readers),
    );
    trouble(out, "Rejoin", case, &measured);
    drop((fleet, producer));
    drop(api);
    context.server.drop(database).await
}

async fn limit(size: Size, case: Case, out: &mut Recorder) -> Result<()> {
    let settings = pace_limit::Settings {
        readers: case.readers,
        logs: case.logs,
    };
    let mut server = Part::start(Role::PaceLimit, &settings).await?;
    let address = server.hear(Duration::from_secs(10)).await?;
    let settings = fleet::Settings {
        readers: case.readers,
        gapless: true,
        ..fleet::Settings::of(address, vec!["GET / HTTP/1.1\r\n\r\n".to_owned()])
    };
    let mut fleet = Part::start(Role::Fleet, &settings).await?;
    paced::live(&mut fleet).await?;
    let pid = server.pid()?;
    let measured = paced::run(&mut server, &mut fleet, case.load(size), &[&|| process::usage(pid)]).await?;
    out.record("fanout", &case.row(), "limit-cpu", measured.us_per_event(0));
    out.record("fanout", &case.row(), "limit-p99", measured.report.p99_ms);
    trouble(out, "bare sockets", case, &measured);
    Ok(())
}

async fn redis(size: Size, case: Case, out: &mut Recorder) -> Result<()> {
    let peer = RedisSse::start().await?;
    let settings = fleet::Settings {
        readers: case.readers,
        live_mark: "\"caught_up\"".to_owned(),
        ..fleet::Settings::of(peer.address, (0..case.logs).map(RedisSse::request).collect())
    };
    let before = peer.server_usage()?;
    let mut fleet = Part::start(Role::Fleet, &settings).await?;
    let to = producer::Settings::Redis {
        socket: peer.socket().to_owned(),
        keys: case.logs,
    };
    let mut producer = producer::start(&to).await?;
    paced::live(&mut fleet).await?;
    let measured = paced::run(&mut producer, &mut fleet, case.load(size), &[&|| peer.server_usage()]).await?;
    out.record("peers", &case.row(), "redis-p99", measured.report.p99_ms);
    out.record("peers", &case.row(), "redis-cpu", measured.us_per_event(0));
    out.record(
        "peers",
        &case.row(),
        "redis-rss",
        kb_a_reader(before, measured.at_end[0], case.readers),
    );
    trouble(out, "Redis + Node", case, &measured);
    Ok(())
}

async fn nchan(size: Size, case: Case, out: &mut Recorder) -> Result<()> {
    let peer = Nchan::start().await?;
    let settings = fleet::Settings {
        readers: case.readers,
        ..fleet::Settings::of(peer.address, (0..case.logs).map(Nchan::request).collect())
    };
    let before = peer.usage()?;
    let mut fleet = Part::start(Role::Fleet, &settings).await?;
    let to = producer::Settings::Nchan {
        address: peer.address,
        channels: case.logs,
    };
    let mut producer = producer::start(&to).await?;
    paced::live(&mut fleet).await?;
    let measured = paced::run(&mut producer, &mut fleet, case.load(size), &[&|| peer.usage()]).await?;
    out.record("peers", &case.row(), "nchan-p99", measured.report.p99_ms);
    out.record("peers", &case.row(), "nchan-cpu", measured.us_per_event(0));
    out.record(
        "peers",
        &case.row(),
        "nchan-rss",
        kb_a_reader(before, measured.at_end[0], case.readers),
    );
    trouble(out, "nchan", case, &measured);
    Ok(())
}
