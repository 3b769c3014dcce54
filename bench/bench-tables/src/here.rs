//! Where and when a benchmark runs.

use std::process::Command;

use anyhow::Result;

use crate::machine::Machine;

/// Describes this machine.
pub fn machine() -> Result<Machine> {
    let of = |file: &str, key: &str| {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with(key)).unwrap_or_default();
        line.split_once(':')
            .map(|(_, value)| value.trim().to_owned())
            .unwrap_or_default()
    };
    let memory_kib: u64 = of("/proc/meminfo", "MemTotal")
        .trim_end_matches(" kB")
        .parse()
        .unwrap_or_default();
    // The server runs as another user if we are root, but its programs are the same.
    let binaries = rejoin_local_postgres::binaries::find(None, None, None)?;
    Ok(Machine {
        cpu: of("/proc/cpuinfo", "model name"),
        cores: std::thread::available_parallelism().map_or(0, usize::from),
        memory_gib: memory_kib / 1024 / 1024,
        kernel: std::fs::read_to_string("/proc/sys/kernel/osrelease")
            .unwrap_or_default()
            .trim()
            .to_owned(),
        postgres: output_of(Command::new(binaries.program("postgres")).arg("--version")),
        rust: output_of(Command::new("rustc").arg("--version")),
    })
}

/// What benchmarks write themselves: changes there do not change what is measured.
const RESULTS: [&str; 2] = [":(top,exclude)bench/results", ":(top,exclude)docs/reports"];

/// Returns the current commit, marked if the tree is modified.
pub fn commit() -> String {
    let commit = output_of(Command::new("git").args(["rev-parse", "--short=10", "HEAD"]));
    let mut status = Command::new("git");
    status
        .args(["status", "--porcelain", "--untracked-files=no", "--", ":(top)"])
        .args(RESULTS);
    let dirty = !output_of(&mut status).is_empty();
    if dirty { format!("{commit}+") } else { commit }
}

/// Returns the date in UTC.
pub fn today() -> String {
    chrono::DateTime::<chrono::Utc>::from(std::time::SystemTime::now())
        .format("%F")
        .to_string()
}

fn output_of(command: &mut Command) -> String {
    let output = command.output();
    output
        .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        .unwrap_or_default()
}
