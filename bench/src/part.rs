//! Parts of a load in separate processes (`bench part NAME`, this same binary), so that the CPU times of writers,
//! readers and servers can be distinguished.
//!
//! A scenario and its part exchange JSON lines: settings and commands on the part's stdin, its answers on its stdout. A
//! part ends when its stdin ends, so that none outlives its scenario.

use std::io::Write as _;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

rejoin_types::text_enum! {
    /// What a part does.
    #[derive(clap::ValueEnum)]
    pub enum Role {
        /// Readers of streams
        Fleet = "fleet",
        /// Writes events on a schedule
        Producer = "producer",
        /// A bare server: the limit of any
        PaceLimit = "pace-limit",
    }
}

/// Sends an answer to the scenario.
pub fn say(answer: &impl Serialize) -> Result<()> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, answer)?;
    out.write_all(b"\n")?;
    Ok(out.flush()?)
}

/// The scenario's side of a part. The process is killed when this is dropped.
pub struct Part {
    child: Child,
    stdin: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Part {
    pub async fn start(role: Role, settings: &impl Serialize) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["part", role.as_str()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("starting {}", role.as_str()))?;
        let stdin = child.stdin.take().context("its stdin is ours")?;
        let stdout = child.stdout.take().context("its stdout is ours")?;
        let mut part = Self {
            child,
            stdin,
            answers: BufReader::new(stdout).lines(),
        };
        part.tell(settings).await?;
        Ok(part)
    }

    pub async fn tell(&mut self, command: &impl Serialize) -> Result<()> {
        let mut line = serde_json::to_vec(command)?;
        line.push(b'\n');
        self.stdin.write_all(&line).await.context("telling a part what to do")?;
        Ok(())
    }

    /// Waits for its next answer.
    pub async fn hear<Answer: DeserializeOwned>(&mut self, limit: Duration) -> Result<Answer> {
        let line = tokio::time::timeout(limit, self.answers.next_line())
            .await
            .with_context(|| format!("a part did not answer within {} s", limit.as_secs()))??;
        let Some(line) = line else {
            bail!("a part has ended (it said why on stderr)");
        };
        Ok(serde_json::from_str(&line)?)
    }

    pub fn pid(&self) -> Result<u32> {
        self.child.id().context("the part has ended")
    }
}
