//! Shared dependencies of a worker's parts. Created once per process; cheap to clone.

use std::sync::Arc;
use std::time::Duration;

use rejoin_archive::LogArchive;
use rejoin_calendar::google::Google;
use rejoin_commands::{FencedError, FinishRun, Finished};
use rejoin_data_sources::Sources;
use rejoin_db::config::BusKind;
use rejoin_db::{Db, Role};
use rejoin_embeddings::{Embedder, Endpoints};
use rejoin_event_log::EventWriter;
use rejoin_event_log::reader::LogReader;
use rejoin_event_log::wakeup::{self, SharedBus};
use rejoin_extension::{Extension, Extensions, Host};
use rejoin_files::FileStore;
use rejoin_graph::embedder::SharedTextEmbedder;
use rejoin_mcp_client::McpError;
use rejoin_model_client::name::ModelSettings;
use rejoin_model_client::registry::Models;
use rejoin_model_client::retry::RetryPolicy;
use rejoin_queue::lease::WorkerInfo;
use rejoin_queue::presence;
use rejoin_registry::Settings;
use rejoin_runs::builtin;
use rejoin_telemetry::Telemetry;
use rejoin_types::ids;
use rejoin_web_search::web::Web;
use rejoin_webhooks::Webhooks;

use crate::WorkerError;
use crate::config::WorkerConfig;
use crate::dag_scheduler::DagScheduler;
use crate::downtime::Downtime;
use crate::held_runs::HeldRuns;
use crate::pools::Pools;
use crate::publish::Observer;
use crate::run::ranking::ToolVectors;
use rejoin_tools::registry::Registry;

#[derive(Clone)]
pub struct Services {
    pub config: Arc<WorkerConfig>,
    pub db: Db,
    pub bus: SharedBus,
    pub writer: EventWriter,
    pub models: Models,
    pub retry: RetryPolicy,
    /// Computes vectors of objects and queries.
    pub embedder: Embedder,
    /// Ranks tools by similarity to a message.
    pub tool_vectors: Arc<ToolVectors>,
    /// The tools of each workspace.
    pub pools: Arc<Pools>,
    /// Features that plug in: their tools, jobs and sweeps.
    pub extensions: Extensions,
    /// The storage of file content.
    pub files: FileStore,
    /// Old events of logs, in a store. None: none is configured.
    pub archive: Option<LogArchive>,
    /// Observes runs' events.
    pub observer: Option<Observer>,
    pub worker: Arc<WorkerInfo>,
    /// Whether the bus's sessions hold the worker's lock ([`presence`]).
    pub has_session_lock: bool,
    /// Runs that wait for users' programs, and hold their slots.
    pub held_runs: HeldRuns,
    /// The clock of database outages.
    pub downtime: Downtime,
    /// Opens the spans of runs.
    pub telemetry: Telemetry,
    /// Continues DAGs whose tasks' runs end here.
    pub dags: DagScheduler,
}

impl Services {
    /// Connects, waiting for a database that is not up yet, with the environment's model settings.
    pub async fn start(config: WorkerConfig) -> Result<Self, WorkerError> {
        let db = Db::connect_lazy(&config.database, "rejoin-worker", Role::Worker)?;
        db.wait_until_up().await;
        let id = ids::new();
        let has_session_lock = config.database.bus == BusKind::Postgres;
        let bus = wakeup::start_with_session(&config.database, &db, presence::lock_statement(id)).await?;
        let mut services = Self::with(config, db, bus, ModelSettings::from_env(), builtin::tools())?;
        services.worker = Arc::new(WorkerInfo {
            id,
            ..(*services.worker).clone()
        });
        services.has_session_lock = has_session_lock;
        Ok(services)
    }

    /// The same from parts.
    pub fn with(
        config: WorkerConfig,
        db: Db,
        bus: SharedBus,
        models: ModelSettings,
        tools: Registry,
    ) -> Result<Self, WorkerError> {
        let worker = WorkerInfo {
            id: ids::new(),
            hostname: hostname(),
            pid: i32::try_from(std::process::id()).unwrap_or_default(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            queues: config.queues.clone(),
            slots: i32::try_from(config.slots).unwrap_or(i32::MAX),
        };
        let call = Duration::from_secs(config.tool_timeout_s);
        let keys = config
            .mcp
            .keys
            .load_if_configured()
            .map_err(McpError::from)?
            .map(Arc::new);
        let origin = config.mcp.public_url.as_deref().unwrap_or_default();
        let embedder = Embedder::new(&config.embeddings, &Endpoints::from_env());
        let extensions = rejoin_registry::extensions(Settings {
            google: Some(Google::new(&config.google, &config.web.web_hosts, keys.clone())),
            sources: Some(Sources::new(&config.sources, keys.clone())),
            embedder: Some(embedder.clone()),
            web: Some(Web::new(&config.web, keys.clone())),
            webhooks: Some(Webhooks::new(&config.webhooks, keys).at(origin)),
            remote_tools: Some(config.remote_tools.clone()),
        });
        let files = FileStore::of(&config.files)?;
        let archive = LogArchive::open(&config.archive)?;
        let connections = config
            .mcp
            .connections(db.pool_sqlx.clone(), bus.clone(), call, files.clone())?;
        Ok(Self {
            pools: Pools::start(
                tools,
                connections,
                extensions.clone(),
                db.pool_sqlx.clone(),
                Duration::from_secs(config.mcp.tools_kept_s),
                &bus,
            ),
            extensions,
            files,
            archive,
            writer: EventWriter::start(db.clone(), bus.clone(), config.writer()),
            models: Models::new(models)?,
            retry: RetryPolicy::default(),
            embedder,
            tool_vectors: Arc::default(),
            observer: None,
            worker: Arc::new(worker),
            has_session_lock: false,
            held_runs: HeldRuns::default(),
            downtime: Downtime::default(),
            telemetry: Telemetry::start(&config.telemetry, "rejoin-worker")?,
            dags: DagScheduler::start(db.pool_sqlx.clone(), bus.clone()),
            config: Arc::new(config),
            db,
            bus,
        })
    }

    /// Replaces the built-in tools.
    pub fn offering(mut self, tools: Registry) -> Self {
        self.restart_pools(tools);
        self
    }

    /// With one more extension.
    pub fn extended_by(mut self, extension: Arc<dyn Extension>) -> Self {
        self.extensions = self.extensions.with(extension);
        self.restart_pools(builtin::tools());
        self
    }

    fn restart_pools(&mut self, tools: Registry) {
        self.pools = Pools::start(
            tools,
            self.pools.connections().clone(),
            self.extensions.clone(),
            self.db.pool_sqlx.clone(),
            Duration::from_secs(self.config.mcp.tools_kept_s),
            &self.bus,
        );
    }

    /// What extensions are given.
    pub fn host(&self) -> Host {
        Host {
            db: self.db.pool_sqlx.clone(),
            bus: self.bus.clone(),
            archive: rejoin_archive::shared(self.archive.as_ref()),
        }
    }

    /// Reads logs, and what is archived of them.
    pub fn logs(&self) -> LogReader {
        LogReader::new(self.db.pool_pg.clone(), rejoin_archive::shared(self.archive.as_ref()))
    }

    /// Returns the embedding model for tools.
    pub fn text_model(&self) -> SharedTextEmbedder {
        Arc::new(self.embedder.clone())
    }

    /// Adds an observer of runs' events.
    pub fn observed_by(mut self, observer: Observer) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Executes a command, and sends its wake-ups. Waits for an unreachable database: the run's lease does not expire
    /// meanwhile.
    pub async fn execute<C>(&self, command: &C) -> Result<C::Output, C::Error>
    where
        C: rejoin_commands::Command,
        C::Output: Wakes,
    {
        let output = rejoin_commands::execute_patiently(&self.db.pool_sqlx, command).await?;
        let wake = output.wake();
        if !wake.is_empty() {
            self.bus.publish(wake);
        }
        Ok(output)
    }

    /// Ends a run. If it is a task's, its DAG continues soon.
    pub async fn finish(&self, finish: &FinishRun<'_>) -> Result<Finished, FencedError> {
        let finished = self.execute(finish).await?;
        if let (Finished::Ended(_), Some(task)) = (&finished, finish.run.task_id) {
            self.dags.run_ended(task);
        }
        Ok(finished)
    }
}

/// The wake-ups of a command's outcome.
pub trait Wakes {
    fn wake(&self) -> wakeup::Wake;
}

impl Wakes for wakeup::Wake {
    fn wake(&self) -> wakeup::Wake {
        self.clone()
    }
}

impl Wakes for rejoin_commands::Begun {
    fn wake(&self) -> wakeup::Wake {
        self.wake.clone()
    }
}

impl Wakes for rejoin_commands::Recorded {
    fn wake(&self) -> wakeup::Wake {
        self.wake.clone()
    }
}

impl Wakes for rejoin_commands::EndRecorded {
    fn wake(&self) -> wakeup::Wake {
        self.wake.clone()
    }
}

impl Wakes for rejoin_commands::Finished {
    fn wake(&self) -> wakeup::Wake {
        match self {
            rejoin_commands::Finished::Ended(wake) => wake.clone(),
            rejoin_commands::Finished::HasPending => wakeup::Wake::default(),
        }
    }
}

impl Wakes for rejoin_commands::Suspended {
    fn wake(&self) -> wakeup::Wake {
        match self {
            rejoin_commands::Suspended::Waiting(wake) | rejoin_commands::Suspended::Answered(wake) => wake.clone(),
            rejoin_commands::Suspended::Cancelled => wakeup::Wake::default(),
        }
    }
}

impl Wakes for Option<rejoin_commands::EndedRemoteCall> {
    fn wake(&self) -> wakeup::Wake {
        self.as_ref().map(|ended| ended.wake.clone()).unwrap_or_default()
    }
}

impl Wakes for Option<rejoin_commands::Fired> {
    fn wake(&self) -> wakeup::Wake {
        self.as_ref().map(|fired| fired.wake.clone()).unwrap_or_default()
    }
}

impl<T> Wakes for (T, wakeup::Wake) {
    fn wake(&self) -> wakeup::Wake {
        self.1.clone()
    }
}

/// Returns this machine's name for the list of workers.
pub fn hostname() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map(|name| name.trim().to_owned())
        .or_else(|_| std::env::var("HOSTNAME"))
        .unwrap_or_else(|_| "unknown".to_owned())
}
