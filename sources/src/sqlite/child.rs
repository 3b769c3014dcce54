//! The process that runs SQLite: `rejoin` itself, started with [`VERB`] by `process`. It sets system limits before it
//! reads its task, answers once, and exits. Called first by the binary's `main`.
//!
//! Protocol: on standard input, a line with the limits and a line with the task, both JSON, and then nothing until the
//! parent closes it, which means that no caller waits. On standard output, the answer as JSON.
//!
//! Invariant: no statement runs before the limits are set.

use std::io::{self, BufRead, Read, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Resource, Rlimit, Signal, setrlimit};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::signal::unix::{SignalKind, signal};

use super::cells::Answer;
use super::engine::{self, Task};
use crate::source::SourceError;

/// The first word of the command line that makes `rejoin` this process. It is no verb for people.
pub const VERB: &str = "__sqlite";
/// Longest line of the protocol [bytes]: a join's five tables of 16 MiB, each byte escaped at worst.
const LINE_MAX_BYTES: u64 = 1024 * 1024 * 1024;

/// What the process may take, whatever its task says.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Limits {
    /// Address space beyond what the program has when it starts [bytes].
    pub(super) memory_bytes: u64,
    /// Any file that it writes [bytes].
    pub(super) file_bytes: u64,
    /// Time of processors [s].
    pub(super) cpu_s: u64,
}

/// Answers the task on standard input.
pub fn main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody may read it; the exit code tells that there is no answer.
            let _unread = writeln!(io::stderr(), "rejoin {VERB}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve() -> io::Result<()> {
    let mut stdin = io::stdin().lock();
    let limits: Limits = line(&mut stdin)?;
    // Its signals are all that is wanted of the runtime: a write beyond the limit is then an error, and not the end.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let _entered = runtime.enter();
    let _too_large = signal(SignalKind::from_raw(Signal::XFSZ.as_raw()))?;
    confine(&limits)?;
    let task: Task = line(&mut stdin)?;
    drop(stdin);
    let waited_for = Arc::new(AtomicBool::new(true));
    let stops = waited_for.clone();
    std::thread::Builder::new().stack_size(64 * 1024).spawn(move || {
        // It ends when the parent closes it, or is gone.
        let _end = io::copy(&mut io::stdin().lock(), &mut io::sink());
        stops.store(false, Ordering::Relaxed);
    })?;
    let answer: Result<Answer, SourceError> = engine::run(&task, waited_for).map(Answer::from);
    let mut stdout = io::BufWriter::new(io::stdout().lock());
    serde_json::to_writer(&mut stdout, &answer)?;
    stdout.flush()
}

fn line<T: DeserializeOwned>(stdin: &mut impl BufRead) -> io::Result<T> {
    let mut text = Vec::new();
    stdin.take(LINE_MAX_BYTES).read_until(b'\n', &mut text)?;
    Ok(serde_json::from_slice(&text)?)
}

/// Asks the system to hold this process to its limits. None of them can be raised again.
fn confine(limits: &Limits) -> io::Result<()> {
    let most = |value: u64| Rlimit {
        current: Some(value),
        maximum: Some(value),
    };
    setrlimit(Resource::Fsize, most(limits.file_bytes))?;
    setrlimit(Resource::Cpu, most(limits.cpu_s))?;
    setrlimit(Resource::Core, most(0))?;
    // Elsewhere SQLite's own limit of its heap is all there is: those systems don't hold processes to their address space.
    if cfg!(target_os = "linux") {
        setrlimit(Resource::As, most(mapped_bytes()?.saturating_add(limits.memory_bytes)))?;
    }
    Ok(())
}

/// Address space that this process has now, its program's file included.
fn mapped_bytes() -> io::Result<u64> {
    let pages = std::fs::read_to_string("/proc/self/statm")?;
    let pages = pages
        .split_whitespace()
        .next()
        .and_then(|pages| pages.parse::<u64>().ok());
    let pages = pages.ok_or_else(|| io::Error::other("/proc/self/statm has no resident size"))?;
    Ok(pages.saturating_mul(rustix::param::page_size() as u64))
}
