//! Old events that are objects in a store instead of rows of `stream.events`: the parts of a log that `stream.archives` lists. Called by
//! `reader` and `snapshot`; a crate with a store implements [`Archive`].
//!
//! Invariant: parts are contiguous, precede the rows of their log, and never change. An event is in a part or in a row, never in neither.

use std::error::Error;
use std::sync::Arc;

use async_trait::async_trait;
use deadpool_postgres::Pool;
use rejoin_db::PgError;
use rejoin_db::rls::ConnGuard;
use sqlx::PgExecutor;
use uuid::Uuid;

use super::rows::StoredEvent;

/// A part of a log that is an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The object's name.
    pub name: String,
    pub first_seq: i64,
    pub last_seq: i64,
    /// SHA-256 of its text.
    pub sha256: Vec<u8>,
    /// The size of its text, in bytes.
    pub text_bytes: i64,
}

/// Why archived events can't be read. A later attempt may succeed: they are not lost, unless the object was changed in the store.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    #[error("the events are in an archive, and this process has none configured; set REJOIN_ARCHIVE_URL")]
    NotSet,
    #[error("the archive could not be read")]
    Unavailable(#[source] Box<dyn Error + Send + Sync>),
    #[error("the object {0} is not in the archive's store; restore it there from a backup or an older version")]
    Missing(String),
    #[error("the object {0} does not have the events that were archived; restore it from a backup or an older version")]
    Damaged(String),
}

/// Reads objects.
#[async_trait]
pub trait Archive: Send + Sync {
    /// Returns all events of a part, in order.
    async fn events(&self, part: &Part) -> Result<Arc<[StoredEvent]>, ArchiveError>;
}

/// An archive that many share.
pub type SharedArchive = Arc<dyn Archive>;

/// The archive of a process that has none configured.
#[derive(Debug, Clone, Copy)]
pub struct NoArchive;

#[async_trait]
impl Archive for NoArchive {
    async fn events(&self, _part: &Part) -> Result<Arc<[StoredEvent]>, ArchiveError> {
        Err(ArchiveError::NotSet)
    }
}

/// Returns the first part of a log that has events after this number.
pub(super) async fn part_after(pool: &Pool, log_id: Uuid, after: i64) -> Result<Option<Part>, PgError> {
    let guard = ConnGuard::from(pool).await?;
    let client = guard.client();
    let statement = client
        .prepare_cached(
            "select name, first_seq, last_seq, sha256, text_bytes from stream.archived_after($1, $2) limit 1",
        )
        .await?;
    let answer = client.query_opt(&statement, &[&log_id, &after]).await;
    let row = guard.settle(answer)?;
    Ok(row.map(|row| Part {
        name: row.get(0),
        first_seq: row.get(1),
        last_seq: row.get(2),
        sha256: row.get(3),
        text_bytes: row.get(4),
    }))
}

/// Returns all parts of a log that have events after this number, in order.
pub(super) async fn parts_after(db: impl PgExecutor<'_>, log_id: Uuid, after: i64) -> Result<Vec<Part>, sqlx::Error> {
    sqlx::query_as!(
        Part,
        r#"select name as "name!", first_seq as "first_seq!", last_seq as "last_seq!", sha256 as "sha256!",
                  text_bytes as "text_bytes!"
           from stream.archived_after($1, $2)"#,
        log_id,
        after
    )
    .fetch_all(db)
    .await
}
