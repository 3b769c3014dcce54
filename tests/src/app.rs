//! The test application: a fresh database, an API server over real HTTP, workers, and a scripted model.
//!
//! Workers run in their own runtimes, so that a test can crash one: its tasks vanish in the middle of their work, as
//! with SIGKILL. Tests that need real processes use [`Process`].
//!
//! - `process` real processes

mod process;

pub use process::{Process, bench_binary, binary, mcp_client_binary, resume_suite_binary};

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rejoin_api::{ApiConfig, Server};
use rejoin_archive::ArchiveArgs;
use rejoin_calendar::google::GoogleArgs;
use rejoin_db::config::BusKind;
use rejoin_db::{Db, Role};
use rejoin_embeddings::EmbeddingsArgs;
use rejoin_event_log::wakeup;
use rejoin_extension::Extension;
use rejoin_files::objects::ObjectStoreArgs;
use rejoin_model_client::name::ModelSettings;
use rejoin_model_client::retry::RetryPolicy;
use rejoin_runs::{agents, builtin};
use rejoin_telemetry::TelemetryArgs;
use rejoin_tools::registry::Registry;
use rejoin_worker::publish::Observer;
use rejoin_worker::{Services, WorkerConfig};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::client::Client;
use crate::model_server::ModelServer;
use crate::pooled;
use crate::support::{self, TestDatabase};

/// A lease short enough for tests of crashes.
pub const LEASE: Duration = Duration::from_millis(1_500);

/// The options of a [`TestApp`].
pub struct AppOptions {
    pub workers: usize,
    pub bus: BusKind,
    pub slots: usize,
    /// Changes the API's settings.
    pub api: fn(&mut ApiConfig),
    /// Changes the workers' settings.
    pub worker: fn(&mut WorkerConfig),
    /// Of the API and the workers.
    pub embeddings: EmbeddingsArgs,
    /// The tools of the workers.
    pub tools: Registry,
    /// Of the API and the workers.
    pub google: GoogleArgs,
    /// Of the API and the workers.
    pub object_store: ObjectStoreArgs,
    /// Of the API and the workers.
    pub archive: ArchiveArgs,
    /// Of the API and the workers.
    pub telemetry: TelemetryArgs,
    /// Observes the workers' runs.
    pub observer: Option<Observer>,
    /// Replaces the scripted model.
    pub models: Option<ModelSettings>,
    /// Of the API and the workers, beside the product's own.
    pub extension: Option<Arc<dyn Extension>>,
}

impl Default for AppOptions {
    fn default() -> Self {
        Self {
            workers: 1,
            bus: BusKind::Postgres,
            slots: 20,
            api: |_| {},
            worker: |_| {},
            embeddings: EmbeddingsArgs::off(),
            tools: builtin::tools(),
            google: GoogleArgs::default(),
            object_store: ObjectStoreArgs::default(),
            archive: ArchiveArgs::default(),
            telemetry: TelemetryArgs::default(),
            observer: None,
            models: None,
            extension: None,
        }
    }
}

pub struct TestApp {
    pub db: TestDatabase,
    pub model: ModelServer,
    pub server: Option<Server>,
    pub address: SocketAddr,
    pub workers: Vec<Worker>,
    options: AppOptions,
}

impl TestApp {
    /// One API, one worker.
    pub async fn start() -> Self {
        Self::with(AppOptions::default()).await
    }

    /// Starts one whose workers publish how agents and tools were chosen (`telemetry`, `debug_context`).
    pub async fn developing() -> Self {
        Self::with(AppOptions {
            worker: |config| config.debug_agent_context = true,
            ..AppOptions::default()
        })
        .await
    }

    pub async fn with(options: AppOptions) -> Self {
        let db = support::database().await;
        Self::over(db, options).await
    }

    /// Starts over the caller's database.
    pub async fn over(db: TestDatabase, options: AppOptions) -> Self {
        let model = ModelServer::start().await.expect("the scripted model starts");
        let server = start_api(&db, &options, 0).await;
        let mut app = Self {
            address: server.addr,
            server: Some(server),
            db,
            model,
            workers: Vec::new(),
            options,
        };
        for _ in 0..app.options.workers {
            app.add_worker();
        }
        app
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A client with the key of the test's user.
    pub fn client(&self) -> Client {
        Client::new(self.url(), &self.db.api_key)
    }

    /// Starts another API server on the same database.
    pub async fn another_api(&self) -> Server {
        start_api(&self.db, &self.options, 0).await
    }

    /// Stops the API immediately, and starts one at the same address.
    pub async fn restart_api(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop().await.expect("the API stops");
        }
        self.server = Some(start_api(&self.db, &self.options, self.address.port()).await);
    }

    /// Replaces the API server in the test's process by a process at the same address.
    pub async fn api_in_a_process(&mut self) -> Process {
        if let Some(server) = self.server.take() {
            server.stop().await.expect("the API stops");
        }
        Process::api_at(self, self.address, None, &[]).await
    }

    pub fn add_worker(&mut self) -> &Worker {
        let scripted = || ModelSettings::openai_compatible(self.model.base_url());
        let models = self.options.models.clone().unwrap_or_else(scripted);
        self.add_worker_with(models)
    }

    /// Adds a worker with these models.
    pub fn add_worker_with(&mut self, models: ModelSettings) -> &Worker {
        let mut config = WorkerConfig {
            slots: self.options.slots,
            ..WorkerConfig::new(&self.db.url)
        };
        config.database = self.db.args();
        config.database.bus = self.options.bus;
        pooled::lead(&mut config.database, pooled::Kind::Worker);
        config.lease_ms = LEASE.as_millis() as u64;
        config.heartbeat_ms = config.lease_ms / 3;
        config.embeddings = self.options.embeddings.clone();
        config.google = self.options.google.clone();
        config.files.object_store = self.options.object_store.clone();
        config.archive = self.options.archive.clone();
        config.telemetry = self.options.telemetry.clone();
        (self.options.worker)(&mut config);
        self.workers.push(Worker::start(
            config,
            models,
            self.options.tools.clone(),
            self.options.observer.clone(),
            self.options.extension.clone(),
        ));
        self.workers.last().expect("just pushed")
    }

    /// Crashes all workers.
    pub fn crash_workers(&mut self) {
        for worker in self.workers.drain(..) {
            worker.crash();
        }
    }

    /// Creates a definition that uses the scripted model, with these tools.
    pub async fn agent(&self, name: &str, tools: &[&str]) -> Uuid {
        self.agent_with(name, tools, |_| {}).await
    }

    pub async fn agent_with(
        &self,
        name: &str,
        tools: &[&str],
        change: impl FnOnce(&mut agents::DefinitionContent),
    ) -> Uuid {
        let mut content = agents::defaults().remove(0);
        content.name = name.to_owned();
        content.model = Some(rejoin_models::choice::ModelChoice {
            temperature: Some(0.1),
            ..rejoin_models::choice::ModelChoice::named("openai:scripted")
        });
        content.tools = tools.iter().map(|tool| (*tool).to_owned()).collect();
        content.is_default = false;
        change(&mut content);
        let mut connection = self.db.pool.acquire().await.expect("a connection");
        agents::insert(&mut connection, self.db.workspace_id, &content)
            .await
            .unwrap()
            .expect("a fresh name")
            .id
    }

    /// Waits until no active run and no job of one is left. A database that has just restarted is asked again.
    pub async fn wait_until_idle(&self) {
        support::wait_for("all runs to end", async || {
            let open: i64 = sqlx::query_scalar("select (select count(*) from kb.agent_runs where done_seq is null) + (select count(*) from queue.jobs)")
                .fetch_one(&self.db.pool)
                .await
                .ok()?;
            (open == 0).then_some(())
        })
        .await;
    }
}

async fn start_api(db: &TestDatabase, options: &AppOptions, port: u16) -> Server {
    let mut config = ApiConfig::new(db.args());
    config.database.bus = options.bus;
    pooled::lead(&mut config.database, pooled::Kind::Api);
    config.listen = SocketAddr::from(([127, 0, 0, 1], port));
    config.http.rate_per_s = 10_000;
    config.drain_grace_ms = 0;
    config.embeddings = options.embeddings.clone();
    config.google = options.google.clone();
    config.chat.files.object_store = options.object_store.clone();
    config.archive = options.archive.clone();
    config.telemetry = options.telemetry.clone();
    (options.api)(&mut config);
    let mut extensions = rejoin_registry::extensions(rejoin_registry::Settings::default());
    if let Some(extension) = &options.extension {
        extensions = extensions.with(extension.clone());
    }
    Server::start_with(config, extensions, CancellationToken::new())
        .await
        .expect("the API starts")
}

/// A worker in its own runtime.
pub struct Worker {
    runtime: Option<tokio::runtime::Runtime>,
    drain: CancellationToken,
    done: Option<tokio::task::JoinHandle<()>>,
}

impl Worker {
    pub fn start(
        config: WorkerConfig,
        models: ModelSettings,
        tools: Registry,
        observer: Option<Observer>,
        extension: Option<Arc<dyn Extension>>,
    ) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        let drain = CancellationToken::new();
        let token = drain.clone();
        let done = runtime.spawn(async move {
            let db = Db::connect_lazy(&config.database, "rejoin-worker", Role::Worker).expect("a readable URL");
            let bus = wakeup::start(&config.database, &db).await.expect("valid settings");
            let mut services = Services::with(config, db, bus, models, tools).expect("services");
            services.observer = observer;
            if let Some(extension) = extension {
                services = services.extended_by(extension);
            }
            services.retry = RetryPolicy {
                min_delay: Duration::from_millis(20),
                jitter: false,
                ..RetryPolicy::default()
            };
            rejoin_worker::work_with(services, token).await;
        });
        Self {
            runtime: Some(runtime),
            drain,
            done: Some(done),
        }
    }

    /// Like SIGTERM: drains, and waits for its end.
    pub async fn drain(mut self) {
        self.drain.cancel();
        if let Some(done) = self.done.take() {
            done.await.expect("the worker ends well");
        }
    }

    /// Like SIGKILL: everything stops midway.
    pub fn crash(mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
