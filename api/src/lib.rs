//! The HTTP API: stateless, any number of processes. Receives messages and streams logs; agents run in workers.
//!
//! # Layout
//! - `config`    options of `rejoin api`
//! - `state`     shared state of handlers
//! - `admission` admission control
//! - `cells`     sends requests to the databases on which their workspaces live; `cell_status`: whether these respond
//! - `spa`       serves the web app
//! - `transfers` connections of imports and exports
//! - `metrics_text` the text of `/metrics`; `fleet_metrics`: the fleet in it; `operator_port`: its own port
//! - `routes/`   one file per noun: DTOs and handlers
//! - `mcp/`      Rejoin as an MCP server
//!
//! What endpoints of all crates share is in `rejoin_http`: callers and scopes, bodies and pages, errors, the OpenAPI document's base.
//! Messages, files and quotas are in `rejoin_chat`, other programs' clients in `rejoin_dialects`, streams of events and the connections that
//! carry them in `rejoin_sse`.
//!
//! Imports go one way: operator_port, cells -> routes -> mcp, spa, metrics_text -> admission -> state -> config, fleet_metrics, cell_status.

pub mod admission;
pub mod cell_status;
pub mod cells;
pub mod config;
pub mod fleet_metrics;
pub mod mcp;
pub mod metrics_text;
mod operator_port;
pub mod routes;
pub mod spa;
pub mod state;
pub mod transfers;

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use rejoin_archive::{LogArchive, StoreError};
use rejoin_data_sources::Sources;
use rejoin_db::{ConnectError, Db, Role, rls};
use rejoin_event_log::wakeup;
use rejoin_event_log::wakeup::nats::BusError;
use rejoin_extension::Extensions;
use rejoin_files::FileStore;
use rejoin_files::objects::ObjectStoreError;
use rejoin_http::oidc::Oidc;
use rejoin_http::oidc::settings::SettingsError;
use rejoin_integrations::mcp::commands::CommandsError;
use rejoin_secrets::KeyError;
use rejoin_sse::socket::GuardedListener;
use rejoin_sse::{connection_limits, connections};
use rejoin_telemetry::{Telemetry, TelemetryError};
use rejoin_webhooks::Webhooks;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

pub use config::ApiConfig;
pub use state::AppState;

use cells::apps::Apps;
use state::Means;

/// Interval of cleanups.
const TIDY_EVERY: Duration = Duration::from_secs(30);

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error(transparent)]
    Keys(#[from] KeyError),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Bus(#[from] BusError),
    #[error("the settings of the identity provider are invalid: {0}")]
    Oidc(#[from] SettingsError),
    #[error(transparent)]
    McpCommands(#[from] CommandsError),
    #[error(transparent)]
    Files(#[from] ObjectStoreError),
    #[error(transparent)]
    Archive(#[from] StoreError),
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
    #[error("listening on {addr} failed")]
    Listen {
        addr: SocketAddr,
        #[source]
        source: std::io::Error,
    },
    #[error("the server's spawned future failed")]
    Join(#[from] tokio::task::JoinError),
}

/// Serves until `shutdown` is cancelled and the drain ends. The database need not be up.
pub async fn serve(config: ApiConfig, shutdown: CancellationToken) -> Result<(), ServeError> {
    connection_limits::raise_file_limit();
    let server = Server::start(config, shutdown).await?;
    info!(addr = %server.addr, "listening");
    server.ended().await
}

/// Returns the whole application over `state`.
pub fn router(state: AppState) -> Router {
    routes::router(state)
}

/// A running server with its address, which can be stopped.
pub struct Server {
    /// Its address, also if the configured port was 0.
    pub addr: SocketAddr,
    /// The address of its metrics, if they have their own.
    pub metrics_addr: Option<SocketAddr>,
    /// The shared state of its handlers.
    pub state: AppState,
    shutdown: CancellationToken,
    serving: JoinHandle<()>,
}

impl Server {
    /// Binds and starts serving.
    pub async fn start(config: ApiConfig, shutdown: CancellationToken) -> Result<Self, ServeError> {
        let extensions = rejoin_registry::extensions(rejoin_registry::Settings::default());
        Self::start_with(config, extensions, shutdown).await
    }

    /// The same with these extensions.
    pub async fn start_with(
        config: ApiConfig,
        extensions: Extensions,
        shutdown: CancellationToken,
    ) -> Result<Self, ServeError> {
        let keys = config.secret_keys.load_if_configured()?.map(Arc::new);
        let means = Means {
            oidc: Oidc::new(&config.http.oidc)?,
            commands: config.mcp_commands.load()?,
            sources: Sources::new(&config.sources, keys.clone()),
            webhooks: Webhooks::new(&config.webhooks, keys),
            extensions,
            files: FileStore::of(&config.chat.files)?,
            archive: rejoin_archive::shared(LogArchive::open(&config.archive)?.as_ref()),
            telemetry: Telemetry::start(&config.telemetry, "rejoin-api")?,
        };
        let db = Db::connect_lazy(&config.database, "rejoin-api", Role::App)?;
        let bus = wakeup::start(&config.database, &db).await?;
        let asked = config.listen;
        let failed = |source| ServeError::Listen { addr: asked, source };
        let listener = GuardedListener::bind(asked, &config.streams).map_err(failed)?;
        let addr = listener.local_addr().map_err(failed)?;
        let for_operators = match config.metrics {
            Some(addr) => {
                let failed = |source| ServeError::Listen { addr, source };
                Some(TcpListener::bind(addr).await.map_err(failed)?)
            }
            None => None,
        };
        let metrics_addr = for_operators.as_ref().and_then(|listener| listener.local_addr().ok());
        // Specific to this server: stopping it does not affect others.
        let shutdown = shutdown.child_token();
        let state = AppState::new(config, means, db, bus, CancellationToken::new());
        let for_operators = for_operators.map(|listener| operator_port::start(listener, state.clone()));
        let apps = state.cells.clone().map(|status| {
            rls::ask_for_holds();
            Apps::start(state.clone(), router(state.clone()), status)
        });
        let running = run(listener, state.clone(), apps, shutdown.clone());
        let serving = tokio::spawn(async move {
            running.await;
            drop(for_operators);
        });
        Ok(Self {
            addr,
            metrics_addr,
            state,
            shutdown,
            serving,
        })
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Drains, and waits for its end.
    pub async fn stop(self) -> Result<(), ServeError> {
        self.shutdown.cancel();
        self.ended().await
    }

    /// Waits until it has stopped.
    pub async fn ended(self) -> Result<(), ServeError> {
        Ok(self.serving.await?)
    }
}

async fn run(listener: GuardedListener, state: AppState, apps: Option<Arc<Apps>>, shutdown: CancellationToken) {
    let stop_accepting = CancellationToken::new();
    let application = match &apps {
        Some(apps) => cells::router(apps.clone()),
        None => router(state.clone()),
    };
    let mut serving = pin!(connections::serve(
        listener,
        state.config.streams.keep_alive(),
        application,
        stop_accepting.clone()
    ));
    loop {
        tokio::select! {
            () = &mut serving => return state.telemetry.flush().await,
            () = shutdown.cancelled() => break,
            () = sleep(TIDY_EVERY) => {
                state.rates.tidy();
                apps.iter().for_each(|apps| apps.tidy());
                state.metrics.run_upkeep();
            }
        }
    }
    // Streams end, and the server is not ready; then no new connections are accepted; then requests in progress may
    // finish.
    state.draining.cancel();
    tokio::select! {
        () = &mut serving => return state.telemetry.flush().await,
        () = sleep(Duration::from_millis(state.config.drain_grace_ms)) => {}
    }
    stop_accepting.cancel();
    let drained = timeout(Duration::from_millis(state.config.drain_limit_ms), serving).await;
    state.streams.hub.stop();
    apps.iter().for_each(|apps| apps.stop());
    if drained.is_err() {
        warn!("some requests did not finish in time and were cut");
    }
    state.telemetry.flush().await;
}
