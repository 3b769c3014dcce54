//! Stop signals of a job. The claimer gives each job its signals; all code that does the job's work listens to them.

use tokio_util::sync::CancellationToken;

/// The stop signals of one job. Every await of the executor listens to each of them.
#[derive(Debug, Clone)]
pub struct Signals {
    /// The run's cancellation was requested.
    pub cancel: CancellationToken,
    /// The lease was lost: stop, and write nothing.
    pub lost: CancellationToken,
    /// The worker drains: release the job.
    pub drain: CancellationToken,
}
