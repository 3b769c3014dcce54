//! Files: uploads attached to messages, and outputs of tools. Their content is in PostgreSQL, or in an object store if
//! one is configured, and is written and read in pieces of fixed size, so that uploads, downloads and model requests
//! never hold a whole file. (docs/guide/files.md)
//!
//! - `types`   detects a file's type from its content
//! - `names`   normalizes file names
//! - `objects` content in an object store
//! - `store`   reads and writes content in either place
//! - `uploads` writes files in chunks
//!
//! Invariants: a `ready` file never changes, and its checksum is that of its pieces; a file that a message names is
//! kept as long as the message, though its content may be deleted.

pub mod names;
pub mod objects;
mod store;
pub mod types;
mod uploads;

pub use store::{FileStore, ProduceError, Produced, ReadError};
pub use uploads::{BeginError, NewFile, begin, discard, finish, note_upload, put_chunk};

use chrono::{DateTime, Utc};
use clap::Args;
use rejoin_types::digest::hex;
use rejoin_types::file_ref::FileRef;
use rejoin_types::owner::Owner;
use serde::Deserialize;
use serde_json::Value;
use sqlx::{PgConnection, PgExecutor, PgPool};
use uuid::Uuid;

use self::objects::ObjectStoreArgs;

/// Size of a piece, in bytes; a multiple of three, so that the base64 of pieces joins to that of the file.
pub const CHUNK_BYTES: usize = 3 * 256 * 1024;
/// Maximum duration of an upload, in seconds.
const ARRIVING_MAX_S: f64 = 3_600.0 * 6.0;
/// Number of files removed per maintenance statement, together with their content.
const SWEPT: i64 = 20;
const MIB: u64 = 1024 * 1024;

/// How large and how many files may be, and where their content is kept.
#[derive(Debug, Clone, Args)]
pub struct FilesArgs {
    /// Maximum size of a file, uploaded or created by a tool, in bytes
    #[arg(long, env = "REJOIN_MAX_FILE_BYTES", default_value_t = 25 * MIB, value_parser = clap::value_parser!(u64).range(1..=1024 * MIB))]
    pub max_file_bytes: u64,

    /// Maximum number of files per message
    #[arg(long, env = "REJOIN_MAX_MESSAGE_FILES", default_value_t = 10)]
    pub max_message_files: usize,

    /// Maximum total size of a message's files, in bytes
    #[arg(long, env = "REJOIN_MAX_MESSAGE_FILES_BYTES", default_value_t = 50 * MIB, value_parser = clap::value_parser!(u64).range(1..))]
    pub max_message_files_bytes: u64,

    /// Maximum total size of a project's files, in bytes
    #[arg(long, env = "REJOIN_MAX_PROJECT_FILES_BYTES", default_value_t = 10 * 1024 * MIB, value_parser = clap::value_parser!(u64).range(1..))]
    pub max_project_files_bytes: u64,

    #[command(flatten)]
    pub object_store: ObjectStoreArgs,
}

impl Default for FilesArgs {
    fn default() -> Self {
        Self {
            max_file_bytes: 25 * MIB,
            max_message_files: 10,
            max_message_files_bytes: 50 * MIB,
            max_project_files_bytes: 10 * 1024 * MIB,
            object_store: ObjectStoreArgs::default(),
        }
    }
}

/// A complete file.
#[derive(Debug, Clone, PartialEq)]
pub struct File {
    pub id: Uuid,
    pub workspace_id: Uuid,
    pub owner_user_id: Option<Uuid>,
    pub name: String,
    pub media_type: String,
    pub size_bytes: i64,
    pub sha256: Vec<u8>,
    pub run_id: Option<Uuid>,
    /// Whether its content is in the object store instead of PostgreSQL.
    pub in_object_store: bool,
    pub created_at: DateTime<Utc>,
}

impl File {
    pub fn to_ref(&self) -> FileRef {
        FileRef {
            file_id: self.id,
            name: self.name.clone(),
            media_type: self.media_type.clone(),
            size_bytes: self.size_bytes,
            sha256: hex(&self.sha256),
        }
    }
}

/// Returns the files named by a message's metadata.
pub fn of_metadata(metadata: &Value) -> Vec<FileRef> {
    Vec::<FileRef>::deserialize(&metadata["attachments"]).unwrap_or_default()
}

pub async fn get(db: impl PgExecutor<'_>, workspace_id: Uuid, id: Uuid) -> Result<Option<File>, sqlx::Error> {
    sqlx::query_as!(
        File,
        r#"select id, project_id as workspace_id, owner_user_id, name, media_type, size_bytes, sha256 as "sha256!", run_id, in_object_store, created_at
           from kb.files where project_id = $1 and id = $2 and state = 'ready'"#,
        workspace_id,
        id
    )
    .fetch_optional(db)
    .await
}

/// Returns an owner's files after `after`, newest first.
pub async fn list(
    db: impl PgExecutor<'_>,
    owner: Owner,
    after: Option<(DateTime<Utc>, Uuid)>,
    limit: i64,
) -> Result<Vec<File>, sqlx::Error> {
    let (after_at, after_id) = after.unzip();
    sqlx::query_as!(
        File,
        r#"select id, project_id as workspace_id, owner_user_id, name, media_type, size_bytes, sha256 as "sha256!", run_id, in_object_store, created_at
           from kb.files
           where project_id = $1 and owner_user_id = $2 and state = 'ready'
             and ($3::timestamptz is null or (created_at, id) < ($3, $4))
           order by created_at desc, id desc
           limit $5"#,
        owner.workspace_id,
        owner.user_id,
        after_at,
        after_id,
        limit
    )
    .fetch_all(db)
    .await
}

/// Returns a piece of a file in PostgreSQL. None: it does not exist.
pub async fn chunk(db: impl PgExecutor<'_>, id: Uuid, position: i32) -> Result<Option<Vec<u8>>, sqlx::Error> {
    sqlx::query_scalar!(
        "select content from kb.file_chunks where file_id = $1 and position = $2",
        id,
        position
    )
    .fetch_optional(db)
    .await
}

/// Returns the number of pieces of a file of this size.
pub fn chunks_of(size_bytes: i64) -> i32 {
    let size = usize::try_from(size_bytes).unwrap_or_default();
    i32::try_from(size.div_ceil(CHUNK_BYTES)).unwrap_or(i32::MAX)
}

/// Deletes a file's content, and the file itself unless a message names it. False: it does not exist.
pub async fn delete(db: &mut PgConnection, owner: Owner, id: Uuid) -> Result<bool, sqlx::Error> {
    let deleted = sqlx::query!(
        "update kb.files set state = 'deleted' where id = $1 and project_id = $2 and owner_user_id = $3 and state = 'ready'",
        id,
        owner.workspace_id,
        owner.user_id
    )
    .execute(&mut *db)
    .await?;
    if deleted.rows_affected() == 0 {
        return Ok(false);
    }
    sqlx::query!("delete from kb.file_chunks where file_id = $1", id)
        .execute(&mut *db)
        .await?;
    sqlx::query!(
        "delete from kb.files f where f.id = $1 and not exists (select from kb.message_files m where m.file_id = f.id)",
        id
    )
    .execute(db)
    .await?;
    Ok(true)
}

/// The reason why files can't be attached to a message.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    #[error("there is no file {0}; upload it, then attach it")]
    NotFound(Uuid),
    #[error("the message's files have {bytes} bytes in total; the maximum is {limit}. Attach fewer or smaller files")]
    TooLarge { bytes: i64, limit: u64 },
    #[error("reading the message's files failed")]
    Database(#[from] sqlx::Error),
}

/// Returns an owner's files with these ids, in this order, protected from removal until the transaction ends.
pub async fn for_message(
    db: &mut PgConnection,
    owner: Owner,
    ids: &[Uuid],
    max_bytes: u64,
) -> Result<Vec<FileRef>, AttachError> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let found = sqlx::query_as!(
        File,
        r#"select id, project_id as workspace_id, owner_user_id, name, media_type, size_bytes, sha256 as "sha256!", run_id, in_object_store, created_at
           from kb.files
           where id = any($1) and project_id = $2 and owner_user_id = $3 and state = 'ready'
           order by id for share"#,
        ids,
        owner.workspace_id,
        owner.user_id
    )
    .fetch_all(db)
    .await?;
    let files = ids
        .iter()
        .map(|id| {
            let file = found.iter().find(|file| file.id == *id);
            file.map(File::to_ref).ok_or(AttachError::NotFound(*id))
        })
        .collect::<Result<Vec<_>, _>>()?;
    let bytes = files.iter().map(|file| file.size_bytes).sum::<i64>();
    if bytes.unsigned_abs() > max_bytes {
        return Err(AttachError::TooLarge {
            bytes,
            limit: max_bytes,
        });
    }
    Ok(files)
}

/// Records that a message names these files. Deleted ones are skipped.
pub async fn name_in(db: &mut PgConnection, message_id: Uuid, files: &[FileRef]) -> Result<(), sqlx::Error> {
    if files.is_empty() {
        return Ok(());
    }
    let ids: Vec<Uuid> = files.iter().map(|file| file.file_id).collect();
    sqlx::query!(
        "insert into kb.message_files (message_id, file_id)
         select $1, id from kb.files where id = any($2)
         on conflict do nothing",
        message_id,
        &ids
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Returns the files produced by a tool call.
pub async fn of_call(db: impl PgExecutor<'_>, call_id: Uuid) -> Result<Vec<File>, sqlx::Error> {
    sqlx::query_as!(
        File,
        r#"select id, project_id as workspace_id, owner_user_id, name, media_type, size_bytes, sha256 as "sha256!", run_id, in_object_store, created_at
           from kb.files where tool_call_id = $1 and state = 'ready' order by id"#,
        call_id
    )
    .fetch_all(db)
    .await
}

/// Removes files that a call has produced before: it is repeated.
pub async fn forget_call(db: impl PgExecutor<'_>, call_id: Uuid) -> Result<(), sqlx::Error> {
    sqlx::query!("delete from kb.files where tool_call_id = $1", call_id)
        .execute(db)
        .await?;
    Ok(())
}

/// Removes files that no message and no run has named for `kept_s`, and abandoned uploads. True: there may be more. Not those of workspaces that
/// have moved to another database: their objects, of which there is one copy, are still used.
pub async fn sweep(db: &PgPool, kept_s: f64) -> Result<bool, sqlx::Error> {
    let removed = sqlx::query!(
        "delete from kb.files where id in (
             select f.id from kb.files f
             where f.run_id is null and f.created_at < now() - make_interval(secs => $1)
               and not exists (select from kb.message_files m where m.file_id = f.id)
               and not exists (select from cells.holds h where h.project_id = f.project_id)
             order by f.created_at limit $2 for update of f skip locked)",
        kept_s,
        SWEPT
    )
    .execute(db)
    .await?
    .rows_affected();
    let broken_off = sqlx::query!(
        "delete from kb.files where id in (
             select f.id from kb.files f
             where f.state = 'arriving' and f.created_at < now() - make_interval(secs => $1)
               and not exists (select from cells.holds h where h.project_id = f.project_id)
             order by f.created_at limit $2 for update of f skip locked)",
        ARRIVING_MAX_S,
        SWEPT
    )
    .execute(db)
    .await?
    .rows_affected();
    Ok(removed.max(broken_off) >= SWEPT.unsigned_abs())
}
