//! The password of the database's login, from a file or a command: it may change while a process runs.
//!
//! A file is read for each new connection. A command's answer is kept for a while: tokens of managed databases are valid for some minutes.
//! If a login is refused, the command runs once again. `servers` and `follow` use it. A password is never logged.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, watch};
use tracing::warn;

use crate::config::{DatabaseArgs, Secret};
use crate::failure_log::ErrorChain;

/// Timeout of the command.
const COMMAND_LIMIT: Duration = Duration::from_secs(30);
/// Interval between two runs of a command that fails, or whose password is refused.
const RENEW_EVERY: Duration = Duration::from_secs(10);
/// Interval of looks into the file.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Maximum length of a password, in bytes.
const MAX_BYTES: usize = 64 * 1024;

/// Whether a process gets its password from a file or a command, so that a refused login may be accepted soon.
static CHANGES: AtomicBool = AtomicBool::new(false);

/// Returns whether the password of this process may change while it runs.
pub(crate) fn may_change() -> bool {
    CHANGES.load(Ordering::Relaxed)
}

#[derive(Debug, thiserror::Error)]
pub enum PasswordError {
    #[error("REJOIN_DB_PASSWORD_FILE and REJOIN_DB_PASSWORD_COMMAND are both set: remove one of them")]
    Both,
    #[error("the database URL contains a password, and {0} is set: remove one of them")]
    AlsoInUrl(&'static str),
    #[error("reading the database password from {} (REJOIN_DB_PASSWORD_FILE) failed", .path.display())]
    File {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("starting REJOIN_DB_PASSWORD_COMMAND failed")]
    Start(#[source] std::io::Error),
    #[error("REJOIN_DB_PASSWORD_COMMAND failed ({0}); its stderr is that of this process")]
    Failed(std::process::ExitStatus),
    #[error("REJOIN_DB_PASSWORD_COMMAND did not end within {} s", COMMAND_LIMIT.as_secs())]
    Slow,
    #[error(
        "{} gives an empty password, or one that is not UTF-8 text of at most {} bytes: its first line must be the password",
        .0,
        MAX_BYTES
    )]
    Unreadable(&'static str),
}

/// Where passwords come from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Source {
    File(PathBuf),
    /// A line for the shell, and how long its answer is kept.
    Command {
        line: String,
        keep: Duration,
    },
}

/// A changing password, shared by the connections of a process.
#[derive(Debug)]
pub(crate) struct Password {
    source: Source,
    /// The command's last answer.
    fetched: Mutex<Option<Fetched>>,
    /// Counts the answers of the command.
    changes: watch::Sender<u64>,
}

#[derive(Debug)]
struct Fetched {
    secret: Secret,
    /// When the command runs again.
    due: Instant,
    renewed: Option<Instant>,
}

impl Password {
    /// The source that the settings name. None: the password is that of the URL, if any.
    pub(crate) fn of(args: &DatabaseArgs) -> Result<Option<Arc<Self>>, PasswordError> {
        static ALL: LazyLock<std::sync::Mutex<HashMap<Source, Arc<Password>>>> =
            LazyLock::new(std::sync::Mutex::default);
        let file = args
            .db_password_file
            .as_ref()
            .filter(|path| !path.as_os_str().is_empty());
        let command = args.db_password_command.as_ref().filter(|line| !line.is_empty());
        let source = match (file, command) {
            (None, None) => return Ok(None),
            (Some(_), Some(_)) => return Err(PasswordError::Both),
            (Some(path), None) => Source::File(path.clone()),
            (None, Some(line)) => Source::Command {
                line: line.clone(),
                keep: Duration::from_secs(args.db_password_seconds),
            },
        };
        CHANGES.store(true, Ordering::Relaxed);
        // One for all pools: each would run the command.
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        let password = all.entry(source).or_insert_with_key(|source| {
            Arc::new(Self {
                source: source.clone(),
                fetched: Mutex::default(),
                changes: watch::Sender::default(),
            })
        });
        Ok(Some(password.clone()))
    }

    /// The setting that names it.
    pub(crate) fn setting(&self) -> &'static str {
        match self.source {
            Source::File(_) => "REJOIN_DB_PASSWORD_FILE",
            Source::Command { .. } => "REJOIN_DB_PASSWORD_COMMAND",
        }
    }

    /// Returns the password for a new connection.
    pub(crate) async fn current(&self) -> Result<Secret, PasswordError> {
        let (line, keep) = match &self.source {
            Source::File(path) => return read(path),
            Source::Command { line, keep } => (line, *keep),
        };
        let mut fetched = self.fetched.lock().await;
        if let Some(fetched) = &*fetched
            && Instant::now() < fetched.due
        {
            return Ok(fetched.secret.clone());
        }
        match run(line).await {
            Ok(secret) => {
                self.store(&mut fetched, secret.clone(), keep, None);
                Ok(secret)
            }
            Err(error) => match &mut *fetched {
                // It may still be valid.
                Some(earlier) => {
                    warn!(error = %ErrorChain(&error), "renewing the database password failed; using the earlier one");
                    earlier.due = Instant::now() + RENEW_EVERY;
                    Ok(earlier.secret.clone())
                }
                None => Err(error),
            },
        }
    }

    /// The same outside of a runtime's tasks: blocks the thread while a command runs, at most for its timeout.
    pub(crate) fn current_blocking(self: &Arc<Self>) -> Result<Secret, PasswordError> {
        if let Source::File(path) = &self.source {
            return read(path);
        }
        let password = self.clone();
        let fetching = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.map_err(PasswordError::Start)?.block_on(password.current())
        });
        match fetching.join() {
            Ok(fetched) => fetched,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    /// Returns another password than the one that was refused, if there is one by now. The command runs again for it, now and then.
    pub(crate) async fn renewed(&self, refused: &Secret) -> Option<Secret> {
        let (line, keep) = match &self.source {
            Source::File(path) => return read(path).ok().filter(|secret| secret != refused),
            Source::Command { line, keep } => (line, *keep),
        };
        let mut fetched = self.fetched.lock().await;
        if let Some(fetched) = &*fetched {
            if fetched.secret != *refused {
                return Some(fetched.secret.clone());
            }
            if fetched.renewed.is_some_and(|renewed| renewed.elapsed() < RENEW_EVERY) {
                return None;
            }
        }
        match run(line).await {
            Ok(secret) => {
                self.store(&mut fetched, secret.clone(), keep, Some(Instant::now()));
                Some(secret)
            }
            Err(error) => {
                warn!(error = %ErrorChain(&error), "renewing the refused database password failed");
                if let Some(fetched) = &mut *fetched {
                    fetched.renewed = Some(Instant::now());
                }
                None
            }
        }
    }

    /// When to look for another password.
    pub(crate) async fn next_look(&self) -> Instant {
        let soon = Instant::now() + LOOK_EVERY;
        match &self.source {
            Source::File(_) => soon,
            Source::Command { .. } => self
                .fetched
                .lock()
                .await
                .as_ref()
                .map_or(soon, |fetched| fetched.due.max(soon)),
        }
    }

    /// Counts the command's answers.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn store(&self, fetched: &mut Option<Fetched>, secret: Secret, keep: Duration, renewed: Option<Instant>) {
        *fetched = Some(Fetched {
            secret,
            due: Instant::now() + keep,
            renewed,
        });
        self.changes.send_modify(|answers| *answers += 1);
    }
}

fn read(path: &Path) -> Result<Secret, PasswordError> {
    let bytes = std::fs::read(path).map_err(|source| PasswordError::File {
        path: path.to_owned(),
        source,
    })?;
    first_line(bytes).ok_or(PasswordError::Unreadable("REJOIN_DB_PASSWORD_FILE"))
}

/// Runs the command by the shell.
async fn run(line: &str) -> Result<Secret, PasswordError> {
    let child = tokio::process::Command::new("/bin/sh")
        .args(["-c", line])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .kill_on_drop(true)
        .spawn()
        .map_err(PasswordError::Start)?;
    let output = tokio::time::timeout(COMMAND_LIMIT, child.wait_with_output())
        .await
        .map_err(|_| PasswordError::Slow)?
        .map_err(PasswordError::Start)?;
    if !output.status.success() {
        return Err(PasswordError::Failed(output.status));
    }
    first_line(output.stdout).ok_or(PasswordError::Unreadable("REJOIN_DB_PASSWORD_COMMAND"))
}

/// The first line, without its end.
fn first_line(bytes: Vec<u8>) -> Option<Secret> {
    let text = String::from_utf8(bytes).ok()?;
    let line = text.lines().next()?;
    (!line.is_empty() && line.len() <= MAX_BYTES).then(|| Secret::new(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(line: &str, seconds: u64) -> DatabaseArgs {
        DatabaseArgs {
            db_password_command: Some(line.to_owned()),
            db_password_seconds: seconds,
            ..DatabaseArgs::new("postgres://h/db")
        }
    }

    #[test]
    fn a_password_is_the_first_line() {
        for (text, password) in [("a b\n", Some("a b")), ("x\r\ny", Some("x")), ("", None), ("\nx", None)] {
            assert_eq!(first_line(text.into()), password.map(Secret::new), "{text:?}");
        }
        assert_eq!(first_line(vec![0xff]), None);
    }

    #[test]
    fn a_file_and_a_command_exclude_each_other() {
        let both = DatabaseArgs {
            db_password_file: Some("/password".into()),
            ..command("echo x", 600)
        };
        assert!(matches!(Password::of(&both), Err(PasswordError::Both)));
        assert!(Password::of(&DatabaseArgs::new("postgres://h/db")).unwrap().is_none());
    }

    #[tokio::test]
    async fn a_commands_answer_is_kept_and_renewed_once_when_refused() {
        let runs = std::env::temp_dir().join(format!("rejoin-password-{}", std::process::id()));
        let _ = std::fs::remove_file(&runs);
        let line = format!("echo run >> '{0}'; wc -l < '{0}'", runs.display());
        let password = Password::of(&command(&line, 600)).unwrap().unwrap();
        let first = password.current().await.unwrap();
        assert_eq!(password.current().await.unwrap(), first);
        let second = password.renewed(&first).await.expect("another run");
        assert_ne!(second, first);
        // Another connection that was refused with the first one.
        assert_eq!(password.renewed(&first).await.as_ref(), Some(&second));
        assert_eq!(password.renewed(&second).await, None, "it was renewed just now");
        assert_eq!(password.current().await.unwrap(), second);
        std::fs::remove_file(runs).unwrap();
    }

    #[test]
    fn a_failing_command_and_a_missing_file_are_named() {
        let failing = Password::of(&command("exit 3", 600)).unwrap().unwrap();
        let error = failing.current_blocking().unwrap_err();
        assert!(error.to_string().contains("exit status: 3"), "{error}");
        let args = DatabaseArgs {
            db_password_file: Some("/does-not-exist".into()),
            ..DatabaseArgs::new("postgres://h/db")
        };
        let error = Password::of(&args).unwrap().unwrap().current_blocking().unwrap_err();
        assert!(error.to_string().contains("/does-not-exist"), "{error}");
    }
}
