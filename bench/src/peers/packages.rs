//! Peers that package registries have: installed from lock files into a git-ignored folder of the checkout, with their drivers beside their imports.
//! Fast if everything is there.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, bail};
use tokio::process::Command;

/// Length of an installer's error shown, in characters.
const COMPLAINT_CHARS: usize = 300;

/// Returns the Node.js that was installed beside the packages in a folder, or the machine's. Some peers need a newer one than distributions have,
/// so it is installed like them.
pub fn node_program(folder: &Path) -> PathBuf {
    let machine = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
    let own = folder.join(format!("node_modules/node-linux-{machine}/bin/node"));
    if own.exists() { own } else { PathBuf::from("node") }
}

/// Returns the Python that has the packages in a folder.
pub fn python_program(folder: &Path) -> PathBuf {
    folder.join("venv/bin/python")
}

/// Installs what `package-lock.json` of `from` names into `to`.
pub async fn install_node(from: &Path, to: &Path) -> Result<()> {
    copy_sources(from, to)?;
    once(to, &["package.json", "package-lock.json"], || async {
        run(Command::new("npm")
            .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"])
            .current_dir(to))
        .await
    })
    .await
}

/// Installs what `requirements.txt` of `from` names into a virtual environment in `to`.
pub async fn install_python(from: &Path, to: &Path) -> Result<()> {
    copy_sources(from, to)?;
    once(to, &["requirements.txt"], || async {
        run(Command::new("python3").args(["-m", "venv", "venv"]).current_dir(to)).await?;
        let arguments = [
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "-r",
            "requirements.txt",
        ];
        run(Command::new(to.join("venv/bin/pip")).args(arguments).current_dir(to)).await
    })
    .await
}

/// The drivers are placed beside their imports.
fn copy_sources(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to).with_context(|| format!("making {}", to.display()))?;
    for entry in std::fs::read_dir(from).with_context(|| format!("reading {}", from.display()))? {
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

pub async fn run(command: &mut Command) -> Result<()> {
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
