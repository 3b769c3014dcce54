//! The deployed product on its own database: processes `rejoin api` and `rejoin worker`, one each by default, and the
//! model.

use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, Result};
use rejoin_models::choice::ModelChoice;
use rejoin_runs::agent_assignment::{self, Routing};
use rejoin_runs::agents;
use uuid::Uuid;

use crate::chat::Chat;
use crate::model;
use crate::process::{self, Process};
use crate::scenario::Context;
use crate::server::Database;

/// API settings for loads with a single user: removes limits per user or project.
pub const ONE_USER_PLAYS_ALL: [(&str, &str); 4] = [
    ("REJOIN_RATE_PER_S", "100000"),
    ("REJOIN_USER_RATE_PER_S", "100000"),
    ("REJOIN_PROJECT_RATE_PER_S", "100000"),
    ("REJOIN_MAX_STREAMS_PER_USER", "20000"),
];

pub struct Fleet {
    pub database: Database,
    /// By API.
    pub urls: Vec<String>,
    pub apis: Vec<Process>,
    pub workers: Vec<Process>,
    next_api: AtomicUsize,
    _model: Process,
}

impl Fleet {
    /// Starts it. `settings` are additional settings of the worker.
    pub async fn start(context: &Context, settings: &[(&str, &str)]) -> Result<Self> {
        Self::of(context, 1, 1, settings).await
    }

    /// With this many workers and APIs.
    pub async fn of(context: &Context, workers: usize, apis: usize, settings: &[(&str, &str)]) -> Result<Self> {
        let database = context.server.database().await?;
        let (model, base_url) = model::start().await?;
        let mut environment = vec![
            ("OPENAI_BASE_URL", base_url.as_str()),
            ("OPENAI_API_KEY", "scripted"),
            ("REJOIN_CHAT_MODEL", "openai:scripted"),
            ("RUST_LOG", "warn"),
        ];
        environment.extend(settings);
        let mut fleet = Self {
            urls: Vec::new(),
            apis: Vec::new(),
            workers: Vec::new(),
            next_api: AtomicUsize::new(0),
            database,
            _model: model,
        };
        for _ in 0..workers {
            fleet.workers.push(Process::worker(&fleet.database.url, &environment)?);
        }
        for _ in 0..apis {
            let (api, url) = Process::api(&fleet.database.url, &[("RUST_LOG", "warn")]).await?;
            fleet.apis.push(api);
            fleet.urls.push(url);
        }
        Ok(fleet)
    }

    /// Creates an agent with the graph's tools and any number of steps.
    pub async fn agent(&self) -> Result<Uuid> {
        let usual = agents::defaults().remove(0);
        self.agent_with(&usual.name, usual.tools).await
    }

    /// The same with this name and these tools.
    pub async fn agent_with(&self, name: &str, tools: Vec<String>) -> Result<Uuid> {
        let mut content = agents::defaults().remove(0);
        name.clone_into(&mut content.name);
        content.tools = tools;
        content.model = Some(ModelChoice::named("openai:scripted"));
        content.max_steps = None;
        content.is_default = false;
        let mut connection = self.database.db.pool_sqlx.acquire().await?;
        let definition = agents::insert(&mut connection, self.database.workspace_id, &content).await?;
        Ok(definition
            .ok_or_else(|| anyhow::anyhow!("the agent is there already"))?
            .id)
    }

    /// Assigns conversations without an agent to that of [`Self::agent`], by routing.
    pub async fn route(&self) -> Result<()> {
        let routing = Routing {
            percent: 100,
            preferred_agent: None,
            triage_agent: agents::GRAPH_QUERY_AGENT.to_owned(),
            selector_model: None,
            control_agent: None,
        };
        agent_assignment::set(&self.database.db.pool_sqlx, self.database.workspace_id, &routing).await?;
        Ok(())
    }

    /// Returns a client of the next API, round-robin.
    pub async fn chat(&self) -> Result<Chat> {
        let next = self.next_api.fetch_add(1, Ordering::Relaxed) % self.urls.len();
        Chat::connect(&self.urls[next], &self.database.api_key).await
    }

    /// CPU time so far of APIs, workers and PostgreSQL, in µs.
    pub fn cpu_us(&self, context: &Context) -> Result<[u64; 3]> {
        let postgres = context.server.pid().context("PostgreSQL runs")?;
        let postgres = process::tree_usage(postgres)?;
        Ok([cpu_us(&self.apis)?, cpu_us(&self.workers)?, postgres.cpu_us])
    }

    pub async fn stop(self, context: &Context) -> Result<()> {
        for process in self.apis.into_iter().chain(self.workers) {
            process.stop().await?;
        }
        context.server.drop(self.database).await
    }
}

fn cpu_us(processes: &[Process]) -> Result<u64> {
    processes.iter().map(|process| Ok(process.usage()?.cpu_us)).sum()
}
