//! Content of files in an S3-compatible object store instead of PostgreSQL (docs/guide/files.md). The row in `kb.files`
//! decides on visibility, retention and existence: an object is read only for an existing row.
//!
//! Invariant: no object stays for good without a row. The row exists before the first byte, a multipart upload is
//! recorded with it, and triggers on `kb.files` record what a removed row leaves behind, for [`sweep`].

use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use futures::StreamExt;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{
    BackoffConfig, ClientOptions, MultipartId, ObjectStore as _, ObjectStoreExt, PutPayload, RetryConfig,
};
use rejoin_db::config::Secret;
use sqlx::PgPool;
use tracing::warn;
use url::Url;
use uuid::Uuid;

use super::{File, SWEPT};

/// Bytes of each part but the last; S3 takes no smaller ones than 5 MiB (Amazon S3 User Guide, "multipart upload limits").
const PART_BYTES: usize = 6 * 1024 * 1024;
/// Maximum number of retries of one request. Few: callers wait for it.
const RETRIES: usize = 3;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const TIMEOUT_S: u64 = 30;
/// Time after which removing an object that was refused is tried again, in seconds.
const POSTPONED_S: f64 = 3_600.0;
/// A path that no file has.
const PROBE: &str = "doctor";

/// Where the content of new files is stored. Existing files are read from where they are.
#[derive(Debug, Clone, Args)]
pub struct ObjectStoreArgs {
    /// S3 bucket for the content of new files: s3://BUCKET or s3://BUCKET/PREFIX [default: PostgreSQL keeps it]
    #[arg(long, env = "REJOIN_FILES_URL")]
    pub files_url: Option<Url>,

    /// URL of the S3 server, if it is not Amazon's, e.g. http://127.0.0.1:9000
    #[arg(long, env = "REJOIN_FILES_ENDPOINT")]
    pub files_endpoint: Option<Url>,

    /// Region of the bucket [default: AWS_REGION, AWS_DEFAULT_REGION or us-east-1]
    #[arg(long, env = "REJOIN_FILES_REGION")]
    pub files_region: Option<String>,

    /// Access key id for the bucket [default: AWS's own order: AWS_ACCESS_KEY_ID, a web identity, the machine's role]
    #[arg(long, env = "REJOIN_FILES_ACCESS_KEY_ID")]
    pub files_access_key_id: Option<String>,

    /// Secret of that access key
    #[arg(long, env = "REJOIN_FILES_SECRET_ACCESS_KEY", hide_env_values = true)]
    pub files_secret_access_key: Option<Secret>,

    /// Timeout of one request to the object store, in seconds
    #[arg(long, env = "REJOIN_FILES_TIMEOUT_S", default_value_t = TIMEOUT_S, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub files_timeout_s: u64,
}

impl Default for ObjectStoreArgs {
    fn default() -> Self {
        Self {
            files_url: None,
            files_endpoint: None,
            files_region: None,
            files_access_key_id: None,
            files_secret_access_key: None,
            files_timeout_s: TIMEOUT_S,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ObjectStoreError {
    #[error("{0}")]
    Settings(String),
    #[error("the file is in an object store, and this process has none configured; set REJOIN_FILES_URL")]
    NotSet,
    #[error("the object store rejected the access key: {0}")]
    Refused(#[source] object_store::Error),
    #[error("the object store failed: {0}")]
    Unavailable(#[source] object_store::Error),
    #[error("the object of the file {0} does not have the bytes that the file had: it was changed in the object store")]
    Damaged(Uuid),
}

impl ObjectStoreError {
    /// Returns whether a retry may succeed.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }
}

impl From<object_store::Error> for ObjectStoreError {
    fn from(error: object_store::Error) -> Self {
        use object_store::Error::{PermissionDenied, Unauthenticated};
        match error {
            PermissionDenied { .. } | Unauthenticated { .. } => Self::Refused(error),
            _ => Self::Unavailable(error),
        }
    }
}

/// Turns "not found" into `None`.
fn found<T>(answer: object_store::Result<T>) -> Result<Option<T>, ObjectStoreError> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(object_store::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns the key of a file's object, below the store's prefix. It is computed from the row, so that no row can refer to another's object.
pub fn key_of(workspace_id: Uuid, file_id: Uuid) -> String {
    format!("{workspace_id}/{file_id}")
}

/// An object store. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ObjectStore {
    s3: AmazonS3,
    prefix: Path,
}

impl ObjectStore {
    /// Returns the configured store, if any, without connecting to it.
    ///
    /// # Errors
    /// The settings are invalid.
    pub fn of(args: &ObjectStoreArgs) -> Result<Option<Self>, ObjectStoreError> {
        let wrong = |name: &str, why: &str| ObjectStoreError::Settings(format!("{name} {why}"));
        let Some(url) = &args.files_url else {
            if args.files_endpoint.is_some() {
                let why = "is set without REJOIN_FILES_URL: set that to s3://BUCKET/PREFIX, too";
                return Err(wrong("REJOIN_FILES_ENDPOINT", why));
            }
            return Ok(None);
        };
        let bucket = url.host_str().filter(|bucket| !bucket.is_empty());
        let (Some(bucket), "s3") = (bucket, url.scheme()) else {
            return Err(wrong(
                "REJOIN_FILES_URL",
                "has the form s3://BUCKET or s3://BUCKET/PREFIX",
            ));
        };
        let prefix = Path::from_url_path(url.path())
            .map_err(|error| wrong("REJOIN_FILES_URL", &format!("has an invalid prefix: {error}")))?;
        let options = ClientOptions::new()
            .with_connect_timeout(CONNECT_TIMEOUT)
            .with_timeout(Duration::from_secs(args.files_timeout_s));
        let mut builder = AmazonS3Builder::from_env()
            .with_bucket_name(bucket)
            // Objects are removed one by one; not every server supports bulk deletion.
            .with_disable_bulk_delete(true)
            .with_retry(RetryConfig {
                backoff: BackoffConfig::default(),
                max_retries: RETRIES,
                retry_timeout: Duration::from_secs(args.files_timeout_s),
            });
        if let Some(endpoint) = &args.files_endpoint {
            if !matches!(endpoint.scheme(), "http" | "https") {
                return Err(wrong("REJOIN_FILES_ENDPOINT", "begins with https:// or http://"));
            }
            builder = builder.with_endpoint(endpoint.as_str().trim_end_matches('/'));
        }
        let is_plain = args.files_endpoint.as_ref().is_some_and(|url| url.scheme() == "http");
        builder = builder.with_client_options(options.with_allow_http(is_plain));
        if let Some(region) = &args.files_region {
            builder = builder.with_region(region);
        }
        match (&args.files_access_key_id, &args.files_secret_access_key) {
            (Some(id), Some(secret)) => {
                builder = builder.with_access_key_id(id).with_secret_access_key(secret.expose());
            }
            (None, None) => {}
            _ => {
                let why = "and REJOIN_FILES_SECRET_ACCESS_KEY are set together, or neither is";
                return Err(wrong("REJOIN_FILES_ACCESS_KEY_ID", why));
            }
        }
        let s3 = builder
            .build()
            .map_err(|error| ObjectStoreError::Settings(format!("the object store of REJOIN_FILES_URL: {error}")))?;
        Ok(Some(Self { s3, prefix }))
    }

    fn path(&self, key: &str) -> Path {
        self.prefix.parts().chain(Path::from(key).parts()).collect()
    }

    /// Reads the bytes `from..to` of a file. None: the object is gone.
    pub async fn read(&self, file: &File, from: u64, to: u64) -> Result<Option<Bytes>, ObjectStoreError> {
        let path = self.path(&key_of(file.workspace_id, file.id));
        let Some(bytes) = found(self.s3.get_range(&path, from..to).await)? else {
            return Ok(None);
        };
        if bytes.len() as u64 != to - from {
            return Err(ObjectStoreError::Damaged(file.id));
        }
        Ok(Some(bytes))
    }

    /// Starts writing an object.
    pub fn upload(&self, key: &str) -> Upload {
        Upload {
            store: self.clone(),
            path: self.path(key),
            waiting: Vec::new(),
            waiting_bytes: 0,
            parts: None,
            may_be_there: false,
        }
    }

    /// Removes an object, and ends the upload in parts that may still write it. Missing ones are no error.
    pub async fn remove(&self, key: &str, upload_id: Option<String>) -> Result<(), ObjectStoreError> {
        self.remove_at(&self.path(key), upload_id).await
    }

    async fn remove_at(&self, path: &Path, upload_id: Option<MultipartId>) -> Result<(), ObjectStoreError> {
        if let Some(id) = upload_id {
            found(self.s3.abort_multipart(path, &id).await)?;
        }
        found(self.s3.delete(path).await)?;
        Ok(())
    }

    /// Checks that the bucket exists and accepts the key, by two requests for paths that no file has.
    pub async fn probe(&self) -> Result<(), ObjectStoreError> {
        // This request fails if the key is refused, the next one if the bucket is missing.
        found(self.s3.head(&self.path(PROBE)).await)?;
        let mut found = self.s3.list(Some(&self.path(PROBE)));
        found.next().await.transpose()?;
        Ok(())
    }
}

/// An object that is being written: a small one by one request, a large one in parts.
#[derive(Debug)]
pub struct Upload {
    store: ObjectStore,
    path: Path,
    /// Bytes that were taken and not sent yet.
    waiting: Vec<Bytes>,
    waiting_bytes: usize,
    parts: Option<(MultipartId, Vec<PartId>)>,
    may_be_there: bool,
}

impl Upload {
    /// Takes the next bytes. `Some`: an upload in parts has begun; store its id with the file before the next call.
    pub async fn write(&mut self, bytes: Bytes) -> Result<Option<String>, ObjectStoreError> {
        if self.waiting_bytes >= PART_BYTES {
            self.send_part().await?;
        }
        self.waiting_bytes += bytes.len();
        self.waiting.push(bytes);
        if self.waiting_bytes < PART_BYTES || self.parts.is_some() {
            return Ok(None);
        }
        let id = self.store.s3.create_multipart(&self.path).await?;
        self.parts = Some((id.clone(), Vec::new()));
        Ok(Some(id))
    }

    fn take_waiting(&mut self) -> PutPayload {
        self.waiting_bytes = 0;
        std::mem::take(&mut self.waiting).into_iter().collect()
    }

    async fn send_part(&mut self) -> Result<(), ObjectStoreError> {
        let payload = self.take_waiting();
        if let Some((id, parts)) = &mut self.parts {
            let part = self.store.s3.put_part(&self.path, id, parts.len(), payload).await?;
            parts.push(part);
        }
        Ok(())
    }

    /// Sends the rest and completes the object.
    pub async fn finish(&mut self) -> Result<(), ObjectStoreError> {
        if self.parts.is_some() && self.waiting_bytes > 0 {
            self.send_part().await?;
        }
        // Even if the response is lost.
        self.may_be_there = true;
        match &self.parts {
            Some((id, parts)) => {
                self.store.s3.complete_multipart(&self.path, id, parts.clone()).await?;
            }
            None => {
                let payload = self.take_waiting();
                self.store.s3.put(&self.path, payload).await?;
            }
        }
        Ok(())
    }

    /// Removes everything that was written.
    pub async fn discard(&mut self) -> Result<(), ObjectStoreError> {
        let parts = self.parts.take();
        if parts.is_none() && !self.may_be_there {
            return Ok(());
        }
        self.store.remove_at(&self.path, parts.map(|(id, _)| id)).await
    }
}

#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    #[error(transparent)]
    Database(#[from] sqlx::Error),
    #[error(transparent)]
    ObjectStore(#[from] ObjectStoreError),
}

/// Removes the objects of deleted files from the store. True: there may be more.
pub async fn sweep(db: &PgPool, store: Option<&ObjectStore>) -> Result<bool, SweepError> {
    let left = sqlx::query!(
        "select object_key, upload_id from kb.file_objects_left where due_at <= now() order by due_at limit $1",
        SWEPT
    )
    .fetch_all(db)
    .await?;
    if left.is_empty() {
        return Ok(false);
    }
    let store = store.ok_or(ObjectStoreError::NotSet)?;
    for object in &left {
        match store.remove(&object.object_key, object.upload_id.clone()).await {
            Ok(()) => {}
            // For example, the object is locked. The others need not wait for it.
            Err(error @ ObjectStoreError::Refused(_)) => {
                warn!(%error, object = object.object_key, "removing an object failed; retrying later");
                postpone(db, &object.object_key).await?;
                continue;
            }
            Err(error) => return Err(error.into()),
        }
        sqlx::query!(
            "delete from kb.file_objects_left where object_key = $1",
            object.object_key
        )
        .execute(db)
        .await?;
    }
    Ok(left.len() as i64 >= SWEPT)
}

async fn postpone(db: &PgPool, key: &str) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update kb.file_objects_left set due_at = now() + make_interval(secs => $2) where object_key = $1",
        key,
        POSTPONED_S
    )
    .execute(db)
    .await?;
    Ok(())
}

#[cfg(test)]
mod tests;
