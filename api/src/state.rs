//! Shared state of all handlers.

use std::ops::Deref;
use std::sync::Arc;

use rejoin_chat::ChatState;
use rejoin_data_sources::Sources;
use rejoin_db::Db;
use rejoin_db::config::DatabaseArgs;
use rejoin_embeddings::{Embedder, Endpoints};
use rejoin_event_log::archive::SharedArchive;
use rejoin_event_log::reader::LogReader;
use rejoin_event_log::wakeup::SharedBus;
use rejoin_extension::Extensions;
use rejoin_files::FileStore;
use rejoin_http::concurrency_limits::ConcurrencyLimits;
use rejoin_http::oidc::Oidc;
use rejoin_http::{HttpState, authorization};
use rejoin_integrations::mcp::commands::Commands;
use rejoin_remote_tools::waiting::{Renewals, Waiting};
use rejoin_sse::fan_out::Hub;
use rejoin_sse::source::LogSource;
use rejoin_sse::start::StreamState;
use rejoin_telemetry::Telemetry;
use rejoin_telemetry::catalogue::Process;
use rejoin_telemetry::recorder::{self, Recorder};
use rejoin_webhooks::Webhooks;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::cell_status::CellStatus;
use crate::config::ApiConfig;
use crate::fleet_metrics::FleetMetrics;
use crate::transfers::Transfers;

/// One pointer: every request clones it several times.
#[derive(Clone)]
pub struct AppState(Arc<App>);

pub struct App {
    /// What the handlers of messages and dialects need, too; in it, what those of extensions need.
    pub chat: ChatState,
    pub config: Arc<ApiConfig>,
    pub transfers: Arc<Transfers>,
    /// The embedding model for queries.
    pub embedder: Embedder,
    /// Processes available as MCP servers.
    pub commands: Commands,
    /// External databases of workspaces.
    pub sources: Sources,
    pub webhooks: Webhooks,
    /// Claims of remote workers that wait for a call.
    pub waiting: Waiting,
    pub metrics: Recorder,
    /// The fleet, as it was last read for the metrics.
    pub fleet: Arc<FleetMetrics>,
    /// The cells, if this process serves them.
    pub cells: Option<Arc<CellStatus>>,
    /// Slots of requests being processed.
    pub working: Arc<ConcurrencyLimits>,
    /// Slots of requests whose body arrives.
    pub arriving: Arc<ConcurrencyLimits>,
    /// Turns of streams being opened: more wait, in order.
    pub opening: Semaphore,
}

impl Deref for AppState {
    type Target = App;

    fn deref(&self) -> &App {
        &self.0
    }
}

impl Deref for App {
    type Target = ChatState;

    fn deref(&self) -> &ChatState {
        &self.chat
    }
}

impl AsRef<HttpState> for AppState {
    fn as_ref(&self) -> &HttpState {
        &self.chat.http
    }
}

impl AsRef<Db> for AppState {
    fn as_ref(&self) -> &Db {
        &self.chat.http.db
    }
}

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
    pub archive: SharedArchive,
    pub telemetry: Telemetry,
}

impl AppState {
    /// Also starts the hub.
    pub fn new(config: ApiConfig, means: Means, db: Db, bus: SharedBus, draining: CancellationToken) -> Self {
        // Before anything is counted.
        recorder::install(Process::Api);
        let logs = LogReader::new(db.pool_pg.clone(), means.archive.clone());
        let source = LogSource::new(db.clone(), logs);
        let hub = Hub::start(source, bus.clone(), &config.streams, draining.clone());
        let embedder = Embedder::new(&config.embeddings, &Endpoints::from_env());
        Self(Arc::new(App {
            cells: config.cells.cells.then(Arc::default),
            ..App::over(config, means, db, bus, draining, hub, embedder)
        }))
    }

    /// The state of a cell: with the settings of the directory's, and its identity.
    pub fn of_cell(directory: &Self, database: DatabaseArgs, means: Means, db: Db, bus: SharedBus) -> Self {
        let config = ApiConfig {
            database,
            ..ApiConfig::clone(&directory.config)
        };
        let logs = LogReader::new(db.pool_pg.clone(), means.archive.clone());
        let source = LogSource::new(directory.db.clone(), logs);
        let draining = directory.draining.clone();
        let hub = Hub::start(source, bus.clone(), &config.streams, draining.clone());
        let mut app = App::over(config, means, db, bus, draining, hub, directory.embedder.clone());
        app.chat.identity_from(&directory.db);
        Self(Arc::new(app))
    }
}

impl App {
    fn over(
        config: ApiConfig,
        means: Means,
        db: Db,
        bus: SharedBus,
        draining: CancellationToken,
        hub: Arc<Hub>,
        embedder: Embedder,
    ) -> Self {
        let metrics = recorder::install(Process::Api);
        let renewals = Renewals::of_lease(config.remote_tools.lease());
        let waiting = Waiting::start(db.clone(), &bus, renewals);
        let http = HttpState::new(
            config.http.clone(),
            means.oidc,
            db.clone(),
            bus,
            draining,
            means.telemetry,
        );
        let shares = config.shares();
        Self {
            transfers: Arc::new(Transfers::new(&db)),
            embedder,
            commands: means.commands,
            sources: means.sources,
            webhooks: means.webhooks,
            waiting,
            working: ConcurrencyLimits::new(config.max_in_flight, shares),
            arriving: ConcurrencyLimits::new(config.max_in_flight, shares),
            opening: Semaphore::new(config.max_opening_streams.into()),
            chat: ChatState::new(
                config.chat.clone(),
                StreamState {
                    http,
                    hub,
                    archive: means.archive,
                },
                means.extensions,
                means.files,
                shares,
            ),
            config: Arc::new(config),
            metrics,
            fleet: Arc::default(),
            cells: None,
        }
    }
}
