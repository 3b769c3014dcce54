//! `bloat`: the effect of a long-running transaction on the queue and the log. Rows that die meanwhile can't be
//! vacuumed, so scans over dead rows become slower and slower.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use async_trait::async_trait;
use rejoin_queue::{ClaimCursor, NewJob, Outcome, Settlement};
use uuid::Uuid;

use super::append::{Load, Pourer};
use crate::results::{Better, Claim, Column, Of, PlotKind, Table, median};
use crate::runs;
use crate::scenario::{Context, Recorder, Scenario};
use crate::server::Database;

/// Number of slices of the load; the first and the last are compared.
const SLICES: u64 = 10;
const JOBS: u64 = 200_000;
const EVENTS: u64 = 2_000_000;
/// Number of jobs enqueued, claimed and settled per statement.
const BATCH: usize = 100;
/// Number of concurrent workers.
const WORKERS: u64 = 2;
/// Number of continuously writing runs: each keeps its log and its job.
const RUNS: usize = 100;
const LEASE: Duration = Duration::from_secs(600);

const OVER_TIME: &str = "over-time";

pub struct Bloat;

#[async_trait]
impl Scenario for Bloat {
    fn name(&self) -> &'static str {
        "bloat"
    }

    fn about(&self) -> &'static str {
        "200,000 jobs and 2,000,000 events during a long open transaction"
    }

    fn tables(&self) -> Vec<Table> {
        let column = |key: &str, title: &str, of| Column::new(key, title, "1/s", Better::Higher, of);
        let columns = vec![
            column("jobs", "jobs", Of::Rejoin).ratio_to("jobs_free"),
            column("jobs_free", "jobs, without it", Of::Limit),
            column("events", "events", Of::Rejoin).ratio_to("events_free"),
            column("events_free", "events, without it", Of::Limit),
        ];
        let title = "Rates while one transaction holds back vacuum, by the share of the load that has passed";
        vec![Table::new(OVER_TIME, title, "passed", columns).plot(
            PlotKind::Lines,
            &["jobs", "jobs_free", "events", "events_free"],
            false,
        )]
    }

    async fn measure(&self, context: &Context, out: &mut Recorder) -> Result<()> {
        out.note(
            "Jobs: two workers, each of which repeatedly enqueues 100 jobs, claims 100 and completes them. Events: \
             single deltas of 100 runs that are active all the time. \"Without it\": the same load on a separate \
             database, without the open transaction, before it.",
        );
        if context.rep == 0 {
            // Once suffices to measure the effect of size and noise alone.
            load(context, out, false).await?;
        }
        load(context, out, true).await
    }

    fn claims(&self, found: &Recorder) -> Vec<Claim> {
        let table = found.table(OVER_TIME);
        // Two slices each: one takes half a second.
        let of = |column: &str, slices: [u64; 2]| -> Vec<f64> {
            let [one, other] = slices.map(|slice| table.values(&label(slice), column));
            one.iter().zip(other).map(|(one, other)| one + other).collect()
        };
        let kept = |column: &str| -> Vec<f64> {
            of(column, [SLICES - 1, SLICES])
                .iter()
                .zip(of(column, [1, 2]))
                .map(|(end, start)| end / start)
                .collect()
        };
        let claim = |column: &str, what: &str| Claim {
            what: format!("{what}: rate of the last fifth relative to the first"),
            unit: "x".to_owned(),
            bound: 0.9,
            better: Better::Higher,
            values: kept(column),
            why_not: Some(format!(
                "The same load without the open transaction, in the same run, ends at {} of its initial rate: both \
                 include the effects of the table's size and the machine's noise.",
                crate::print::figure(median(&kept(&format!("{column}_free"))).unwrap_or_default())
            )),
        };
        vec![claim("jobs", "200,000 jobs"), claim("events", "2,000,000 events")]
    }
}

async fn load(context: &Context, out: &mut Recorder, is_held: bool) -> Result<()> {
    let database = context.server.database().await?;
    let (holder, connection) = tokio_postgres::connect(&database.url, tokio_postgres::NoTls).await?;
    tokio::spawn(connection);
    let streams = runs::start(&database, RUNS).await?;
    // Warm-up: connections, statements, the first pages.
    jobs(&database, 1_000).await?;
    let pourer = Pourer::start(&database.url, Load::Single, &streams, 1)?;
    pourer.pour_for(Duration::from_millis(300)).await?;
    context.server.settle().await?;
    if is_held {
        holder
            .batch_execute("begin isolation level repeatable read; select txid_current()")
            .await?;
    }
    let [of_jobs, of_events] = if is_held {
        ["jobs", "events"]
    } else {
        ["jobs_free", "events_free"]
    };
    let share = context.sized(1, 50);
    for slice in 1..=SLICES {
        let rate = jobs(&database, JOBS / SLICES / share).await?;
        out.record(OVER_TIME, &label(slice), of_jobs, rate);
    }
    for slice in 1..=SLICES {
        let rate = pourer.pour_count(EVENTS / SLICES / share).await?;
        out.record(OVER_TIME, &label(slice), of_events, rate);
    }
    drop((pourer, holder));
    context.server.drop(database).await
}

fn label(slice: u64) -> String {
    format!("{} %", slice * 100 / SLICES)
}

/// Jobs per second, from enqueueing to their end.
async fn jobs(database: &Database, n: u64) -> Result<f64> {
    let began = Instant::now();
    let workers = (0..WORKERS).map(|_| work(database.clone(), n / WORKERS));
    futures::future::try_join_all(workers.map(tokio::spawn))
        .await?
        .into_iter()
        .collect::<Result<Vec<()>>>()?;
    Ok(n as f64 / began.elapsed().as_secs_f64())
}

async fn work(database: Database, n: u64) -> Result<()> {
    let worker = Uuid::now_v7();
    let batch: Vec<NewJob> = (0..BATCH)
        .map(|_| NewJob::new("nothing", serde_json::json!({})))
        .collect();
    let mut cursor = ClaimCursor::default();
    let mut done = 0;
    while done < n {
        rejoin_queue::enqueue_many(&mut *database.db.pool_sqlx.acquire().await?, &batch).await?;
        let claimed = rejoin_queue::claim(
            &database.db.pool_pg,
            rejoin_queue::DEFAULT_QUEUE,
            worker,
            LEASE,
            BATCH,
            &mut cursor,
        )
        .await?;
        let settlements: Vec<Settlement> = claimed
            .iter()
            .map(|job| Settlement {
                job_id: job.id,
                attempt: job.attempt,
                max_attempts: job.max_attempts,
                outcome: Outcome::Complete,
            })
            .collect();
        let settled = rejoin_queue::settle(&database.db.pool_pg, &settlements, true).await?;
        ensure!(settled.ids.len() == claimed.len(), "a job was claimed twice");
        done += claimed.len() as u64;
    }
    Ok(())
}
