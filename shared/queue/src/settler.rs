//! Settles the outcomes of a worker's jobs in batches: jobs that end within a moment share a statement, and each is still fenced by its own
//! attempt. A batch that fails is repeated until the database answers: what was written by a call whose answer was lost is not written again.
//!
//! - here    the queue, the batching loop, retries
//! - `model` the loop under thousands of interleavings, over a failing table (tests)

#[cfg(test)]
mod model;

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::Pool;
use rejoin_db::PgError;
use rejoin_db::failure_log::{ErrorChain, FailureLog};
#[cfg(test)]
use rejoin_interleave::time::{sleep, timeout};
use tokio::sync::{Mutex, mpsc};
#[cfg(not(test))]
use tokio::time::{sleep, timeout};

use super::settle::{Settled, Settlement, settle};

/// Batching delay of an outcome while more jobs are running.
const GATHER_DELAY: Duration = Duration::from_millis(1);
/// Retry interval while the database is unreachable.
const RETRY: Duration = Duration::from_millis(250);
/// Timeout of a call: its connection is then given up, and the call repeated.
const CALL_LIMIT: Duration = Duration::from_secs(10);
/// Number of batches that may wait before [`Settler::settle`] waits for them.
const QUEUED_BATCHES: usize = 4;
/// Number of concurrent calls: one executes while the other waits for the disk.
const CALLS: usize = 2;

/// Settings of a settler.
#[derive(Debug, Clone, Copy)]
pub struct SettlerOptions {
    /// Maximum number of outcomes per call.
    pub max_batch: usize,
    /// Whether completed jobs are kept among the finished ones.
    pub keep_completed: bool,
}

/// What a settler knows of its worker.
pub trait Surroundings: Send + Sync + 'static {
    /// The number of jobs that have not handed in their outcome: outcomes wait a moment for each other if there are more.
    fn running(&self) -> usize;

    /// Jobs may have become available: workers should be woken. Called after the commit.
    fn work_appeared(&self);
}

/// Handle to the settler of a worker.
#[derive(Clone)]
pub struct Settler {
    outcomes: mpsc::Sender<Settlement>,
}

impl Settler {
    /// Starts the settler. The second value is ready when all handles are dropped and every outcome is settled.
    pub fn start(
        pool: Pool,
        options: SettlerOptions,
        surroundings: impl Surroundings,
    ) -> (Self, impl Future<Output = ()>) {
        let table = Table {
            pool,
            keep_completed: options.keep_completed,
        };
        let (settler, running) = Self::over(table, options.max_batch, surroundings);
        let running = running.map(tokio::spawn);
        (settler, async move {
            for task in running {
                // It does not panic.
                let _ = task.await;
            }
        })
    }

    /// Creates a settler, and its tasks, which run until all handles are dropped and everything is settled.
    fn over<S: Store>(
        store: S,
        max_batch: usize,
        surroundings: impl Surroundings,
    ) -> (Self, [impl Future<Output = ()> + Send; CALLS]) {
        let (outcomes, inbox) = mpsc::channel(max_batch * QUEUED_BATCHES);
        let shared = Arc::new(Shared {
            store,
            max_batch,
            surroundings,
            inbox: Mutex::new(inbox),
        });
        (Self { outcomes }, std::array::from_fn(|_| run(shared.clone())))
    }

    /// Queues an outcome, waiting while the queue is full. It is settled soon, unless the job's lease is lost.
    pub async fn settle(&self, settlement: Settlement) {
        // The receiver lives as long as this handle.
        let _ = self.outcomes.send(settlement).await;
    }
}

/// What the concurrent calls of a settler share.
struct Shared<S, W> {
    store: S,
    max_batch: usize,
    surroundings: W,
    inbox: Mutex<mpsc::Receiver<Settlement>>,
}

impl<S, W: Surroundings> Shared<S, W> {
    /// Fills the batch. It stays empty if all handles are dropped.
    async fn gather(&self, batch: &mut Vec<Settlement>) {
        let mut inbox = self.inbox.lock().await;
        if inbox.recv_many(batch, self.max_batch).await == 0 {
            return;
        }
        // Many are about to end: they are settled together.
        if batch.len() < self.max_batch / 2 && self.surroundings.running() > batch.len() {
            sleep(GATHER_DELAY).await;
            while batch.len() < self.max_batch
                && let Ok(more) = inbox.try_recv()
            {
                batch.push(more);
            }
        }
    }
}

/// Settles batch after batch, each until it succeeds: a late call is rejected by the fence of each attempt.
async fn run<S: Store, W: Surroundings>(shared: Arc<Shared<S, W>>) {
    let mut batch = Vec::new();
    let mut outage = FailureLog::of("settling jobs");
    loop {
        shared.gather(&mut batch).await;
        if batch.is_empty() {
            return;
        }
        let mut makes_work = false;
        loop {
            match timeout(CALL_LIMIT, shared.store.settle(&batch)).await {
                Ok(Ok(settled)) => {
                    makes_work |= settled.makes_work;
                    break;
                }
                Ok(Err(error)) => outage.failed(ErrorChain(&*error.into())),
                Err(_) => outage.failed(format!("no answer within {} s", CALL_LIMIT.as_secs())),
            }
            // It may be committed, and its repetition then changes nothing: what became available is not known.
            makes_work = true;
            sleep(RETRY).await;
        }
        outage.over();
        batch.clear();
        if makes_work {
            shared.surroundings.work_appeared();
        }
    }
}

/// The storage of outcomes.
trait Store: Send + Sync + 'static {
    type Failed: Into<Box<dyn Error + Send + Sync>> + Send;

    /// Settles the jobs of the batch whose attempt still holds its lease. After an error, or if the future was dropped, the caller repeats it.
    fn settle(&self, batch: &[Settlement]) -> impl Future<Output = Result<Settled, Self::Failed>> + Send;
}

/// `queue.jobs`.
struct Table {
    pool: Pool,
    keep_completed: bool,
}

impl Store for Table {
    type Failed = PgError;

    async fn settle(&self, batch: &[Settlement]) -> Result<Settled, PgError> {
        settle(&self.pool, batch, self.keep_completed).await
    }
}
