//! Keeps one child and its successors: waits for it, restarts it, stops it, and forwards its lines.

use std::{process::ExitStatus, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader},
    process::Child,
    sync::watch,
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use super::{Recipe, Role, Shared, Stopping};
use crate::dev::process::{self, Signal};

/// Time to drain after SIGTERM for a program whose code has changed: its author waits for the new one.
const CHANGE_LIMIT: Duration = Duration::from_secs(5);
/// Delay before a child is restarted; doubled with each one that dies young.
const RESTART_DELAY: Duration = Duration::from_millis(100);
const RESTART_DELAY_MAX: Duration = Duration::from_secs(10);
/// Minimum lifetime of a child whose death is not attributed to its start.
const YOUNG: Duration = Duration::from_secs(10);
/// Maximum length of a child's line; a longer one is forwarded in parts.
const LINE_MAX_BYTES: u64 = 64 * 1024;
/// How long to wait for the last lines of an ended child: a grandchild may hold the pipe open.
const LAST_LINES_LIMIT: Duration = Duration::from_millis(500);

/// Keeps one child and its successors.
pub(super) struct Keeper {
    pub(super) shared: Arc<Shared>,
    pub(super) recipe: Recipe,
    /// Its code changes. None: it has none.
    pub(super) changed: Option<watch::Receiver<u64>>,
    pub(super) stopping: watch::Receiver<Stopping>,
}

/// Why a child has ended.
enum Ended {
    ByItself(std::io::Result<ExitStatus>),
    ByChange,
    Stopped,
}

impl Keeper {
    pub(super) async fn keep(mut self, mut child: Child, mut pid: u32) {
        let role = self.recipe.role;
        let mut delay = RESTART_DELAY;
        loop {
            let born = Instant::now();
            let lines = pass_lines(&self.shared, role, &mut child);
            let ended = self.ended(&mut child, pid).await;
            self.shared.watchdog.forget(pid);
            self.shared.pids().remove(&role);
            finish_lines(lines).await;
            if *self.stopping.borrow() > Stopping::No {
                return;
            }
            let why = match &ended {
                Ended::ByItself(Ok(status)) => format!("died ({})", how(*status)),
                Ended::ByItself(Err(error)) => format!("died ({error})"),
                Ended::ByChange | Ended::Stopped => "was stopped, since its code has changed".to_owned(),
            };
            delay = if born.elapsed() < YOUNG && !matches!(ended, Ended::ByChange) {
                delay
            } else {
                RESTART_DELAY
            };
            // Until a start succeeds or we are asked to stop.
            loop {
                tokio::select! {
                    () = sleep(delay) => {}
                    // Perhaps the mistake was corrected that it has died of.
                    () = changed(&mut self.changed) => delay = RESTART_DELAY,
                    _ = self.stopping.wait_for(|now| *now > Stopping::No) => return,
                }
                delay = (delay * 2).min(RESTART_DELAY_MAX);
                match self.shared.start(&self.recipe) {
                    Ok(started) => {
                        (child, pid) = started;
                        self.shared.say(&format!("{role} {why}; restarted with pid {pid}"));
                        break;
                    }
                    Err(error) => self
                        .shared
                        .say(&format!("{role} {why} and cannot be restarted yet: {error:#}")),
                }
            }
        }
    }

    /// Waits for the end of a child.
    async fn ended(&mut self, child: &mut Child, pid: u32) -> Ended {
        tokio::select! {
            status = child.wait() => return Ended::ByItself(status),
            () = changed(&mut self.changed) => {}
            _ = self.stopping.wait_for(|now| *now > Stopping::No) => {}
        }
        let is_stopping = *self.stopping.borrow() > Stopping::No;
        let limit = if is_stopping {
            self.shared.drain_limit
        } else {
            CHANGE_LIMIT
        };
        self.end(child, pid, limit).await;
        if is_stopping { Ended::Stopped } else { Ended::ByChange }
    }

    /// Lets the child drain; kills it after the limit, or when asked to hurry.
    async fn end(&mut self, child: &mut Child, pid: u32, limit: Duration) {
        let role = self.recipe.role;
        // It may have just ended; then the wait below returns immediately.
        let _gone = process::send(pid, Signal::Terminate);
        tokio::select! {
            ended = timeout(limit, child.wait()) => match ended {
                Ok(_) => return,
                Err(_) => self.shared.say(&format!("{role} did not drain within {limit:?}; killed")),
            },
            _ = self.stopping.wait_for(|now| *now == Stopping::Now) => {
                self.shared.say(&format!("{role} was killed before it drained"));
            }
        }
        if let Err(error) = child.start_kill() {
            self.shared.say(&format!("{role} cannot be killed: {error}"));
        }
        let _status = child.wait().await;
    }
}

/// Waits for a change of the code; for ever, if there is none to watch.
async fn changed(changes: &mut Option<watch::Receiver<u64>>) {
    if let Some(changes) = changes
        && changes.changed().await.is_ok()
    {
        return;
    }
    std::future::pending().await
}

/// Forwards a child's output, line by line.
fn pass_lines(shared: &Arc<Shared>, role: Role, child: &mut Child) -> JoinSet<()> {
    let mut lines = JoinSet::new();
    if let Some(stdout) = child.stdout.take() {
        lines.spawn(pass(Arc::clone(shared), role, stdout));
    }
    if let Some(stderr) = child.stderr.take() {
        lines.spawn(pass(Arc::clone(shared), role, stderr));
    }
    lines
}

async fn pass(shared: Arc<Shared>, role: Role, from: impl AsyncRead + Unpin) {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    // A broken pipe means that the child has ended; its keeper sees that, too.
    while let Ok(1..) = (&mut from).take(LINE_MAX_BYTES).read_until(b'\n', &mut line).await {
        shared.say(&format!("[{role}] {}", String::from_utf8_lossy(&line).trim_end()));
        line.clear();
    }
}

async fn finish_lines(mut lines: JoinSet<()>) {
    let all = async { while lines.join_next().await.is_some() {} };
    if timeout(LAST_LINES_LIMIT, all).await.is_err() {
        lines.abort_all();
    }
}

/// `signal 9` or `exit code 1`: part of a sentence that scripts may parse.
fn how(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => status.to_string(),
    }
}
