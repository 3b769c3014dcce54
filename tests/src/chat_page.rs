//! A chat page of the AI SDK, without a browser: `tests/clients/ai-sdk/driver.mjs` in a Node.js of its own. Installed by
//! `scripts/setup-clients.sh`; without it a test fails in CI and is skipped elsewhere.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::app::TestApp;
use crate::{mcp, needs};

const DRIVER: &str = "driver.mjs";

/// The installation folder of `scripts/setup-clients.sh`.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../.cache/clients/ai-sdk")
}

/// Returns whether the packages and a Node.js new enough for them are there; otherwise reports why a test is skipped.
pub fn is_there() -> bool {
    if !folder().join("node_modules/.package-lock.json").exists() {
        needs::skip("the AI SDK is not installed: scripts/setup-clients.sh fetches it");
        return false;
    }
    if mcp::recent_node().is_none() {
        needs::skip("there is no recent Node.js: scripts/setup-mcp.sh fetches it");
        return false;
    }
    true
}

/// A chat page.
pub struct ChatPage {
    _node: Child,
    commands: ChildStdin,
    states: Lines<BufReader<ChildStdout>>,
}

impl ChatPage {
    /// Opens the chat with this id. `options`: further ones of the driver.
    pub async fn open(app: &TestApp, id: &str, options: Value) -> Self {
        let driver = folder().join(DRIVER);
        let source = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("clients/ai-sdk")
            .join(DRIVER);
        // Beside its packages, where its imports resolve; whole at any time, as several tests do this at once.
        let new = folder().join(format!("{}.mjs", uuid::Uuid::now_v7().simple()));
        std::fs::copy(&source, &new).expect("the driver is copied");
        std::fs::rename(&new, &driver).expect("the driver is there");
        let mut all = json!({ "url": app.url(), "key": app.db.api_key, "id": id });
        for (name, value) in options.as_object().into_iter().flatten() {
            all[name] = value.clone();
        }
        let node = mcp::recent_node().expect("checked by is_there");
        let mut node = Command::new(node)
            .arg(&driver)
            .arg(all.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("Node.js starts");
        let commands = node.stdin.take().expect("its input is piped");
        let states = BufReader::new(node.stdout.take().expect("its output is piped")).lines();
        Self {
            _node: node,
            commands,
            states,
        }
    }

    /// Has the page do something, and returns the chat's state after it.
    ///
    /// # Panics
    /// If the page could not do it.
    pub async fn does(&mut self, what: &str, arguments: Value) -> Value {
        let mut command = json!({ "do": what });
        for (name, value) in arguments.as_object().into_iter().flatten() {
            command[name] = value.clone();
        }
        let line = format!("{command}\n");
        self.commands
            .write_all(line.as_bytes())
            .await
            .expect("the page listens");
        let state = self.states.next_line().await.expect("the page answers");
        let state: Value = serde_json::from_str(&state.expect("the page lives")).expect("a line of JSON");
        assert!(state.get("failed").is_none(), "{state:#}");
        state
    }

    pub async fn sends(&mut self, text: &str) -> Value {
        self.does("send", json!({ "text": text })).await
    }
}
