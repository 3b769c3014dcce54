//! The process in its operating system, under the names that Prometheus' client libraries use. Read when the metrics are asked for. Linux only:
//! elsewhere these metrics are absent, except for the start time.

use std::fs;
use std::sync::LazyLock;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::exposition::Exposition;

/// Clock ticks per second in `/proc`: the same on all of Linux' platforms.
const TICKS_PER_S: f64 = 100.0;
const BYTES_PER_KIB: f64 = 1024.0;

static STARTED: LazyLock<f64> = LazyLock::new(clock_s);

/// Returns the time since the Unix epoch, in seconds.
pub(crate) fn clock_s() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs_f64()
}

/// Notes the start of the process.
pub(crate) fn start() {
    LazyLock::force(&STARTED);
}

/// Writes the process's metrics.
pub(crate) fn write(text: &mut Exposition) {
    let read = |name: &str| fs::read_to_string(format!("/proc/self/{name}")).ok();
    let values = [
        ("process_start_time_seconds", Some(*STARTED)),
        ("process_cpu_seconds_total", read("stat").and_then(|stat| cpu_s(&stat))),
        (
            "process_resident_memory_bytes",
            read("status").and_then(|status| resident_bytes(&status)),
        ),
        (
            "process_open_fds",
            fs::read_dir("/proc/self/fd").ok().map(|files| files.count() as f64),
        ),
        ("process_max_fds", read("limits").and_then(|limits| max_files(&limits))),
    ];
    for (name, value) in values {
        if let Some(value) = value {
            text.value(name, value);
        }
    }
}

/// User and system time, of `/proc/self/stat`.
fn cpu_s(stat: &str) -> Option<f64> {
    // The second field is the program's name in parentheses, which may contain spaces.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ').skip(11);
    let mut ticks = || fields.next()?.parse::<f64>().ok();
    Some((ticks()? + ticks()?) / TICKS_PER_S)
}

/// Resident memory, of `/proc/self/status`.
fn resident_bytes(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: f64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kib * BYTES_PER_KIB)
}

/// The soft limit of open files, of `/proc/self/limits`.
fn max_files(limits: &str) -> Option<f64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_proc_are_read() {
        let stat = "42 (a) b) S 1 42 42 0 -1 4194560 9 0 0 0 150 50 0 0 20 0 8 0 77 1000 200 18446744073709551615";
        assert_eq!(cpu_s(stat), Some(2.0));
        assert_eq!(
            resident_bytes("Name:\trejoin\nVmRSS:\t   2048 kB\n"),
            Some(2.0 * 1024.0 * 1024.0)
        );
        let limits = "Limit                     Soft Limit           Hard Limit           Units\n\
            Max open files            1024                 524288               files\n";
        assert_eq!(max_files(limits), Some(1024.0));
    }
}
