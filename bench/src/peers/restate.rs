//! Restate's server, with its log in a temporary folder.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::process::{self, Process};

/// The server, within the folder of installed packages.
const PROGRAM: &str = "node_modules/@restatedev/restate-server-linux-x64/bin/restate-server";

/// A running server.
pub struct Restate {
    process: Process,
    data: PathBuf,
    /// URLs where services are called, and where they are registered.
    pub ingress: String,
    pub admin: String,
}

impl Restate {
    /// `folder`: of the installed packages.
    pub async fn start(folder: &Path) -> Result<Self> {
        let data = std::env::temp_dir().join(format!("rejoin-bench-restate-{}", std::process::id()));
        let free = rejoin_free_ports::addresses(3)?;
        let [ingress, admin, own] = [0, 1, 2].map(|nth| free[nth].to_string());
        let mut server = Command::new(folder.join(PROGRAM));
        server
            .args(["--node-name", "bench", "--base-dir"])
            .arg(&data)
            .env("RESTATE_INGRESS__BIND_ADDRESS", &ingress)
            .env("RESTATE_ADMIN__BIND_ADDRESS", &admin)
            .env("RESTATE_BIND_ADDRESS", &own)
            .env("RESTATE_ADVERTISED_ADDRESS", format!("http://{own}/"))
            .env("RESTATE_LOG_FILTER", "error")
            .env("RESTATE_DISABLE_TELEMETRY", "true");
        let process = Process::spawn(&mut server)?;
        process::wait_until_ready(&format!("http://{admin}/health")).await?;
        Ok(Self {
            process,
            data,
            ingress: format!("http://{ingress}"),
            admin: format!("http://{admin}"),
        })
    }

    pub fn process(&self) -> &Process {
        &self.process
    }

    pub async fn stop(self) -> Result<()> {
        self.process.stop().await?;
        std::fs::remove_dir_all(&self.data).context("removing Restate's log")
    }
}
