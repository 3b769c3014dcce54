//! Installs the peers by package name, versions pinned by lock files, into a git-ignored folder of the checkout. Fast
//! if everything exists. Unavailable peers (no npm, no network, an old compiler) are reported and omitted.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use tokio::process::Command;

use super::peers::{Spec, root};
use crate::peers::packages;
use crate::scenario::Recorder;

const FOLDER: &str = ".cache/bench/peers/queue";
const SOURCES: &str = "bench/peers/queue";

/// The runtime of a driver: the placeholder in its command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Node,
    Python,
    Rust,
}

const KINDS: [Kind; 3] = [Kind::Rust, Kind::Node, Kind::Python];

impl Kind {
    fn placeholder(self) -> &'static str {
        match self {
            Self::Node => "{node}",
            Self::Python => "{python}",
            Self::Rust => "{rust}",
        }
    }

    fn of(spec: &Spec) -> Option<Self> {
        KINDS.into_iter().find(|kind| spec.cmd.contains(kind.placeholder()))
    }

    fn name(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Python => "python",
            Self::Rust => "rust",
        }
    }

    fn folder(self) -> PathBuf {
        folder().join(self.name())
    }

    fn program(self) -> PathBuf {
        match self {
            Self::Node => packages::node_program(&self.folder()),
            Self::Python => packages::python_program(&self.folder()),
            Self::Rust => self.folder().join("release/queue-peers"),
        }
    }
}

/// The folder of the peers and their logs.
pub fn folder() -> PathBuf {
    root().join(FOLDER)
}

/// Returns a driver's shell command; none if its program is not installed.
pub fn command(spec: &Spec) -> Option<String> {
    let Some(kind) = Kind::of(spec) else {
        return Some(spec.cmd.clone());
    };
    let program = kind.program();
    // A bare name is searched on the PATH.
    let there = program.components().count() == 1 || program.exists();
    let quoted = |path: &Path| format!("'{}'", path.display());
    let command = spec.cmd.replace(kind.placeholder(), &quoted(&program));
    there.then(|| command.replace("{here}", &quoted(&kind.folder())))
}

/// Installs the requirements of these queues.
pub async fn install(specs: &[Spec], out: &mut Recorder) {
    for kind in KINDS {
        let of_kind: Vec<&Spec> = specs.iter().filter(|spec| Kind::of(spec) == Some(kind)).collect();
        if of_kind.is_empty() {
            continue;
        }
        if let Err(error) = install_kind(kind).await {
            let names: Vec<&str> = of_kind.iter().map(|spec| spec.name.as_str()).collect();
            let names = names.join(", ");
            println!("   {names} can't be installed: {error:#}");
            out.note(format!("not measured, since it could not be installed here: {names}"));
        }
    }
}

async fn install_kind(kind: Kind) -> Result<()> {
    let (from, to) = (root().join(SOURCES).join(kind.name()), kind.folder());
    std::fs::create_dir_all(&to).with_context(|| format!("making {}", to.display()))?;
    match kind {
        Kind::Rust => {
            let manifest = root().join(SOURCES).join("rust/Cargo.toml");
            let mut cargo = Command::new("cargo");
            cargo
                .args(["build", "--quiet", "--release", "--locked", "--manifest-path"])
                .arg(manifest);
            if !kind.program().exists() {
                println!("   compiling peers (a few minutes, once)");
            }
            packages::run(cargo.env("CARGO_TARGET_DIR", &to)).await
        }
        Kind::Node => packages::install_node(&from, &to).await,
        Kind::Python => packages::install_python(&from, &to).await,
    }
}
