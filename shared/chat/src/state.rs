//! The state that handlers of messages, files and dialects share. Cheap to clone.

use std::sync::Arc;

use rejoin_db::Db;
use rejoin_extension::Extensions;
use rejoin_files::FileStore;
use rejoin_http::concurrency_limits::{ConcurrencyLimits, Shares};
use rejoin_http::{HttpState, authorization, contains_http_state};
use rejoin_sse::start::StreamState;

use crate::quotas::Quotas;
use crate::settings::ChatArgs;

/// Maximum number of concurrent uploads in this process. Each has at most two pieces in memory, and 6 MiB more with an
/// object store.
const MAX_UPLOADS: usize = 32;

#[derive(Clone)]
pub struct ChatState {
    pub http: HttpState,
    pub settings: Arc<ChatArgs>,
    /// The open streams, and the live ends of the logs that they follow.
    pub streams: StreamState,
    /// Features that plug in: their tools may be named in requests.
    pub extensions: Extensions,
    /// The storage of file content.
    pub files: FileStore,
    pub quotas: Arc<Quotas>,
    /// Slots of arriving files.
    pub uploads: Arc<ConcurrencyLimits>,
}

contains_http_state!(ChatState);

/// Routes with this state.
pub type Routes = authorization::Routes<ChatState>;

impl ChatState {
    /// Takes identity from another database: the directory.
    pub fn identity_from(&mut self, directory: &Db) {
        self.http.identity = directory.clone();
        self.streams.http.identity = directory.clone();
    }

    /// Each user and each workspace may take these shares of the slots for uploads.
    pub fn new(
        settings: ChatArgs,
        streams: StreamState,
        extensions: Extensions,
        files: FileStore,
        shares: Shares,
    ) -> Self {
        Self {
            http: streams.http.clone(),
            settings: Arc::new(settings),
            streams,
            extensions,
            files,
            quotas: Arc::new(Quotas::new()),
            uploads: ConcurrencyLimits::new(MAX_UPLOADS, shares),
        }
    }
}
