//! The servers that are compared (bench/peers/turns/README.md), each with its database and its request.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use reqwest::RequestBuilder;
use serde_json::json;
use uuid::Uuid;

use crate::peers::packages;
use crate::peers::redis::Redis;
use crate::peers::restate::Restate;
use crate::process::{self, Process};
use crate::product::Fleet;
use crate::scenario::Context;

const FOLDER: &str = ".cache/bench/peers/turns";
const SOURCES: &str = "bench/peers/turns";
const DBOS_DATABASE: &str = "bench_dbos_turns";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
    Rejoin,
    AiSdk,
    LangGraph,
    Dbos,
    Restate,
}

pub(super) const ALL: [Who; 5] = [Who::Rejoin, Who::AiSdk, Who::LangGraph, Who::Dbos, Who::Restate];

impl Who {
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Rejoin => "Rejoin",
            Self::AiSdk => "AI SDK, resumable-stream (Redis)",
            Self::LangGraph => "LangGraph's development server (memory)",
            Self::Dbos => "DBOS (PostgreSQL)",
            Self::Restate => "Restate",
        }
    }
}

fn folder(kind: &str) -> PathBuf {
    root().join(FOLDER).join(kind)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .map_or_else(PathBuf::new, Path::to_owned)
}

/// Installs the peers; returns those that can't be had.
pub(super) async fn install() -> Vec<(&'static str, anyhow::Error)> {
    let sources = root().join(SOURCES);
    let mut failed = Vec::new();
    if let Err(error) = packages::install_node(&sources.join("node"), &folder("node")).await {
        failed.push(("Node.js", error));
    }
    for kind in ["dbos", "langgraph"] {
        if let Err(error) = packages::install_python(&sources.join(kind), &folder(kind)).await {
            failed.push((kind, error));
        }
    }
    if let Err(error) = Redis::fetch() {
        failed.push(("Redis", error));
    }
    failed
}

/// A server that is ready.
pub(super) struct Running {
    who: Who,
    url: String,
    http: reqwest::Client,
    processes: Vec<Process>,
    fleet: Option<Fleet>,
    redis: Option<Redis>,
    restate: Option<Restate>,
}

impl Running {
    pub(super) async fn start(context: &Context, who: Who, model_url: &str) -> Result<Self> {
        let address = rejoin_free_ports::address()?;
        let port = address.port().to_string();
        let mut running = Self {
            who,
            url: format!("http://{address}"),
            http: reqwest::Client::new(),
            processes: Vec::new(),
            fleet: None,
            redis: None,
            restate: None,
        };
        let node = packages::node_program(&folder("node"));
        match who {
            Who::Rejoin => {
                let fleet = Fleet::start(context, &[("REJOIN_SLOTS", "200")]).await?;
                running.url.clone_from(&fleet.urls[0]);
                running.fleet = Some(fleet);
                return Ok(running);
            }
            Who::AiSdk => {
                let redis = Redis::start().await?;
                let mut server = Command::new(node);
                server
                    .arg(folder("node").join("ai-sdk.mjs"))
                    .arg(&port)
                    .env("REDIS_SOCKET", redis.socket())
                    .env("MODEL_URL", model_url)
                    .env("AI_SDK_LOG_WARNINGS", "false");
                running.processes.push(Process::spawn(&mut server)?);
                running.redis = Some(redis);
            }
            Who::LangGraph => {
                let bin = folder("langgraph").join("venv/bin");
                let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
                let mut server = Command::new(bin.join("langgraph"));
                server
                    .args(["dev", "--no-browser", "--no-reload", "--server-log-level", "ERROR"])
                    .args(["--host", "127.0.0.1", "--port", &port, "--n-jobs-per-worker", "100"])
                    .current_dir(folder("langgraph"))
                    .env("PATH", path)
                    .env("MODEL_URL", model_url)
                    .env("LANGSMITH_TRACING", "false")
                    .env("LANGGRAPH_CLI_NO_ANALYTICS", "1");
                running.processes.push(Process::spawn(&mut server)?);
                process::wait_until_ready(&format!("{}/ok", running.url)).await?;
                return Ok(running);
            }
            Who::Dbos => {
                let drop = format!("drop database if exists {DBOS_DATABASE} with (force)");
                context.server.admin(&drop).await?;
                context
                    .server
                    .admin(&format!("create database {DBOS_DATABASE}"))
                    .await?;
                let mut server = Command::new(packages::python_program(&folder("dbos")));
                server
                    .arg(folder("dbos").join("server.py"))
                    .arg(&port)
                    .env("DATABASE_URL", context.server.url(DBOS_DATABASE))
                    .env("MODEL_URL", model_url);
                running.processes.push(Process::spawn(&mut server)?);
            }
            Who::Restate => running.start_restate(&node, &port, model_url).await?,
        }
        process::wait_until_ready(&running.url).await?;
        Ok(running)
    }

    async fn start_restate(&mut self, node: &Path, port: &str, model_url: &str) -> Result<()> {
        let server = Restate::start(&folder("node")).await?;
        let service = rejoin_free_ports::address()?;
        let mut services = Command::new(node);
        services
            .arg(folder("node").join("restate.mjs"))
            .arg(port)
            .arg(service.port().to_string())
            .env("RESTATE_INGRESS", &server.ingress)
            .env("RESTATE_LOGGING", "ERROR")
            .env("MODEL_URL", model_url)
            .env("AI_SDK_LOG_WARNINGS", "false");
        self.processes.push(Process::spawn(&mut services)?);
        process::wait_until_ready(&self.url).await?;
        self.http
            .post(format!("{}/deployments", server.admin))
            .json(&json!({"uri": format!("http://{service}")}))
            .send()
            .await?
            .error_for_status()?;
        process::wait_until_ready(&format!("{}/restate/health", server.ingress)).await?;
        self.restate = Some(server);
        Ok(())
    }

    /// A turn with this message, in a new conversation.
    pub(super) fn post(&self, message: &str) -> RequestBuilder {
        let id = Uuid::now_v7();
        let to = |path: &str| self.http.post(format!("{}{path}", self.url));
        match (self.who, &self.fleet) {
            (Who::Rejoin, Some(fleet)) => to("/api/chat/stream")
                .bearer_auth(&fleet.database.api_key)
                .json(&json!({"message": message})),
            (Who::LangGraph, _) => to(&format!("/threads/{id}/runs/stream")).json(&json!({
                "assistant_id": "agent",
                "input": {"messages": [{"role": "user", "content": message}]},
                "stream_mode": ["messages-tuple", "values"],
                "stream_resumable": true,
                "on_disconnect": "continue",
                "if_not_exists": "create",
            })),
            _ => to("/turns").json(&json!({"id": id, "message": message})),
        }
    }

    /// CPU time so far of the server's processes and its database, in µs.
    pub(super) fn cpu_us(&self, context: &Context) -> Result<u64> {
        let mut cpu_us = 0;
        for process in &self.processes {
            cpu_us += process::tree_usage(process.pid())?.cpu_us;
        }
        if let Some(redis) = &self.redis {
            cpu_us += redis.process().usage()?.cpu_us;
        }
        if let Some(restate) = &self.restate {
            cpu_us += process::tree_usage(restate.process().pid())?.cpu_us;
        }
        if let Some(fleet) = &self.fleet {
            cpu_us += fleet.cpu_us(context)?.iter().sum::<u64>();
        } else if self.who == Who::Dbos
            && let Some(postgres) = context.server.pid()
        {
            cpu_us += process::tree_usage(postgres)?.cpu_us;
        }
        Ok(cpu_us)
    }

    pub(super) async fn stop(mut self, context: &Context) -> Result<()> {
        // The servers before their databases.
        for process in self.processes.drain(..).rev() {
            process.stop().await?;
        }
        if let Some(restate) = self.restate.take() {
            restate.stop().await?;
        }
        if self.who == Who::Dbos {
            let drop = format!("drop database if exists {DBOS_DATABASE} with (force)");
            context.server.admin(&drop).await?;
        }
        match self.fleet.take() {
            Some(fleet) => fleet.stop(context).await,
            None => Ok(()),
        }
    }
}
