//! Runs held by a worker: logs, and jobs enqueued and claimed with the product's own functions, so that every append of
//! a scenario is fenced.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use rejoin_event_log::stream::RunStream;
use rejoin_queue::NewJob;
use rejoin_types::events::{Event, Kind};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::server::Database;

/// Longer than any scenario: no job is taken over.
const LEASE: Duration = Duration::from_secs(3_600);

/// Creates `n` logs with a running run each.
pub async fn start(database: &Database, n: usize) -> Result<Vec<Arc<RunStream>>> {
    let logs: Vec<Uuid> = (0..n).map(|_| Uuid::now_v7()).collect();
    sqlx::query("insert into stream.logs (log_id) select unnest($1::uuid[])")
        .bind(&logs)
        .execute(&database.db.pool_sqlx)
        .await?;
    start_in(database, &logs).await
}

/// A running run in each of these logs.
pub async fn start_in(database: &Database, logs: &[Uuid]) -> Result<Vec<Arc<RunStream>>> {
    let n = logs.len();
    let mut tx = rejoin_db::begin(&database.db.pool_sqlx).await?;
    let jobs: Vec<NewJob> = logs
        .iter()
        .map(|log| NewJob {
            run_id: Some(*log),
            ..NewJob::new(rejoin_queue::KIND_RUN, serde_json::json!({}))
        })
        .collect();
    rejoin_queue::enqueue_many(&mut tx, &jobs).await?;
    tx.commit().await?;
    let mut claimed = Vec::with_capacity(n);
    while claimed.len() < n {
        let worker = Uuid::now_v7();
        let batch = rejoin_queue::claim(
            &database.db.pool_pg,
            rejoin_queue::DEFAULT_QUEUE,
            worker,
            LEASE,
            n - claimed.len(),
            &mut rejoin_queue::ClaimCursor::default(),
        )
        .await?;
        ensure!(!batch.is_empty(), "there are jobs, but a claim found none");
        claimed.extend(batch);
    }
    let streams = claimed.iter().filter_map(|job| {
        let run_id = job.run_id?;
        Some(Arc::new(RunStream {
            log_id: run_id,
            root_run_id: run_id,
            run_id,
            attempt: job.attempt,
            lost: CancellationToken::new(),
            seen: Default::default(),
        }))
    });
    Ok(streams.collect())
}

/// An increment of a run's reply.
pub fn token(stream: &RunStream, text: String) -> Event {
    Event::of(stream.run_id, Kind::Token { token: text })
}
