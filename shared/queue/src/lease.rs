//! Leases: one heartbeat statement renews all jobs of a worker and returns those that it has lost.

use std::time::Duration;

use deadpool_postgres::Pool;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use rejoin_db::PgError;

/// The duration of a lease: how long a worker may run a job without a heartbeat.
pub const LEASE: Duration = Duration::from_secs(15);
/// Heartbeat interval: three tries fit into a lease.
pub const HEARTBEAT: Duration = Duration::from_secs(5);

/// A worker's description of itself.
#[derive(Debug, Clone)]
pub struct WorkerInfo {
    pub id: Uuid,
    pub hostname: String,
    pub pid: i32,
    pub version: String,
    pub queues: Vec<String>,
    pub slots: i32,
}

/// Renews the leases of `jobs` (id, attempt), and the worker's own row. `session_lock`: whether it holds its lock now
/// ([`crate::presence`]). Returns the ids still held.
pub async fn heartbeat(
    pool: &Pool,
    worker: &WorkerInfo,
    jobs: &[(i64, i32)],
    lease: Duration,
    draining: bool,
    session_lock: bool,
) -> Result<Vec<i64>, PgError> {
    let client = pool.get().await?;
    let renew = client
        .prepare_cached(
            "update queue.jobs j set lease_until = now() + make_interval(secs => $3)
             from unnest($1::bigint[], $2::int[]) t(id, attempt)
             where j.id = t.id and j.attempt = t.attempt and j.state = 'running'
             returning j.id",
        )
        .await?;
    let register = client
        .prepare_cached(
            "insert into queue.workers (id, hostname, pid, version, queues, slots, draining, session_lock)
             values ($1, $2, $3, $4, $5, $6, $7, $8)
             on conflict (id) do update
             set draining = excluded.draining, session_lock = excluded.session_lock, seen_at = now()",
        )
        .await?;
    let (ids, attempts): (Vec<i64>, Vec<i32>) = jobs.iter().copied().unzip();
    let registration: [&(dyn ToSql + Sync); 8] = [
        &worker.id,
        &worker.hostname,
        &worker.pid,
        &worker.version,
        &worker.queues,
        &worker.slots,
        &draining,
        &session_lock,
    ];
    let (rows, _) = tokio::try_join!(
        async {
            if ids.is_empty() {
                Ok(Vec::new())
            } else {
                client.query(&renew, &[&ids, &attempts, &lease.as_secs_f64()]).await
            }
        },
        client.execute(&register, &registration)
    )?;
    Ok(rows.into_iter().map(|row| row.get(0)).collect())
}

/// Removes the row of a stopping worker.
pub async fn leave(pool: &Pool, worker_id: Uuid) -> Result<(), PgError> {
    let client = pool.get().await?;
    client
        .execute("delete from queue.workers where id = $1", &[&worker_id])
        .await?;
    Ok(())
}
