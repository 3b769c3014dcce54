//! Trees of processes, by `/proc`: a PostgreSQL server is a process with its children, and is not a child of ours.

use std::path::Path;

use rejoin_cli::dev::process::{self, Signal};

/// Returns a process and its descendants.
pub(super) fn of(root: u32) -> Vec<u32> {
    let parents = parents();
    let mut tree = vec![root];
    let mut next = 0;
    while let Some(parent) = tree.get(next).copied() {
        tree.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    tree
}

/// Suspends processes with their descendants, and returns them.
pub(super) fn suspend(roots: &[u32]) -> Vec<u32> {
    let mut suspended: Vec<u32> = Vec::new();
    loop {
        // A process may have forked before it was suspended.
        let others: Vec<u32> = roots
            .iter()
            .flat_map(|root| of(*root))
            .filter(|pid| !suspended.contains(pid))
            .collect();
        if others.is_empty() {
            return suspended;
        }
        send(&others, Signal::Stop);
        suspended.extend(others);
    }
}

/// Signals processes. Those that have ended are passed over.
pub(super) fn send(pids: &[u32], signal: Signal) {
    for pid in pids {
        let _ = process::send(*pid, signal);
    }
}

/// Returns the process id of the server of a data directory, if it runs.
pub(super) fn postmaster(data_dir: &Path) -> Option<u32> {
    let file = std::fs::read_to_string(data_dir.join("postmaster.pid")).ok()?;
    let pid = file.lines().next()?.trim().parse().ok()?;
    // The file of a killed server remains, and its number may be another program's.
    process::command_line(pid)?.contains(data_dir.to_str()?).then_some(pid)
}

/// Returns all processes with their parents.
fn parents() -> Vec<(u32, u32)> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
            Some((pid, parent(&stat)?))
        })
        .collect()
}

/// The parent in a line of `/proc/PID/stat`: `PID (NAME) STATE PARENT …`, where a name may hold anything.
fn parent(stat: &str) -> Option<u32> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_is_found_behind_any_name() {
        assert_eq!(parent("12 (postgres) S 7 12 12 0"), Some(7));
        assert_eq!(parent("12 (a) b (c)) R 8 12"), Some(8));
        assert_eq!(parent("12 (postgres"), None);
    }

    #[test]
    fn a_child_belongs_to_the_tree_of_its_parent() {
        let mut child = std::process::Command::new("/bin/sh")
            .args(["-c", "read line"])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let tree = of(std::process::id());
        assert_eq!(tree.first(), Some(&std::process::id()));
        assert!(tree.contains(&child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
