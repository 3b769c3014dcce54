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

/// The first command line argument that starts `rejoin` as this process. It is not a user's verb.
pub const VERB: &str = "__sqlite";
/// Maximum length of a protocol line, in bytes: a join's five tables of 16 MiB, each byte escaped at worst.
const LINE_MAX_BYTES: u64 = 1024 * 1024 * 1024;

/// The process's limits, whatever its task.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Limits {
    /// Address space beyond the program's own at start, in bytes.
    pub(super) memory_bytes: u64,
    /// Maximum size of any file that it writes, in bytes.
    pub(super) file_bytes: u64,
    /// CPU time, in seconds.
    pub(super) cpu_s: u64,
}

/// Executes the task on standard input.
pub fn main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The reader may be gone; the exit code reports the failure.
            let _unread = writeln!(io::stderr(), "rejoin {VERB}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve() -> io::Result<()> {
    let mut stdin = io::stdin().lock();
    let limits: Limits = line(&mut stdin)?;
    // The runtime's signal handling turns a write beyond the limit into an error instead of the process's end.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let _entered = runtime.enter();
    let _too_large = signal(SignalKind::from_raw(Signal::XFSZ.as_raw()))?;
    confine(&limits)?;
    let task: Task = line(&mut stdin)?;
    drop(stdin);
    let waited_for = Arc::new(AtomicBool::new(true));
    let stops = waited_for.clone();
    std::thread::Builder::new().stack_size(64 * 1024).spawn(move || {
        // It ends when the parent closes it or has ended.
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

/// Sets the system's limits of this process. They can't be raised again.
fn confine(limits: &Limits) -> io::Result<()> {
    let most = |value: u64| Rlimit {
        current: Some(value),
        maximum: Some(value),
    };
    setrlimit(Resource::Fsize, most(limits.file_bytes))?;
    setrlimit(Resource::Cpu, most(limits.cpu_s))?;
    setrlimit(Resource::Core, most(0))?;
    // Elsewhere SQLite's own heap limit applies: those systems don't enforce a limit of address space.
    if cfg!(target_os = "linux") {
        setrlimit(Resource::As, most(mapped_bytes()?.saturating_add(limits.memory_bytes)))?;
    }
    Ok(())
}

/// Returns this process's current address space, including its program's file.
fn mapped_bytes() -> io::Result<u64> {
    let pages = std::fs::read_to_string("/proc/self/statm")?;
    let pages = pages
        .split_whitespace()
        .next()
        .and_then(|pages| pages.parse::<u64>().ok());
    let pages = pages.ok_or_else(|| io::Error::other("/proc/self/statm has no resident size"))?;
    Ok(pages.saturating_mul(rustix::param::page_size() as u64))
}
