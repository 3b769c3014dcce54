//! A program of the cluster: started as PostgreSQL's user, with its output in a file, and ended by its process id.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard};

use anyhow::{Context as _, Result};
use rejoin_cli::dev::process::{Signal, User};
use rejoin_egress::watchdog::Watchdog;

/// What all programs of a cluster share.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// None: ourselves.
    pub user: Option<User>,
    /// The cluster's folder, which is the user's.
    pub folder: PathBuf,
    /// The folder of the programs' output.
    pub logs: PathBuf,
    pub watchdog: Arc<Watchdog>,
}

pub struct Program {
    name: String,
    path: PathBuf,
    arguments: Vec<OsString>,
    around: Surroundings,
    child: Mutex<Option<Child>>,
}

impl Program {
    pub fn new(name: &str, path: &Path, arguments: Vec<OsString>, around: &Surroundings) -> Self {
        Self {
            name: name.to_owned(),
            path: path.to_owned(),
            arguments,
            around: around.clone(),
            child: Mutex::new(None),
        }
    }

    /// Starts it if it does not run.
    ///
    /// # Errors
    /// It can't be started.
    pub fn start(&self) -> Result<()> {
        let mut child = self.child();
        if let Some(running) = child.as_mut()
            && running.try_wait()?.is_none()
        {
            return Ok(());
        }
        if let Some(ended) = child.take() {
            self.around.watchdog.forget(ended.id());
        }
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.around.logs.join(&self.name))
            .with_context(|| format!("no log for {}", self.name))?;
        let mut command = Command::new(&self.path);
        command.args(&self.arguments);
        User::run(self.around.user.as_ref(), &mut command);
        command
            // Neither our settings nor those of libpq, Python or etcd.
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", &self.around.folder)
            .env("PYTHONUNBUFFERED", "1")
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        let started = command.spawn().with_context(|| format!("can't start {}", self.name))?;
        self.around
            .watchdog
            .guard(started.id(), Signal::Terminate.name(), Signal::Kill.name());
        *child = Some(started);
        Ok(())
    }

    /// Its process id, if it was started.
    pub fn pid(&self) -> Option<u32> {
        self.child().as_ref().map(Child::id)
    }

    /// `kill -9`, also of a suspended one.
    ///
    /// # Errors
    /// It can't be signalled.
    pub fn kill(&self) -> Result<()> {
        if let Some(mut child) = self.child().take() {
            child.kill().with_context(|| format!("can't kill {}", self.name))?;
            child.wait()?;
            self.around.watchdog.forget(child.id());
        }
        Ok(())
    }

    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        self.child.lock().expect("no panic while it is held")
    }
}
