//! One job, from its transaction to its end: the example of the README.

use std::error::Error;

use rejoin_db::config::DatabaseArgs;
use rejoin_db::{Db, Role};
use rejoin_queue::lease::LEASE;
use rejoin_queue::{self as queue, ClaimCursor, NewJob, Outcome, Settlement};
use serde_json::json;
use uuid::Uuid;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    run(&std::env::var("DATABASE_URL")?).await?;
    Ok(())
}

/// Adds a job, completes what there is to do, and returns how many jobs that were.
pub async fn run(database_url: &str) -> Result<usize, Box<dyn Error>> {
    let db = Db::connect_lazy(&DatabaseArgs::new(database_url), "first-job", Role::Login)?;

    let mut tx = rejoin_db::begin(&db.pool_sqlx).await?;
    let job = NewJob {
        queue: "greetings".into(),
        ..NewJob::new("greet", json!({ "name": "Ada" }))
    };
    queue::enqueue(&mut tx, &job).await?;
    tx.commit().await?;

    let (worker_id, mut cursor) = (Uuid::now_v7(), ClaimCursor::default());
    let jobs = queue::claim(&db.pool_pg, "greetings", worker_id, LEASE, 10, &mut cursor).await?;
    // … the work, and `lease::heartbeat` every 5 s while it lasts …
    let done = jobs.iter().map(|job| Settlement {
        job_id: job.id,
        attempt: job.attempt,
        max_attempts: job.max_attempts,
        outcome: Outcome::Complete,
    });
    let settled = queue::settle(&db.pool_pg, &done.collect::<Vec<_>>(), true).await?;
    Ok(settled.ids.len())
}
