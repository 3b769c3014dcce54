//! The directories of a private PostgreSQL: their owner, the cluster's location, the socket's location.
//!
//! Called by `postgres`, in its blocking set-up. Invariant: the holder of a [`DataDir`] holds the directory's lock, so at
//! most one owner runs a server on it; the kernel frees the lock with the owner, however it ends.
use std::{
    ffi::OsStr,
    fs::{self, File, Permissions, TryLockError},
    io::Write,
    os::unix::{
        ffi::OsStrExt,
        fs::{MetadataExt, PermissionsExt, chown},
    },
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};

use super::binaries::Binaries;
use crate::process::{self, Signal, User};

/// A lock file that contains the owner's process id.
const LOCK: &str = "rejoin.lock";
/// Present if the cluster could not be in the directory itself; contains its path.
const POINTER: &str = "cluster-lives-at";
/// Beside a cluster at another location: the directory to which it belongs.
const BACK: &str = "data-directory";
const CLUSTER: &str = "pg";
/// The location of clusters whose directory the server's user can't reach.
const ELSEWHERE: &str = "/var/lib/rejoin";
/// Timeout of stopping a server left behind by its owner.
const LEFTOVER_LIMIT: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub(super) struct DataDir {
    /// The requested directory, with the lock, the log, and usually the cluster.
    pub data_dir: PathBuf,
    /// PGDATA.
    pub cluster: PathBuf,
    pub log: PathBuf,
    pub socket_dir: PathBuf,
    pub user: Option<User>,
    _lock: File,
}

impl DataDir {
    /// # Errors
    /// Another process holds the directory, or it can't be made usable for the server's user.
    pub(super) fn take(data_dir: &Path) -> Result<Self> {
        fs::create_dir_all(data_dir)
            .with_context(|| format!("creating the directory {} failed", data_dir.display()))?;
        let data_dir = data_dir
            .canonicalize()
            .with_context(|| format!("the directory {} cannot be used", data_dir.display()))?;
        let lock = lock(&data_dir)?;
        let user = process::server_user()?;
        let cluster = cluster(&data_dir, user.as_ref())?;
        Ok(Self {
            log: data_dir.join("postgres.log"),
            // Short, because a socket's path is limited to 107 bytes.
            socket_dir: PathBuf::from(format!(
                "/tmp/rejoin-{:08x}",
                fnv1a(data_dir.as_os_str().as_encoded_bytes())
            )),
            data_dir,
            cluster,
            user,
            _lock: lock,
        })
    }

    /// Returns the major version that created the cluster; `None` before.
    pub(super) fn major(&self) -> Result<Option<u32>> {
        match fs::read_to_string(self.cluster.join("PG_VERSION")) {
            Ok(version) => Ok(Some(version.trim().parse().context("reading PG_VERSION failed")?)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("reading {} failed", self.cluster.display())),
        }
    }

    /// Runs `initdb` in a temporary location first, so that an interrupted one is not taken for a cluster.
    pub(super) fn initialise(&self, binaries: &Binaries, superuser: &str, durable: bool) -> Result<()> {
        let unfinished = self.cluster.with_file_name("pg.new");
        let mut errors = String::new();
        // Not every machine has C.UTF-8; C sorts the same but does not know case beyond ASCII.
        for locale in ["C.UTF-8", "C"] {
            if unfinished.exists() {
                fs::remove_dir_all(&unfinished).context("removing an incomplete cluster failed")?;
            }
            self.make_private(&unfinished)?;
            let mut initdb = Command::new(binaries.program("initdb"));
            initdb.arg("-D").arg(&unfinished);
            initdb
                .args(["-U", superuser, "-A", "trust", "-E", "UTF8"])
                .arg(format!("--locale={locale}"));
            if !durable {
                initdb.arg("--no-sync");
            }
            quiet_environment(&mut initdb);
            User::run(self.user.as_ref(), &mut initdb);
            let output = initdb.output().context("running initdb failed")?;
            if output.status.success() {
                return fs::rename(&unfinished, &self.cluster).context("moving the new cluster into place failed");
            }
            errors = format!(
                "{}{}",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            );
        }
        bail!("initdb failed for {}:\n{errors}", self.cluster.display())
    }

    /// Runs `pg_basebackup`: copies a running server, which the copy follows once started.
    pub(super) fn copy(&self, binaries: &Binaries, superuser: &str, primary: &Path) -> Result<()> {
        let unfinished = self.cluster.with_file_name("pg.new");
        if unfinished.exists() {
            fs::remove_dir_all(&unfinished).context("removing an incomplete cluster failed")?;
        }
        self.make_private(&unfinished)?;
        let mut copy = Command::new(binaries.extra_program("pg_basebackup")?);
        copy.arg("-D").arg(&unfinished).arg("-h").arg(primary);
        copy.args(["-U", superuser, "-R", "-X", "stream", "-c", "fast", "--no-sync"]);
        quiet_environment(&mut copy);
        User::run(self.user.as_ref(), &mut copy);
        let output = copy.output().context("running pg_basebackup failed")?;
        if !output.status.success() {
            bail!("pg_basebackup failed:\n{}", String::from_utf8_lossy(&output.stderr));
        }
        fs::rename(&unfinished, &self.cluster).context("moving the new cluster into place failed")
    }

    /// Stops a server left behind by a killed owner; refuses one that is not ours.
    pub(super) fn clear_leftover(&self) -> Result<()> {
        let Some(pid) = postmaster(&self.cluster) else {
            return Ok(());
        };
        let Some(command) = process::command_line(pid).filter(|_| process::exists(pid)) else {
            return Ok(());
        };
        if !command.contains(self.cluster.to_string_lossy().as_ref()) {
            // The id now belongs to another program; PostgreSQL removes such a file itself.
            return Ok(());
        }
        ensure!(
            command.contains(&*self.socket_dir.to_string_lossy()),
            "a PostgreSQL that Rejoin did not start is already running on {} (pid {pid}: {command}); stop it, or use \
            another data directory",
            self.cluster.display()
        );
        tracing::info!(pid, "stopping the PostgreSQL of an earlier run");
        for signal in [Signal::Interrupt, Signal::Quit] {
            // It may have ended meanwhile.
            let _gone = process::send(pid, signal);
            if wait_until(LEFTOVER_LIMIT, || {
                !process::exists(pid) || postmaster(&self.cluster) != Some(pid)
            }) {
                return Ok(());
            }
        }
        bail!("the PostgreSQL of an earlier run (pid {pid}) does not stop; kill it manually")
    }

    /// Creates the socket's directory: only the server's user and root have access, so `trust` trusts no one else.
    pub(super) fn make_socket_dir(&self) -> Result<()> {
        if let Ok(there) = fs::symlink_metadata(&self.socket_dir) {
            let ours = there.is_dir() && there.uid() == self.owner_uid()?;
            ensure!(
                ours,
                "{} exists and belongs to another program; remove it",
                self.socket_dir.display()
            );
        }
        self.make_private(&self.socket_dir)
    }

    /// Removes what is useless without the server.
    pub(super) fn remove_socket_dir(&self) {
        if let Err(error) = fs::remove_dir_all(&self.socket_dir)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(%error, dir = %self.socket_dir.display(), "removing the socket's directory failed");
        }
    }

    /// Returns everything to remove with the cluster.
    pub(super) fn everything(&self) -> Vec<PathBuf> {
        let mut all = vec![self.data_dir.clone(), self.socket_dir.clone()];
        if let Some(home) = self.cluster.parent().filter(|home| *home != self.data_dir) {
            all.push(home.to_owned());
        }
        all
    }

    fn owner_uid(&self) -> Result<u32> {
        match &self.user {
            Some(user) => Ok(user.uid),
            // The lock file certainly belongs to us.
            None => Ok(self._lock.metadata().context("reading the lock file failed")?.uid()),
        }
    }

    /// Creates a directory with mode 0700 for the server's user.
    fn make_private(&self, dir: &Path) -> Result<()> {
        let make = || {
            fs::create_dir_all(dir)?;
            fs::set_permissions(dir, Permissions::from_mode(0o700))?;
            match &self.user {
                Some(user) => chown(dir, Some(user.uid), Some(user.gid)),
                None => Ok(()),
            }
        };
        make().with_context(|| format!("preparing the directory {} failed", dir.display()))
    }
}

/// Removes variables of the caller's shell that would affect the private server.
pub(super) fn quiet_environment(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("PG") || text.starts_with("LC_") || text == "LANG" || text == "LANGUAGE" {
            command.env_remove(&name);
        }
    }
    command.env("LC_ALL", "C");
}

fn lock(data_dir: &Path) -> Result<File> {
    let path = data_dir.join(LOCK);
    let mut file = File::options()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(&path)
        .with_context(|| format!("writing to {} failed", data_dir.display()))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let holder = fs::read_to_string(&path).unwrap_or_default();
            let holder = match holder.trim().parse::<u32>() {
                Ok(pid) => format!("pid {pid}: {}", process::command_line(pid).unwrap_or_default()),
                Err(_) => "another process".to_owned(),
            };
            bail!(
                "{} is in use by {holder}; stop it, use its database (it prints the URL), or choose another data \
                directory",
                data_dir.display()
            )
        }
        Err(TryLockError::Error(error)) => {
            return Err(error).with_context(|| format!("locking {} failed", path.display()));
        }
    }
    file.set_len(0)
        .and_then(|()| write!(file, "{}", std::process::id()))
        .context("writing the lock file failed")?;
    Ok(file)
}

/// Returns the cluster's location: the directory, if the server's user can reach it; else another one, with a pointer.
fn cluster(data_dir: &Path, user: Option<&User>) -> Result<PathBuf> {
    let here = data_dir.join(CLUSTER);
    let Some(user) = user else { return Ok(here) };
    if !user.can_enter(data_dir) {
        // The directory is ours: a mkdtemp one only needs to be traversable (not readable) for others.
        let mode = fs::metadata(data_dir)
            .context("reading the data directory failed")?
            .mode();
        fs::set_permissions(data_dir, Permissions::from_mode((mode & 0o7777) | 0o001)).with_context(|| {
            format!(
                "making the directory {} accessible to user {} failed",
                data_dir.display(),
                user.name
            )
        })?;
    }
    if user.can_enter(data_dir) {
        return Ok(here);
    }
    let pointer = data_dir.join(POINTER);
    if let Ok(there) = fs::read_to_string(&pointer).map(|text| PathBuf::from(text.trim()))
        && user.can_enter(&there)
    {
        return Ok(there.join(CLUSTER));
    }
    fs::create_dir_all(ELSEWHERE).with_context(|| format!("creating {ELSEWHERE} failed"))?;
    sweep(Path::new(ELSEWHERE), data_dir)?;
    let family = format!("{:08x}-", fnv1a(data_dir.as_os_str().as_encoded_bytes()));
    let there = Path::new(ELSEWHERE).join(format!("{family}{}", uuid::Uuid::now_v7().simple()));
    fs::create_dir(&there).with_context(|| format!("creating {} failed", there.display()))?;
    // Regardless of our umask, the server's user must be able to traverse it.
    fs::set_permissions(&there, Permissions::from_mode(0o711)).context("opening the cluster's directory failed")?;
    ensure!(
        user.can_enter(&there),
        "PostgreSQL must run as user `{}`, who has access to neither {} nor {ELSEWHERE}; choose a data directory that \
        this user can access",
        user.name,
        data_dir.display()
    );
    fs::write(there.join(BACK), data_dir.as_os_str().as_encoded_bytes())
        .and_then(|()| fs::write(&pointer, format!("{}\n", there.display())))
        .context("writing the pointer to the cluster failed")?;
    Ok(there.join(CLUSTER))
}

/// Removes orphaned clusters: their directory was removed, or it is ours and refers to none.
///
/// A cluster takes 200 MB, and users who remove a directory do not know about it. One with a running server is left for
/// the next time, and so is one that can't be removed.
fn sweep(elsewhere: &Path, data_dir: &Path) -> Result<()> {
    for entry in fs::read_dir(elsewhere)
        .with_context(|| format!("reading {} failed", elsewhere.display()))?
        .flatten()
    {
        let home = entry.path();
        let Ok(of) = fs::read(home.join(BACK)) else { continue };
        let of = Path::new(OsStr::from_bytes(&of));
        let runs = postmaster(&home.join(CLUSTER)).is_some_and(process::exists);
        if (of == data_dir || !of.exists()) && !runs {
            match fs::remove_dir_all(&home) {
                // A concurrent start may sweep as well.
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    tracing::warn!(%error, home = %home.display(), "removing the cluster of a deleted directory failed");
                }
                Ok(()) | Err(_) => {}
            }
        }
    }
    Ok(())
}

/// Returns the first line of a cluster's `postmaster.pid`: the server's process, unless the file is stale.
fn postmaster(cluster: &Path) -> Option<u32> {
    let pid = fs::read_to_string(cluster.join("postmaster.pid")).ok()?;
    pid.lines().next()?.trim().parse().ok()
}

/// Polls every 20 ms until `done` or the timeout; blocking, for the setup's own thread.
fn wait_until(limit: Duration, done: impl Fn() -> bool) -> bool {
    let end = Instant::now() + limit;
    while Instant::now() < end {
        if done() {
            return true;
        }
        #[expect(clippy::disallowed_methods, reason = "the set-up runs on a thread for blocking work")]
        std::thread::sleep(Duration::from_millis(20));
    }
    done()
}

/// A small, stable hash for names of directories.
fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_of_removed_directories_are_swept() -> Result<()> {
        let root = std::env::temp_dir().join(format!("rejoin-sweep-{}", uuid::Uuid::now_v7().simple()));
        let (ours, theirs, gone) = (root.join("ours"), root.join("theirs"), root.join("gone"));
        fs::create_dir_all(&ours)?;
        fs::create_dir_all(&theirs)?;
        let elsewhere = root.join("elsewhere");
        let home = |name: &str, of: Option<&Path>, pid: Option<u32>| -> Result<PathBuf> {
            let home = elsewhere.join(name);
            fs::create_dir_all(home.join(CLUSTER))?;
            if let Some(of) = of {
                fs::write(home.join(BACK), of.as_os_str().as_encoded_bytes())?;
            }
            if let Some(pid) = pid {
                fs::write(home.join(CLUSTER).join("postmaster.pid"), format!("{pid}\n/data\n"))?;
            }
            Ok(home)
        };
        let swept = [home("1", Some(&ours), None)?, home("2", Some(&gone), None)?];
        let kept = [
            home("3", Some(&theirs), None)?,
            // A server runs on it: this process has the id.
            home("4", Some(&gone), Some(std::process::id()))?,
            // Another user's.
            home("5", None, None)?,
        ];
        sweep(&elsewhere, &ours)?;
        let left = swept.iter().find(|home| home.exists());
        let lost = kept.iter().find(|home| !home.exists());
        fs::remove_dir_all(&root)?;
        assert_eq!((left, lost), (None, None), "swept too little, or too much");
        Ok(())
    }
}
