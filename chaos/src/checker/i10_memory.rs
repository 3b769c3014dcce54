//! I10: memory is bounded, whatever readers do.

use super::Case;

pub(super) fn check(case: &Case) -> Vec<String> {
    let bound = case.notes.memory_bound_bytes;
    let mib = |bytes: u64| bytes / (1024 * 1024);
    case.notes
        .memory_bytes
        .iter()
        .filter(|(_, bytes)| *bytes > bound)
        .map(|(name, bytes)| format!("{name} had {} MiB, the bound is {} MiB", mib(*bytes), mib(bound)))
        .collect()
}
