//! pgmq, from the SQL in its crate. A bare queue: the consumer's loop (read a batch that becomes invisible for a while,
//! handle it, delete it) is left to users, so this one is ours. `LOOPS` of them run concurrently, `BATCH` messages
//! each.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use sqlx::postgres::PgListener;
use sqlx::types::Json;
use sqlx::{PgPool, query, query_as};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::protocol::{Payload, Queue, handle, setting, started, until_told_to_stop};

/// Time after which an undeleted message becomes visible again, in seconds.
const INVISIBLE_S: i32 = 30;

#[derive(Clone)]
pub struct Pgmq {
    pool: PgPool,
}

impl Pgmq {
    pub fn new(pool: PgPool) -> Self {
        Self { pool }
    }

    /// Wakes idle loops when messages are sent: pgmq's own notifications, not throttled.
    async fn listen(&self, wake: Arc<Notify>) -> Result<()> {
        query("select pgmq.enable_notify_insert('noop', 0)")
            .execute(&self.pool)
            .await?;
        let mut listener = PgListener::connect_with(&self.pool).await?;
        listener.listen("pgmq.q_noop.INSERT").await?;
        tokio::spawn(async move {
            while listener.recv().await.is_ok() {
                wake.notify_one();
            }
        });
        Ok(())
    }
}

impl Queue for Pgmq {
    async fn setup(&self) -> Result<()> {
        pgmq::install::install_sql_from_embedded(&self.pool)
            .await
            .context("installing pgmq")?;
        query("select pgmq.create('noop')").execute(&self.pool).await?;
        Ok(())
    }

    async fn bulk(&self, n: usize) -> Result<()> {
        let chunk = setting("CHUNK", 5_000);
        for done in (0..n).step_by(chunk) {
            let messages: Vec<Json<Payload>> = (done..n.min(done + chunk)).map(|_| Json(Payload::now())).collect();
            // Counted by the server: the ids are not needed.
            let statement = query("select count(*) from pgmq.send_batch('noop', $1::jsonb[])");
            statement.bind(messages).execute(&self.pool).await?;
        }
        Ok(())
    }

    async fn one(&self) -> Result<()> {
        let statement = query("select pgmq.send('noop', $1::jsonb)");
        statement.bind(Json(Payload::now())).execute(&self.pool).await?;
        Ok(())
    }

    async fn work(&self) -> Result<()> {
        let (loops, batch, poll) = (setting("LOOPS", 4), setting("BATCH", 200_i32), setting("POLL_MS", 50));
        let wake = Arc::new(Notify::new());
        if setting("NOTIFY", 0) == 1 {
            self.listen(wake.clone()).await?;
        }
        started();
        let mut consumers = JoinSet::new();
        for _ in 0..loops {
            consumers.spawn(consume(
                self.pool.clone(),
                batch,
                Duration::from_millis(poll),
                wake.clone(),
            ));
        }
        tokio::select! {
            () = until_told_to_stop() => Ok(()),
            Some(ended) = consumers.join_next() => ended?,
        }
    }
}

async fn consume(pool: PgPool, batch: i32, poll: Duration, wake: Arc<Notify>) -> Result<()> {
    loop {
        let read = query_as("select msg_id, message from pgmq.read('noop', $1, $2)");
        let messages: Vec<(i64, Json<Payload>)> = read.bind(INVISIBLE_S).bind(batch).fetch_all(&pool).await?;
        if messages.is_empty() {
            // Whichever comes first.
            let _ = tokio::time::timeout(poll, wake.notified()).await;
            continue;
        }
        messages.iter().for_each(|(_, payload)| handle(payload));
        let ids: Vec<i64> = messages.into_iter().map(|(id, _)| id).collect();
        let delete = query("select count(*) from pgmq.delete('noop', $1::bigint[])");
        delete.bind(ids).execute(&pool).await?;
    }
}
