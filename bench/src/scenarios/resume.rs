//! `resume`: all readers reconnect at once, each with an old cursor; and a late joiner of a long run, with and without
//! a snapshot.

use anyhow::{Context as _, Result, ensure};
use async_trait::async_trait;
use sqlx::AssertSqlSafe;
use tokio::sync::OnceCell;
use uuid::Uuid;

use crate::fleet::{self, Live};
use crate::paced;
use crate::part::{Part, Role};
use crate::posted;
use crate::process::{self, Process};
use crate::product::ONE_USER_PLAYS_ALL;
use crate::results::{Better, Claim, Column, Of, Size, Table};
use crate::scenario::{Context, Recorder, Scenario};
use crate::server::Database;

/// Readers change nothing: all repetitions read the same logs.
#[derive(Default)]
pub struct Resume {
    past: OnceCell<Past>,
}

struct Past {
    database: Database,
    /// Log and run of each.
    runs: Vec<(Uuid, Uuid)>,
}

/// Number of events in a log, and the distance of its readers' cursors.
const PAST: usize = 120;
const BEHIND: usize = 100;
/// Tokens of the run joined late.
const TOKENS: usize = 10_000;

#[derive(Debug, Clone, Copy)]
struct Case {
    readers: usize,
    logs: usize,
}

impl Case {
    fn row(self) -> String {
        use crate::print::count;
        format!("{} readers, {} logs", count(self.readers), count(self.logs))
    }
}

const CLAIMED: Case = Case {
    readers: 10_000,
    logs: 1_000,
};
const ALONE: Case = Case {
    readers: 10_000,
    logs: 10_000,
};

fn cases(size: Size) -> Vec<Case> {
    match size {
        Size::Smoke => vec![Case { readers: 200, logs: 20 }],
        Size::Full | Size::Large => vec![CLAIMED, ALONE],
    }
}

#[async_trait]
impl Scenario for Resume {
    fn name(&self) -> &'static str {
        "resume"
    }

    fn about(&self) -> &'static str {
        "10,000 readers reconnect within a second; a late reader of a run of 10,000 tokens"
    }

    fn tables(&self) -> Vec<Table> {
        let lower = |key: &str, title: &str, unit: &str| Column::new(key, title, unit, Better::Lower, Of::Rejoin);
        let resume = vec![
            lower("all", "all are live after", "s"),
            lower("p50", "a reader is live after, p50", "ms"),
            lower("p99", "p99", "ms"),
            lower("pages", "pages of the past read", ""),
            lower("transactions", "transactions in the database", ""),
            lower("cpu", "CPU of the API", "s"),
            lower("rss", "peak memory of the API", "MB"),
        ];
        let join = vec![lower("ms", "until it is live", "ms"), lower("bytes", "bytes", "KB")];
        vec![
            Table::new(
                "resume",
                &format!(
                    "Readers reconnect within one second to an API that has just started, each {BEHIND} events behind"
                ),
                "readers",
                resume,
            ),
            Table::new("join", "A late joiner of a run of 10,000 tokens", "from", join),
        ]
    }

    async fn measure(&self, context: &Context, out: &mut Recorder) -> Result<()> {
        let cases = cases(context.size);
        let logs = cases.iter().map(|case| case.logs).max().unwrap_or_default();
        let past = self.past.get_or_try_init(|| Past::make(context, logs)).await?;
        for case in cases {
            resume(past, case, out).await?;
        }
        join(context, out).await
    }

    fn claims(&self, found: &Recorder) -> Vec<Claim> {
        let values = |table: &str, row: &str, column: &str| found.table(table).values(row, column).to_vec();
        let ratio = |column: &str| {
            let replay = values("join", "the beginning", column);
            values("join", "a snapshot", column)
                .iter()
                .zip(replay)
                .map(|(snapshot, replay)| snapshot / replay)
                .collect()
        };
        let busy = |case: &Case| {
            format!(
                "{} readers cost the API {} s of CPU and PostgreSQL {} transactions, on cores shared with the \
                 readers' own connecting and reading; this accounts for the time.",
                crate::print::count(case.readers),
                found.table("resume").cell_text(&case.row(), "cpu"),
                found.table("resume").cell_text(&case.row(), "transactions"),
            )
        };
        let claim = |what: &str, unit: &str, bound: f64, values: Vec<f64>| Claim {
            what: what.to_owned(),
            unit: unit.to_owned(),
            bound,
            better: Better::Lower,
            values,
            why_not: None,
        };
        vec![
            claim(
                "10,000 readers reconnect within a second, 10 per log: all live after",
                "s",
                5.0,
                values("resume", &CLAIMED.row(), "all"),
            )
            .unless(busy(&CLAIMED)),
            claim(
                "10,000 readers reconnect within a second, one log each: all live after",
                "s",
                5.0,
                values("resume", &ALONE.row(), "all"),
            )
            .unless(busy(&ALONE)),
            claim(
                "snapshot of a run of 10,000 tokens: bytes as a share of its replay",
                "",
                0.2,
                ratio("bytes"),
            ),
        ]
    }
}

impl Past {
    async fn make(context: &Context, logs: usize) -> Result<Self> {
        let database = context.server.database().await?;
        let runs = posted::post(&database, logs).await?;
        posted::add_past(&database, &runs, PAST).await?;
        sqlx::query("vacuum analyze").execute(&database.db.pool_sqlx).await?;
        context.server.settle().await?;
        Ok(Self { database, runs })
    }
}

async fn resume(past: &Past, case: Case, out: &mut Recorder) -> Result<()> {
    let database = &past.database;
    let (api, url) = Process::api(&database.url, &ONE_USER_PLAYS_ALL).await?;
    let before = transactions(database).await?;
    let key = &database.api_key;
    // The user's message is a log's first event, followed by its history.
    let cursor = 1 + PAST - BEHIND;
    let requests = past.runs[..case.logs].iter().map(|(_, run)| {
        format!(
            "GET /api/runs/{run}/events HTTP/1.1\r\nHost: rejoin\r\nAuthorization: Bearer {key}\r\nLast-Event-ID: {cursor}\r\n\r\n"
        )
    });
    let settings = fleet::Settings {
        readers: case.readers,
        gapless: true,
        cursor: cursor as u64,
        live_mark: "\"caught_up\"".to_owned(),
        connects_per_s: Some(case.readers as f64),
        ..fleet::Settings::of(url.trim_start_matches("http://").parse()?, requests.collect())
    };
    let cpu_before = api.usage()?.cpu_us;
    let mut fleet = Part::start(Role::Fleet, &settings).await?;
    let live: Live = paced::live(&mut fleet).await?;
    // Each of them from its cursor to the end, once: otherwise the times are invalid.
    ensure!(
        live.gaps == 0 && live.numbers == (case.readers * BEHIND) as u64,
        "{} readers read {} events, {} of them out of turn, instead of {BEHIND} each",
        case.readers,
        live.numbers,
        live.gaps
    );
    let row = case.row();
    out.record("resume", &row, "all", live.took_ms / 1_000.0);
    out.record("resume", &row, "p50", live.p50_ms);
    out.record("resume", &row, "p99", live.p99_ms);
    out.record("resume", &row, "cpu", (api.usage()?.cpu_us - cpu_before) as f64 / 1e6);
    out.record("resume", &row, "pages", counter(&url, "rejoin_log_reads_total").await?);
    out.record("resume", &row, "rss", process::peak_rss_bytes(api.pid())? as f64 / 1e6);
    drop(fleet);
    // Backends report their statistics when they end.
    api.stop().await?;
    out.record("resume", &row, "transactions", transactions(database).await? - before);
    Ok(())
}

async fn join(context: &Context, out: &mut Recorder) -> Result<()> {
    let database = context.server.database().await?;
    let runs = posted::begin(&database, 1).await?;
    let tokens = context.sized(TOKENS, 500);
    posted::add_past(&database, &runs, tokens).await?;
    context.server.settle().await?;
    let (api, url) = Process::api(&database.url, &[]).await?;
    let key = &database.api_key;
    for (row, query) in [("the beginning", "?after=0"), ("a snapshot", "?from=snapshot")] {
        // The first of each prepares statements.
        for counts in [false, true] {
            let request = format!(
                "GET /api/runs/{}/events{query} HTTP/1.1\r\nHost: rejoin\r\nAuthorization: Bearer {key}\r\n\r\n",
                runs[0].1
            );
            let settings = fleet::Settings {
                live_mark: "\"caught_up\"".to_owned(),
                ..fleet::Settings::of(url.trim_start_matches("http://").parse()?, vec![request])
            };
            let mut fleet = Part::start(Role::Fleet, &settings).await?;
            let live = paced::live(&mut fleet).await?;
            if counts {
                out.record("join", row, "ms", live.p50_ms);
                out.record("join", row, "bytes", live.bytes as f64 / 1_024.0);
            }
        }
    }
    api.stop().await?;
    context.server.drop(database).await
}

/// Reads a counter of `/metrics`.
async fn counter(url: &str, name: &str) -> Result<f64> {
    let text = reqwest::get(format!("{url}/metrics")).await?.text().await?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .with_context(|| format!("no {name}"))?;
    Ok(line.trim().parse()?)
}

/// Transactions in this database so far: each query of the API is one.
async fn transactions(database: &Database) -> Result<f64> {
    let sql = "select (xact_commit + xact_rollback)::float8 from pg_stat_database where datname = current_database()";
    Ok(sqlx::query_scalar(AssertSqlSafe(sql))
        .fetch_one(&database.db.pool_sqlx)
        .await?)
}
