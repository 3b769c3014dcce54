//! graphile_worker. `LOCAL` > 0: jobs are fetched in batches of that size and completed in batches, as in the crate's
//! own benchmark; 0: fetched one by one at each notification, which starts a single job soonest.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use graphile_worker::{
    IntoTaskHandlerResult, JobSpec, LocalQueueConfig, RawJobSpec, TaskHandler, Worker, WorkerContext, WorkerUtils,
};
use sqlx::PgPool;

use crate::protocol::{Payload, Queue, handle, setting, started, until_told_to_stop};

const SCHEMA: &str = "graphile_worker";

impl TaskHandler for Payload {
    const IDENTIFIER: &'static str = "noop";

    async fn run(self, _: WorkerContext) -> impl IntoTaskHandlerResult {
        handle(&self);
        Ok::<(), String>(())
    }
}

#[derive(Clone)]
pub struct Graphile {
    pool: PgPool,
    utils: Arc<WorkerUtils>,
}

impl Graphile {
    pub fn new(pool: PgPool) -> Self {
        Self {
            utils: Arc::new(WorkerUtils::new(pool.clone(), SCHEMA)),
            pool,
        }
    }
}

impl Queue for Graphile {
    async fn setup(&self) -> Result<()> {
        Ok(self.utils.migrate().await?)
    }

    async fn bulk(&self, n: usize) -> Result<()> {
        let chunk = setting("CHUNK", 5_000);
        for done in (0..n).step_by(chunk) {
            let job = |_| RawJobSpec {
                identifier: "noop".to_owned(),
                payload: serde_json::json!(Payload::now()),
                spec: JobSpec::default(),
            };
            let jobs: Vec<RawJobSpec> = (done..n.min(done + chunk)).map(job).collect();
            self.utils.add_raw_jobs(&jobs).await?;
        }
        Ok(())
    }

    async fn one(&self) -> Result<()> {
        self.utils.add_job(Payload::now(), JobSpec::default()).await?;
        Ok(())
    }

    async fn work(&self) -> Result<()> {
        let mut options = Worker::options()
            .pg_pool(self.pool.clone())
            .schema(SCHEMA)
            .listen_os_shutdown_signals(false)
            .concurrency(setting("CONCURRENCY", 24))
            .define_job::<Payload>();
        let local = setting("LOCAL", 500);
        if local > 0 {
            options = options
                .poll_interval(Duration::from_millis(5))
                .complete_job_batch_delay(Duration::from_millis(setting("COMPLETE_MS", 5)))
                .local_queue(LocalQueueConfig::default().with_size(local));
        }
        let worker = Arc::new(options.init().await?);
        started();
        let running = tokio::spawn({
            let worker = worker.clone();
            async move { worker.run().await.map_err(|error| anyhow!("{error}")) }
        });
        until_told_to_stop().await;
        worker.request_shutdown();
        running.await?
    }
}
