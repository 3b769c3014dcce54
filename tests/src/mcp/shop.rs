//! A test application with MCP servers: adds them, calls their tools with a scripted model, and checks the results.

use rejoin_worker::WorkerConfig;
use reqwest::StatusCode;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::app::{AppOptions, TestApp};
use crate::model_server::Reply;

/// An app whose API and workers know the operator's commands.
pub struct Shop {
    pub app: TestApp,
}

/// A call as recorded in the history.
#[derive(Debug)]
pub struct Called {
    pub status: String,
    pub output: Value,
    pub error: String,
}

impl Shop {
    /// One API, one worker.
    pub async fn open() -> Self {
        Self::with(1).await
    }

    pub async fn with(workers: usize) -> Self {
        Self::of(workers, super::allow).await
    }

    /// With these workers.
    pub async fn of(workers: usize, worker: fn(&mut WorkerConfig)) -> Self {
        let app = TestApp::with(AppOptions {
            workers,
            api: |config| config.mcp_commands.mcp_commands_file = Some(super::commands_file()),
            worker,
            ..AppOptions::default()
        })
        .await;
        Self { app }
    }

    pub fn servers(&self) -> String {
        format!("/api/admin/projects/{}/mcp-servers", self.app.db.workspace_id)
    }

    /// Adds a server, and returns its id.
    pub async fn add(&self, server: Value) -> String {
        let (status, added) = self.app.client().post(&self.servers(), server).await;
        assert_eq!(status, StatusCode::CREATED, "{added}");
        added["id"].as_str().unwrap().to_owned()
    }

    pub async fn add_odd(&self, ledger: &std::path::Path) -> String {
        self.add(json!({"name": "odd", "command": "odd", "env": {"LEDGER": ledger}}))
            .await
    }

    pub async fn server(&self, id: &str) -> Value {
        self.app.client().get(&format!("{}/{id}", self.servers())).await.1
    }

    /// Makes a worker list the server's tools.
    pub async fn test(&self, id: &str) -> Value {
        let (status, tested) = self
            .app
            .client()
            .post(&format!("{}/{id}/test", self.servers()), json!({}))
            .await;
        assert_eq!(status, StatusCode::OK, "{tested}");
        tested
    }

    /// Makes a model call a tool, in its own run.
    pub async fn call(&self, agent: Uuid, tool: &str, arguments: Value) -> Called {
        let question = format!("{tool} {}", Uuid::now_v7());
        self.app
            .model
            .on(&question, [Reply::tool(tool, arguments), Reply::text("done")]);
        let frames = self.app.client().ask(Some(agent), &question).await;
        let run = frames[1].json()["runId"].as_str().unwrap().to_owned();
        assert_eq!(frames.last().unwrap().json()["status"], "completed");
        self.calls(&run).await.remove(0)
    }

    pub async fn calls(&self, run: &str) -> Vec<Called> {
        let client = self.app.client();
        let calls = format!("/api/projects/{}/agent-runs/{run}/tool-calls", self.app.db.workspace_id);
        let (_, listed) = client.get(&calls).await;
        let mut told = Vec::new();
        for call in listed["items"].as_array().unwrap() {
            let (_, call) = client.get(&format!("{calls}/{}", call["id"].as_str().unwrap())).await;
            told.push(Called {
                status: call["status"].as_str().unwrap().to_owned(),
                output: call["output"].clone(),
                error: call["error"].as_str().unwrap_or_default().to_owned(),
            });
        }
        told
    }

    /// Returns the names of the tools last offered to the model.
    pub fn given(&self) -> Vec<String> {
        let requests = self.app.model.requests();
        let tools = requests.last().unwrap()["tools"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        tools
            .iter()
            .map(|tool| tool["function"]["name"].as_str().unwrap().to_owned())
            .collect()
    }
}

/// Returns the lines of an odd server's ledger.
pub fn lines(ledger: &std::path::Path) -> Vec<String> {
    let text = std::fs::read_to_string(ledger).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Counts a line in it.
pub fn count(ledger: &std::path::Path, line: &str) -> usize {
    lines(ledger).iter().filter(|one| *one == line).count()
}
