//! Signals and users: the few system calls without a safe wrapper in std.
//!
//! Called by `postgres` and `supervise`. The only file of this crate with unsafe code.
use std::{
    io,
    os::unix::process::CommandExt,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Result, bail};

/// The signals that we send, by their purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// SIGINT. PostgreSQL: fast shutdown (roll back open transactions, checkpoint, exit).
    Interrupt,
    /// SIGTERM. Ours: drain, then exit.
    Terminate,
    /// SIGQUIT. PostgreSQL: immediate shutdown, as after a crash.
    Quit,
    /// SIGKILL.
    Kill,
    /// SIGSTOP: suspends it until [`Signal::Continue`].
    Stop,
    /// SIGCONT.
    Continue,
}

impl Signal {
    fn number(self) -> libc::c_int {
        match self {
            Signal::Interrupt => libc::SIGINT,
            Signal::Terminate => libc::SIGTERM,
            Signal::Quit => libc::SIGQUIT,
            Signal::Kill => libc::SIGKILL,
            Signal::Stop => libc::SIGSTOP,
            Signal::Continue => libc::SIGCONT,
        }
    }

    /// The name used by `kill -s`.
    pub fn name(self) -> &'static str {
        match self {
            Signal::Interrupt => "INT",
            Signal::Terminate => "TERM",
            Signal::Quit => "QUIT",
            Signal::Kill => "KILL",
            Signal::Stop => "STOP",
            Signal::Continue => "CONT",
        }
    }
}

#[expect(
    unsafe_code,
    reason = "std has no kill(2); two integers in, one out, no memory is touched"
)]
fn kill(pid: u32, signal: libc::c_int) -> io::Result<()> {
    // 0 would be our own process group and a negative number another one.
    let pid = i32::try_from(pid)
        .ok()
        .filter(|pid| *pid > 0)
        .ok_or(io::ErrorKind::InvalidInput)?;
    // SAFETY: kill takes no pointers.
    match unsafe { libc::kill(pid, signal) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[expect(unsafe_code, reason = "std has no geteuid(2), which cannot fail")]
fn effective_uid() -> u32 {
    // SAFETY: geteuid takes nothing and always succeeds.
    unsafe { libc::geteuid() }
}

/// Returns the width of the terminal behind `file`; `None` if it is none.
#[expect(unsafe_code, reason = "std has no ioctl(2)")]
pub fn terminal_columns(file: &impl std::os::fd::AsRawFd) -> Option<usize> {
    let mut size = libc::winsize {
        ws_row: 0,
        ws_col: 0,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: TIOCGWINSZ writes one winsize, into ours, which lives until the call returns.
    let asked = unsafe { libc::ioctl(file.as_raw_fd(), libc::TIOCGWINSZ, &raw mut size) };
    (asked == 0 && size.ws_col > 0).then_some(usize::from(size.ws_col))
}

/// Sends a signal to one process.
///
/// # Errors
/// The process does not exist, or belongs to another user.
pub fn send(pid: u32, signal: Signal) -> io::Result<()> {
    kill(pid, signal.number())
}

/// Returns whether a process with this id exists (including zombies).
pub fn exists(pid: u32) -> bool {
    match kill(pid, 0) {
        Ok(()) => true,
        Err(error) => error.raw_os_error() == Some(libc::EPERM),
    }
}

/// Returns the command line of a process, separated by spaces; `None` if unknown.
pub fn command_line(pid: u32) -> Option<String> {
    let words = match std::fs::read(format!("/proc/{pid}/cmdline")) {
        Ok(raw) => String::from_utf8_lossy(&raw).replace('\0', " "),
        // No /proc: not Linux.
        Err(_) => {
            let output = Command::new("ps")
                .args(["-o", "command=", "-p", &pid.to_string()])
                .output()
                .ok()?;
            String::from_utf8_lossy(&output.stdout).into_owned()
        }
    };
    Some(words.trim().to_owned()).filter(|words| !words.is_empty())
}

/// Another user, as whom a child runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub uid: u32,
    pub gid: u32,
}

impl User {
    /// Makes the command run as this user, in a directory accessible to all.
    pub fn run(user: Option<&User>, command: &mut Command) {
        command.current_dir("/");
        if let Some(user) = user {
            // As root, std also drops the supplementary groups.
            command.uid(user.uid).gid(user.gid);
        }
    }

    /// Returns whether this user can enter the directory: by trying, so that ACLs and mounts count, too.
    pub fn can_enter(&self, dir: &Path) -> bool {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "cd -- \"$1\"", "sh"]).arg(dir);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        User::run(Some(self), &mut command);
        command.status().is_ok_and(|status| status.success())
    }
}

/// Returns the user of PostgreSQL: `None` is ourselves; as root, which PostgreSQL refuses, `postgres` or else `nobody`.
///
/// # Errors
/// We are root and neither user exists.
pub fn server_user() -> Result<Option<User>> {
    if effective_uid() != 0 {
        return Ok(None);
    }
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    for name in ["postgres", "nobody"] {
        if let Some(user) = passwd.lines().find_map(|line| parse_passwd(line, name)) {
            return Ok(Some(user));
        }
    }
    bail!(
        "PostgreSQL does not run as root, and this machine has neither a user `postgres` nor a user `nobody` to run \
        it as; create one (`useradd --system postgres`), or start as an ordinary user"
    )
}

fn parse_passwd(line: &str, name: &str) -> Option<User> {
    let mut fields = line.split(':');
    (fields.next()? == name).then_some(())?;
    let mut numbers = fields.skip(1).map(str::parse::<u32>);
    let uid = numbers.next()?.ok().filter(|uid| *uid != 0)?;
    let gid = numbers.next()?.ok()?;
    Some(User {
        name: name.to_owned(),
        uid,
        gid,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_passwd_becomes_a_user_but_never_root() {
        let line = "postgres:x:101:104:PostgreSQL administrator,,,:/var/lib/postgresql:/bin/bash";
        assert_eq!(
            parse_passwd(line, "postgres"),
            Some(User {
                name: "postgres".to_owned(),
                uid: 101,
                gid: 104
            })
        );
        assert_eq!(parse_passwd(line, "nobody"), None);
        assert_eq!(parse_passwd("postgres:x:0:0::/:/bin/sh", "postgres"), None);
    }

    #[test]
    fn we_exist_and_a_child_that_was_waited_for_does_not() {
        assert!(exists(std::process::id()));
        let mut child = Command::new("/bin/sh").args(["-c", "exit 0"]).spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();
        assert!(!exists(pid));
        assert!(send(0, Signal::Terminate).is_err(), "0 is our own process group");
    }
}
