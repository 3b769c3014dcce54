//! apalis over apalis-postgres. `PUBSUB` = 1: a notification fetches immediately, as in its low-latency setup;
//! otherwise it polls.

use anyhow::{Result, anyhow};
use apalis::prelude::*;
use apalis_postgres::{Config, PostgresStorage};
use sqlx::PgPool;

use crate::protocol::{Payload, Queue, handle, setting, started, until_told_to_stop};

const QUEUE: &str = "noop";

#[derive(Clone)]
pub struct Apalis {
    pool: PgPool,
}

impl Apalis {
    pub fn new(pool: PgPool) -> Self {
        Self { pool }
    }

    async fn push(&self, n: usize) -> Result<()> {
        let payloads = (0..n).map(|_| serde_json::to_vec(&Payload::now()));
        let tasks = payloads.map(|payload| payload.map(|payload| TaskBuilder::new(payload).build()));
        let tasks = tasks.collect::<Result<Vec<_>, _>>()?;
        let mut connection = self.pool.acquire().await?;
        apalis_postgres::queries::push_tasks(&mut *connection, QUEUE, tasks).await?;
        Ok(())
    }
}

async fn noop(job: Payload) -> Result<(), BoxDynError> {
    handle(&job);
    Ok(())
}

impl Queue for Apalis {
    async fn setup(&self) -> Result<()> {
        Ok(PostgresStorage::<()>::setup(&self.pool).await?)
    }

    async fn bulk(&self, n: usize) -> Result<()> {
        let chunk = setting("CHUNK", 5_000);
        for done in (0..n).step_by(chunk) {
            self.push(chunk.min(n - done)).await?;
        }
        Ok(())
    }

    async fn one(&self) -> Result<()> {
        self.push(1).await
    }

    async fn work(&self) -> Result<()> {
        let config = Config::default()
            .queue(QUEUE)
            .batch_size(setting("BATCH", 500))
            .lock_tasks(false);
        let storage = PostgresStorage::<Payload>::new(&self.pool).with_config(config);
        let name = format!("worker-{}", std::process::id());
        let concurrency = setting("CONCURRENCY", 500);
        let told = async {
            until_told_to_stop().await;
            Ok::<(), std::io::Error>(())
        };
        started();
        // Two types: the branches can't share the rest of the chain.
        let ended = if setting("PUBSUB", 0) == 1 {
            let worker = WorkerBuilder::new(name.as_str()).backend(storage.with_pubsub());
            worker.concurrency(concurrency).build(noop).run_until(told).await
        } else {
            let worker = WorkerBuilder::new(name.as_str()).backend(storage);
            worker.concurrency(concurrency).build(noop).run_until(told).await
        };
        ended.map_err(|error| anyhow!("{error}"))
    }
}
