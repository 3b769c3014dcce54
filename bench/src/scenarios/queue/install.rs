//! Installs the peers by package name, versions pinned by lock files, into a git-ignored folder of the checkout. Fast
//! if everything exists. Unavailable peers (no npm, no network, an old compiler) are reported and omitted.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, bail};
use tokio::process::Command;

use super::peers::{Spec, root};
use crate::scenario::Recorder;

const FOLDER: &str = ".cache/bench/peers/queue";
const SOURCES: &str = "bench/peers/queue";
/// Length of an installer's error shown, in characters.
const COMPLAINT_CHARS: usize = 300;

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

    fn folder(self) -> PathBuf {
        folder().join(match self {
            Self::Node => "node",
            Self::Python => "python",
            Self::Rust => "rust",
        })
    }

    fn program(self) -> PathBuf {
        match self {
            // Some peers need a newer one than distributions have, so it is installed like them.
            Self::Node => {
                let machine = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
                let own = self
                    .folder()
                    .join(format!("node_modules/node-linux-{machine}/bin/node"));
                if own.exists() { own } else { PathBuf::from("node") }
            }
            Self::Python => self.folder().join("venv/bin/python"),
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
    let to = kind.folder();
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
            run(cargo.env("CARGO_TARGET_DIR", &to)).await
        }
        Kind::Node => {
            copy_sources("node", &to)?;
            once(&to, &["package.json", "package-lock.json"], || async {
                run(Command::new("npm")
                    .args(["ci", "--no-audit", "--no-fund", "--loglevel=error"])
                    .current_dir(&to))
                .await
            })
            .await
        }
        Kind::Python => {
            copy_sources("python", &to)?;
            once(&to, &["requirements.txt"], || async {
                run(Command::new("python3").args(["-m", "venv", "venv"]).current_dir(&to)).await?;
                let arguments = [
                    "install",
                    "--quiet",
                    "--disable-pip-version-check",
                    "-r",
                    "requirements.txt",
                ];
                run(Command::new(to.join("venv/bin/pip")).args(arguments).current_dir(&to)).await
            })
            .await
        }
    }
}

/// The drivers are placed beside their imports.
fn copy_sources(kind: &str, to: &Path) -> Result<()> {
    let from = root().join(SOURCES).join(kind);
    for entry in std::fs::read_dir(&from).with_context(|| format!("reading {}", from.display()))? {
        let path = entry?.path();
        if path.is_file() {
            std::fs::copy(&path, to.join(path.file_name().unwrap_or(OsStr::new("")))).context("copying a driver")?;
        }
    }
    Ok(())
}

/// Installs, unless done before with the same contents of these files.
async fn once<F: Future<Output = Result<()>>>(
    folder: &Path,
    files: &[&str],
    install: impl FnOnce() -> F,
) -> Result<()> {
    let read = |file: &&str| std::fs::read_to_string(folder.join(file)).unwrap_or_default();
    let wanted: String = files.iter().map(read).collect();
    let stamp = folder.join(".installed");
    if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    println!("   installing {}", folder.display());
    install().await?;
    std::fs::write(&stamp, wanted).context("remembering what was installed")
}

async fn run(command: &mut Command) -> Result<()> {
    let shown = format!("{:?}", command.as_std());
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await;
    let output = output.with_context(|| format!("starting {shown}"))?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        let complaint: String = complaint.trim().chars().take(COMPLAINT_CHARS).collect();
        bail!("{shown}: {}: {complaint}", output.status);
    }
    Ok(())
}
