//! Tests that only a worker can run, because only workers decrypt secrets and reach external servers: enqueues a job
//! and waits for its result.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use rejoin_db::config::poll_interval;
use rejoin_event_log::wakeup::{self, Wake};
use rejoin_queue::enqueue::{self, NewJob};
use serde_json::Value;
use tokio::sync::broadcast;
use tokio::time::{Instant, sleep, timeout};
use uuid::Uuid;

use crate::caller::Caller;
use crate::problem::Problem;
use crate::state::HttpState;

/// Timeout of a request that waits for a worker: less than the request's own.
const LIMIT: Duration = Duration::from_secs(20);

/// A worker's job awaited by a request.
pub struct Probe {
    workspace_id: Uuid,
    wakes: broadcast::Receiver<Arc<Wake>>,
    last: Instant,
}

impl Probe {
    /// Enqueues a job of this kind; one at a time per `subject`.
    pub async fn start(
        state: &HttpState,
        caller: &Caller,
        kind: &'static str,
        payload: Value,
        subject: Uuid,
    ) -> Result<Self, Problem> {
        let job = NewJob {
            workspace_id: caller.workspace_id,
            unique_key: Some(format!("{kind}:{subject}")),
            ..NewJob::new(kind, payload)
        };
        let wakes = state.bus.subscribe();
        let mut db = caller.begin(state).await?;
        enqueue::enqueue(&mut db, &job).await?;
        db.commit().await?;
        state.bus.publish(Wake::queue(job.queue));
        Ok(Self {
            workspace_id: caller.workspace_id,
            wakes,
            last: Instant::now() + LIMIT,
        })
    }

    /// Waits until the result should be polled.
    pub async fn wait(&mut self, state: &HttpState) -> Result<(), Problem> {
        if Instant::now() >= self.last || state.draining.is_cancelled() {
            let detail = format!(
                "no worker responded within {} s; check whether a worker is running, or look again later",
                LIMIT.as_secs()
            );
            return Err(Problem::new(StatusCode::GATEWAY_TIMEOUT, "no_worker_answered", detail));
        }
        // A hint, or the poll interval.
        let hinted = async { while !wakeup::next(&mut self.wakes).await.tools.contains(&self.workspace_id) {} };
        if timeout(poll_interval() / 4, hinted).await.is_ok() {
            sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }
}
