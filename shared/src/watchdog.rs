//! Ends child processes when their owner ends, however it ends.
//!
//! A small `sh` reads from a pipe whose other end only we hold. When we exit, crash or are killed with SIGKILL, the
//! kernel closes our end, its `read` returns, and it ends what it was told to guard. (The kernel's own parent-death
//! signal follows the thread that forked, and a runtime's threads come and go: it would end a server in mid-life.)
//!
//! Called by `rejoin dev` for what it starts, and by workers for MCP servers. Invariant: the watchdog holds none of our other files, so nobody who waits
//! for the end of our output waits for it.
use std::{
    io::{self, Write},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    sync::Mutex,
};

/// How long a guarded process may take to obey its first signal, once the owner is gone: 50 looks, 0.1 s apart.
const GRACE_LOOKS: u32 = 50;

const SCRIPT: &str = r#"
looks=$1
shift
guarded=
while read -r verb rest; do
    case $verb in
        guard) guarded="$guarded $rest" ;;
        forget)
            left=
            for entry in $guarded; do
                case $entry in "$rest":*) ;; *) left="$left $entry" ;; esac
            done
            guarded=$left
            ;;
        remove) set -- "$@" "$rest" ;;
        keep) set -- ;;
    esac
done
for entry in $guarded; do
    signals=${entry#*:}
    kill -s "${signals%%:*}" -- "${entry%%:*}" 2>/dev/null
done
while [ "$looks" -gt 0 ]; do
    alive=
    for entry in $guarded; do
        kill -s 0 -- "${entry%%:*}" 2>/dev/null && alive=1
    done
    [ -z "$alive" ] && break
    looks=$((looks - 1))
    sleep 0.1
done
for entry in $guarded; do
    kill -s "${entry##*:}" -- "${entry%%:*}" 2>/dev/null
done
[ "$#" -gt 0 ] && rm -rf -- "$@"
exit 0
"#;

/// A running watchdog. Dropping it is the owner's end, too: what is still guarded then is ended.
#[derive(Debug)]
pub struct Watchdog {
    pipe: Mutex<Option<ChildStdin>>,
    child: Child,
}

impl Watchdog {
    /// # Errors
    /// `/bin/sh` can't be started.
    pub fn start() -> io::Result<Self> {
        let mut child = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "rejoin-watchdog"])
            .arg(GRACE_LOOKS.to_string())
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C goes to the terminal's foreground group; the watchdog has to outlive it.
            .process_group(0)
            .spawn()?;
        Ok(Self {
            pipe: Mutex::new(child.stdin.take()),
            child,
        })
    }

    /// From now on the process ends with us: by the signal `first` (a name that `kill -s` knows), and if it does not obey, by `last`.
    pub fn guard(&self, pid: u32, first: &str, last: &str) {
        self.tell(&format!("guard {pid}:{first}:{last}"));
    }

    /// The same for a process group, by its leader: by SIGTERM, then by SIGKILL.
    pub fn guard_group(&self, leader: u32) {
        self.tell(&format!("guard -{leader}:TERM:KILL"));
    }

    /// The group ended. Say it before its number can belong to somebody else.
    pub fn forget_group(&self, leader: u32) {
        self.tell(&format!("forget -{leader}"));
    }

    /// The process ended, or may live on. Say it before its number can belong to somebody else.
    pub fn forget(&self, pid: u32) {
        self.tell(&format!("forget {pid}"));
    }

    /// This directory, which is ours, is removed at the end. Paths with a line break are left alone.
    pub fn remove(&self, dir: &Path) {
        if let Some(dir) = dir.to_str().filter(|dir| dir.starts_with('/') && !dir.contains('\n')) {
            self.tell(&format!("remove {dir}"));
        }
    }

    /// No directory is removed any more.
    pub fn keep(&self) {
        self.tell("keep");
    }

    /// The owner's end, now: what is guarded is being ended while the caller waits for it.
    pub fn release(&self) {
        drop(self.pipe.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take());
    }

    fn tell(&self, line: &str) {
        let mut pipe = self.pipe.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(pipe) = pipe.as_mut()
            && let Err(error) = pipe.write_all(format!("{line}\n").as_bytes())
        {
            tracing::warn!(%error, "the watchdog is gone: should this process be killed, its children stay");
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.release();
        // Ends at once if nothing is guarded, and within its grace otherwise.
        if let Err(error) = self.child.wait() {
            tracing::warn!(%error, "could not wait for the watchdog");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    const SIGTERM: i32 = 15;

    fn sleeper() -> Child {
        Command::new("/bin/sh").args(["-c", "sleep 60 & wait"]).spawn().unwrap()
    }

    #[test]
    fn a_guarded_process_ends_with_the_watchdog_and_a_forgotten_one_does_not() {
        let dir = std::env::temp_dir().join(format!("rejoin watchdog {}", uuid::Uuid::now_v7().simple()));
        std::fs::create_dir(&dir).unwrap();
        let (mut guarded, mut forgotten) = (sleeper(), sleeper());
        let watchdog = Watchdog::start().unwrap();
        watchdog.guard(guarded.id(), "TERM", "KILL");
        watchdog.guard(forgotten.id(), "TERM", "KILL");
        watchdog.forget(forgotten.id());
        watchdog.remove(&dir);
        // The child is reaped by another thread, as its init would do it if we were gone.
        let waiting = std::thread::spawn(move || guarded.wait().unwrap());
        drop(watchdog);
        assert_eq!(waiting.join().unwrap().signal(), Some(SIGTERM));
        assert!(forgotten.try_wait().unwrap().is_none());
        assert!(!dir.exists());
        forgotten.kill().unwrap();
        forgotten.wait().unwrap();
    }
}
