//! Jobs of the queue, for tests that claim and end them by hand.

use std::time::Duration;

use rejoin_queue::{ClaimCursor, ClaimedJob, NewJob, Outcome, Settlement};
use serde_json::json;
use uuid::Uuid;

use crate::support::TestDatabase;

pub const LEASE: Duration = Duration::from_secs(15);

pub async fn add(db: &TestDatabase, job: NewJob) -> i64 {
    rejoin_queue::enqueue(&mut db.pool.acquire().await.unwrap(), &job)
        .await
        .unwrap()
}

pub fn job(kind: &str) -> NewJob {
    NewJob::new(kind, json!({}))
}

pub async fn claim(db: &TestDatabase, limit: usize) -> Vec<ClaimedJob> {
    claim_after(db, limit, Uuid::nil()).await
}

pub async fn claim_after(db: &TestDatabase, limit: usize, after: Uuid) -> Vec<ClaimedJob> {
    let mut jobs = rejoin_queue::claim(
        &db.db.pool_pg,
        "default",
        Uuid::now_v7(),
        LEASE,
        limit,
        &mut ClaimCursor::after(after),
    )
    .await
    .unwrap();
    jobs.sort_by_key(|job| job.id);
    jobs
}

pub fn ended(job: &ClaimedJob, outcome: Outcome) -> Settlement {
    Settlement {
        job_id: job.id,
        attempt: job.attempt,
        max_attempts: job.max_attempts,
        outcome,
    }
}

pub async fn end(db: &TestDatabase, job: &ClaimedJob, outcome: Outcome) -> bool {
    rejoin_queue::settle(&db.db.pool_pg, &[ended(job, outcome)], true)
        .await
        .unwrap()
        .ids
        == [job.id]
}

pub fn kinds(jobs: &[ClaimedJob]) -> Vec<&str> {
    jobs.iter().map(|job| job.kind.as_str()).collect()
}

/// Makes every delay elapse.
pub async fn time_passes(db: &TestDatabase) {
    sqlx::query(
        "update queue.jobs set run_at = run_at - interval '1 day', lease_until = lease_until - interval '1 day'",
    )
    .execute(&db.pool)
    .await
    .unwrap();
}
