//! Compared systems: found on this machine, or fetched into `target/bench/peers` without installing anything.
//!
//! - `packages`   those of package registries
//! - `redis`      a Redis server
//! - `redis_sse`  Redis streams behind a small Node server
//! - `restate`    Restate's server
//! - `nchan`      nginx with its publish/subscribe module

pub mod nchan;
pub mod packages;
pub mod redis;
pub mod redis_sse;
pub mod restate;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

/// The peers' folder: beside the build's, so that `cargo clean` removes them.
pub fn folder(name: &str) -> Result<PathBuf> {
    let target = std::env::current_exe()?;
    let target = target
        .parent()
        .and_then(Path::parent)
        .context("a binary is in target/PROFILE")?;
    let folder = target.join("bench/peers").join(name);
    std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    Ok(folder)
}

/// Unpacked Debian packages: nothing is installed, no service starts.
pub struct Unpacked {
    root: PathBuf,
}

impl Unpacked {
    /// Fetches `packages` with apt, unless `program` (a path within them) exists.
    pub fn fetch(name: &str, packages: &[&str], program: &str) -> Result<Self> {
        let folder = folder(name)?;
        let root = folder.join("root");
        let unpacked = Self { root };
        if unpacked.path(program).exists() {
            return Ok(unpacked);
        }
        if run(Command::new("apt-get")
            .arg("download")
            .args(packages)
            .current_dir(&folder))
        .is_err()
        {
            // The package list may be outdated or missing.
            run(Command::new("apt-get").arg("update"))?;
            run(Command::new("apt-get")
                .arg("download")
                .args(packages)
                .current_dir(&folder))?;
        }
        for file in std::fs::read_dir(&folder)? {
            let file = file?.path();
            if file.extension().is_some_and(|extension| extension == "deb") {
                run(Command::new("dpkg").arg("-x").arg(&file).arg(&unpacked.root))?;
            }
        }
        Ok(unpacked)
    }

    pub fn path(&self, within: &str) -> PathBuf {
        self.root.join(within)
    }

    /// Returns a command that finds its program's libraries.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.path(program));
        let libraries = format!("usr/lib/{}-linux-gnu", std::env::consts::ARCH);
        command.env("LD_LIBRARY_PATH", self.path(&libraries));
        command
    }
}

/// Runs a command to its end; its output is in the error.
pub fn run(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
