//! The watchdog process: `rejoin` itself, started with [`VERB`] by the owner, ends processes when their owner has
//! ended. Called first by the `main` of our programs.
//!
//! Protocol: it writes [`READY`], then reads lines from its standard input: `guard TARGET:FIRST:LAST`, `forget TARGET`,
//! `remove DIRECTORY`, `keep`. A target is a process, or with a `-` before it a process group; FIRST and LAST are
//! signals. End of input means that the owner has ended: every target gets its first signal, the remaining ones after
//! [`GRACE`] the last one, and the directories are removed.
//!
//! Invariant: it uses no program, no file and no setting of the machine's.

use std::ffi::OsString;
use std::io::{self, BufRead, Write};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process, test_kill_process_group};

/// The first command line argument that starts `rejoin` as the watchdog. It is not a user's verb.
pub const VERB: &str = "__watchdog";
/// Written when it starts reading.
pub(super) const READY: &str = "watching";

/// How long a guarded process may take to obey its first signal after the owner's end.
const GRACE: Duration = Duration::from_secs(5);
/// Interval between checks.
const LOOK: Duration = Duration::from_millis(100);

/// Whether this program's `main` calls [`main_if_asked`].
static IS_THIS_PROGRAM: AtomicBool = AtomicBool::new(false);

/// Called first in a program's `main`, so that the program can be its own watchdog. Some: this process was the
/// watchdog, and has finished.
pub fn main_if_asked() -> Option<ExitCode> {
    if std::env::args_os().nth(1).is_some_and(|verb| verb == VERB) {
        return Some(main());
    }
    IS_THIS_PROGRAM.store(true, Ordering::Relaxed);
    None
}

pub(super) fn is_this_program() -> bool {
    IS_THIS_PROGRAM.load(Ordering::Relaxed)
}

/// Guards until the owner has ended.
pub(super) fn main() -> ExitCode {
    let mut stdout = io::stdout();
    // An owner that has already ended does not read it; its end is detected below.
    let _unread = writeln!(stdout, "{READY}").and_then(|()| stdout.flush());
    let mut charge = Charge::default();
    for line in io::stdin().lock().split(b'\n') {
        match line {
            Ok(line) => charge.hear(line),
            // A read error means that the owner has ended.
            Err(_) => break,
        }
    }
    charge.end();
    ExitCode::SUCCESS
}

/// A process, or a process group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Process(Pid),
    Group(Pid),
}

impl Target {
    /// `123`, or `-123` for a group.
    fn read(text: &str) -> Option<Self> {
        let (number, is_group) = match text.strip_prefix('-') {
            Some(leader) => (leader, true),
            None => (text, false),
        };
        // 0 and 1 would signal everything.
        let number = number.parse().ok().filter(|number| *number > 1)?;
        let pid = Pid::from_raw(number)?;
        Some(if is_group {
            Target::Group(pid)
        } else {
            Target::Process(pid)
        })
    }

    fn send(self, signal: Signal) {
        // It may have ended.
        let _gone = match self {
            Target::Process(pid) => kill_process(pid, signal),
            Target::Group(leader) => kill_process_group(leader, signal),
        };
    }

    fn lives(self) -> bool {
        let looked = match self {
            Target::Process(pid) => test_kill_process(pid),
            Target::Group(leader) => test_kill_process_group(leader),
        };
        looked.is_ok()
    }
}

/// The signal of a name; an unknown one is SIGKILL.
fn signal(name: &str) -> Signal {
    match name {
        "INT" => Signal::INT,
        "QUIT" => Signal::QUIT,
        "TERM" => Signal::TERM,
        _ => Signal::KILL,
    }
}

/// The work to be done at the owner's end.
#[derive(Debug, Default)]
struct Charge {
    guarded: Vec<(Target, Signal, Signal)>,
    directories: Vec<PathBuf>,
}

impl Charge {
    fn hear(&mut self, line: Vec<u8>) {
        if let Some(directory) = line.strip_prefix(b"remove ") {
            self.directories
                .push(PathBuf::from(OsString::from_vec(directory.to_vec())));
            return;
        }
        let line = String::from_utf8_lossy(&line);
        match line.split_once(' ') {
            Some(("guard", entry)) => {
                let mut parts = entry.split(':');
                let mut next = || parts.next().unwrap_or_default();
                if let Some(target) = Target::read(next()) {
                    self.guarded.push((target, signal(next()), signal(next())));
                }
            }
            Some(("forget", entry)) => {
                let forgotten = Target::read(entry);
                self.guarded.retain(|(target, ..)| Some(*target) != forgotten);
            }
            None if line == "keep" => self.directories.clear(),
            Some(_) | None => {}
        }
    }

    fn end(self) {
        for (target, first, _) in &self.guarded {
            target.send(*first);
        }
        let looks = GRACE.as_millis() / LOOK.as_millis();
        for _ in 0..looks {
            if !self.guarded.iter().any(|(target, ..)| target.lives()) {
                break;
            }
            #[expect(
                clippy::disallowed_methods,
                reason = "a separate process, with one thread and no runtime"
            )]
            std::thread::sleep(LOOK);
        }
        for (target, _, last) in &self.guarded {
            target.send(*last);
        }
        for directory in &self.directories {
            // The owner may have removed it.
            let _gone = std::fs::remove_dir_all(directory);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(number: i32) -> Target {
        Target::Process(Pid::from_raw(number).unwrap())
    }

    #[test]
    fn what_is_guarded_and_removed_is_what_was_said_last() {
        let mut charge = Charge::default();
        for line in [
            "guard 20:INT:QUIT",
            "guard -20:TERM:KILL",
            "guard 30:TERM:KILL",
            "forget 30",
            "forget 40",
            "remove /tmp/a b",
            "keep",
            "remove /tmp/c d",
        ] {
            charge.hear(line.as_bytes().to_vec());
        }
        let group = Target::Group(Pid::from_raw(20).unwrap());
        assert_eq!(
            charge.guarded,
            [
                (process(20), Signal::INT, Signal::QUIT),
                (group, Signal::TERM, Signal::KILL)
            ]
        );
        assert_eq!(charge.directories, [PathBuf::from("/tmp/c d")]);
    }

    #[test]
    fn no_other_process_is_ended_whatever_the_input() {
        let mut charge = Charge::default();
        for line in [
            "guard 0:KILL:KILL",
            "guard -1:KILL:KILL",
            "guard 1:KILL:KILL",
            "guard x",
            "guard",
            "",
            "\u{fffd}",
        ] {
            charge.hear(line.as_bytes().to_vec());
        }
        assert!(charge.guarded.is_empty() && charge.directories.is_empty());
    }
}
