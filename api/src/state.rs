//! Shared state of all handlers. Cheap to clone.

use std::sync::Arc;

use metrics_exporter_prometheus::PrometheusHandle;
use rejoin_data_sources::Sources;
use rejoin_db::Db;
use rejoin_embeddings::{Embedder, Endpoints};
use rejoin_event_log::wakeup::SharedBus;
use rejoin_extension::Extensions;
use rejoin_files::FileStore;
use rejoin_http::oidc::Oidc;
use rejoin_http::{HttpState, authorization, contains_http_state};
use rejoin_integrations::mcp::commands::Commands;
use rejoin_sse::fan_out::Hub;
use rejoin_sse::start::StreamState;
use rejoin_webhooks::Webhooks;
use tokio_util::sync::CancellationToken;

use crate::concurrency_limits::{self, ConcurrencyLimits};
use crate::config::ApiConfig;
use crate::quotas::Quotas;
use crate::recorder;
use crate::transfers::Transfers;

#[derive(Clone)]
pub struct AppState {
    /// What the handlers of extensions need, too: the database, the bus, callers.
    pub http: HttpState,
    pub config: Arc<ApiConfig>,
    /// The open streams, and the live ends of the logs that they follow.
    pub streams: StreamState,
    pub quotas: Arc<Quotas>,
    pub transfers: Arc<Transfers>,
    /// The embedding model for queries.
    pub embedder: Embedder,
    /// Processes available as MCP servers.
    pub commands: Commands,
    /// External databases of workspaces.
    pub sources: Sources,
    pub webhooks: Webhooks,
    /// Features that plug in: their tools and routes.
    pub extensions: Extensions,
    /// The storage of file content.
    pub files: FileStore,
    pub metrics: PrometheusHandle,
    /// Slots of requests being processed.
    pub working: Arc<ConcurrencyLimits>,
    /// Slots of requests whose body arrives.
    pub arriving: Arc<ConcurrencyLimits>,
    /// Slots of arriving files.
    pub uploads: Arc<ConcurrencyLimits>,
}

contains_http_state!(AppState);

/// Routes with this state.
pub type Routes = authorization::Routes<AppState>;

/// The dependencies of a process besides its database, by its settings.
pub struct Means {
    pub oidc: Option<Oidc>,
    pub commands: Commands,
    pub sources: Sources,
    pub webhooks: Webhooks,
    pub extensions: Extensions,
    pub files: FileStore,
}

impl AppState {
    /// Also starts the hub.
    pub fn new(config: ApiConfig, means: Means, db: Db, bus: SharedBus, draining: CancellationToken) -> Self {
        // Before anything is counted.
        let metrics = recorder::install();
        let hub = Hub::start(db.clone(), bus.clone(), &config.streams, draining.clone());
        let http = HttpState::new(config.http.clone(), means.oidc, db.clone(), bus, draining);
        Self {
            streams: StreamState {
                http: http.clone(),
                hub,
            },
            transfers: Arc::new(Transfers::new(&db.pool_sqlx)),
            embedder: Embedder::new(&config.embeddings, &Endpoints::from_env()),
            commands: means.commands,
            sources: means.sources,
            webhooks: means.webhooks,
            extensions: means.extensions,
            files: means.files,
            quotas: Arc::new(Quotas::new()),
            working: ConcurrencyLimits::new(&config),
            arriving: ConcurrencyLimits::new(&config),
            uploads: ConcurrencyLimits::of(concurrency_limits::MAX_UPLOADS, &config),
            http,
            config: Arc::new(config),
            metrics,
        }
    }
}
