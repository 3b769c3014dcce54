//! `fleet`: one PostgreSQL, one to eight API processes, thousands of readers over all of them: how many queries the database answers, with each bus of wake-ups.

use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use async_trait::async_trait;
use sqlx::{Connection as _, PgConnection};
use tokio::time::sleep;

use crate::fleet;
use crate::paced::{self, Load};
use crate::part::{Part, Role};
use crate::posted;
use crate::print::count;
use crate::process::{self, Process};
use crate::producer::{self, Hints};
use crate::product::ONE_USER_PLAYS_ALL;
use crate::results::{Better, Column, Of, PlotKind, Size, Table};
use crate::scenario::{Context, Recorder, Scenario};

/// Files that a process opens besides the connections of readers, at most.
const OTHER_FILES: usize = 500;

pub struct Fleet;

const APIS: [usize; 4] = [1, 2, 4, 8];
const TABLE: &str = "fleet";
/// Events per second to each log.
const PER_LOG_PER_S: f64 = 2.0;
const WARM_UP: Duration = Duration::from_secs(2);
/// PostgreSQL's counters are up to a second old.
const MEASURED: Duration = Duration::from_secs(10);
const WARM_UP_SMOKE: Duration = Duration::from_millis(500);
const MEASURED_SMOKE: Duration = Duration::from_secs(1);
/// Timeout of the start of the NATS server, and of a connection to it.
const NATS_LIMIT: Duration = Duration::from_secs(10);
const CONNECT_LIMIT: Duration = Duration::from_millis(200);

/// What is counted, summed over all processes.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    /// Transactions of the database: a query of a pool is one.
    transactions: f64,
    /// Queries for new events.
    tail: f64,
    /// Events that came with a wake-up.
    by_hint: f64,
}

impl Counts {
    async fn now(context: &Context, database: &str, urls: &[String]) -> Result<Self> {
        let mut counts = Self::default();
        for url in urls {
            let text = reqwest::get(format!("{url}/metrics")).await?.text().await?;
            counts.tail += metric(&text, "rejoin_tail_queries_total");
            counts.by_hint += metric(&text, "rejoin_events_by_hint_total");
        }
        let mut elsewhere = PgConnection::connect(&context.server.url("postgres")).await?;
        let transactions: i64 = sqlx::query_scalar("select xact_commit from pg_stat_database where datname = $1")
            .bind(database)
            .fetch_one(&mut elsewhere)
            .await?;
        elsewhere.close().await?;
        counts.transactions = transactions as f64;
        Ok(counts)
    }
}

/// The value of a metric without labels; 0 if it is absent.
fn metric(text: &str, name: &str) -> f64 {
    let values = text
        .lines()
        .filter_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok());
    values.sum()
}

/// A NATS server, for the scenario.
struct Nats {
    _process: Process,
    url: String,
}

impl Nats {
    async fn start() -> Result<Self> {
        let program = [
            "/usr/sbin/nats-server",
            "/usr/bin/nats-server",
            "/usr/local/bin/nats-server",
        ];
        let program = program.iter().map(PathBuf::from).find(|program| program.exists());
        let program = program.context("nats-server is not installed (Debian: nats-server)")?;
        let address = rejoin_free_ports::address()?;
        let process = Process::spawn(Command::new(program).args([
            "--addr",
            &address.ip().to_string(),
            "--port",
            &address.port().to_string(),
        ]))?;
        let began = Instant::now();
        while TcpStream::connect_timeout(&address, CONNECT_LIMIT).is_err() {
            if began.elapsed() > NATS_LIMIT {
                bail!("nats-server does not listen");
            }
            sleep(Duration::from_millis(20)).await;
        }
        Ok(Self {
            _process: process,
            url: format!("nats://{address}"),
        })
    }
}

#[async_trait]
impl Scenario for Fleet {
    fn name(&self) -> &'static str {
        "fleet"
    }

    fn about(&self) -> &'static str {
        "1 to 8 API processes over one PostgreSQL, with readers of many logs: queries with each bus"
    }

    fn tables(&self) -> Vec<Table> {
        let lower = |key: &str, title: &str, unit: &str| Column::new(key, title, unit, Better::Lower, Of::Rejoin);
        let columns = vec![
            lower("transactions", "transactions of PostgreSQL", "1/s"),
            lower("tail", "queries for new events", "1/s"),
            Column::new("by-hint", "events with their hint", "%", Better::Higher, Of::Rejoin),
            lower("postgres", "PostgreSQL", "cores"),
            lower("apis", "all API processes", "cores"),
            lower("p50", "p50", "ms"),
            lower("p99", "p99", "ms"),
        ];
        let table = Table::new(
            TABLE,
            "Readers over all API processes, 2 events/s a log",
            "processes and bus",
            columns,
        );
        vec![table.plot(PlotKind::Bars, &["transactions", "tail"], false)]
    }

    async fn measure(&self, context: &Context, out: &mut Recorder) -> Result<()> {
        let (wanted, logs) = context.sized((20_000, 500), (40, 4));
        let readers = wanted.min(process::open_files_max()?.saturating_sub(OTHER_FILES));
        out.note(format!(
            "{} readers of {} logs, spread evenly over the API processes: each process follows all logs. Transactions: those of all processes, the writer of \
             the events among them, by pg_stat_database. p50 and p99: from the event's time to its reader, of the slowest process",
            count(readers),
            count(logs)
        ));
        let apis: &[usize] = if context.size == Size::Smoke {
            &APIS[1..2]
        } else {
            &APIS
        };
        let nats = match Nats::start().await {
            Ok(nats) => Some(nats),
            Err(error) => {
                out.note(format!("NATS is not measured: {error:#}"));
                None
            }
        };
        for &apis in apis {
            one(context, (apis, readers, logs), &Hints::Postgres, out).await?;
            if let Some(nats) = &nats {
                let hints = Hints::Nats { url: nats.url.clone() };
                one(context, (apis, readers, logs), &hints, out).await?;
            }
            one(context, (apis, readers, logs), &Hints::Poll, out).await?;
        }
        Ok(())
    }
}

async fn one(
    context: &Context,
    (apis, readers, logs): (usize, usize, usize),
    hints: &Hints,
    out: &mut Recorder,
) -> Result<()> {
    let database = context.server.database().await?;
    let runs = posted::begin(&database, logs).await?;
    context.server.settle().await?;
    let of_bus = hints.variables();
    let mut settings: Vec<(&str, &str)> = ONE_USER_PLAYS_ALL.to_vec();
    settings.extend(of_bus.iter().map(|(name, value)| (*name, value.as_str())));
    let (mut processes, mut urls, mut fleets) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..apis {
        let (process, url) = Process::api(&database.url, &settings).await?;
        processes.push(process);
        urls.push(url);
    }
    let key = &database.api_key;
    let requests: Vec<String> = runs
        .iter()
        .map(|(log, _)| {
            format!(
                "GET /api/conversations/{log}/events?after=now HTTP/1.1\r\nHost: rejoin\r\nAuthorization: Bearer {key}\r\n\r\n"
            )
        })
        .collect();
    for url in &urls {
        let settings = fleet::Settings {
            readers: readers / apis,
            gapless: true,
            live_mark: "\"caught_up\"".to_owned(),
            ..fleet::Settings::of(url.trim_start_matches("http://").parse()?, requests.clone())
        };
        let mut part = Part::start(Role::Fleet, &settings).await?;
        paced::live(&mut part).await?;
        fleets.push(part);
    }
    let to = producer::Settings::RejoinOver {
        database_url: database.url.clone(),
        runs,
        hints: hints.clone(),
    };
    let mut producer = producer::start(&to).await?;
    let load = Load {
        logs,
        per_log_per_s: if context.size == Size::Smoke {
            10.0
        } else {
            PER_LOG_PER_S
        },
        readers,
        warm_up: context.sized(WARM_UP, WARM_UP_SMOKE),
        measured: context.sized(MEASURED, MEASURED_SMOKE),
    };
    let postgres = context.server.pid().context("PostgreSQL runs")?;
    let of_postgres = || process::tree_usage(postgres);
    let of_apis = || -> Result<process::Usage> {
        let mut sum = process::Usage::default();
        for process in &processes {
            let usage = process.usage()?;
            sum.cpu_us += usage.cpu_us;
            sum.rss_bytes += usage.rss_bytes;
        }
        Ok(sum)
    };
    let counting = async {
        sleep(load.warm_up).await;
        let first = Counts::now(context, &database.name, &urls).await?;
        sleep(load.measured).await;
        let last = Counts::now(context, &database.name, &urls).await?;
        anyhow::Ok((first, last))
    };
    let watched: [&(dyn Fn() -> Result<process::Usage> + Sync); 2] = [&of_postgres, &of_apis];
    let (measured, counts) = tokio::join!(paced::run_over(&mut producer, &mut fleets, load, &watched), counting);
    let (measured, (first, last)) = (measured?, counts?);
    let row = format!("{apis} x API, {}", hints.name());
    let seconds = load.measured.as_secs_f64();
    let events = load.per_log_per_s * logs as f64 * seconds * apis as f64;
    for (column, value) in [
        ("transactions", (last.transactions - first.transactions) / seconds),
        ("tail", (last.tail - first.tail) / seconds),
        ("by-hint", (last.by_hint - first.by_hint) / events * 100.0),
        ("postgres", measured.cores[0]),
        ("apis", measured.cores[1]),
        ("p50", measured.report.p50_ms),
        ("p99", measured.report.p99_ms),
    ] {
        out.record(TABLE, &row, column, value);
    }
    if let Some(trouble) = measured.trouble() {
        out.note(format!("{row}: {trouble}"));
    }
    drop((fleets, producer));
    drop(processes);
    context.server.drop(database).await
}
