//! The processes of a server under test: started, killed, paused and stopped, each with its children. Called by `target`.
//!
//! Each part is the leader of a process group, so that a signal reaches all of it. None outlives the runner: a dropped part is killed.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

use crate::wire::Request;

/// How long a process that was asked to stop may take.
const STOP_LIMIT: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(50);
const ASK_LIMIT: Duration = Duration::from_secs(5);
/// Maximum size of what a failed command is quoted with, in characters.
const QUOTED_CHARS: usize = 2_000;

/// A command with everything filled in.
#[derive(Debug, Clone, Default)]
pub struct Launch {
    pub command: Vec<String>,
    pub environment: BTreeMap<String, String>,
    pub directory: Option<PathBuf>,
}

impl Launch {
    fn command(&self) -> Result<Command> {
        let (program, arguments) = self.command.split_first().context("the command is empty")?;
        let mut command = Command::new(program);
        command.args(arguments).envs(&self.environment).stdin(Stdio::null());
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        Ok(command)
    }

    /// Runs it to its end. Returns its standard output.
    ///
    /// # Errors
    /// It can't be started, or fails.
    pub async fn run(&self) -> Result<String> {
        let about = self.command.join(" ");
        let output = self
            .command()?
            .output()
            .await
            .with_context(|| format!("can't start `{about}`"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let begin = said.chars().count().saturating_sub(QUOTED_CHARS);
            let said: String = said.chars().skip(begin).collect();
            bail!("`{about}` failed with {}: {}", output.status, said.trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// How it is decided that a part is ready.
#[derive(Debug, Clone, Default)]
pub struct Ready {
    pub url: Option<String>,
    pub command: Vec<String>,
}

/// A part, running or not.
pub struct Process {
    pub name: String,
    launch: Launch,
    ready: Ready,
    log: PathBuf,
    child: Option<Child>,
}

impl Process {
    pub fn new(name: &str, launch: Launch, ready: Ready, logs: &Path) -> Self {
        Self {
            name: name.to_owned(),
            launch,
            ready,
            log: logs.join(format!("{name}.log")),
            child: None,
        }
    }

    /// Starts it, if it does not run, and waits until it is ready.
    ///
    /// # Errors
    /// It can't be started, ends, or is not ready within `limit`.
    pub async fn start(&mut self, limit: Duration) -> Result<()> {
        if self.runs()? {
            return Ok(());
        }
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.log)
            .with_context(|| format!("can't write {}", self.log.display()))?;
        let mut command = self.launch.command()?;
        command
            .process_group(0)
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true);
        let about = self.launch.command.join(" ");
        self.child = Some(command.spawn().with_context(|| format!("can't start `{about}`"))?);
        let deadline = Instant::now() + limit;
        while !self.is_ready().await {
            if !self.runs()? {
                bail!(
                    "{} has ended before it was ready; its output is in {}",
                    self.name,
                    self.log.display()
                );
            }
            if Instant::now() > deadline {
                bail!(
                    "{} is not ready after {limit:?}; its output is in {}",
                    self.name,
                    self.log.display()
                );
            }
            sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    async fn is_ready(&self) -> bool {
        if let Some(url) = &self.ready.url {
            let request = Request {
                method: "GET".to_owned(),
                url: url.clone(),
                ..Request::default()
            };
            if !request
                .send(ASK_LIMIT)
                .await
                .is_ok_and(|response| response.status < 400)
            {
                return false;
            }
        }
        if !self.ready.command.is_empty() {
            let ask = Launch {
                command: self.ready.command.clone(),
                ..self.launch.clone()
            };
            return ask.run().await.is_ok();
        }
        true
    }

    /// Whether it runs.
    ///
    /// # Errors
    /// The system does not say.
    pub fn runs(&mut self) -> Result<bool> {
        let Some(child) = &mut self.child else {
            return Ok(false);
        };
        if child.try_wait()?.is_some() {
            self.child = None;
            return Ok(false);
        }
        Ok(true)
    }

    /// The process group; none after the end.
    fn group(&self) -> Option<Pid> {
        let id = self.child.as_ref()?.id()?;
        Pid::from_raw(i32::try_from(id).ok()?)
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group() {
            // It may have ended.
            let _ = kill_process_group(group, signal);
        }
    }

    /// `kill -9`.
    ///
    /// # Errors
    /// The system does not say when it has ended.
    pub async fn kill(&mut self) -> Result<()> {
        self.signal(Signal::KILL);
        if let Some(mut child) = self.child.take() {
            child.wait().await?;
        }
        Ok(())
    }

    /// SIGTERM, and `kill -9` if that is not enough. Returns whether it was.
    ///
    /// # Errors
    /// The system does not say when it has ended.
    pub async fn stop(&mut self) -> Result<bool> {
        let Some(group) = self.group() else {
            return Ok(true);
        };
        self.signal(Signal::TERM);
        if let Some(child) = &mut self.child
            && timeout(STOP_LIMIT, child.wait()).await.is_ok()
        {
            self.child = None;
            // Children that it has left behind.
            let _ = kill_process_group(group, Signal::KILL);
            return Ok(true);
        }
        self.kill().await?;
        Ok(false)
    }

    /// The memory of the process and its children that is in RAM, in bytes, as Linux counts it. 0: it does not run, or this is another system.
    pub fn memory_bytes(&self) -> u64 {
        let group = self.group().map(|group| group.as_raw_nonzero().get());
        let folders = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let of_group = folders.filter(|folder| group.is_some() && group_of(&folder.path()) == group);
        of_group.filter_map(|folder| resident_bytes(&folder.path())).sum()
    }

    /// SIGSTOP.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// SIGCONT.
    pub fn go_on(&self) {
        self.signal(Signal::CONT);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// The group of a process, by its folder in /proc.
fn group_of(folder: &Path) -> Option<i32> {
    let stat = std::fs::read_to_string(folder.join("stat")).ok()?;
    // After the name, which may have spaces: the state, the parent, the group.
    stat.rsplit_once(')')?.1.split_whitespace().nth(2)?.parse().ok()
}

/// What a process has in RAM, by its folder in /proc.
fn resident_bytes(folder: &Path) -> Option<u64> {
    let status = std::fs::read_to_string(folder.join("status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(script: &str) -> Launch {
        Launch {
            command: ["sh", "-c", script].map(str::to_owned).to_vec(),
            ..Launch::default()
        }
    }

    #[tokio::test]
    async fn a_command_returns_its_output_or_its_error() {
        assert_eq!(launch("echo yes").run().await.unwrap(), "yes\n");
        let error = launch("echo why >&2; exit 3").run().await.unwrap_err().to_string();
        assert!(error.contains("why"), "{error}");
    }

    #[tokio::test]
    async fn a_process_is_killed_with_its_children() {
        let folder = std::env::temp_dir().join(format!("resume-suite-process-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let ready = Ready {
            url: None,
            command: vec![
                "test".to_owned(),
                "-e".to_owned(),
                folder.join("child").display().to_string(),
            ],
        };
        let script = format!(
            "sleep 600 & echo $! > {0}/new; mv {0}/new {0}/child; wait",
            folder.display()
        );
        let mut process = Process::new("one", launch(&script), ready, &folder);
        process.start(Duration::from_secs(10)).await.unwrap();
        assert!(process.runs().unwrap());
        assert!(process.memory_bytes() > 0, "a shell and its child");
        let child: i32 = std::fs::read_to_string(folder.join("child"))
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        process.kill().await.unwrap();
        assert!(!process.runs().unwrap());
        assert_eq!(process.memory_bytes(), 0);
        let child = Pid::from_raw(child).unwrap();
        let is_gone = async {
            while rustix::process::test_kill_process(child).is_ok() && !is_zombie(child) {
                sleep(LOOK_EVERY).await;
            }
        };
        timeout(Duration::from_secs(10), is_gone).await.unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
    }

    /// A killed orphan stays until its new parent has asked for it.
    fn is_zombie(pid: Pid) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
        status.is_ok_and(|status| status.contains(") Z "))
    }
}
