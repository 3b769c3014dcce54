//! Reads objects for the log's readers. What was read recently is kept in memory, and an object that many ask for is read once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use metrics::{counter, histogram};
use moka::future::Cache;
use rejoin_event_log::archive::{Archive, ArchiveError, Part};
use rejoin_event_log::rows::StoredEvent;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::format;
use crate::settings::ArchiveArgs;
use crate::store::{Store, StoreError};

/// What an event takes in memory beside its data, in bytes.
const EVENT_BYTES: usize = 128;

type Events = Arc<[StoredEvent]>;

/// The archive of a process. Cheap to clone.
#[derive(Clone)]
pub struct LogArchive {
    pub(crate) store: Store,
    /// Maximum size of the events of an object, in bytes.
    pub(crate) object_bytes: u64,
    recent: Cache<String, Events>,
    reads: Arc<Semaphore>,
}

impl LogArchive {
    /// Returns the configured archive, if any, without connecting to its store.
    ///
    /// # Errors
    /// The settings are invalid.
    pub fn open(args: &ArchiveArgs) -> Result<Option<Self>, StoreError> {
        let Some(url) = &args.archive_url else {
            if args.archive_after_days > 0.0 {
                let why = "REJOIN_ARCHIVE_AFTER_DAYS is set without REJOIN_ARCHIVE_URL: set that to the store of old logs, too";
                return Err(StoreError::Settings(why.to_owned()));
            }
            return Ok(None);
        };
        let recent = Cache::builder()
            .max_capacity(args.archive_cache_bytes)
            .weigher(|_name: &String, events: &Events| u32::try_from(bytes_of(events)).unwrap_or(u32::MAX))
            .build();
        Ok(Some(Self {
            store: Store::at(url, Duration::from_secs(args.archive_timeout_s))?,
            object_bytes: args.archive_object_bytes,
            recent,
            reads: Arc::new(Semaphore::new(args.archive_reads)),
        }))
    }

    /// Reads an object from the store.
    pub(crate) async fn read(&self, part: &Part) -> Result<Vec<StoredEvent>, ArchiveError> {
        let unavailable = |error: StoreError| ArchiveError::Unavailable(Box::new(error));
        let object = self.store.get(&part.name).await.map_err(unavailable)?;
        let object = object.ok_or_else(|| ArchiveError::Missing(part.name.clone()))?;
        let part = part.clone();
        // Megabytes are decompressed and parsed.
        let parsed = spawn_blocking(move || format::events_of(&part, &object)).await;
        parsed.map_err(|error| ArchiveError::Unavailable(Box::new(error)))?
    }

    async fn read_and_count(&self, part: &Part) -> Result<Events, ArchiveError> {
        // Never closed.
        let _read = self
            .reads
            .acquire()
            .await
            .map_err(|error| ArchiveError::Unavailable(Box::new(error)))?;
        let began = Instant::now();
        match self.read(part).await {
            Ok(events) => {
                counter!("rejoin_archive_reads_total").increment(1);
                histogram!("rejoin_archive_read_seconds").record(began.elapsed().as_secs_f64());
                Ok(events.into())
            }
            Err(error) => {
                counter!("rejoin_archive_failures_total", "operation" => "read").increment(1);
                Err(error)
            }
        }
    }
}

#[async_trait]
impl Archive for LogArchive {
    async fn events(&self, part: &Part) -> Result<Events, ArchiveError> {
        let read = self.recent.try_get_with_by_ref(&part.name, self.read_and_count(part));
        read.await.map_err(|error| match &*error {
            ArchiveError::NotSet => ArchiveError::NotSet,
            ArchiveError::Missing(name) => ArchiveError::Missing(name.clone()),
            ArchiveError::Damaged(name) => ArchiveError::Damaged(name.clone()),
            // Several readers share it.
            ArchiveError::Unavailable(_) => ArchiveError::Unavailable(Box::new(error)),
        })
    }
}

fn bytes_of(events: &[StoredEvent]) -> usize {
    events.iter().map(|event| event.data.len() + EVENT_BYTES).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_without_a_store_are_refused() {
        let args = ArchiveArgs {
            archive_after_days: 1.0,
            ..ArchiveArgs::default()
        };
        let refused = LogArchive::open(&args).map(|_| ()).unwrap_err();
        assert!(refused.to_string().contains("REJOIN_ARCHIVE_URL"), "{refused}");
        assert!(LogArchive::open(&ArchiveArgs::default()).unwrap().is_none());
    }
}
