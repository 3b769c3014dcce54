//! A2A's own clients, unmodified: from npm (`tests/clients/a2a-js/driver.mjs`) and from PyPI (`tests/clients/a2a-py/driver.py`), and what a
//! client has of a task. Installed by `scripts/setup-clients.sh`; without them a test fails in CI and is skipped elsewhere.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::app::TestApp;
use crate::{needs, support};

/// The languages of the clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    JavaScript,
    Python,
}

/// Each client with each binding that it has.
pub const CLIENTS: [(Language, &str); 4] = [
    (Language::JavaScript, "JSONRPC"),
    (Language::JavaScript, "HTTP+JSON"),
    (Language::Python, "JSONRPC"),
    (Language::Python, "HTTP+JSON"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The installation folder of the package from npm.
pub fn folder() -> PathBuf {
    root().join(".cache/clients/a2a-js")
}

fn python() -> PathBuf {
    root().join(".cache/a2a-client/venv/bin/python")
}

/// Returns whether the clients are installed; otherwise reports why a test is skipped.
pub fn are_there() -> bool {
    if folder().join("node_modules/@a2a-js/sdk").exists() && python().exists() {
        return true;
    }
    needs::skip("A2A's clients are not installed: scripts/setup-clients.sh fetches them");
    false
}

/// What a client has of a task.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Seen {
    pub id: String,
    pub context: String,
    pub state: String,
    /// The text of the status's message.
    pub message: String,
    /// Text and data of each artifact, by its id.
    pub artifacts: BTreeMap<String, (String, Vec<Value>)>,
    /// The updates and tasks that it was sent.
    pub events: Vec<Value>,
}

impl Seen {
    /// The same from a whole task.
    pub fn of(task: &Value) -> Self {
        let mut seen = Self::default();
        seen.take(&json!({ "task": task }));
        seen
    }

    /// The text of the answer.
    pub fn answer(&self) -> &str {
        self.artifacts.get("answer").map_or("", |(text, _)| text)
    }

    /// The tools whose calls began.
    pub fn tools(&self) -> Vec<&str> {
        let calls = self
            .events
            .iter()
            .map(|event| &event["statusUpdate"]["metadata"]["toolCall"]);
        calls
            .filter(|call| call["status"] == "started")
            .filter_map(|call| call["tool"].as_str())
            .collect()
    }

    fn take(&mut self, event: &Value) {
        if let Some(task) = event.get("task") {
            let text = |name: &str| task[name].as_str().unwrap_or_default().to_owned();
            (self.id, self.context) = (text("id"), text("contextId"));
            self.artifacts.clear();
            self.status(&task["status"]);
            for artifact in task["artifacts"].as_array().into_iter().flatten() {
                self.artifact(artifact, false);
            }
        } else if let Some(update) = event.get("statusUpdate") {
            self.status(&update["status"]);
        } else {
            let update = &event["artifactUpdate"];
            // Protobuf's JSON leaves out what is false.
            self.artifact(&update["artifact"], update["append"].as_bool().unwrap_or_default());
        }
        self.events.push(event.clone());
    }

    fn status(&mut self, status: &Value) {
        status["state"].as_str().unwrap_or_default().clone_into(&mut self.state);
        let parts = status["message"]["parts"].as_array().into_iter().flatten();
        self.message = parts.filter_map(|part| part["text"].as_str()).collect();
    }

    fn artifact(&mut self, artifact: &Value, appends: bool) {
        let id = artifact["artifactId"].as_str().expect("an id").to_owned();
        let own = self.artifacts.entry(id).or_default();
        if !appends {
            *own = Default::default();
        }
        for part in artifact["parts"].as_array().expect("parts") {
            own.0.push_str(part["text"].as_str().unwrap_or_default());
            own.1.extend(part.get("data").cloned());
        }
    }
}

/// A client in its process.
pub struct A2aClient {
    _child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl A2aClient {
    /// Starts the client, which makes these calls one after the other: `{call, params}`. `more` has further settings of its driver.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start((language, binding): (Language, &str), app: &TestApp, more: Value, calls: Value) -> Self {
        let mut argument = more;
        argument["url"] = app.url().into();
        argument["key"] = app.db.api_key.as_str().into();
        argument["binding"] = binding.into();
        argument["calls"] = calls;
        let driver = root().join("tests/clients");
        let mut command = match language {
            Language::JavaScript => {
                let mut command = Command::new("node");
                command
                    .arg(driver.join("a2a-js/driver.mjs"))
                    .env("CLIENT_FOLDER", folder());
                command
            }
            Language::Python => {
                let mut command = Command::new(python());
                command.arg(driver.join("a2a-py/driver.py"));
                command
            }
        };
        command
            .arg(argument.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .kill_on_drop(true);
        let mut child = command.spawn().expect("the client starts");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        Self { _child: child, lines }
    }

    async fn line(&mut self) -> Value {
        let line = tokio::time::timeout(support::LIMIT, self.lines.next_line()).await;
        let line = line.expect("the client is done in time").expect("its output");
        serde_json::from_str(&line.expect("a line")).expect("JSON")
    }

    /// Waits until the client has this text in an event of its current call.
    ///
    /// # Panics
    /// If its call ends before.
    pub async fn sees(&mut self, text: &str) -> Seen {
        let mut seen = Seen::default();
        loop {
            let line = self.line().await;
            let event = line.get("event").unwrap_or_else(|| panic!("no {text}: {line:#}"));
            seen.take(event);
            if event.to_string().contains(text) {
                return seen;
            }
        }
    }

    /// What the client has after its current call, and what the call returned: `{result}` or `{error}`.
    ///
    /// # Panics
    /// If it says nothing in time.
    pub async fn next(&mut self) -> (Seen, Value) {
        self.on(Seen::default()).await
    }

    /// The same for a call of which this was seen.
    ///
    /// # Panics
    /// If it says nothing in time.
    pub async fn on(&mut self, mut seen: Seen) -> (Seen, Value) {
        loop {
            let line = self.line().await;
            match line.get("event") {
                Some(event) => seen.take(event),
                None => return (seen, line),
            }
        }
    }
}
