//! Two jobs that stream events into one log by the group-commit writer, under the fence of their attempts.
//!
//! `DATABASE_URL=postgres://… cargo run -p rejoin-event-log --example group_commit`, on a database that has the migrations
//! `0001_queue`, `0002_event_log`, `0024_write_flush` and `0031_numbered_flush`. The jobs are made by the queue's SQL functions; a Rust program would take `rejoin-queue`.

use std::error::Error;
use std::io::Write;
use std::sync::Arc;

use rejoin_db::config::DatabaseArgs;
use rejoin_db::{Db, Role};
use rejoin_event_log::group_commit::WriterOptions;
use rejoin_event_log::stream::RunStream;
use rejoin_event_log::{EventWriter, log, wakeup};
use serde_json::json;
use sqlx::Row;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    run(&std::env::var("DATABASE_URL")?, &mut std::io::stdout()).await
}

/// Runs the example and writes what happens to `out`.
pub async fn run(database_url: &str, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let db = Db::connect_lazy(&DatabaseArgs::new(database_url), "event-log-example", Role::Login)?;
    // One writer for a process: its transactions hold the events of all jobs.
    let bus = wakeup::over_postgres(&db);
    let writer = EventWriter::start(db.clone(), bus, WriterOptions::default());
    let log_id = Uuid::now_v7();
    let mut tx = rejoin_db::begin(&db.pool_sqlx).await?;
    log::create(&mut tx, log_id).await?;
    tx.commit().await?;
    let (one, other) = (claimed_stream(&db, log_id).await?, claimed_stream(&db, log_id).await?);

    // `append` returns at once, unless the queue in front of the writer is full; `flush` waits for the commit.
    for percent in [25, 50, 75] {
        writer
            .append_json(&one, "progress", &json!({ "percent": percent }))
            .await?;
    }
    writer
        .append_json(&other, "progress", &json!({ "percent": 10 }))
        .await?;
    writer.flush(&one).await?;
    writer.flush(&other).await?;
    writeln!(out, "committed: {}", numbers(&db, log_id, 0).await?)?;

    // From a cursor: what follows event 2, however the events are stored.
    writeln!(out, "after 2: {}", numbers(&db, log_id, 2).await?)?;

    // One job ends (or another worker takes it over). What its old attempt still appends is not written.
    finish(&db, &one).await?;
    writer.append_json(&one, "progress", &json!({ "percent": 100 })).await?;
    let lost = writer.flush(&one).await;
    writer
        .append_json(&other, "progress", &json!({ "percent": 20 }))
        .await?;
    writer.flush(&other).await?;
    if let Err(error) = lost {
        writeln!(out, "not written: {error}")?;
    }
    writeln!(out, "committed: {}", numbers(&db, log_id, 0).await?)?;
    finish(&db, &other).await?;
    Ok(())
}

/// Makes a job and claims it. Its run has the right to write into the log as long as it owns the job.
async fn claimed_stream(db: &Db, log_id: Uuid) -> Result<Arc<RunStream>, sqlx::Error> {
    let run_id = Uuid::now_v7();
    let queue = format!("example-{run_id}");
    sqlx::query("select queue.enqueue('example', p_queue => $1, p_run_id => $2)")
        .bind(&queue)
        .bind(run_id)
        .execute(&db.pool_sqlx)
        .await?;
    let job = sqlx::query("select attempt from queue.claim($1, $2, interval '15 seconds', 1)")
        .bind(&queue)
        .bind(Uuid::now_v7())
        .fetch_one(&db.pool_sqlx)
        .await?;
    Ok(Arc::new(RunStream {
        log_id,
        root_run_id: run_id,
        run_id,
        attempt: job.try_get("attempt")?,
        lost: CancellationToken::new(),
        seen: Default::default(),
    }))
}

/// Completes the job of a stream.
async fn finish(db: &Db, stream: &RunStream) -> Result<(), sqlx::Error> {
    sqlx::query(
        "select queue.finish(array[id], array[attempt], 'completed') from queue.jobs where run_id = $1 and attempt = $2",
    )
    .bind(stream.run_id)
    .bind(stream.attempt)
    .execute(&db.pool_sqlx)
    .await?;
    Ok(())
}

/// The events of a log after `after`, as a person reads them.
async fn numbers(db: &Db, log_id: Uuid, after: i64) -> Result<String, Box<dyn Error>> {
    let mut lines = Vec::new();
    for event in log::read(&db.pool_pg, log_id, after).await? {
        lines.push(format!("{} {}", event.seq, std::str::from_utf8(&event.data)?));
    }
    Ok(lines.join(", "))
}
