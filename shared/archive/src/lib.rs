//! Old logs in object storage (docs/operations/archive.md). The events of logs whose last run ended long ago are written as objects and
//! removed from the table; readers see no difference.
//!
//! # Layout
//! - `settings`  where the archive is, and what is archived
//! - `store`     an object store: a local directory, S3, Google Cloud Storage or Azure
//! - `format`    the text of an object: a line of JSON per event, compressed
//! - `reading`   reads objects for the log's readers, with a cache
//! - `moving`    moves events from rows to objects
//! - `leftovers` removes objects that belong to no log
//!
//! Invariants: an event is removed from the table by the transaction that records its object, after the object was read back from the
//! store and compared. Each object has a row in `stream.archives` or in `stream.archive_leftovers`, from before its upload to its removal.

mod format;
pub mod leftovers;
pub mod moving;
mod reading;
mod settings;
mod store;

pub use reading::LogArchive;
pub use settings::ArchiveArgs;
pub use store::StoreError;

use std::sync::Arc;

use rejoin_event_log::archive::{NoArchive, SharedArchive};

/// Returns the archive as readers of logs take it. None is configured: archived events can't be read.
pub fn shared(archive: Option<&LogArchive>) -> SharedArchive {
    match archive {
        Some(archive) => Arc::new(archive.clone()),
        None => Arc::new(NoArchive),
    }
}
