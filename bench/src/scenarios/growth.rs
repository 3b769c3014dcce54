//! `growth`: what an event takes and costs as history grows: bytes in the table, its index and the write-ahead log, and the speed of appends
//! and reads; as written, compacted, and archived.
//!
//! - `fill` tables with ended runs

mod fill;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use async_trait::async_trait;
use rejoin_archive::{ArchiveArgs, LogArchive, moving};
use rejoin_event_log::compaction;
use rejoin_event_log::reader::LogReader;
use sqlx::PgPool;
use url::Url;
use uuid::Uuid;

use super::append::{Load, Pourer};
use crate::load::Latencies;
use crate::results::{Better, Column, Of, Size, Table};
use crate::runs;
use crate::scenario::{Context, Recorder, Scenario};
use crate::server::Database;

/// The numbers of events, in millions and separated by commas, in place of those of the size.
const SIZES: &str = "BENCH_GROWTH_MILLIONS";
/// If it is `true`, tables are partitioned, as docs/operations/partitions.md describes.
const PARTITIONED: &str = "BENCH_GROWTH_PARTITIONED";
const MILLION: i64 = 1_000_000;
/// Events of each log.
const EVENTS_PER_LOG: i64 = 1_000;
/// Logs that are written and followed at the same time.
const LOGS: usize = 100;
/// Events that a tail reads of each log.
const BEHIND: i64 = 5;
/// Logs whose first page is read.
const SAMPLES: usize = 500;
const TAILS: usize = 200;
/// Maximum number of archived objects: the cost of each is the same.
const OBJECTS: u64 = 2_000;

const SPACE: &str = "space";
const SPEED: &str = "speed";
const WRITTEN: &str = "a row per event";
const COMPACTED: &str = "compacted";
const ARCHIVED: &str = "archived";

pub struct Growth;

#[async_trait]
impl Scenario for Growth {
    fn name(&self) -> &'static str {
        "growth"
    }

    fn about(&self) -> &'static str {
        "bytes and speed of an event as history grows: as written, compacted, archived"
    }

    fn tables(&self) -> Vec<Table> {
        let bytes = |key: &str, title: &str| Column::new(key, title, "bytes", Better::Lower, Of::Rejoin);
        let ms = |key: &str, title: &str| Column::new(key, title, "ms", Better::Lower, Of::Rejoin);
        let rate = |key: &str, title: &str| Column::new(key, title, "events/s", Better::Higher, Of::Rejoin);
        let space = vec![
            bytes("table", "an event takes in its table"),
            bytes("index", "in its index"),
            bytes("object", "in an object"),
            bytes("wal", "write-ahead log to get there"),
            rate("rate", "speed of that"),
        ];
        let speed = vec![
            rate("append", "append"),
            ms("tail", "tail of 100 logs: p50"),
            ms("page", "first page of a log: p50"),
            ms("page99", "p99"),
        ];
        vec![
            Table::new(SPACE, "An event's space", "events", space),
            Table::new(SPEED, "Speed by the number of events", "events", speed),
        ]
    }

    async fn measure(&self, context: &Context, out: &mut Recorder) -> Result<()> {
        out.note(format!(
            "Logs of {EVENTS_PER_LOG} tokens of a word each. A row per event: inserted by SQL, a million per statement. Compacted and \
             archived: by the product's maintenance without its pauses; the table was rewritten without gaps before it was measured. \
             Archived: the first {OBJECTS} objects at most, in a local directory with fsync; their table is that of the objects' names, with \
             its indexes, and pages are read without the cache. {SIZES}=1,10,200 chooses other sizes, {PARTITIONED}=true a partitioned table."
        ));
        for (label, events) in sizes(context.size)? {
            println!("   {label} events");
            one(context, out, &label, events).await?;
        }
        Ok(())
    }
}

/// The numbers of events, with their names.
fn sizes(size: Size) -> Result<Vec<(String, i64)>> {
    let label = |millions: i64| format!("{millions} million");
    if size == Size::Smoke {
        return Ok(vec![(label(1), 4 * EVENTS_PER_LOG)]);
    }
    let Ok(text) = std::env::var(SIZES) else {
        let millions: &[i64] = if size == Size::Large { &[1, 10, 50] } else { &[1] };
        return Ok(millions.iter().map(|count| (label(*count), count * MILLION)).collect());
    };
    let parse = |part: &str| -> Result<(String, i64)> {
        let wrong = || format!("{SIZES} is a list of whole numbers of millions, such as 1,10,200");
        let millions: i64 = part.trim().parse().with_context(wrong)?;
        ensure!(millions > 0, wrong());
        Ok((label(millions), millions * MILLION))
    };
    text.split(',').map(parse).collect()
}

async fn one(context: &Context, out: &mut Recorder, label: &str, events: i64) -> Result<()> {
    let database = context.server.database().await?;
    let db = &database.db.pool_sqlx;
    let table = LogReader::new(database.db.pool_pg.clone(), rejoin_archive::shared(None));

    if std::env::var(PARTITIONED).is_ok_and(|value| value == "true") {
        fill::partition(db).await?;
    }

    let row = format!("{label}, {WRITTEN}");
    let filled = fill::fill(&database, events).await?;
    record_work(out, &row, events, filled.wal_bytes, filled.took);
    context.server.settle().await?;
    space(db, events, &row, out).await?;
    speed(context, &database, &table, &filled.logs, &row, out).await?;

    let row = format!("{label}, {COMPACTED}");
    let (before, began) = (wal_bytes(db).await?, Instant::now());
    while compaction::compact(db, 0.0).await?.runs > 0 {}
    record_work(out, &row, events, wal_bytes(db).await? - before, began.elapsed());
    sqlx::query("vacuum (full, analyze) stream.events").execute(db).await?;
    context.server.settle().await?;
    space(db, events, &row, out).await?;
    speed(context, &database, &table, &filled.logs, &row, out).await?;

    let row = format!("{label}, {ARCHIVED}");
    let folder = std::path::absolute(context.folder.join(format!("growth-{}", Uuid::now_v7().simple())))?;
    let archived = archive(&database, &folder, &row, out).await;
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    archived?;
    context.server.drop(database).await
}

/// The position in the write-ahead log, in bytes.
async fn wal_bytes(db: &PgPool) -> Result<f64> {
    let sql = "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8";
    Ok(sqlx::query_scalar(sql).fetch_one(db).await?)
}

fn record_work(out: &mut Recorder, row: &str, events: i64, wal_bytes: f64, took: Duration) {
    out.record(SPACE, row, "wal", wal_bytes / events as f64);
    let took_s = took.max(Duration::from_micros(1)).as_secs_f64();
    out.record(SPACE, row, "rate", events as f64 / took_s);
}

async fn space(db: &PgPool, events: i64, row: &str, out: &mut Recorder) -> Result<()> {
    let (table, index): (i64, i64) = sqlx::query_as(
        "select coalesce(sum(pg_table_size(relid)), pg_table_size('stream.events'))::bigint,
                coalesce(sum(pg_indexes_size(relid)), pg_indexes_size('stream.events'))::bigint
         from pg_partition_tree('stream.events')",
    )
    .fetch_one(db)
    .await?;
    out.record(SPACE, row, "table", table as f64 / events as f64);
    out.record(SPACE, row, "index", index as f64 / events as f64);
    Ok(())
}

/// Appends to new logs, the tail of some logs, and the first pages of many.
async fn speed(
    context: &Context,
    database: &Database,
    reader: &LogReader,
    logs: &[Uuid],
    row: &str,
    out: &mut Recorder,
) -> Result<()> {
    let span = context.sized(Duration::from_secs(2), Duration::from_millis(100));
    let streams = runs::start(database, context.sized(LOGS, 4)).await?;
    let pourer = Pourer::start(&database.url, Load::Mixed, &streams, 1)?;
    // Connections, statements and pages are warm the second time.
    pourer.pour_for(span / 2).await?;
    out.record(SPEED, row, "append", pourer.pour_for(span).await?);
    drop(pourer);
    let written: Vec<Uuid> = streams.iter().map(|stream| stream.log_id).collect();
    sqlx::query("delete from stream.events where log_id = any($1)")
        .bind(&written)
        .execute(&database.db.pool_sqlx)
        .await?;
    sqlx::query("vacuum analyze stream.events")
        .execute(&database.db.pool_sqlx)
        .await?;

    let cursors: Vec<(Uuid, i64)> = spread(logs, LOGS)
        .map(|log_id| (log_id, EVENTS_PER_LOG - BEHIND))
        .collect();
    let mut tails = Latencies::default();
    for _ in 0..context.sized(TAILS, 2) {
        let began = Instant::now();
        let events = reader.tail(&cursors).await?;
        ensure!(!events.is_empty(), "the tail read nothing");
        tails.record(micros(began));
    }
    out.record(SPEED, row, "tail", tails.quantile_ms(0.5));
    pages(reader, spread(logs, SAMPLES), row, out).await
}

async fn pages(reader: &LogReader, logs: impl Iterator<Item = Uuid>, row: &str, out: &mut Recorder) -> Result<()> {
    let mut latencies = Latencies::default();
    for log_id in logs {
        let began = Instant::now();
        let page = reader.read(log_id, 0).await?;
        ensure!(
            page.first().is_some_and(|event| event.seq == 1),
            "a log has no beginning"
        );
        latencies.record(micros(began));
    }
    out.record(SPEED, row, "page", latencies.quantile_ms(0.5));
    out.record(SPEED, row, "page99", latencies.quantile_ms(0.99));
    Ok(())
}

fn micros(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX)
}

/// `count` of these logs, from all over the table.
fn spread(logs: &[Uuid], count: usize) -> impl Iterator<Item = Uuid> {
    logs.iter().copied().step_by(logs.len().div_ceil(count).max(1))
}

async fn archive(database: &Database, folder: &Path, row: &str, out: &mut Recorder) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    let url = Url::from_directory_path(folder).map_err(|()| anyhow!("{} is not absolute", folder.display()))?;
    let args = ArchiveArgs {
        archive_url: Some(url),
        archive_cache_bytes: 0,
        ..ArchiveArgs::default()
    };
    let archive = LogArchive::open(&args)?.context("an archive is set")?;
    let db = &database.db.pool_sqlx;
    let (before, began, process) = (wal_bytes(db).await?, Instant::now(), Uuid::now_v7());
    let (mut events, mut objects) = (0, 0);
    loop {
        let some = moving::archive_next(db, &archive, 0.0, process).await?;
        events += some.events;
        objects += some.objects;
        if !some.more || objects >= OBJECTS {
            break;
        }
    }
    ensure!(events > 0, "nothing was archived");
    record_work(
        out,
        row,
        i64::try_from(events)?,
        wal_bytes(db).await? - before,
        began.elapsed(),
    );
    let (bytes, names): (i64, i64) =
        sqlx::query_as("select sum(bytes)::bigint, pg_total_relation_size('stream.archives') from stream.archives")
            .fetch_one(db)
            .await?;
    out.record(SPACE, row, "object", bytes as f64 / events as f64);
    out.record(SPACE, row, "table", names as f64 / events as f64);
    let logs: Vec<Uuid> = sqlx::query_scalar("select distinct log_id from stream.archives limit $1")
        .bind(i64::try_from(SAMPLES)?)
        .fetch_all(db)
        .await?;
    let reader = LogReader::new(database.db.pool_pg.clone(), rejoin_archive::shared(Some(&archive)));
    pages(&reader, logs.into_iter(), row, out).await
}
