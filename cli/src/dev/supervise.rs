//! Supervises child processes: starts, restarts and stops them.
//!
//! `rejoin dev` runs its API and its workers with it. Children get their own process group, so that Ctrl-C reaches the
//! parent alone, which sends SIGTERM and lets them drain. Children's stdout and stderr are forwarded to our stderr with
//! a prefix: our stdout is for data.
//!
//! - `keeper`  keeps one child
//!
//! Invariants: each child has one keeper, a spawned future that waits for it, restarts it, and stops it; no child
//! outlives us, even when we are killed with SIGKILL (see `rejoin_egress::watchdog`).
use std::{
    collections::BTreeMap,
    ffi::OsString,
    fmt,
    future::Future,
    io::Write,
    path::PathBuf,
    process::Stdio,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use anyhow::{Context, Result};
use rejoin_egress::watchdog::Watchdog;
use tokio::{
    process::{Child, Command},
    sync::watch,
    task::JoinSet,
};

use self::keeper::Keeper;
use super::process::Signal;

mod keeper;

/// Time to drain after SIGTERM, before SIGKILL. Longer than the children's own limit.
pub const DRAIN_LIMIT: Duration = Duration::from_secs(35);

/// The role of a child, and its name in messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    Api,
    /// Numbered from 1.
    Worker(usize),
    /// A user's program, numbered from 1.
    Program(usize),
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Role::Api => write!(f, "api"),
            Role::Worker(number) => write!(f, "worker {number}"),
            Role::Program(number) => write!(f, "program {number}"),
        }
    }
}

/// The sink of lines.
type Output = Arc<dyn Fn(&str) + Send + Sync>;

/// Owns the children.
pub struct Supervisor {
    shared: Arc<Shared>,
    keepers: JoinSet<()>,
    stopping: watch::Sender<Stopping>,
}

struct Shared {
    program: PathBuf,
    output: Output,
    pids: Mutex<BTreeMap<Role, u32>>,
    drain_limit: Duration,
    watchdog: Watchdog,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
enum Stopping {
    No,
    /// SIGTERM, and time to drain.
    Drain,
    /// SIGKILL.
    Now,
}

/// How to start a child.
struct Recipe {
    role: Role,
    program: PathBuf,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
}

impl Supervisor {
    /// Children run this program with other arguments.
    ///
    /// # Errors
    /// The program's path is unknown, or its watchdog can't be started.
    pub fn new() -> Result<Self> {
        let program = std::env::current_exe().context("finding this program's own file failed")?;
        Self::with(program, DRAIN_LIMIT, Arc::new(to_stderr))
    }

    /// With any program, limit and output.
    ///
    /// # Errors
    /// The watchdog can't be started.
    pub fn with(program: impl Into<PathBuf>, drain_limit: Duration, output: Output) -> Result<Self> {
        let watchdog = Watchdog::start().context("starting the watchdog failed")?;
        let shared = Shared {
            program: program.into(),
            output,
            pids: Mutex::new(BTreeMap::new()),
            drain_limit,
            watchdog,
        };
        Ok(Self {
            shared: Arc::new(shared),
            keepers: JoinSet::new(),
            stopping: watch::Sender::new(Stopping::No),
        })
    }

    /// Starts a child and keeps it running until [`Self::stop`]. `env` is added to our own environment.
    ///
    /// # Errors
    /// The program can't be started at all; later failures are reported on the output and retried.
    pub fn spawn<A, E, K, V>(&mut self, role: Role, args: A, env: E) -> Result<u32>
    where
        A: IntoIterator<Item: Into<OsString>>,
        E: IntoIterator<Item = (K, V)>,
        K: Into<OsString>,
        V: Into<OsString>,
    {
        let recipe = Recipe {
            role,
            program: self.shared.program.clone(),
            args: args.into_iter().map(Into::into).collect(),
            env: env_of(env),
        };
        self.spawn_recipe(recipe, None)
    }

    /// The same for a user's program: a command of the shell, which is started again at each change.
    ///
    /// # Errors
    /// There is no shell.
    pub fn spawn_program<E, K, V>(
        &mut self,
        role: Role,
        command: &str,
        env: E,
        changed: watch::Receiver<u64>,
    ) -> Result<u32>
    where
        E: IntoIterator<Item = (K, V)>,
        K: Into<OsString>,
        V: Into<OsString>,
    {
        let recipe = Recipe {
            role,
            program: "/bin/sh".into(),
            // In place of the shell, so that signals reach it.
            args: vec!["-c".into(), format!("exec {command}").into()],
            env: env_of(env),
        };
        self.spawn_recipe(recipe, Some(changed))
    }

    fn spawn_recipe(&mut self, recipe: Recipe, changed: Option<watch::Receiver<u64>>) -> Result<u32> {
        let (child, pid) = self
            .shared
            .start(&recipe)
            .with_context(|| format!("starting {} failed", recipe.role))?;
        let keeper = Keeper {
            shared: Arc::clone(&self.shared),
            recipe,
            changed,
            stopping: self.stopping.subscribe(),
        };
        self.keepers.spawn(keeper.keep(child, pid));
        Ok(pid)
    }

    /// Returns the running children. One that is being restarted is missing.
    pub fn pids(&self) -> Vec<(Role, u32)> {
        self.shared.pids().iter().map(|(role, pid)| (*role, *pid)).collect()
    }

    /// Keeps the children running until `shutdown`, then stops them: they drain, unless `hurry` (a second Ctrl-C) comes
    /// first.
    pub async fn run_until(self, shutdown: impl Future<Output = ()>, hurry: impl Future<Output = ()>) {
        shutdown.await;
        self.stop(hurry).await;
    }

    /// Sends SIGTERM to all; SIGKILL to the remaining ones after the drain limit, or once `hurry` returns.
    pub async fn stop(mut self, hurry: impl Future<Output = ()>) {
        self.stopping.send_replace(Stopping::Drain);
        let drained = async { while self.keepers.join_next().await.is_some() {} };
        tokio::select! {
            () = drained => return,
            () = hurry => {}
        }
        self.stopping.send_replace(Stopping::Now);
        while self.keepers.join_next().await.is_some() {}
    }
}

impl Shared {
    fn start(&self, recipe: &Recipe) -> Result<(Child, u32)> {
        let child = Command::new(&recipe.program)
            .args(&recipe.args)
            .envs(recipe.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            // If a keeper is dropped with its runtime, its child is killed.
            .kill_on_drop(true)
            .spawn()?;
        let pid = child.id().context("the child ended during startup")?;
        self.watchdog.guard(pid, Signal::Terminate.name(), Signal::Kill.name());
        self.pids().insert(recipe.role, pid);
        Ok((child, pid))
    }

    fn say(&self, line: &str) {
        (self.output)(line);
    }

    fn pids(&self) -> MutexGuard<'_, BTreeMap<Role, u32>> {
        // No await while it is held.
        self.pids.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

fn env_of<E, K, V>(env: E) -> Vec<(OsString, OsString)>
where
    E: IntoIterator<Item = (K, V)>,
    K: Into<OsString>,
    V: Into<OsString>,
{
    env.into_iter()
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

fn to_stderr(line: &str) {
    // A closed stderr is no reason to stop the children.
    let _closed = writeln!(std::io::stderr().lock(), "{line}");
}

#[cfg(test)]
mod tests;
