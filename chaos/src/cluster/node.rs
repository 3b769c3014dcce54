//! A node of the cluster: a Patroni, and the PostgreSQL that it manages, which is not its child.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use anyhow::Result;
use rejoin_cli::dev::process::{self, Signal};
use rejoin_egress::watchdog::Watchdog;

use super::config::{self, Addresses};
use super::program::{Program, Surroundings};
use super::tree;

pub struct Node {
    pub name: String,
    pub postgres: SocketAddr,
    /// Patroni's REST API.
    pub rest: SocketAddr,
    pub patroni: Program,
    data_dir: PathBuf,
    /// The server that the watchdog guards.
    guarded: Mutex<Option<u32>>,
}

/// A node whose processes are all suspended.
pub struct Suspended {
    server: Vec<u32>,
    patroni: Vec<u32>,
}

impl Node {
    pub(super) fn new(
        number: usize,
        addresses: &Addresses,
        patroni: &Path,
        file: &Path,
        around: &Surroundings,
    ) -> Self {
        let name = config::name(number);
        Self {
            postgres: addresses.postgres[number],
            rest: addresses.rest[number],
            patroni: Program::new(&name, patroni, vec![file.into()], around),
            data_dir: config::data_dir(&around.folder, number),
            guarded: Mutex::new(None),
            name,
        }
    }

    /// `kill -9` of Patroni, which would start the server again, and of the server.
    ///
    /// # Errors
    /// A process can't be signalled.
    pub fn kill(&self) -> Result<()> {
        self.patroni.kill()?;
        if let Some(pid) = self.postmaster() {
            process::send(pid, Signal::Kill)?;
        }
        Ok(())
    }

    /// Suspends all processes: Patroni's first, so that it can't renew the leader's lock.
    pub fn suspend(&self) -> Suspended {
        let suspend = |pid: Option<u32>| tree::suspend(pid.as_slice());
        Suspended {
            patroni: suspend(self.patroni.pid()),
            server: suspend(self.postmaster()),
        }
    }

    /// Continues all processes that run.
    pub fn resume(&self) {
        for pid in [self.patroni.pid(), self.postmaster()].into_iter().flatten() {
            tree::send(&tree::of(pid), Signal::Continue);
        }
    }

    /// Ends the server as a crash does, but without leaving its shared memory behind.
    pub(super) fn stop_immediately(&self) {
        if let Some(pid) = self.postmaster() {
            tree::send(&[pid], Signal::Quit);
            tree::send(&tree::of(pid), Signal::Continue);
        }
    }

    pub(super) fn has_server(&self) -> bool {
        self.postmaster().is_some()
    }

    /// Has the watchdog end the current server, if Patroni can't.
    pub(super) fn guard(&self, watchdog: &Watchdog) {
        let server = self.postmaster();
        let mut guarded = self.guarded();
        if *guarded == server {
            return;
        }
        if let Some(old) = guarded.take() {
            watchdog.forget(old);
        }
        if let Some(pid) = server {
            watchdog.guard(pid, Signal::Quit.name(), Signal::Kill.name());
            *guarded = Some(pid);
        }
    }

    /// The watchdog no longer has a server to end.
    pub(super) fn forget(&self, watchdog: &Watchdog) {
        if let Some(old) = self.guarded().take() {
            watchdog.forget(old);
        }
    }

    fn postmaster(&self) -> Option<u32> {
        tree::postmaster(&self.data_dir)
    }

    fn guarded(&self) -> MutexGuard<'_, Option<u32>> {
        self.guarded.lock().expect("no panic while it is held")
    }
}

impl Suspended {
    /// Continues the server alone: it does not know yet that it has lost the leader's lock.
    pub fn continue_server(&self) {
        tree::send(&self.server, Signal::Continue);
    }

    /// Continues Patroni.
    pub fn continue_patroni(&self) {
        tree::send(&self.patroni, Signal::Continue);
    }
}
