//! Real processes of the product and of its peers: started, measured (CPU time, memory), stopped.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

/// Timeout of a process's start.
const READY_LIMIT: Duration = Duration::from_secs(30);
/// Timeout of its end after SIGTERM: longer than the product's own limit of a drain.
const STOP_LIMIT: Duration = Duration::from_secs(60);

/// Returns this build's `rejoin` binary, beside our own.
pub fn rejoin() -> Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name("rejoin");
    if !path.exists() {
        bail!(
            "{} is not there: build it with the same profile (make bench does)",
            path.display()
        );
    }
    Ok(path)
}

/// A separate runtime for parts of the product that would be a separate process. Its spawned tasks end when it is
/// dropped.
#[derive(Debug)]
pub struct OwnRuntime(Option<tokio::runtime::Runtime>);

impl OwnRuntime {
    pub fn new() -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()?;
        Ok(Self(Some(runtime)))
    }
}

impl std::ops::Deref for OwnRuntime {
    type Target = tokio::runtime::Runtime;

    fn deref(&self) -> &Self::Target {
        self.0.as_ref().expect("it is there until it is dropped")
    }
}

impl Drop for OwnRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// A child process; killed when dropped.
#[derive(Debug)]
pub struct Process {
    child: std::process::Child,
}

impl Process {
    /// Starts `command` without its output.
    pub fn spawn(command: &mut std::process::Command) -> Result<Self> {
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("starting {command:?}"))?;
        Ok(Self { child })
    }

    /// `rejoin worker` with these settings besides DATABASE_URL.
    pub fn worker(database_url: &str, settings: &[(&str, &str)]) -> Result<Self> {
        let mut command = std::process::Command::new(rejoin()?);
        command
            .arg("worker")
            .env("DATABASE_URL", database_url)
            .env("REJOIN_EMBEDDINGS", "off")
            .envs(settings.iter().copied());
        Self::spawn(&mut command)
    }

    /// `rejoin api` on a free port, once it is ready; with its URL.
    pub async fn api(database_url: &str, settings: &[(&str, &str)]) -> Result<(Self, String)> {
        let free = rejoin_free_ports::address()?.to_string();
        let process = Self::api_at(database_url, &free, settings)?;
        let url = format!("http://{free}");
        wait_until_ready(&format!("{url}/readyz")).await?;
        Ok((process, url))
    }

    /// `rejoin api` at this address.
    pub fn api_at(database_url: &str, address: &str, settings: &[(&str, &str)]) -> Result<Self> {
        let mut command = std::process::Command::new(rejoin()?);
        command
            .args(["api", "--listen", address])
            .env("DATABASE_URL", database_url)
            .env("REJOIN_EMBEDDINGS", "off")
            .envs(settings.iter().copied());
        Self::spawn(&mut command)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn usage(&self) -> Result<Usage> {
        usage(self.pid())
    }

    /// SIGTERM, and waits for the end.
    ///
    /// # Errors
    /// It has not ended in time; it is killed then.
    pub async fn stop(mut self) -> Result<()> {
        self.signal("-TERM")?;
        let began = Instant::now();
        while self.child.try_wait()?.is_none() {
            if began.elapsed() > STOP_LIMIT {
                bail!(
                    "process {} has not ended within {} s of SIGTERM",
                    self.pid(),
                    STOP_LIMIT.as_secs()
                );
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    /// SIGSTOP: the process keeps its connections, and does nothing.
    pub fn suspend(&self) -> Result<()> {
        self.signal("-STOP")
    }

    fn signal(&self, name: &str) -> Result<()> {
        std::process::Command::new("kill")
            .args([name, &self.pid().to_string()])
            .status()?;
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until a URL answers with success.
pub async fn wait_until_ready(url: &str) -> Result<()> {
    let began = Instant::now();
    // Once: a client reads the system's certificates.
    let client = reqwest::Client::new();
    loop {
        if client
            .get(url)
            .send()
            .await
            .is_ok_and(|answer| answer.status().is_success())
        {
            return Ok(());
        }
        if began.elapsed() > READY_LIMIT {
            bail!("{url} was not ready within {} s", READY_LIMIT.as_secs());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The usage of a process so far.
#[derive(Debug, Clone, Copy, Default)]
pub struct Usage {
    /// CPU time in user and system mode, in µs.
    pub cpu_us: u64,
    /// Resident memory, in bytes.
    pub rss_bytes: u64,
}

/// CPU time and memory of a process that may be any.
pub fn usage(pid: u32) -> Result<Usage> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).with_context(|| format!("process {pid}"))?;
    // The name in parentheses may contain blanks: parse after its end.
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let number = |index: usize| {
        fields
            .get(index)
            .and_then(|field| field.parse::<u64>().ok())
            .unwrap_or_default()
    };
    Ok(Usage {
        cpu_us: (number(11) + number(12)) * (1_000_000 / ticks_per_s()),
        rss_bytes: number(21) * 4096,
    })
}

/// The same, summed over a process and all its children (PostgreSQL's backends).
pub fn tree_usage(pid: u32) -> Result<Usage> {
    let mut sum = usage(pid)?;
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    for child in children.split_whitespace().filter_map(|child| child.parse().ok()) {
        // One that has just ended is skipped.
        if let Ok(of_child) = usage(child) {
            sum.cpu_us += of_child.cpu_us;
            sum.rss_bytes += of_child.rss_bytes;
        }
    }
    Ok(sum)
}

/// Returns the resident memory of a process that is its own: without pages of files, such as its program's, which processes share and the
/// kernel can drop.
pub fn own_memory_bytes(pid: u32) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).with_context(|| format!("process {pid}"))?;
    let kilobytes = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:")?.strip_suffix("kB"))
        .context("Linux says how much memory is anonymous")?;
    Ok(kilobytes.trim().parse::<u64>()? * 1_024)
}

/// Returns the number of files that a process may open here: each connection is one.
pub fn open_files_max() -> Result<usize> {
    let limits = std::fs::read_to_string("/proc/self/limits").context("the limits of this process")?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let soft = line.and_then(|line| line.split_whitespace().next());
    Ok(soft.and_then(|soft| soft.parse().ok()).unwrap_or(usize::MAX))
}

/// Returns the peak resident memory of a process.
pub fn peak_rss_bytes(pid: u32) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).with_context(|| format!("process {pid}"))?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .context("no VmHWM")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? * 1_024)
}

/// The unit of /proc's CPU times: 100 on every Linux that matters (USER_HZ).
fn ticks_per_s() -> u64 {
    100
}
