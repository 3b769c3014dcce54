//! Stops changes of a workspace in its database: requests get read-only transactions (`cells.enter`), sweeps pass over it
//! (`cells.is_held`), and its jobs wait in queues that no worker claims from. What began before the hold is waited for. Called by `moving`.

use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

/// The prefix of the queues in which the jobs of a held workspace wait.
pub const PARKED: &str = "moving/";

/// Holds a workspace. Idempotent.
pub async fn hold(db: &PgPool, workspace_id: Uuid) -> Result<(), sqlx::Error> {
    set(&mut *db.acquire().await?, workspace_id, "held").await
}

/// Marks a workspace as living elsewhere: its rows here are old. Idempotent.
pub async fn leave(db: &PgPool, workspace_id: Uuid) -> Result<(), sqlx::Error> {
    set(&mut *db.acquire().await?, workspace_id, "moved").await
}

async fn set(db: &mut PgConnection, workspace_id: Uuid, state: &str) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "insert into cells.holds (project_id, state) values ($1, $2)
         on conflict (project_id) do update set state = excluded.state, since = now()",
        workspace_id,
        state
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Ends the hold: its jobs may be claimed. Idempotent.
pub async fn release(db: &PgPool, workspace_id: Uuid) -> Result<(), sqlx::Error> {
    let mut tx = rejoin_db::begin(db).await?;
    sqlx::query!(
        "update queue.jobs set queue = substr(queue, length($2::text) + 1) where project_id = $1 and starts_with(queue, $2::text)",
        workspace_id,
        PARKED
    )
    .execute(&mut *tx)
    .await?;
    sqlx::query!("delete from cells.holds where project_id = $1", workspace_id)
        .execute(&mut *tx)
        .await?;
    tx.commit().await
}

/// Returns whether all transactions of users have ended that began before the workspace was held, and so may still change it.
pub async fn writers_are_gone(db: &PgPool, workspace_id: Uuid) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(r#"select cells.writers_are_gone($1) as "gone!""#, workspace_id)
        .fetch_one(db)
        .await
}

/// Keeps workers from claiming the jobs of a workspace, and returns how many run or may be claimed. Repeated until there are none: what runs may
/// add others. None in one look means none from that moment on, since only what runs adds jobs to a held workspace without writers.
pub async fn park(db: &PgPool, workspace_id: Uuid) -> Result<i64, sqlx::Error> {
    sqlx::query!(
        "update queue.jobs set queue = $2::text || queue
         where project_id = $1 and state = 'available' and not starts_with(queue, $2::text)",
        workspace_id,
        PARKED
    )
    .execute(db)
    .await?;
    sqlx::query_scalar!(
        r#"select count(*) as "running!" from queue.jobs
           where project_id = $1 and (state = 'running' or not starts_with(queue, $2::text))"#,
        workspace_id,
        PARKED
    )
    .fetch_one(db)
    .await
}

/// Takes the leases of running jobs, as if their workers had died: what these write from then on is refused, and the next attempt, on the
/// new cell, begins with a `reset`. Returns their number.
pub async fn take_leases(db: &PgPool, workspace_id: Uuid) -> Result<u64, sqlx::Error> {
    let taken = sqlx::query!(
        "update queue.jobs
         set state = 'available', lease_until = null, worker_id = null, queue = $2::text || queue,
             -- Not an attempt that failed.
             max_attempts = max_attempts + 1,
             last_error = format('attempt %s: the project was moved to another database', attempt)
         where project_id = $1 and state = 'running'",
        workspace_id,
        PARKED
    );
    Ok(taken.execute(db).await?.rows_affected())
}
