//! Processes of the product's binaries.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;

use super::{LEASE, TestApp};
use crate::{pooled, support};

/// The `rejoin` binary of this build.
pub fn binary() -> PathBuf {
    binary_of_build("rejoin")
}

/// The benchmark program.
pub fn bench_binary() -> PathBuf {
    binary_of_build("bench")
}

/// The kill-and-resume suite.
pub fn resume_suite_binary() -> PathBuf {
    binary_of_build("resume-suite")
}

/// The worker's MCP client program.
pub fn mcp_client_binary() -> PathBuf {
    binary_of_build("mcp-client")
}

fn binary_of_build(name: &str) -> PathBuf {
    let mut path = std::env::current_exe().expect("the test's own path");
    // target/debug/deps/it-… -> target/debug/rejoin
    path.pop();
    path.pop();
    path.push(name);
    assert!(
        path.exists(),
        "{} is not there: build it first (make test does)",
        path.display()
    );
    path
}

/// A real process of the product; killed when dropped.
pub struct Process {
    child: std::process::Child,
}

impl Process {
    /// `rejoin worker` on this app's database and model.
    pub fn worker(app: &TestApp) -> Self {
        Self::worker_with(app, &[])
    }

    /// The same with these variables.
    pub fn worker_with(app: &TestApp, variables: &[(&str, String)]) -> Self {
        Self::worker_logging(app, variables, Stdio::null())
    }

    /// The same, with its log.
    pub fn worker_logging(app: &TestApp, variables: &[(&str, String)], log: impl Into<Stdio>) -> Self {
        let of_test = variables.iter().map(|(name, value)| (*name, value.as_str()));
        let pooled = pooled::variables(&app.db.url, pooled::Kind::Worker, of_test);
        let child = std::process::Command::new(binary())
            .arg("worker")
            .env("DATABASE_URL", &app.db.url)
            .env("REJOIN_EMBEDDINGS", "off")
            .env("OPENAI_BASE_URL", app.model.base_url())
            .env("OPENAI_API_KEY", "scripted")
            .env("REJOIN_LEASE_MS", LEASE.as_millis().to_string())
            .env("REJOIN_HEARTBEAT_MS", (LEASE.as_millis() / 3).to_string())
            .envs(pooled)
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("the worker starts");
        Self { child }
    }

    /// `rejoin api` on this app's database, once it is ready; with its URL.
    pub async fn api(app: &TestApp) -> (Self, String) {
        Self::api_with(app, None, &[]).await
    }

    /// The same with these variables, and with at most `files` open files.
    pub async fn api_with(app: &TestApp, files: Option<u32>, variables: &[(&str, &str)]) -> (Self, String) {
        let free = std::net::TcpListener::bind("127.0.0.1:0")
            .expect("a port")
            .local_addr()
            .expect("its number");
        (
            Self::api_at(app, free, files, variables).await,
            format!("http://{free}"),
        )
    }

    /// The same at this address.
    pub async fn api_at(app: &TestApp, address: SocketAddr, files: Option<u32>, variables: &[(&str, &str)]) -> Self {
        let pooled = pooled::variables(&app.db.url, pooled::Kind::Api, variables.iter().copied());
        let limit = files.map_or_else(String::new, |files| format!("ulimit -n {files}; "));
        let child = std::process::Command::new("/bin/sh")
            .args(["-c", &format!("{limit}exec \"$@\""), "sh"])
            .arg(binary())
            .args(["api", "--listen", &address.to_string()])
            .env("DATABASE_URL", &app.db.url)
            .env("REJOIN_EMBEDDINGS", "off")
            .envs(pooled)
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the API starts");
        let process = Self { child };
        support::wait_for("the API to be ready", async || {
            let answer = reqwest::get(format!("http://{address}/readyz")).await.ok()?;
            answer.status().is_success().then_some(())
        })
        .await;
        process
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// `kill -9`.
    pub fn kill(mut self) {
        self.child.kill().expect("a process of ours");
        self.child.wait().expect("it ends");
    }

    /// Any signal.
    pub fn signal(&self, signal: i32) {
        let status = std::process::Command::new("kill")
            .args([format!("-{signal}"), self.child.id().to_string()])
            .status()
            .expect("kill(1)");
        assert!(status.success());
    }

    pub fn wait(&mut self) -> std::process::ExitStatus {
        self.child.wait().expect("it ends")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
