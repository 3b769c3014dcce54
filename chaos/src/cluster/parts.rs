//! Locates the programs of a cluster. `scripts/setup-ha.sh` installs them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use rejoin_cli::dev::postgres::binaries;
use rejoin_cli::dev::process::{self, User};

/// Names Patroni's program, in a virtual environment of Python.
const PATRONI: &str = "CHAOS_PATRONI";
/// Where distributions put servers; not on every user's PATH.
const OTHER_FOLDERS: [&str; 2] = ["/usr/sbin", "/usr/local/sbin"];
/// What Patroni uses of PostgreSQL.
const SERVER_PROGRAMS: [&str; 7] = [
    "initdb",
    "pg_basebackup",
    "pg_controldata",
    "pg_ctl",
    "pg_isready",
    "pg_rewind",
    "postgres",
];
/// How to get the missing ones.
const WAY_OUT: &str = "run scripts/test-ha.sh (make test-ha), which installs what is missing";

pub(super) struct Parts {
    /// Whom the programs run as. None: ourselves.
    pub(super) user: Option<User>,
    pub(super) patroni: PathBuf,
    pub(super) etcd: PathBuf,
    pub(super) haproxy: PathBuf,
    /// The folder of PostgreSQL's programs.
    pub(super) bin_dir: PathBuf,
    /// PostgreSQL's major version.
    pub(super) major: u32,
}

impl Parts {
    /// # Errors
    /// A program is missing, or PostgreSQL's user can't execute it.
    pub(super) fn find() -> Result<Self> {
        let user = process::server_user()?;
        let server = binaries::find(None, None, user.as_ref())?;
        let rewind = server.extra_program("pg_rewind")?;
        let bin_dir = rewind.parent().context("a program is in a folder")?.to_owned();
        for program in SERVER_PROGRAMS {
            ensure!(
                bin_dir.join(program).is_file(),
                "Patroni needs {program} of PostgreSQL {}, which is not in {}; install PostgreSQL's server package",
                server.major,
                bin_dir.display()
            );
        }
        let patroni = std::env::var_os(PATRONI).filter(|path| !path.is_empty());
        let patroni = PathBuf::from(patroni.with_context(|| format!("{PATRONI} is not set; {WAY_OUT}"))?);
        executes(&patroni, user.as_ref())?;
        Ok(Self {
            etcd: program("etcd")?,
            haproxy: program("haproxy")?,
            bin_dir,
            major: server.major,
            patroni,
            user,
        })
    }
}

/// Returns a program of the machine.
fn program(name: &str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(OTHER_FOLDERS.map(PathBuf::from));
    folders
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
        .with_context(|| format!("{name} is not installed; {WAY_OUT}"))
}

/// Has the user execute Patroni once: it is in a folder that the user may not reach.
fn executes(patroni: &Path, user: Option<&User>) -> Result<()> {
    let mut command = Command::new(patroni);
    User::run(user, &mut command);
    let output = command.arg("--version").stdin(Stdio::null()).output();
    let as_whom = user.map_or(String::new(), |user| format!(" as the user {}", user.name));
    let output = output.with_context(|| format!("running {}{as_whom} failed; {WAY_OUT}", patroni.display()))?;
    ensure!(
        output.status.success(),
        "{}{as_whom} does not work: {}",
        patroni.display(),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}
