//! Shared state of all handlers. Cheap to clone.

use std::sync::Arc;

use metrics_exporter_prometheus::PrometheusHandle;
use rejoin_data_sources::Sources;
use rejoin_db::Db;
use rejoin_embeddings::{Embedder, Endpoints};
use rejoin_event_log::wakeup::SharedBus;
use rejoin_extension::Extensions;
use rejoin_files::FileStore;
use rejoin_integrations::mcp::commands::Commands;
use tokio_util::sync::CancellationToken;

use crate::caller::Keys;
use crate::concurrency_limits::{self, ConcurrencyLimits};
use crate::config::ApiConfig;
use crate::oidc::Oidc;
use crate::quotas::Quotas;
use crate::rate_limit::Rates;
use crate::recorder;
use crate::sse::fan_out::Hub;
use crate::transfers::Transfers;

#[derive(Clone)]
pub struct AppState {
    pub db: Db,
    pub bus: SharedBus,
    pub config: Arc<ApiConfig>,
    /// The live ends of followed logs.
    pub hub: Arc<Hub>,
    pub keys: Arc<Keys>,
    pub rates: Arc<Rates>,
    pub quotas: Arc<Quotas>,
    /// The trusted issuer of tokens.
    pub oidc: Option<Arc<Oidc>>,
    pub transfers: Arc<Transfers>,
    /// The embedding model for queries.
    pub embedder: Embedder,
    /// Processes available as MCP servers.
    pub commands: Commands,
    /// External databases of projects.
    pub sources: Sources,
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
    /// Cancelled when the process must stop.
    pub draining: CancellationToken,
}

/// The dependencies of a process besides its database, by its settings.
pub struct Means {
    pub oidc: Option<Oidc>,
    pub commands: Commands,
    pub sources: Sources,
    pub extensions: Extensions,
    pub files: FileStore,
}

impl AppState {
    /// Also starts the hub.
    pub fn new(config: ApiConfig, means: Means, db: Db, bus: SharedBus, draining: CancellationToken) -> Self {
        // Before anything is counted.
        let metrics = recorder::install();
        Self {
            hub: Hub::start(db.clone(), bus.clone(), &config, draining.clone()),
            transfers: Arc::new(Transfers::new(&db.pool_sqlx)),
            embedder: Embedder::new(&config.embeddings, &Endpoints::from_env()),
            oidc: means.oidc.map(Arc::new),
            commands: means.commands,
            sources: means.sources,
            extensions: means.extensions,
            files: means.files,
            rates: Arc::new(Rates::new(&config)),
            keys: Keys::start(bus.clone(), draining.clone()),
            quotas: Arc::new(Quotas::new()),
            working: ConcurrencyLimits::new(&config),
            arriving: ConcurrencyLimits::new(&config),
            uploads: ConcurrencyLimits::of(concurrency_limits::MAX_UPLOADS, &config),
            config: Arc::new(config),
            metrics,
            db,
            bus,
            draining,
        }
    }
}

impl AsRef<Db> for AppState {
    fn as_ref(&self) -> &Db {
        &self.db
    }
}
