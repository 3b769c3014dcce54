//! Removes objects that belong to no log: uploads that were not completed, and what deleted logs and retention have left. Called
//! periodically by every worker. The store is never listed: `stream.archive_leftovers` names them.

use metrics::counter;
use sqlx::PgPool;

use crate::LogArchive;
use crate::store::StoreError;

/// Maximum number of objects removed per call.
const SWEPT: i64 = 20;

#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    #[error(transparent)]
    Database(#[from] sqlx::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("old logs have left objects in a store, and this process has none configured; set REJOIN_ARCHIVE_URL")]
    NotSet,
}

/// Removes the next objects. True: there may be more.
pub async fn sweep(db: &PgPool, archive: Option<&LogArchive>) -> Result<bool, SweepError> {
    // Taken first: the upload of such an object can't be completed, or is complete and the name is gone.
    let taken = sqlx::query_scalar!(
        "update stream.archive_leftovers set is_taken = true where name in (
             select name from stream.archive_leftovers where due_at <= now()
             order by due_at limit $1 for update skip locked)
         returning name",
        SWEPT
    )
    .fetch_all(db)
    .await?;
    if taken.is_empty() {
        return Ok(false);
    }
    let archive = archive.ok_or(SweepError::NotSet)?;
    for name in &taken {
        if let Err(error) = archive.store.delete(name).await {
            counter!("rejoin_archive_failures_total", "operation" => "delete").increment(1);
            return Err(error.into());
        }
        sqlx::query!("delete from stream.archive_leftovers where name = $1", name.as_str())
            .execute(db)
            .await?;
    }
    Ok(taken.len() as i64 >= SWEPT)
}
