//! The product as it is deployed, on a database of its own: one `rejoin api` and one `rejoin worker`, and the model behind them.

use anyhow::{Context as _, Result};
use rejoin_shared::agents;
use uuid::Uuid;

use crate::chat::Chat;
use crate::model;
use crate::process::{self, Process};
use crate::scenario::Context;
use crate::server::Database;

pub struct Fleet {
    pub database: Database,
    pub url: String,
    pub api: Process,
    pub worker: Process,
    _model: Process,
}

impl Fleet {
    /// Ready to serve. `settings` are the worker's, besides those that it needs.
    pub async fn start(context: &Context, settings: &[(&str, &str)]) -> Result<Self> {
        let database = context.server.database().await?;
        let (model, base_url) = model::start().await?;
        let mut environment = vec![
            ("OPENAI_BASE_URL", base_url.as_str()),
            ("OPENAI_API_KEY", "scripted"),
            ("REJOIN_CHAT_MODEL", "openai:scripted"),
            ("RUST_LOG", "warn"),
        ];
        environment.extend(settings);
        let worker = Process::worker(&database.url, &environment)?;
        let (api, url) = Process::api(&database.url, &[("RUST_LOG", "warn")]).await?;
        Ok(Self {
            database,
            url,
            api,
            worker,
            _model: model,
        })
    }

    /// An agent with the graph's tools and any number of steps.
    pub async fn agent(&self) -> Result<Uuid> {
        let mut content = agents::defaults().remove(0);
        content.model = Some(agents::ModelChoice {
            name: "openai:scripted".to_owned(),
            temperature: None,
            max_tokens: None,
        });
        content.max_steps = None;
        content.is_default = false;
        let mut connection = self.database.db.sql.acquire().await?;
        let definition = agents::insert(&mut connection, self.database.project_id, &content).await?;
        Ok(definition
            .ok_or_else(|| anyhow::anyhow!("the agent is there already"))?
            .id)
    }

    pub async fn chat(&self) -> Result<Chat> {
        Chat::connect(&self.url, &self.database.api_key).await
    }

    /// CPU time so far of API, worker and PostgreSQL [µs].
    pub fn cpu_us(&self, context: &Context) -> Result<[u64; 3]> {
        let postgres = context.server.pid().context("PostgreSQL runs")?;
        let postgres = process::tree_usage(postgres)?;
        Ok([self.api.usage()?.cpu_us, self.worker.usage()?.cpu_us, postgres.cpu_us])
    }

    pub async fn stop(self, context: &Context) -> Result<()> {
        self.api.stop()?;
        self.worker.stop()?;
        context.server.drop(self.database).await
    }
}
