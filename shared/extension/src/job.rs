//! Jobs of an extension. A worker calls the handler for each claimed job of its kind, under the same lease, fence, cancellation and drain
//! as runs.

use async_trait::async_trait;
use rejoin_queue::{ClaimedJob, Outcome};
use tokio_util::sync::CancellationToken;

use crate::Host;

/// Runs the jobs of one kind.
#[async_trait]
pub trait JobHandler: Send + Sync {
    /// The value of `queue.jobs.kind`.
    fn kind(&self) -> &'static str;

    /// Runs one job. It may run again after a crash: its effects must be idempotent, or fenced by the job's attempt. On
    /// `signals.drain` it should return [`Outcome::Release`] soon; on `signals.lost` it must write nothing more.
    async fn run(&self, host: &Host, job: &ClaimedJob, signals: &Signals) -> Outcome;
}

/// The signals that stop one job. Every await of its handler listens to each of them.
#[derive(Debug, Clone)]
pub struct Signals {
    /// A person asked to cancel the run.
    pub cancel: CancellationToken,
    /// The lease was lost: stop, and write nothing.
    pub lost: CancellationToken,
    /// The worker drains: release the job.
    pub drain: CancellationToken,
}
