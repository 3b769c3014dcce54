//! `compaction`: a token's size in the table before and after its run was compacted, the speed of compaction, and its
//! effect on appends, and on the removal of old events.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use async_trait::async_trait;
use rejoin_event_log::{compaction, log, retention};
use sqlx::AssertSqlSafe;
use tokio::task::JoinHandle;
use uuid::Uuid;

use super::append;
use crate::results::{Better, Claim, Column, Of, PlotKind, Table};
use crate::scenario::{Context, Recorder, Scenario};
use crate::server::Database;
use crate::{posted, runs};

/// Number of ended runs, with the tokens of a long answer each.
const RUNS: usize = 200;
const TOKENS: usize = 2_000;
/// Number of concurrently active runs.
const LIVE: usize = 100;

const SPACE: &str = "space";
const UPKEEP: &str = "upkeep";
const AS_WRITTEN: &str = "a row each, as a slow model's are written";
const COMPACTED: &str = "compacted";
const ALONE: &str = "nothing";
const COMPACTING: &str = "compaction";
const REMOVING: &str = "removal of old events";

pub struct Compaction;

#[async_trait]
impl Scenario for Compaction {
    fn name(&self) -> &'static str {
        "compaction"
    }

    fn about(&self) -> &'static str {
        "the size of a token in the table before and after compaction, and the effect of maintenance on appends"
    }

    fn tables(&self) -> Vec<Table> {
        let space = vec![
            Column::new("bytes", "a token takes", "bytes", Better::Lower, Of::Rejoin),
            Column::new("index", "of it indexes", "bytes", Better::Lower, Of::Rejoin),
            Column::new("replay", "replay", "events/s", Better::Higher, Of::Rejoin),
        ];
        let upkeep = vec![
            Column::new("p50", "append to visible: p50", "ms", Better::Lower, Of::Rejoin),
            Column::new("p99", "p99", "ms", Better::Lower, Of::Rejoin),
            Column::new("rate", "upkeep", "events/s", Better::Higher, Of::Rejoin),
        ];
        vec![
            Table::new(SPACE, "Tokens of runs that are over", "rows", space).plot(
                PlotKind::Bars,
                &["bytes", "index"],
                false,
            ),
            Table::new(UPKEEP, "Appends of 100 runs x 50/s beside upkeep", "beside", upkeep).plot(
                PlotKind::Bars,
                &["p50", "p99"],
                false,
            ),
        ]
    }

    async fn measure(&self, context: &Context, out: &mut Recorder) -> Result<()> {
        out.note(format!(
            "{RUNS} runs of {TOKENS} tokens. Space: the table, its indexes and TOAST data, rewritten without gaps \
             before the measurement. Replay: all events, page by page, on one connection."
        ));
        out.note(
            "Maintenance runs without a pause until it has nothing left to do; a worker does the same once a minute. \
             It runs during all appends, or until it has finished.",
        );
        let database = context.server.database().await?;
        let tokens = context.sized(TOKENS, 20);
        let ended = end_runs(&database, context.sized(RUNS, 5), tokens).await?;
        space(&database, &ended, tokens, AS_WRITTEN, out).await?;
        let live = runs::start(&database, context.sized(LIVE, 5)).await?;
        let span_s = context.sized(3.0, 0.2);
        // The first appends open connections and prepare statements.
        append::append_at_pace(&database, &live, span_s / 6.0).await?;

        for beside in [ALONE, COMPACTING, REMOVING] {
            if beside == REMOVING {
                space(&database, &ended, tokens, COMPACTED, out).await?;
                // Unpacked rows, the most to remove.
                end_runs(&database, context.sized(RUNS, 5), tokens).await?;
            }
            context.server.settle().await?;
            let upkeep = match beside {
                COMPACTING => Some(upkeep(compact(database.clone()))),
                REMOVING => Some(upkeep(remove(database.clone()))),
                _ => None,
            };
            let (latencies, _) = append::append_at_pace(&database, &live, span_s).await?;
            out.record(UPKEEP, beside, "p50", latencies.quantile_ms(0.5));
            out.record(UPKEEP, beside, "p99", latencies.quantile_ms(0.99));
            if let Some(upkeep) = upkeep {
                let rate = upkeep.await??;
                out.record(UPKEEP, beside, "rate", rate);
            }
        }
        context.server.drop(database).await
    }

    fn claims(&self, found: &Recorder) -> Vec<Claim> {
        let table = found.table(SPACE);
        let pairs = table
            .values(COMPACTED, "bytes")
            .iter()
            .zip(table.values(AS_WRITTEN, "bytes"));
        vec![Claim {
            what: "size of a compacted token relative to before".to_owned(),
            unit: "x".to_owned(),
            bound: 0.2,
            better: Better::Lower,
            values: pairs.map(|(after, before)| after / before).collect(),
            why_not: None,
        }]
    }
}

/// Ended runs of separate conversations, one row per token. Returns their logs.
async fn end_runs(database: &Database, runs: usize, tokens: usize) -> Result<Vec<Uuid>> {
    let posted = posted::post(database, runs).await?;
    posted::add_past(database, &posted, tokens).await?;
    let (logs, runs): (Vec<Uuid>, Vec<Uuid>) = posted.into_iter().unzip();
    let mut tx = rejoin_db::begin(&database.db.pool_sqlx).await?;
    sqlx::query(
        "update kb.agent_runs r set state = 'completed', finished_at = now() - interval '1 s', done_seq = e.last_seq
         from stream.log_ends e where r.id = any($1) and e.log_id = r.log_id",
    )
    .bind(&runs)
    .execute(&mut *tx)
    .await?;
    sqlx::query("delete from queue.jobs where run_id = any($1)")
        .bind(&runs)
        .execute(&mut *tx)
        .await?;
    tx.commit().await?;
    Ok(logs)
}

/// Rewrites the table, and returns its size and read speed.
async fn space(database: &Database, logs: &[Uuid], tokens: usize, row: &str, out: &mut Recorder) -> Result<()> {
    let db = &database.db.pool_sqlx;
    sqlx::query("vacuum (full, analyze) stream.events").execute(db).await?;
    let (all, indexes, others): (i64, i64, i64) = sqlx::query_as(AssertSqlSafe(
        "select pg_total_relation_size('stream.events'), pg_indexes_size('stream.events'),
                (select count(*) from stream.events where not log_id = any($1))",
    ))
    .bind(logs)
    .fetch_one(db)
    .await?;
    let events = (logs.len() * tokens) as f64;
    // Concurrent runs have rows, too: a hundredth, with equally large tokens.
    let share = events / (events + others as f64);
    out.record(SPACE, row, "bytes", all as f64 * share / events);
    out.record(SPACE, row, "index", indexes as f64 * share / events);
    let began = Instant::now();
    let mut read = 0_usize;
    for log_id in logs {
        let mut cursor = 0;
        loop {
            let page = log::read(&database.db.pool_pg, *log_id, cursor).await?;
            let Some(last) = page.last() else { break };
            cursor = last.seq;
            read += page.len();
        }
    }
    ensure!(read >= logs.len() * tokens, "only {read} events were read");
    out.record(SPACE, row, "replay", read as f64 / began.elapsed().as_secs_f64());
    Ok(())
}

/// Runs maintenance to its end; returns events per second.
fn upkeep(work: impl Future<Output = Result<i64>> + Send + 'static) -> JoinHandle<Result<f64>> {
    tokio::spawn(async move {
        let began = Instant::now();
        let events = work.await?;
        Ok(events as f64 / began.elapsed().max(Duration::from_micros(1)).as_secs_f64())
    })
}

async fn compact(database: Database) -> Result<i64> {
    let mut events = 0;
    loop {
        let some = compaction::compact(&database.db.pool_sqlx, 0.0).await?;
        if some.runs == 0 {
            return Ok(events);
        }
        events += some.rows_before;
    }
}

async fn remove(database: Database) -> Result<i64> {
    let mut events = 0;
    loop {
        let some = retention::trim(&database.db.pool_sqlx, 0.0).await?;
        events += some.events;
        if !some.more {
            return Ok(events);
        }
    }
}
