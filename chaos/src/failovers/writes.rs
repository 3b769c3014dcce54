//! A client that writes all the time, by HAProxy: it shows when a primary accepts writes, and whether an acknowledged one was lost.

use std::collections::HashSet;
use std::time::Duration;

use anyhow::{Context as _, Result};
use sqlx::{Connection as _, PgConnection, PgPool};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::evidence::now_us;

/// Pause between two writes.
const WRITE_EVERY: Duration = Duration::from_millis(50);
/// Timeout of a write with its connection. Then another connection is tried.
const WRITE_LIMIT: Duration = Duration::from_secs(2);

/// An acknowledged write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepted {
    pub(super) n: i64,
    /// In µs since 1970.
    pub(super) at_us: i64,
}

/// Creates the table, beside those of the witness.
pub(super) async fn install(db: &PgPool) -> Result<()> {
    sqlx::raw_sql("create table public.witness_writes (n bigint primary key)")
        .execute(db)
        .await?;
    Ok(())
}

/// Writes until it is ended.
pub(super) struct Writer {
    ends: CancellationToken,
    writing: JoinHandle<Vec<Accepted>>,
}

impl Writer {
    pub(super) fn start(url: String) -> Self {
        let ends = CancellationToken::new();
        Self {
            writing: tokio::spawn(write(url, ends.clone())),
            ends,
        }
    }

    /// Returns all acknowledged writes, in order.
    pub(super) async fn end(self) -> Result<Vec<Accepted>> {
        self.ends.cancel();
        self.writing.await.context("the client that writes has failed")
    }
}

async fn write(url: String, ends: CancellationToken) -> Vec<Accepted> {
    let mut accepted = Vec::new();
    let mut connection = None;
    let mut n = 0;
    while !ends.is_cancelled() {
        n += 1;
        match timeout(WRITE_LIMIT, insert(&mut connection, &url, n)).await {
            Ok(Ok(())) => accepted.push(Accepted { n, at_us: now_us() }),
            // It may have been written: not acknowledged is not lost.
            Ok(Err(_)) | Err(_) => connection = None,
        }
        sleep(WRITE_EVERY).await;
    }
    accepted
}

async fn insert(connection: &mut Option<PgConnection>, url: &str, n: i64) -> sqlx::Result<()> {
    let open = match connection.take() {
        Some(open) => open,
        None => PgConnection::connect(url).await?,
    };
    sqlx::query("insert into public.witness_writes (n) values ($1)")
        .bind(n)
        .execute(connection.insert(open))
        .await?;
    Ok(())
}

/// Writes to one server. `n`: other than those of a [`Writer`], which are positive.
///
/// # Errors
/// It was not acknowledged within the limit.
pub(super) async fn once(url: &str, n: i64) -> Result<()> {
    timeout(WRITE_LIMIT, insert(&mut None, url, n))
        .await
        .context("no answer")??;
    Ok(())
}

/// Returns how many acknowledged writes are not in the table.
pub(super) async fn lost(db: &PgPool, accepted: &[Accepted]) -> Result<usize> {
    let there: Vec<i64> = sqlx::query_scalar("select n from public.witness_writes")
        .fetch_all(db)
        .await?;
    let there: HashSet<i64> = there.into_iter().collect();
    Ok(accepted.iter().filter(|write| !there.contains(&write.n)).count())
}
