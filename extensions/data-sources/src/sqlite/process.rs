//! Runs SQLite in a separate process, one per query. Called by `sqlite` and by `sources::join`.
//!
//! Invariant: the process ends with its query: when it is answered, and when the caller stops waiting. A writing one is
//! first asked to stop, so that it rolls back; a reading one is killed.

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::cells::Answer;
use super::child::{Limits, VERB};
use super::engine::{self, On, Task};
use crate::source::{Access, Bounds, Rows, SourceError};

const MIB: u64 = 1024 * 1024;
/// Memory of the process besides SQLite's, in bytes: its task and result as values and JSON, threads.
const OVERHEAD_BYTES: u64 = 192 * MIB;
/// Maximum size of a file written by a reading query, in bytes: the index of another program's write-ahead log.
const READER_FILE_BYTES: u64 = 4 * MIB;
/// Overhead of columns and structure in the result's JSON, in bytes.
const ANSWER_OVERHEAD_BYTES: u64 = 8 * MIB;
/// Grace period after a query's timeout, for the process's own error.
const GRACE: Duration = Duration::from_secs(1);
/// Grace period for rolling back an abandoned write.
const ROLLBACK_GRACE: Duration = Duration::from_secs(5);

/// The limits of SQLite's processes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Allowed {
    /// Maximum number of concurrent processes; the next query waits.
    pub(crate) processes: usize,
    /// Memory limit of each, in bytes.
    pub(crate) memory_bytes: u64,
    /// Maximum size of a written file, in bytes.
    pub(crate) file_bytes: u64,
}

/// The program that runs SQLite, with its permits. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Program {
    path: PathBuf,
    places: Arc<Semaphore>,
    allowed: Allowed,
}

/// One statement.
pub(crate) struct Statement {
    pub(crate) on: On,
    pub(crate) query: String,
    pub(crate) arguments: Vec<String>,
    pub(crate) access: Access,
    pub(crate) bounds: Bounds,
    /// Maximum size of a value, in bytes.
    pub(crate) value_max_bytes: usize,
}

impl Program {
    /// `path`: a `rejoin`. None: the running program.
    pub(crate) fn new(path: Option<PathBuf>, allowed: Allowed) -> Self {
        Self {
            path: path
                .filter(|path| !path.as_os_str().is_empty())
                .unwrap_or_else(this_program),
            places: Arc::new(Semaphore::new(allowed.processes)),
            allowed,
        }
    }

    /// Waits for a permit, then for the result, both within the statement's timeout.
    pub(crate) async fn ask(&self, statement: Statement) -> Result<Rows, SourceError> {
        let bounds = statement.bounds;
        timeout(bounds.timeout + GRACE, self.ask_in_place(statement))
            .await
            .unwrap_or_else(|_| Err(SourceError::timed_out(&bounds)))
    }

    async fn ask_in_place(&self, statement: Statement) -> Result<Rows, SourceError> {
        let begun = Instant::now();
        // The semaphore is never closed.
        let _place = self.places.acquire().await;
        let bounds = statement.bounds;
        let task = Task {
            on: statement.on,
            query: statement.query,
            arguments: statement.arguments,
            access: statement.access,
            bounds: Bounds {
                timeout: bounds.timeout.saturating_sub(begun.elapsed()),
                ..bounds
            },
            value_max_bytes: statement.value_max_bytes,
            memory_max_bytes: self.allowed.memory_bytes,
            file_max_bytes: self.allowed.file_bytes,
        };
        let failed = |error: std::io::Error| {
            SourceError::Failed(format!("communicating with the SQLite process failed: {error}"))
        };
        let line = |text: serde_json::Result<String>| text.map_err(|error| failed(error.into()));
        let asked = line(serde_json::to_string(&task))?;
        let answer_max_bytes = (bounds.max_bytes as u64)
            .saturating_mul(8)
            .saturating_add(ANSWER_OVERHEAD_BYTES);
        let limits = Limits {
            memory_bytes: self
                .allowed
                .memory_bytes
                .saturating_add(OVERHEAD_BYTES)
                .saturating_add((asked.len() as u64).saturating_mul(8))
                .saturating_add(answer_max_bytes.saturating_mul(2)),
            file_bytes: match task.access {
                Access::Reads => READER_FILE_BYTES,
                Access::Writes => self.allowed.file_bytes.max(READER_FILE_BYTES),
            },
            cpu_s: bounds.timeout.as_secs() + GRACE.as_secs() + 1,
        };
        let input = format!("{}\n{asked}\n", line(serde_json::to_string(&limits))?);
        drop(task);

        let mut running = self.start(statement.access)?;
        let (Some(mut stdin), Some(stdout)) = (
            running.stdin.take(),
            running.child.as_mut().and_then(|child| child.stdout.take()),
        ) else {
            return Err(SourceError::Failed(
                "the pipes to the SQLite process are not available".to_owned(),
            ));
        };
        let tell = async {
            // A process that has ended explains why by its status. Closing the pipe would tell it that no caller waits,
            // so it is kept open.
            let _ended = stdin.write_all(input.as_bytes()).await;
            let _ended = stdin.flush().await;
        };
        let mut answer = Vec::new();
        let hear = async { stdout.take(answer_max_bytes + 1).read_to_end(&mut answer).await };
        let ((), heard) = tokio::join!(tell, hear);
        running.stdin = Some(stdin);
        heard.map_err(failed)?;
        if answer.len() as u64 > answer_max_bytes {
            return Err(SourceError::too_large(bounds.max_bytes));
        }
        let status = running.wait().await.map_err(failed)?;
        match serde_json::from_slice::<Result<Answer, SourceError>>(&answer) {
            // Its timeout was the remaining time.
            Ok(Err(SourceError::TimedOut(_))) => Err(SourceError::timed_out(&bounds)),
            Ok(answer) if status.success() => answer.map(Rows::from),
            _ => Err(self.ended(status, &bounds)),
        }
    }

    fn start(&self, access: Access) -> Result<Running, SourceError> {
        let mut child = Command::new(&self.path)
            .arg(VERB)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| {
                SourceError::Unconfigured(format!(
                    "starting the child process {} for SQLite failed: {error}",
                    self.path.display()
                ))
            })?;
        Ok(Running {
            stdin: child.stdin.take(),
            child: Some(child),
            access,
        })
    }

    /// The error of a process without a result.
    fn ended(&self, status: ExitStatus, bounds: &Bounds) -> SourceError {
        match status.signal() {
            Some(signal) if signal == Signal::XCPU.as_raw() => SourceError::timed_out(bounds),
            // A failed allocation outside SQLite; the system is short of memory.
            Some(signal)
                if [Signal::ABORT, Signal::KILL, Signal::SEGV]
                    .map(Signal::as_raw)
                    .contains(&signal) =>
            {
                engine::out_of_memory(self.allowed.memory_bytes)
            }
            _ => SourceError::Unconfigured(format!(
                "the SQLite process ended without a response ({status}); {} must be a `rejoin` of this version \
                (REJOIN_SOURCE_SQLITE_PROGRAM)",
                self.path.display()
            )),
        }
    }
}

/// Returns the running program, even if an upgrade has replaced its file.
fn this_program() -> PathBuf {
    if cfg!(target_os = "linux") {
        PathBuf::from("/proc/self/exe")
    } else {
        std::env::current_exe().unwrap_or_else(|_| PathBuf::from("rejoin"))
    }
}

/// A running process.
struct Running {
    /// None: it has ended.
    child: Option<Child>,
    stdin: Option<ChildStdin>,
    access: Access,
}

impl Running {
    async fn wait(&mut self) -> std::io::Result<ExitStatus> {
        let status = match self.child.as_mut() {
            Some(child) => child.wait().await?,
            None => return Err(std::io::Error::other("the process has ended")),
        };
        self.child = None;
        Ok(status)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Closing it stops the process.
        self.stdin = None;
        if self.access == Access::Reads {
            // Killed when dropped.
            return;
        }
        if let (Some(mut child), Ok(runtime)) = (self.child.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(async move {
                // Killed when dropped, if it has not ended itself.
                let _ended = timeout(ROLLBACK_GRACE, child.wait()).await;
            });
        }
    }
}
