//! An object store, by its URL. Each request has a time limit.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};
use tokio::time::timeout;
use url::Url;

/// The prefixes of the variables in which providers keep credentials and endpoints.
const PROVIDERS: [&str; 3] = ["AWS_", "GOOGLE_", "AZURE_"];

/// Why the store can't be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("{0}")]
    Settings(String),
    #[error("the store of REJOIN_ARCHIVE_URL failed")]
    Failed(#[from] object_store::Error),
    #[error("the store of REJOIN_ARCHIVE_URL did not answer within {} s", .0.as_secs())]
    Late(Duration),
}

/// An object store. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    objects: Arc<dyn ObjectStore>,
    prefix: Path,
    limit: Duration,
}

impl Store {
    /// Returns the store at a URL, without connecting to it.
    ///
    /// # Errors
    /// The URL or the provider's settings are invalid.
    pub(crate) fn at(url: &Url, limit: Duration) -> Result<Self, StoreError> {
        let invalid = |why: String| StoreError::Settings(format!("REJOIN_ARCHIVE_URL {why}"));
        let prefix =
            Path::from_url_path(url.path()).map_err(|error| invalid(format!("has an invalid path: {error}")))?;
        let objects: Arc<dyn ObjectStore> = match url.scheme() {
            "file" if url.host_str().is_none() && !prefix.as_ref().is_empty() => {
                // Rows are deleted once an object is stored: it must survive a power failure.
                Arc::new(LocalFileSystem::new().with_fsync(true))
            }
            "s3" | "gs" | "az" if url.host_str().is_some_and(|bucket| !bucket.is_empty()) => {
                let (objects, _) = object_store::parse_url_opts(url, options())
                    .map_err(|error| invalid(format!("is not usable: {error}")))?;
                Arc::from(objects)
            }
            _ => {
                let forms =
                    "has the form file:///DIRECTORY, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX";
                return Err(invalid(forms.to_owned()));
            }
        };
        Ok(Self { objects, prefix, limit })
    }

    fn path(&self, name: &str) -> Path {
        self.prefix.parts().chain(Path::from(name).parts()).collect()
    }

    async fn within<T>(&self, request: impl Future<Output = object_store::Result<T>>) -> Result<T, StoreError> {
        match timeout(self.limit, request).await {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(StoreError::Late(self.limit)),
        }
    }

    /// Writes an object.
    pub(crate) async fn put(&self, name: &str, bytes: Bytes) -> Result<(), StoreError> {
        let path = self.path(name);
        self.within(self.objects.put(&path, PutPayload::from(bytes))).await?;
        Ok(())
    }

    /// Reads an object. None: it does not exist.
    pub(crate) async fn get(&self, name: &str) -> Result<Option<Bytes>, StoreError> {
        let path = self.path(name);
        let read = async { self.objects.get(&path).await?.bytes().await };
        match self.within(read).await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(StoreError::Failed(object_store::Error::NotFound { .. })) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes an object. A missing one is no error.
    pub(crate) async fn delete(&self, name: &str) -> Result<(), StoreError> {
        let path = self.path(name);
        match self.within(self.objects.delete(&path)).await {
            Ok(()) | Err(StoreError::Failed(object_store::Error::NotFound { .. })) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// The variables of providers. Others of the environment have names that their options have, too, such as REGION. Objects are removed one by
/// one; not every server that speaks S3 supports bulk deletion.
fn options() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| PROVIDERS.iter().any(|prefix| name.starts_with(prefix)))
        .chain([("aws_disable_bulk_delete".to_owned(), "true".to_owned())])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(url: &str) -> Result<Store, StoreError> {
        Store::at(&url.parse().unwrap(), Duration::from_secs(1))
    }

    #[test]
    fn an_url_names_a_directory_or_a_bucket() {
        for url in ["https://bucket/prefix", "file:///", "file://host/there", "s3:///there"] {
            assert!(at(url).unwrap_err().to_string().contains("s3://BUCKET"), "{url}");
        }
    }

    #[test]
    fn objects_are_below_the_prefix() {
        let store = at("file:///var/lib/archive%20of%20ours/").unwrap();
        assert_eq!(store.path("p/o").as_ref(), "var/lib/archive of ours/p/o");
    }
}
