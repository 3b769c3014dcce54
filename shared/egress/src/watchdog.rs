//! Ends child processes when their owner ends, however it ends.
//!
//! - `child`  the watchdog process
//!
//! The watchdog reads from a pipe whose other end only the owner holds. When the owner exits, crashes or is killed with
//! SIGKILL, the kernel closes its end, the read returns, and the guarded processes are ended. (The kernel's own
//! parent-death signal follows the thread that forked, and a runtime's threads are short-lived: it would end a running
//! server. It also reaches one process, not its group.)
//!
//! The watchdog is `rejoin` itself, started with a special verb: an image without a shell has no other program.
//!
//! Called by `rejoin dev` for what it starts, and by workers for MCP servers. Invariant: the watchdog holds none of our
//! other file descriptors, so it never keeps our output open.
pub mod child;

use std::{
    io::{self, BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::Mutex,
};

/// A running watchdog. Dropping it counts as the owner's end: guarded processes are then ended.
#[derive(Debug)]
pub struct Watchdog {
    pipe: Mutex<Option<ChildStdin>>,
    child: Child,
}

impl Watchdog {
    /// Starts a watchdog, and waits until it reads.
    ///
    /// # Errors
    /// No suitable program was found, or it can't be started.
    pub fn start() -> io::Result<Self> {
        let program = program()?;
        let mut command = Command::new(&program);
        command.arg(child::VERB);
        Self::of(command).map_err(|error| {
            let program = program.display();
            io::Error::new(
                error.kind(),
                format!("starting {program} as a watchdog failed: {error}"),
            )
        })
    }

    fn of(mut command: Command) -> io::Result<Self> {
        let mut child = command
            // It needs none of our settings, some of which are secret.
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // Ctrl-C goes to the terminal's foreground group; the watchdog must survive it.
            .process_group(0)
            .spawn()?;
        let watchdog = Self {
            pipe: Mutex::new(child.stdin.take()),
            child,
        };
        watchdog.hear()
    }

    /// Waits for its first line: another program, or another version of `rejoin`, does not write it.
    fn hear(mut self) -> io::Result<Self> {
        let output = BufReader::new(self.child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?);
        for line in output.lines() {
            if line?.ends_with(child::READY) {
                return Ok(self);
            }
        }
        Err(io::Error::other("it is not a `rejoin` of this version"))
    }

    /// Guards a process: it ends with us, by the signal `first` (`INT`, `QUIT`, `TERM` or `KILL`), and if that has no
    /// effect, by `last`.
    pub fn guard(&self, pid: u32, first: &str, last: &str) {
        self.tell(&format!("guard {pid}:{first}:{last}"));
    }

    /// The same for a process group, by its leader: by SIGTERM, then by SIGKILL.
    pub fn guard_group(&self, leader: u32) {
        self.tell(&format!("guard -{leader}:TERM:KILL"));
    }

    /// Forgets an ended group. Call it before its number can be reused.
    pub fn forget_group(&self, leader: u32) {
        self.tell(&format!("forget -{leader}"));
    }

    /// Forgets a process that ended or may live on. Call it before its number can be reused.
    pub fn forget(&self, pid: u32) {
        self.tell(&format!("forget {pid}"));
    }

    /// Removes this directory of ours at the end. Paths with a line break are ignored.
    pub fn remove(&self, dir: &Path) {
        if let Some(dir) = dir.to_str().filter(|dir| dir.starts_with('/') && !dir.contains('\n')) {
            self.tell(&format!("remove {dir}"));
        }
    }

    /// Keeps all directories.
    pub fn keep(&self) {
        self.tell("keep");
    }

    /// Ends the guarded processes now, and waits for it.
    pub fn release(&self) {
        drop(self.pipe.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take());
    }

    fn tell(&self, line: &str) {
        let mut pipe = self.pipe.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(pipe) = pipe.as_mut()
            && let Err(error) = pipe.write_all(format!("{line}\n").as_bytes())
        {
            tracing::warn!(%error, "the watchdog has ended; if this process is killed, its children keep running");
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.release();
        // Exits immediately if nothing is guarded, otherwise within its grace period.
        if let Err(error) = self.child.wait() {
            tracing::warn!(%error, "waiting for the watchdog failed");
        }
    }
}

/// Returns the program to start: this one, if it declared that it can be a watchdog ([`child::main_if_asked`]); else,
/// for tests and embedding programs, the `rejoin` beside it, or in the folder above as placed by Cargo.
fn program() -> io::Result<PathBuf> {
    if child::is_this_program() {
        // Also if an upgrade has replaced the file.
        return if cfg!(target_os = "linux") {
            Ok(PathBuf::from("/proc/self/exe"))
        } else {
            std::env::current_exe()
        };
    }
    let this = std::env::current_exe()?;
    let folders = this.ancestors().skip(1).take(2);
    let beside = folders.map(|folder| folder.join("rejoin")).find(|path| path.is_file());
    beside.ok_or_else(|| {
        let this = this.display();
        io::Error::new(
            io::ErrorKind::NotFound,
            format!("there is no `rejoin` next to {this} to run as watchdog (cargo build -p rejoin --bins)"),
        )
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    const SIGKILL: i32 = 9;
    const SIGTERM: i32 = 15;

    /// A shell that reports when it is ready for signals, and then waits.
    fn waiting(script: &str, group: bool) -> Child {
        let mut command = Command::new("/bin/sh");
        command.args([
            "-c",
            &format!("{script}; echo ready; while :; do sleep 60 & wait; done"),
        ]);
        if group {
            command.process_group(0);
        }
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        child
    }

    /// Starts this test program as a watchdog: only the test below.
    fn start() -> Watchdog {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([
            "--exact",
            "watchdog::tests::this_program_as_a_watchdog",
            "--ignored",
            "--nocapture",
        ]);
        Watchdog::of(command).unwrap()
    }

    #[test]
    #[ignore = "a part of the others, started by them"]
    fn this_program_as_a_watchdog() {
        child::main();
    }

    #[test]
    fn guarded_processes_end_with_the_watchdog_others_do_not() {
        let dir = std::env::temp_dir().join(format!("rejoin watchdog {}", uuid::Uuid::now_v7().simple()));
        std::fs::create_dir(&dir).unwrap();
        let (mut guarded, mut forgotten) = (waiting(":", false), waiting(":", false));
        let watchdog = start();
        watchdog.guard(guarded.id(), "TERM", "KILL");
        watchdog.guard(forgotten.id(), "TERM", "KILL");
        watchdog.forget(forgotten.id());
        watchdog.remove(&dir);
        // Another thread reaps the child, as init would after our end.
        let waiting = std::thread::spawn(move || guarded.wait().unwrap());
        drop(watchdog);
        assert_eq!(waiting.join().unwrap().signal(), Some(SIGTERM));
        assert!(forgotten.try_wait().unwrap().is_none());
        assert!(!dir.exists());
        forgotten.kill().unwrap();
        forgotten.wait().unwrap();
    }

    #[test]
    fn a_stubborn_group_is_killed_and_a_forgotten_one_lives() {
        let (mut stubborn, mut forgotten) = (waiting("trap : TERM", true), waiting(":", true));
        let watchdog = start();
        watchdog.guard_group(stubborn.id());
        watchdog.guard_group(forgotten.id());
        watchdog.forget_group(forgotten.id());
        let ended = std::thread::spawn(move || stubborn.wait().unwrap());
        drop(watchdog);
        assert_eq!(ended.join().unwrap().signal(), Some(SIGKILL));
        assert!(forgotten.try_wait().unwrap().is_none());
        forgotten.kill().unwrap();
        forgotten.wait().unwrap();
    }

    #[test]
    fn directories_are_kept_and_a_wrong_watchdog_is_an_error() {
        let dir = std::env::temp_dir().join(format!("rejoin-watchdog-{}", uuid::Uuid::now_v7().simple()));
        std::fs::create_dir(&dir).unwrap();
        let watchdog = start();
        watchdog.remove(&dir);
        watchdog.keep();
        drop(watchdog);
        assert!(dir.exists());
        std::fs::remove_dir(&dir).unwrap();
        assert!(Watchdog::of(Command::new("/bin/true")).is_err());
    }
}
