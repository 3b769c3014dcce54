//! What is done to the parts of a running server: they are killed, stopped, paused and cut off from each other, and put back afterwards.

use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::{Target, Which};
use crate::adapter::Role;
use crate::proxy::Weather;
use crate::transcript::Transcript;

/// From the end of a killed part to its next start.
const RESTART_PAUSE: Duration = Duration::from_millis(500);
const MIB: u64 = 1024 * 1024;

impl Target {
    /// Kills parts with SIGKILL, and starts them again.
    ///
    /// # Errors
    /// A part does not start.
    pub async fn restart(&self, which: Which, transcript: &Transcript) -> Result<()> {
        let mut parts = self.parts.lock().await;
        for (_, process) in parts.iter_mut().filter(|(role, _)| which.has(*role)) {
            transcript.note(&format!("kill -9 {}", process.name));
            process.kill().await?;
        }
        tokio::time::sleep(RESTART_PAUSE).await;
        for (_, process) in parts.iter_mut().filter(|(role, _)| which.has(*role)) {
            process.start(self.ready_limit()).await?;
            transcript.note(&format!("{} runs again", process.name));
        }
        Ok(())
    }

    /// Stops parts with SIGTERM, and starts them again at once, as a deployment does.
    ///
    /// # Errors
    /// A part does not start.
    pub async fn drain(&self, which: Which, transcript: &Transcript) -> Result<()> {
        let mut parts = self.parts.lock().await;
        for (_, process) in parts.iter_mut().filter(|(role, _)| which.has(*role)) {
            transcript.note(&format!("SIGTERM to {}", process.name));
            let is_orderly = process.stop().await?;
            if !is_orderly {
                transcript.note(&format!("{} had to be killed", process.name));
            }
            process.start(self.ready_limit()).await?;
            transcript.note(&format!("{} runs again", process.name));
        }
        Ok(())
    }

    /// Pauses all workers, and starts the spare one, if there is one.
    ///
    /// # Errors
    /// The spare worker does not start.
    pub async fn pause_workers(&self, transcript: &Transcript) -> Result<()> {
        let mut parts = self.parts.lock().await;
        for (role, process) in parts.iter_mut() {
            if role.executes() {
                transcript.note(&format!("SIGSTOP to {}", process.name));
                process.pause();
            } else if *role == Role::Spare {
                process.start(self.ready_limit()).await?;
                transcript.note(&format!("{} runs", process.name));
            }
        }
        Ok(())
    }

    /// Continues all workers.
    pub async fn continue_workers(&self, transcript: &Transcript) {
        let parts = self.parts.lock().await;
        for (_, process) in parts.iter().filter(|(role, _)| role.executes()) {
            transcript.note(&format!("SIGCONT to {}", process.name));
            process.go_on();
        }
    }

    /// Sets the weather of all proxies.
    pub fn set(&self, weather: Weather, transcript: &Transcript) {
        for proxy in &self.proxies {
            transcript.note(&format!("proxy {}: {weather:?}", proxy.name));
            proxy.set(weather);
        }
    }

    /// Kills the database, and lets its standby take over. The server is of no use for a further case, since it has no standby then.
    ///
    /// # Errors
    /// The adapter does not say how, or its command fails.
    pub async fn fail_over(&self, transcript: &Transcript) -> Result<()> {
        let fail_over = self
            .adapter
            .fail_over
            .as_ref()
            .context("the adapter has no `fail_over`")?;
        self.is_used_up.store(true, Ordering::Relaxed);
        let mut parts = self.parts.lock().await;
        for (_, process) in parts.iter_mut().filter(|(role, _)| *role == Role::Database) {
            transcript.note(&format!("kill -9 {}", process.name));
            process.kill().await?;
        }
        drop(parts);
        self.run(&fail_over.command, &[]).await?;
        transcript.note("the standby has taken over");
        Ok(())
    }

    /// Whether a part was lost for good.
    pub fn is_used_up(&self) -> bool {
        self.is_used_up.load(Ordering::Relaxed)
    }

    /// The memory of the parts that serve streams, in MiB.
    pub async fn memory_mib(&self) -> u64 {
        let parts = self.parts.lock().await;
        let serving = parts.iter().filter(|(role, _)| role.serves());
        serving.map(|(_, process)| process.memory_bytes()).sum::<u64>() / MIB
    }

    /// Brings everything back to where it was before a case.
    ///
    /// # Errors
    /// A part does not start.
    pub async fn settle(&self, transcript: &Transcript) -> Result<()> {
        for proxy in &self.proxies {
            proxy.set(Weather::default());
        }
        let mut parts = self.parts.lock().await;
        for (role, process) in parts.iter_mut() {
            process.go_on();
            match role {
                Role::Spare => {
                    process.stop().await?;
                }
                // It runs from the beginning, or not at all.
                Role::Standby => {}
                Role::Database if self.is_used_up() => {}
                Role::Server | Role::Worker | Role::Both | Role::Database | Role::Other => {
                    if !process.runs()? {
                        transcript.note(&format!("{} had ended", process.name));
                        process.start(self.ready_limit()).await?;
                    }
                }
            }
        }
        Ok(())
    }
}
