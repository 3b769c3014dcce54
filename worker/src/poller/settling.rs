//! Settles finished jobs in batches.

use std::sync::Arc;
use std::time::Duration;

use rejoin_db::failure_log::{ErrorChain, FailureLog};
use rejoin_event_log::wakeup::Wake;
use rejoin_queue::Settlement;
use tokio::sync::mpsc;

use crate::held_jobs::Jobs;
use crate::services::Services;

/// Batching delay of a settlement while more jobs are running.
const SETTLE_GATHER_DELAY: Duration = Duration::from_millis(1);
/// Retry interval of settlements while the database is unreachable.
const SETTLE_RETRY: Duration = Duration::from_millis(250);

/// Settles gathered outcomes in batches, retrying indefinitely: a late settlement is rejected by its fence.
pub(super) async fn settle(services: Services, jobs: Jobs, inbox: Arc<tokio::sync::Mutex<mpsc::Receiver<Settlement>>>) {
    let keep_completed = services.config.keep_jobs_h > 0;
    let limit = usize::from(services.config.claim_batch);
    let mut batch = Vec::new();
    let mut outage = FailureLog::of("settling jobs");
    loop {
        {
            let mut inbox = inbox.lock().await;
            if inbox.recv_many(&mut batch, limit).await == 0 {
                return;
            }
            // Many are about to end: they are settled together.
            if batch.len() < limit / 2 && jobs.with(|jobs| jobs.len()) > batch.len() {
                tokio::time::sleep(SETTLE_GATHER_DELAY).await;
                while batch.len() < limit
                    && let Ok(more) = inbox.try_recv()
                {
                    batch.push(more);
                }
            }
        }
        let settled = loop {
            match rejoin_queue::settle(&services.db.pool_pg, &batch, keep_completed).await {
                Ok(settled) => break settled,
                Err(error) => outage.failed(ErrorChain(&error)),
            }
            tokio::time::sleep(SETTLE_RETRY).await;
        };
        outage.over();
        batch.clear();
        if settled.makes_work {
            services.bus.publish(Wake {
                queues: services.config.queues.iter().cloned().collect(),
                ..Wake::default()
            });
        }
    }
}
