//! Uploads: a file is begun, written in chunks, and finished or discarded.

use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

use super::File;

/// A file whose upload begins.
#[derive(Debug)]
pub struct NewFile<'a> {
    pub id: Uuid,
    pub workspace_id: Uuid,
    pub owner_user_id: Option<Uuid>,
    /// Cleaned: [`names::clean`].
    pub name: &'a str,
    pub media_type: &'a str,
    /// Its maximum size, in bytes.
    pub reserved_bytes: u64,
    /// The run and the call that produced it.
    pub made_by: Option<(Uuid, Uuid)>,
    /// Whether its content goes to the object store.
    pub in_object_store: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum BeginError {
    #[error("the project's files can have {limit} bytes in total, and have {used}; delete some files")]
    Full { used: i64, limit: u64 },
    #[error("storing a file failed")]
    Database(#[from] sqlx::Error),
}

/// Reserves space for a file. Concurrent calls are serialized, so that the project's limit holds.
pub async fn begin(db: &mut PgConnection, file: &NewFile<'_>, project_max_bytes: u64) -> Result<(), BeginError> {
    sqlx::query!(
        "select pg_advisory_xact_lock(hashtextextended('rejoin.files ' || $1::text, 0))",
        file.workspace_id.to_string()
    )
    .execute(&mut *db)
    .await?;
    let used = sqlx::query_scalar!(r#"select kb.files_bytes($1) as "used!""#, file.workspace_id)
        .fetch_one(&mut *db)
        .await?;
    if used.unsigned_abs().saturating_add(file.reserved_bytes) > project_max_bytes {
        return Err(BeginError::Full {
            used,
            limit: project_max_bytes,
        });
    }
    let (run_id, call_id) = file.made_by.unzip();
    sqlx::query!(
        "insert into kb.files (id, project_id, owner_user_id, name, media_type, size_bytes, state, run_id, tool_call_id, in_object_store)
         values ($1, $2, $3, $4, $5, $6, 'arriving', $7, $8, $9)",
        file.id,
        file.workspace_id,
        file.owner_user_id,
        file.name,
        file.media_type,
        i64::try_from(file.reserved_bytes).unwrap_or(i64::MAX),
        run_id,
        call_id,
        file.in_object_store
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Records the id of a file's multipart upload.
pub async fn note_upload(db: impl PgExecutor<'_>, id: Uuid, upload_id: &str) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update kb.files set upload_id = $2 where id = $1 and state = 'arriving'",
        id,
        upload_id
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Stores the next piece in PostgreSQL: [`CHUNK_BYTES`], the last one may be shorter.
pub async fn put_chunk(db: &mut PgConnection, id: Uuid, position: i32, content: &[u8]) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "insert into kb.file_chunks (file_id, position, content) values ($1, $2, $3)",
        id,
        position,
        content
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Completes the file. None: it was removed meanwhile.
pub async fn finish(
    db: &mut PgConnection,
    id: Uuid,
    media_type: &str,
    size_bytes: i64,
    sha256: &[u8],
) -> Result<Option<File>, sqlx::Error> {
    sqlx::query_as!(
        File,
        r#"update kb.files set state = 'ready', media_type = $2, size_bytes = $3, sha256 = $4, upload_id = null
           where id = $1 and state = 'arriving'
           returning id, project_id as workspace_id, owner_user_id, name, media_type, size_bytes, sha256 as "sha256!", run_id, in_object_store, created_at"#,
        id,
        media_type,
        size_bytes,
        sha256
    )
    .fetch_optional(db)
    .await
}

/// Removes an incomplete file.
///
/// False: it is complete, and kept: the response to the commit that completed it was lost.
pub async fn discard(db: &mut PgConnection, id: Uuid) -> Result<bool, sqlx::Error> {
    sqlx::query!("delete from kb.files where id = $1 and state = 'arriving'", id)
        .execute(&mut *db)
        .await?;
    let has_arrived = sqlx::query_scalar!(
        r#"select exists (select from kb.files where id = $1) as "has_arrived!""#,
        id
    )
    .fetch_one(db)
    .await?;
    Ok(!has_arrived)
}
