//! `scale`: more workers and APIs on one PostgreSQL, and an event table of 1 million and 10 million rows (50 if hours
//! are allowed): scaling of a fleet, and slowdown as history grows.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use async_trait::async_trait;
use rejoin_event_log::log;
use rejoin_event_log::stream::RunStream;
use uuid::Uuid;

use super::append::{Load, Pourer};
use crate::load::Latencies;
use crate::model::Script;
use crate::product::Fleet;
use crate::results::{Better, Claim, Column, Of, PlotKind, Size, Table};
use crate::runs;
use crate::scenario::{Context, Recorder, Scenario};
use crate::server::Database;

const FLEET: &str = "fleet";
const SIZE: &str = "size";
/// (row, workers, APIs)
const FLEETS: [(&str, usize, usize); 4] = [
    ("1 worker, 1 API", 1, 1),
    ("2 workers, 1 API", 2, 1),
    ("4 workers, 1 API", 4, 1),
    ("2 workers, 2 APIs", 2, 2),
];
/// Chats that post again as soon as their turn ends.
const CHATS: usize = 64;
/// Events per log in the big tables.
const EVENTS_PER_LOG: i64 = 1_000;
/// Concurrently written and read logs.
const LOGS: i64 = 100;
/// Rows inserted per statement when filling.
const FILL: i64 = 1_000_000;
/// Events read from each log by a tailing query: a few tokens.
const BEHIND: i64 = 5;

/// (label, rows)
const SMALL: (&str, i64) = ("1 million", 1_000_000);
const BIG: (&str, i64) = ("10 million", 10_000_000);
const HUGE: (&str, i64) = ("50 million", 50_000_000);

pub struct Scale {
    /// Filled in the first repetition, kept until the last.
    filled: tokio::sync::Mutex<Vec<Filled>>,
}

/// An event table with history.
struct Filled {
    label: &'static str,
    database: Database,
    logs: Vec<Uuid>,
    streams: Vec<Arc<RunStream>>,
}

impl Default for Scale {
    fn default() -> Self {
        Self {
            filled: tokio::sync::Mutex::new(Vec::new()),
        }
    }
}

#[async_trait]
impl Scenario for Scale {
    fn name(&self) -> &'static str {
        "scale"
    }

    fn about(&self) -> &'static str {
        "more workers and APIs on one PostgreSQL, and an event table that grows"
    }

    fn tables(&self) -> Vec<Table> {
        let fleet = vec![
            Column::new("turns", "turns", "1/s", Better::Higher, Of::Rejoin),
            Column::new("p50", "first token: p50", "ms", Better::Lower, Of::Rejoin),
            Column::new("p99", "p99", "ms", Better::Lower, Of::Rejoin),
            Column::new("api_cpu", "CPU of a turn: APIs", "ms", Better::Lower, Of::Rejoin),
            Column::new("worker_cpu", "workers", "ms", Better::Lower, Of::Rejoin),
            Column::new("postgres_cpu", "PostgreSQL", "ms", Better::Lower, Of::Rejoin),
        ];
        let size = vec![
            Column::new("append", "append", "events/s", Better::Higher, Of::Rejoin),
            Column::new("tail", "tail", "events/s", Better::Higher, Of::Rejoin),
            Column::new("replay", "replay", "events/s", Better::Higher, Of::Rejoin),
        ];
        vec![
            Table::new(FLEET, "64 chats, one turn after the other", "fleet", fleet).plot(
                PlotKind::Bars,
                &["turns"],
                false,
            ),
            Table::new(SIZE, "Rates by the rows of the event table", "rows", size).plot(
                PlotKind::Bars,
                &["append", "tail", "replay"],
                false,
            ),
        ]
    }

    async fn measure(&self, context: &Context, out: &mut Recorder) -> Result<()> {
        out.note(
            "Fleet: all processes, the chats, the model and PostgreSQL share the machine's cores, so more processes \
             can't increase the rate: the table shows that they cost nothing. A turn: 20 tokens, 2 ms apart.",
        );
        out.note(format!(
            "Rows: events of logs of {EVENTS_PER_LOG} each, one row per event, none compacted. Append: one row each, \
             to {LOGS} of those logs at any position in the table's index, through the product's writer. Tail: the \
             API's query for the last {BEHIND} events of {LOGS} logs at once. Replay: pages of logs from their \
             beginning. The tables are measured alternately."
        ));
        for (row, workers, apis) in FLEETS {
            fleet(context, out, row, workers, apis).await?;
        }
        let mut filled = self.filled.lock().await;
        if filled.is_empty() {
            *filled = fill_all(context).await?;
        }
        for table in filled.iter() {
            context.server.settle().await?;
            size(context, out, table).await?;
        }
        if context.is_last() {
            for table in filled.drain(..) {
                context.server.drop(table.database).await?;
            }
        }
        Ok(())
    }

    fn claims(&self, found: &Recorder) -> Vec<Claim> {
        let table = found.table(SIZE);
        let mut claims = Vec::new();
        for (label, _) in [BIG, HUGE] {
            for column in ["append", "tail"] {
                let values: Vec<f64> = table
                    .values(label, column)
                    .iter()
                    .zip(table.values(SMALL.0, column))
                    .map(|(big, small)| big / small)
                    .collect();
                if label == HUGE.0 && values.is_empty() {
                    continue;
                }
                claims.push(Claim {
                    what: format!("{column}, rate at {label} rows relative to {}", SMALL.0),
                    unit: "x".to_owned(),
                    bound: 0.9,
                    better: Better::Higher,
                    values,
                    why_not: Some(
                        "Both tables are measured alternately, a second each: the remaining difference is noise, and \
                         the larger index's pages that are not cached."
                            .to_owned(),
                    ),
                });
            }
        }
        claims
    }
}

async fn fleet(context: &Context, out: &mut Recorder, row: &str, workers: usize, apis: usize) -> Result<()> {
    let fleet = Fleet::of(context, workers, apis, &[]).await?;
    let chats = context.sized(CHATS, 4);
    chat_until(
        &fleet,
        chats,
        context.sized(Duration::from_secs(1), Duration::from_millis(100)),
    )
    .await?;
    let before = fleet.cpu_us(context)?;
    let began = Instant::now();
    let (turns, latencies) = chat_until(
        &fleet,
        chats,
        context.sized(Duration::from_secs(2), Duration::from_millis(200)),
    )
    .await?;
    let took_s = began.elapsed().as_secs_f64();
    let after = fleet.cpu_us(context)?;
    out.record(FLEET, row, "turns", turns as f64 / took_s);
    out.record(FLEET, row, "p50", latencies.quantile_ms(0.5));
    out.record(FLEET, row, "p99", latencies.quantile_ms(0.99));
    for (index, column) in ["api_cpu", "worker_cpu", "postgres_cpu"].into_iter().enumerate() {
        let used_ms = after[index].saturating_sub(before[index]) as f64 / 1_000.0;
        out.record(FLEET, row, column, used_ms / turns as f64);
    }
    fleet.stop(context).await
}

/// Turns completed by `chats` clients in a period, and the platform's part of the time to first token.
async fn chat_until(fleet: &Fleet, chats: usize, span: Duration) -> Result<(u64, Latencies)> {
    let script = Script {
        tokens: 20,
        pause_ms: 2,
        ..Script::default()
    };
    let until = Instant::now() + span;
    let mut tasks = Vec::new();
    for _ in 0..chats {
        let mut chat = fleet.chat().await?;
        tasks.push(tokio::spawn(async move {
            let mut latencies = Latencies::default();
            while Instant::now() < until {
                let posted_us = crate::load::now_us();
                let turn = chat.turn(None, script).await?;
                latencies.record(turn.parts_us(posted_us).iter().sum());
            }
            anyhow::Ok(latencies)
        }));
    }
    let mut all = Latencies::default();
    for task in tasks {
        all.merge(&task.await??);
    }
    Ok((all.count(), all))
}

async fn fill_all(context: &Context) -> Result<Vec<Filled>> {
    let sizes = match context.size {
        Size::Smoke => vec![(SMALL.0, 2_000), (BIG.0, 4_000)],
        Size::Full => vec![SMALL, BIG],
        Size::Large => vec![SMALL, BIG, HUGE],
    };
    let mut filled = Vec::new();
    for (label, rows) in sizes {
        println!("   filling a table with {rows} events");
        filled.push(fill(context, label, rows).await?);
    }
    Ok(filled)
}

async fn fill(context: &Context, label: &'static str, rows: i64) -> Result<Filled> {
    let database = context.server.database().await?;
    let all: Vec<Uuid> = (0..rows / EVENTS_PER_LOG).map(|_| Uuid::now_v7()).collect();
    let per_statement = usize::try_from(FILL / EVENTS_PER_LOG)?;
    for some in all.chunks(per_statement) {
        let mut tx = rejoin_db::begin(&database.db.pool_sqlx).await?;
        sqlx::query("insert into stream.logs (log_id) select unnest($1::uuid[])")
            .bind(some)
            .execute(&mut *tx)
            .await?;
        sqlx::query(
            "insert into stream.events (log_id, seq, run_id, type, data)
             select l, n, l, 'token', json_build_object('type', 'token', 'runId', l, 'token', 'word ')
             from unnest($1::uuid[]) l, generate_series(1, $2) n",
        )
        .bind(some)
        .bind(EVENTS_PER_LOG)
        .execute(&mut *tx)
        .await?;
        tx.commit().await?;
    }
    sqlx::query("vacuum analyze stream.events")
        .execute(&database.db.pool_sqlx)
        .await?;
    // Spread over all of them.
    let every = all.len().div_ceil(usize::try_from(LOGS)?).max(1);
    let logs: Vec<Uuid> = all.into_iter().step_by(every).collect();
    let streams = runs::start_in(&database, &logs).await?;
    Ok(Filled {
        label,
        database,
        logs,
        streams,
    })
}

async fn size(context: &Context, out: &mut Recorder, table: &Filled) -> Result<()> {
    let span = context.sized(Duration::from_secs(1), Duration::from_millis(100));
    let pourer = Pourer::start(&table.database.url, Load::Mixed, &table.streams, 1)?;
    // Twice: connections, statements and pages are warm the second time.
    pourer.pour_for(span / 2).await?;
    out.record(SIZE, table.label, "append", pourer.pour_for(span).await?);
    drop(pourer);

    let ends: HashMap<Uuid, i64> =
        sqlx::query_as("select log_id, last_seq from stream.log_ends where log_id = any($1)")
            .bind(&table.logs)
            .fetch_all(&table.database.db.pool_sqlx)
            .await?
            .into_iter()
            .collect();
    let cursors: Vec<(Uuid, i64)> = ends.into_iter().map(|(log, last)| (log, last - BEHIND)).collect();
    let pool = &table.database.db.pool_pg;
    for is_warm in [false, true] {
        let (mut events, began) = (0, Instant::now());
        while began.elapsed() < span / 2 {
            events += log::tail(pool, &cursors).await?.len();
        }
        if is_warm {
            out.record(SIZE, table.label, "tail", events as f64 / began.elapsed().as_secs_f64());
        }
    }
    let (mut events, began) = (0, Instant::now());
    for log_id in table.logs.iter().cycle() {
        if began.elapsed() > span / 2 {
            break;
        }
        events += log::read(pool, *log_id, 0).await?.len();
    }
    out.record(
        SIZE,
        table.label,
        "replay",
        events as f64 / began.elapsed().as_secs_f64(),
    );
    Ok(())
}
