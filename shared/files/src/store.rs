//! Reads and writes the content of files, in PostgreSQL or the object store.
//!
//! Invariant: no transaction is open during a request to the object store.

use std::sync::Arc;

use bytes::Bytes;
use sha2::{Digest, Sha256};
use sqlx::PgPool;
use tracing::warn;
use uuid::Uuid;

use super::objects::{self, ObjectStore, ObjectStoreError, Upload};
use super::types::{self, TypeFault};
use super::{
    BeginError, CHUNK_BYTES, File, FilesArgs, NewFile, begin, chunk, discard, finish, names, note_upload, put_chunk,
};
use rejoin_types::ids;

#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("reading a file from the database failed")]
    Database(#[from] sqlx::Error),
    #[error(transparent)]
    ObjectStore(#[from] ObjectStoreError),
}

impl ReadError {
    /// Returns whether a retry may succeed.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Database(error) => rejoin_db::is_transient(error),
            Self::ObjectStore(error) => error.is_transient(),
        }
    }
}

/// A file produced by a tool.
#[derive(Debug)]
pub struct Produced<'a> {
    pub workspace_id: Uuid,
    pub owner_user_id: Option<Uuid>,
    /// The run and the record of the call.
    pub made_by: Option<(Uuid, Uuid)>,
    pub name: &'a str,
    /// The media type declared by the tool.
    pub media_type: &'a str,
    pub content: &'a [u8],
}

#[derive(Debug, thiserror::Error)]
pub enum ProduceError {
    #[error("the file is empty")]
    Empty,
    #[error("the file has {bytes} bytes; the maximum is {limit}")]
    TooLarge { bytes: u64, limit: u64 },
    #[error(transparent)]
    Begin(#[from] BeginError),
    #[error("storing a file failed")]
    Database(#[from] sqlx::Error),
    #[error(transparent)]
    ObjectStore(#[from] ObjectStoreError),
}

/// The storage of file content of a process, with its limits. Cheap to clone.
#[derive(Debug, Clone)]
pub struct FileStore {
    limits: Arc<FilesArgs>,
    objects: Option<ObjectStore>,
}

impl FileStore {
    /// # Errors
    /// The settings of the object store are invalid.
    pub fn of(args: &FilesArgs) -> Result<Self, ObjectStoreError> {
        Ok(Self {
            objects: ObjectStore::of(&args.object_store)?,
            limits: Arc::new(args.clone()),
        })
    }

    /// The object store, if there is one.
    pub fn objects(&self) -> Option<&ObjectStore> {
        self.objects.as_ref()
    }

    /// Starts writing a new file's content. None: it goes into PostgreSQL.
    pub fn upload(&self, workspace_id: Uuid, id: Uuid) -> Option<Upload> {
        let objects = self.objects.as_ref()?;
        Some(objects.upload(&objects::key_of(workspace_id, id)))
    }

    /// Reads a piece of a file from the object store. None: it was deleted.
    pub async fn read_object(&self, file: &File, position: i32) -> Result<Option<Bytes>, ObjectStoreError> {
        let objects = self.objects.as_ref().ok_or(ObjectStoreError::NotSet)?;
        let size = file.size_bytes.unsigned_abs();
        let from = u64::from(position.unsigned_abs()) * CHUNK_BYTES as u64;
        let to = size.min(from + CHUNK_BYTES as u64);
        if from >= to {
            return Ok(None);
        }
        objects.read(file, from, to).await
    }

    /// Reads a piece of a file from either store. None: it was deleted.
    pub async fn read(&self, db: &PgPool, file: &File, position: i32) -> Result<Option<Bytes>, ReadError> {
        Ok(if file.in_object_store {
            self.read_object(file, position).await?
        } else {
            chunk(db, file.id, position).await?.map(Bytes::from)
        })
    }

    /// Stores a tool's file. If the content does not match the declared type, it is stored as bytes that no model
    /// reads.
    pub async fn store(&self, db: &PgPool, produced: &Produced<'_>) -> Result<File, ProduceError> {
        let bytes = produced.content.len() as u64;
        if bytes == 0 {
            return Err(ProduceError::Empty);
        }
        if bytes > self.limits.max_file_bytes {
            let limit = self.limits.max_file_bytes;
            return Err(ProduceError::TooLarge { bytes, limit });
        }
        let name = names::clean(produced.name);
        let media_type = type_of(produced, &name);
        let id = ids::new();
        let upload = self.upload(produced.workspace_id, id);
        let new = NewFile {
            id,
            workspace_id: produced.workspace_id,
            owner_user_id: produced.owner_user_id,
            name: &name,
            media_type: &media_type,
            reserved_bytes: bytes,
            made_by: produced.made_by,
            in_object_store: upload.is_some(),
        };
        let mut tx = rejoin_db::begin(db).await?;
        begin(&mut tx, &new, self.limits.max_project_files_bytes).await?;
        let mut upload = match upload {
            None => {
                for (position, piece) in (0..).zip(produced.content.chunks(CHUNK_BYTES)) {
                    put_chunk(&mut tx, id, position, piece).await?;
                }
                None
            }
            Some(mut upload) => {
                // No transaction is open during requests to the object store.
                tx.commit().await?;
                if let Err(error) = send(db, id, &mut upload, produced.content).await {
                    forget(db, id, &mut upload).await;
                    return Err(error);
                }
                tx = rejoin_db::begin(db).await?;
                Some(upload)
            }
        };
        let size = i64::try_from(bytes).unwrap_or(i64::MAX);
        let stored = finish(&mut tx, id, &media_type, size, &Sha256::digest(produced.content)).await?;
        tx.commit().await?;
        if let (None, Some(upload)) = (&stored, &mut upload) {
            forget(db, id, upload).await;
        }
        stored.ok_or(ProduceError::Database(sqlx::Error::RowNotFound))
    }
}

/// Writes a whole file into the object store.
async fn send(db: &PgPool, id: Uuid, upload: &mut Upload, content: &[u8]) -> Result<(), ProduceError> {
    for piece in content.chunks(CHUNK_BYTES) {
        if let Some(upload_id) = upload.write(Bytes::copy_from_slice(piece)).await? {
            note_upload(db, id, &upload_id).await?;
        }
    }
    Ok(upload.finish().await?)
}

/// Removes a file that could not be stored, the row first, as [`discard`] describes. Maintenance removes the rest.
async fn forget(db: &PgPool, id: Uuid, upload: &mut Upload) {
    let discarded = async { discard(&mut *db.acquire().await?, id).await };
    let is_gone = discarded.await.unwrap_or_else(|error| {
        warn!(%error, file = %id, "removing an incomplete file failed; maintenance will remove it");
        false
    });
    if is_gone && let Err(error) = upload.discard().await {
        warn!(%error, file = %id, "removing an incomplete file from the object store failed; maintenance will remove it");
    }
}

fn type_of(produced: &Produced<'_>, name: &str) -> String {
    const BYTES: &str = "application/octet-stream";
    let found = match types::of_beginning(produced.content, Some(produced.media_type)) {
        Ok(Some(found)) => Ok(found.to_owned()),
        Ok(None) => {
            let mut check = types::TextCheck::default();
            if check.goes_on(produced.content) && check.is_whole() {
                types::of_text(Some(produced.media_type), name)
            } else {
                Err(types::not_text(None))
            }
        }
        Err(TypeFault::Disagrees(_)) => {
            types::of_beginning(produced.content, None).map(|found| found.unwrap_or(BYTES).to_owned())
        }
        Err(fault) => Err(fault),
    };
    found.unwrap_or_else(|_| BYTES.to_owned())
}
