//! The life of a few jobs: enqueue, claim, heartbeat, complete, retry, fail, and bring a dead job back.
//!
//! `DATABASE_URL=postgres://… cargo run -p rejoin-queue --example jobs`, on a database that has the migration `0001_queue`.
//! The jobs are in a separate queue, so that no other worker takes them.

use std::error::Error;
use std::io::Write;
use std::time::Duration;

use rejoin_db::config::{DatabaseArgs, POLL_INTERVAL};
use rejoin_db::{Db, PgError, Role};
use rejoin_queue::lease::{self, LEASE, WorkerInfo};
use rejoin_queue::{self as queue, ClaimCursor, ClaimedJob, NewJob, Outcome, Settlement, stats};
use serde_json::json;
use uuid::Uuid;

/// Two workspaces, which take turns.
const BUSY: Uuid = Uuid::from_u128(1);
const QUIET: Uuid = Uuid::from_u128(2);
/// Claims in a row that find no job before the example gives up.
const MAX_EMPTY_CLAIMS: u32 = 20;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    run(&std::env::var("DATABASE_URL")?, &mut std::io::stdout()).await
}

/// Runs the example and writes what happens to `out`.
pub async fn run(database_url: &str, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let db = Db::connect_lazy(&DatabaseArgs::new(database_url), "queue-example", Role::Login)?;
    let name = format!("example-{}", Uuid::now_v7());
    let worker = worker_info(&name);
    // A worker keeps one for each queue.
    let mut cursor = ClaimCursor::default();
    let mut claim = async |limit: usize| {
        for _ in 0..MAX_EMPTY_CLAIMS {
            let jobs = queue::claim(&db.pool_pg, &name, worker.id, LEASE, limit, &mut cursor).await?;
            if !jobs.is_empty() {
                return Ok(jobs);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok::<_, PgError>(Vec::new())
    };
    enqueue(&db, &name).await?;

    // One workspace has five jobs and the other one: each gets half of a batch of two.
    let first = claim(2).await?;
    writeln!(out, "claimed: {}", list(&first))?;
    let owned: Vec<(i64, i32)> = first.iter().map(|job| (job.id, job.attempt)).collect();
    let renewed = lease::heartbeat(&db.pool_pg, &worker, &owned, LEASE, false, false).await?;
    writeln!(out, "leases renewed: {}", renewed.len())?;

    // One fails and may be tried again at once (without `after`: after a backoff), one is done.
    let [failed, done] = first.as_slice() else {
        return Err("there are not two jobs".into());
    };
    let error = "the printer has no paper".to_owned();
    let after = Some(Duration::ZERO);
    let batch = [
        settlement(failed, Outcome::Retry { error, after }),
        settlement(done, Outcome::Complete),
    ];
    writeln!(out, "settled: {}", settle(&db, &batch).await?)?;

    // Import 2 waits behind import 1. The report that failed has its next attempt.
    let second = claim(4).await?;
    writeln!(out, "claimed: {}", list(&second))?;
    let retried = second
        .iter()
        .find(|job| job.id == failed.id)
        .ok_or("no second attempt")?;
    writeln!(out, "last error: {}", retried.last_error.as_deref().unwrap_or("none"))?;

    // Attempt 1 has lost the job to attempt 2: whatever it still writes changes nothing.
    let late = [settlement(failed, Outcome::Complete)];
    writeln!(out, "settled by the lost attempt: {}", settle(&db, &late).await?)?;

    // The import fails for good and the reports are done. Import 2 can be claimed then.
    let batch: Vec<Settlement> = second.iter().map(|job| settlement(job, outcome(job))).collect();
    writeln!(out, "settled: {}", settle(&db, &batch).await?)?;
    complete(&db, &claim(4).await?, out).await?;

    // A person brings the dead job back: a new job, with all its attempts.
    for job in stats::dead(&db.pool_sqlx, &name, 10).await? {
        writeln!(
            out,
            "dead: {}, {}",
            job.kind,
            job.last_error.as_deref().unwrap_or("none")
        )?;
        stats::retry_dead(&db.pool_sqlx, job.id, None).await?;
    }
    complete(&db, &claim(4).await?, out).await?;

    for stats in stats::queues(&db.pool_sqlx)
        .await?
        .iter()
        .filter(|stats| stats.depth.queue == name)
    {
        let queue = &stats.depth;
        let left = queue.available + queue.scheduled + queue.held + queue.running + queue.dead;
        writeln!(out, "completed: {}, left: {left}", stats.completed_last_hour)?;
    }
    lease::leave(&db.pool_pg, worker.id).await?;
    Ok(())
}

/// Adds three reports and two imports of one workspace and one report of another. They exist exactly if the transaction is committed: what
/// the jobs are about is written in it, too.
async fn enqueue(db: &Db, queue: &str) -> Result<(), sqlx::Error> {
    let job = |kind: &str, workspace_id, number: i32| NewJob {
        queue: queue.to_owned(),
        workspace_id,
        ..NewJob::new(kind, json!({ "number": number }))
    };
    let mut tx = rejoin_db::begin(&db.pool_sqlx).await?;
    for number in 1..=3 {
        queue::enqueue(&mut tx, &job("report", BUSY, number)).await?;
    }
    for number in 1..=2 {
        let import = NewJob {
            // One at a time, in the order in which they were added.
            concurrency_key: Some(format!("import:{queue}")),
            ..job("import", BUSY, number)
        };
        queue::enqueue(&mut tx, &import).await?;
    }
    queue::enqueue(&mut tx, &job("report", QUIET, 1)).await?;
    tx.commit().await
}

/// How the worker presents itself to operators.
fn worker_info(queue: &str) -> WorkerInfo {
    WorkerInfo {
        id: Uuid::now_v7(),
        hostname: "localhost".into(),
        pid: i32::try_from(std::process::id()).unwrap_or_default(),
        version: env!("CARGO_PKG_VERSION").into(),
        queues: vec![queue.to_owned()],
        slots: 4,
    }
}

/// What a worker would find out by doing the job.
fn outcome(job: &ClaimedJob) -> Outcome {
    match job.kind.as_str() {
        "import" => Outcome::Fail {
            error: "the file is empty".into(),
        },
        _ => Outcome::Complete,
    }
}

fn settlement(job: &ClaimedJob, outcome: Outcome) -> Settlement {
    Settlement {
        job_id: job.id,
        attempt: job.attempt,
        max_attempts: job.max_attempts,
        outcome,
    }
}

/// Settles a batch and returns how many jobs were still the caller's.
async fn settle(db: &Db, batch: &[Settlement]) -> Result<usize, PgError> {
    Ok(queue::settle(&db.pool_pg, batch, true).await?.ids.len())
}

async fn complete(db: &Db, jobs: &[ClaimedJob], out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let batch: Vec<Settlement> = jobs.iter().map(|job| settlement(job, Outcome::Complete)).collect();
    settle(db, &batch).await?;
    writeln!(out, "completed: {}", list(jobs))?;
    Ok(())
}

/// The jobs as a person reads them.
fn list(jobs: &[ClaimedJob]) -> String {
    let name = |job: &ClaimedJob| {
        let workspace = if job.workspace_id == BUSY { "busy" } else { "quiet" };
        format!(
            "{workspace} {} {} (attempt {})",
            job.kind, job.payload["number"], job.attempt
        )
    };
    jobs.iter().map(name).collect::<Vec<_>>().join(", ")
}
