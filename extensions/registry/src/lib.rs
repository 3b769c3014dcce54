//! The extensions of the product. A new one is its own crate and one line here.

use std::sync::Arc;

use rejoin_calendar::extension::Calendars;
use rejoin_calendar::google::Google;
use rejoin_data_sources::Sources;
use rejoin_data_sources::extension::DataSources;
use rejoin_embeddings::Embedder;
use rejoin_embeddings::extension::Embeddings;
use rejoin_extension::Extensions;
use rejoin_remote_tools::RemoteToolArgs;
use rejoin_remote_tools::extension::RemoteTools;
use rejoin_web_search::Web;
use rejoin_web_search::extension::WebSearch;
use rejoin_webhooks::Webhooks;
use rejoin_webhooks::extension::SendWebhooks;
use rejoin_work_graph::extension::WorkGraph;

/// What extensions work with. None: this process does not do that work, as an API process runs no jobs.
#[derive(Clone, Default)]
pub struct Settings {
    pub google: Option<Google>,
    pub sources: Option<Sources>,
    pub embedder: Option<Embedder>,
    pub web: Option<Web>,
    pub webhooks: Option<Webhooks>,
    /// The sweeps of remote tools.
    pub remote_tools: Option<RemoteToolArgs>,
}

/// Returns all extensions.
pub fn extensions(settings: Settings) -> Extensions {
    Extensions::new(vec![
        Arc::new(Calendars(settings.google)),
        Arc::new(DataSources(settings.sources)),
        Arc::new(Embeddings(settings.embedder)),
        Arc::new(WebSearch(settings.web)),
        Arc::new(SendWebhooks(settings.webhooks)),
        Arc::new(RemoteTools(settings.remote_tools)),
        Arc::new(WorkGraph),
    ])
}
