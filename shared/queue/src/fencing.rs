//! Fencing: a command writes only while the attempt that issues it still holds the lease of its run's job. A worker that was paused past its
//! lease, and returns, is stopped here.

use sqlx::PgConnection;
use uuid::Uuid;

/// Locks the live job of a run for the rest of the caller's transaction, if `attempt` still owns it: the fence of a
/// command. None: the lease was lost, and the caller must write nothing. Exactly running jobs have a lease; asked for
/// their state, a server without statistics goes through the index of all running jobs.
pub async fn fence(db: &mut PgConnection, run_id: Uuid, attempt: i32) -> Result<Option<i64>, sqlx::Error> {
    sqlx::query_scalar!(
        "select id from queue.jobs where run_id = $1 and attempt = $2 and lease_until is not null for key share",
        run_id,
        attempt
    )
    .fetch_optional(db)
    .await
}

/// The same for a command that records progress of the run. From the second attempt on, it resets the queue's count of
/// losses, so that the job has all its attempts again: a job that kills workers makes no progress, unlike one that is
/// killed by other causes.
pub async fn fence_progress(db: &mut PgConnection, run_id: Uuid, attempt: i32) -> Result<Option<i64>, sqlx::Error> {
    let job_id = fence(db, run_id, attempt).await?;
    if let Some(job_id) = job_id
        && attempt > 1
    {
        sqlx::query!(
            "update queue.jobs set losses = 0, max_attempts = greatest(max_attempts, attempt + $2) where id = $1 and losses > 0",
            job_id,
            super::RUN_MAX_ATTEMPTS
        )
        .execute(db)
        .await?;
    }
    Ok(job_id)
}
