//! Handlers of job kinds besides runs, registered by this or another program.
//!
//! The poller calls a handler for each claimed job of its kind, under the same lease, fence, cancellation and drain as
//! runs.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use rejoin_extension::{JobHandler, Signals};
use rejoin_queue::{ClaimedJob, Outcome};

use crate::services::Services;

/// The handler of one kind of job.
#[async_trait]
pub trait Handler: Send + Sync {
    /// The `queue.jobs.kind` of its jobs.
    fn kind(&self) -> &'static str;

    /// Executes one job. A job may be repeated after a crash, so its effects must be idempotent, or fenced by the job's
    /// attempt. On `signals.drain` it should soon return [`Outcome::Release`]; on `signals.lost` it must write nothing
    /// more.
    async fn handle(&self, services: &Services, job: &ClaimedJob, signals: &Signals) -> Outcome;
}

/// The handlers of a worker, by kind. Cheap to clone; does not change once the worker runs.
#[derive(Clone, Default)]
pub struct Handlers(Arc<HashMap<&'static str, Arc<dyn Handler>>>);

impl Handlers {
    /// Of two handlers of the same kind the later one wins.
    pub fn new(handlers: impl IntoIterator<Item = Arc<dyn Handler>>) -> Self {
        let by_kind = handlers.into_iter().map(|handler| (handler.kind(), handler));
        Self(Arc::new(by_kind.collect()))
    }

    pub fn get(&self, kind: &str) -> Option<&Arc<dyn Handler>> {
        self.0.get(kind)
    }
}

/// Jobs of an extension, which sees the database and the bus alone.
pub struct ExtensionJobs(pub Arc<dyn JobHandler>);

#[async_trait]
impl Handler for ExtensionJobs {
    fn kind(&self) -> &'static str {
        self.0.kind()
    }

    async fn handle(&self, services: &Services, job: &ClaimedJob, signals: &Signals) -> Outcome {
        self.0.run(&services.host(), job, signals).await
    }
}
