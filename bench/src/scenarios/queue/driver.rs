//! Runs a driver: a process that performs one operation (described in bench/peers/queue/README.md) and responds in JSON
//! lines.

use std::fs::File;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::watch;

use super::install;
use super::peers::{Spec, root};

/// Timeout of any operation but `work`.
const CALL_LIMIT: Duration = Duration::from_secs(120);
/// Timeout of a worker's start.
const START_LIMIT: Duration = Duration::from_secs(20);
/// From the end of its stdin until it is gone.
const STOP_LIMIT: Duration = Duration::from_secs(10);
/// How much of its last line of complaint is shown.
const COMPLAINT_CHARS: usize = 200;

/// A queue's driver on one database.
#[derive(Debug, Clone)]
pub struct Driver {
    /// For a shell.
    command: String,
    pub spec: Spec,
    pub url: String,
}

/// The answer to `bulk`, `single` and `produce`.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Done {
    pub n: u64,
    #[serde(rename = "s")]
    pub seconds: f64,
}

impl Done {
    pub fn per_s(&self) -> f64 {
        self.n as f64 / self.seconds
    }
}

/// A worker's output so far.
#[derive(Debug, Clone, Default)]
pub struct Heard {
    pub started_us: Option<u64>,
    /// Number of handled jobs, and the time of the report.
    pub handled: u64,
    pub at_us: u64,
    /// Set at its end.
    pub latencies_us: Option<Vec<u64>>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum DriverLine {
    Started { start: u64 },
    Count { c: u64, t: u64 },
    Final { r#final: u64, lat: Vec<u64> },
}

impl Heard {
    /// Other lines come from libraries.
    fn take(&mut self, line: &str) {
        match serde_json::from_str(line) {
            Ok(DriverLine::Started { start }) => self.started_us = Some(start),
            Ok(DriverLine::Count { c, t }) => (self.handled, self.at_us) = (c, t),
            Ok(DriverLine::Final { r#final, lat }) => {
                self.handled = r#final;
                self.latencies_us = Some(lat);
            }
            Err(_) => {}
        }
    }
}

impl Driver {
    /// None if it is not installed.
    pub fn new(spec: Spec, url: String) -> Option<Self> {
        install::command(&spec).map(|command| Self { command, spec, url })
    }

    fn spawn(&self, operation: &[&str], phase: &str, settings: &[(&str, &str)]) -> Result<Child> {
        let log = self.log();
        std::fs::create_dir_all(install::folder()).context("making the folder of logs")?;
        let log = File::options()
            .create(true)
            .append(true)
            .open(log)
            .context("opening the driver's log")?;
        let mut command = Command::new("sh");
        command
            // The shell is replaced by the driver, so that a later kill hits it.
            .args(["-c", &format!("exec {} \"$@\"", self.command), "driver"])
            .args(operation)
            .current_dir(root())
            .env("DATABASE_URL", &self.url)
            // The folder of this build's programs, including our driver.
            .envs(std::env::current_exe()?.parent().map(|folder| ("BENCH_BIN", folder.to_owned())))
            .envs(self.spec.settings(phase))
            .envs(settings.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true);
        command.spawn().with_context(|| format!("starting {}", self.command))
    }

    fn log(&self) -> std::path::PathBuf {
        install::folder().join(format!("{}.log", self.spec.name))
    }

    /// Its last complaint, for an error.
    fn complaint(&self) -> String {
        let text = std::fs::read_to_string(self.log()).unwrap_or_default();
        let last = text
            .lines()
            .rev()
            .find(|line| !line.trim().is_empty())
            .unwrap_or_default();
        last.chars().take(COMPLAINT_CHARS).collect()
    }

    /// Runs an operation to its end, and returns its last output line.
    async fn call(&self, operation: &[&str], phase: &str) -> Result<Option<String>> {
        let child = self.spawn(operation, phase, &[])?;
        let output = tokio::time::timeout(CALL_LIMIT, child.wait_with_output()).await;
        let output = output.with_context(|| format!("{operation:?} takes longer than {CALL_LIMIT:?}"))??;
        if !output.status.success() {
            bail!("{operation:?}: {}: {}", output.status, self.complaint());
        }
        Ok(String::from_utf8_lossy(&output.stdout)
            .lines()
            .last()
            .map(str::to_owned))
    }

    pub async fn setup(&self) -> Result<()> {
        self.call(&["setup"], "setup").await.map(drop)
    }

    pub async fn bulk(&self, n: u64) -> Result<Done> {
        self.timed(&["bulk", &n.to_string()], "bulk").await
    }

    pub async fn single(&self, seconds: f64, producers: u32) -> Result<Done> {
        self.timed(&["single", &seconds.to_string(), &producers.to_string()], "single")
            .await
    }

    pub async fn produce(&self, per_s: u32, seconds: u32) -> Result<Done> {
        self.timed(&["produce", &per_s.to_string(), &seconds.to_string()], "latency")
            .await
    }

    async fn timed(&self, operation: &[&str], phase: &str) -> Result<Done> {
        let answer = self.call(operation, phase).await?.unwrap_or_default();
        serde_json::from_str(&answer).with_context(|| format!("{operation:?} answered {answer:?}"))
    }

    /// Starts a worker. It is killed when dropped.
    pub fn worker(&self, phase: &str, settings: &[(&str, &str)]) -> Result<Worker> {
        let mut child = self.spawn(&["work"], phase, settings)?;
        let (tell, heard) = watch::channel(Heard::default());
        tokio::spawn(listen(child.stdout.take().context("its stdout is ours")?, tell));
        Ok(Worker {
            stdin: child.stdin.take(),
            child,
            heard,
        })
    }
}

async fn listen(stdout: ChildStdout, tell: watch::Sender<Heard>) {
    let mut lines = BufReader::new(stdout).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        tell.send_modify(|heard| heard.take(&line));
    }
}

/// A driver's process in `work`.
#[derive(Debug)]
pub struct Worker {
    child: Child,
    stdin: Option<ChildStdin>,
    heard: watch::Receiver<Heard>,
}

impl Worker {
    pub fn heard(&self) -> Heard {
        self.heard.borrow().clone()
    }

    /// Returns the number of handled jobs, and the time of the report in µs.
    pub fn handled(&self) -> (u64, u64) {
        let heard = self.heard.borrow();
        (heard.handled, heard.at_us)
    }

    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    pub async fn started(&mut self) -> Result<()> {
        let started = self.heard.wait_for(|heard| heard.started_us.is_some());
        let started = tokio::time::timeout(START_LIMIT, started)
            .await
            .context("the worker does not begin")?;
        started.map(drop).context("the worker ended before it began")
    }

    /// Waits until it has handled this many, or for a while.
    pub async fn reaches(&mut self, handled: u64, limit: Duration) {
        // Missing ones are detected by the count.
        let _ = tokio::time::timeout(limit, self.heard.wait_for(|heard| heard.handled >= handled)).await;
    }

    /// Lets it stop by itself, and returns its output.
    pub async fn stop(mut self) -> Heard {
        drop(self.stdin.take());
        // Its output ends with the process; a hanging one is killed.
        let silent = async { while self.heard.changed().await.is_ok() {} };
        let _ = tokio::time::timeout(STOP_LIMIT, silent).await;
        self.heard()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workers_lines_add_up_and_other_lines_are_ignored() {
        let mut heard = Heard::default();
        for line in [r#"{"start":5}"#, "a library says hello", r#"{"c":7,"t":9}"#] {
            heard.take(line);
        }
        assert_eq!((heard.started_us, heard.handled, heard.at_us), (Some(5), 7, 9));
        assert!(heard.latencies_us.is_none());
        heard.take(r#"{"final":8,"lat":[1,2]}"#);
        assert_eq!((heard.handled, heard.latencies_us), (8, Some(vec![1, 2])));
    }
}
