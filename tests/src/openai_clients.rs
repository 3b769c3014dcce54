//! OpenAI's own clients, unmodified: from npm (`tests/clients/openai/driver.mjs`) and from PyPI (`driver.py`). Installed by
//! `scripts/setup-clients.sh`; without them a test fails in CI and is skipped elsewhere.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::process::Command;

use crate::app::TestApp;
use crate::{mcp, needs};

/// The languages of the clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    JavaScript,
    Python,
}

/// A client with a key.
#[derive(Debug, Clone)]
pub struct OpenAi {
    language: Language,
    url: String,
    key: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The installation folder of the package from npm.
fn folder() -> PathBuf {
    root().join(".cache/clients/openai")
}

fn python() -> PathBuf {
    root().join(".cache/model-clients/venv/bin/python")
}

/// Returns whether the clients are installed; otherwise reports why a test is skipped.
pub fn are_there() -> bool {
    let has_packages = folder().join("node_modules/.package-lock.json").exists() && python().exists();
    if !has_packages {
        needs::skip("OpenAI's clients are not installed: scripts/setup-clients.sh fetches them");
        return false;
    }
    if mcp::recent_node().is_none() {
        needs::skip("there is no recent Node.js: scripts/setup-mcp.sh fetches it");
        return false;
    }
    true
}

impl OpenAi {
    pub fn new(language: Language, app: &TestApp) -> Self {
        Self {
            language,
            url: app.url(),
            key: app.db.api_key.clone(),
        }
    }

    /// The same with another key.
    pub fn with_key(mut self, key: &str) -> Self {
        key.clone_into(&mut self.key);
        self
    }

    /// Runs a task of the driver, and returns `{result}` or `{error}`.
    ///
    /// # Panics
    /// If the driver itself fails.
    pub async fn runs(&self, mut task: Value) -> Value {
        task["url"] = json!(self.url);
        task["key"] = json!(self.key);
        let mut command = match self.language {
            Language::JavaScript => {
                let node = mcp::recent_node().expect("checked by are_there");
                let mut command = Command::new(node);
                command.arg(driver_beside_its_packages());
                command
            }
            Language::Python => {
                let mut command = Command::new(python());
                command.arg(source("driver.py"));
                command
            }
        };
        command.arg(task.to_string()).stdin(Stdio::null()).kill_on_drop(true);
        let output = command.output().await.expect("the client starts");
        let text = String::from_utf8_lossy(&output.stdout);
        let line = text.lines().last().unwrap_or_default();
        serde_json::from_str(line).unwrap_or_else(|_| {
            let why = String::from_utf8_lossy(&output.stderr);
            panic!("the client printed no result: {text}{why}")
        })
    }

    /// Calls a method, such as `responses.create`, and returns its result. Python takes `arguments` by their names; the other one as its
    /// first argument.
    ///
    /// # Panics
    /// If the call fails.
    pub async fn calls(&self, method: &str, arguments: Value) -> Value {
        let said = self.tries(method, arguments).await;
        assert!(said.get("error").is_none(), "{method}: {said:#}");
        said["result"].clone()
    }

    /// The same, with `{result}` or `{error}`.
    pub async fn tries(&self, method: &str, arguments: Value) -> Value {
        let args = match self.language {
            Language::JavaScript => json!([arguments]),
            Language::Python => arguments,
        };
        self.runs(json!({ "call": method, "args": args })).await
    }

    /// Streams a response with the client's helper, which puts it together: `{final, text}`, with the text as it was shown.
    ///
    /// # Panics
    /// If it fails.
    pub async fn gathers(&self, task: &str, arguments: Value) -> Value {
        let args = match self.language {
            Language::JavaScript => json!([arguments]),
            Language::Python => arguments,
        };
        let reply = self.runs(json!({ "task": task, "args": args })).await;
        assert!(reply.get("error").is_none(), "{reply:#}");
        reply["result"].clone()
    }
}

fn source(name: &str) -> PathBuf {
    root().join("tests/clients/openai").join(name)
}

/// Puts the driver where its imports resolve; whole at any time, as several tests do this at once.
fn driver_beside_its_packages() -> PathBuf {
    let driver = folder().join("driver.mjs");
    let new = folder().join(format!("{}.mjs", uuid::Uuid::now_v7().simple()));
    std::fs::copy(source("driver.mjs"), &new).expect("the driver is copied");
    std::fs::rename(&new, &driver).expect("the driver is there");
    driver
}
