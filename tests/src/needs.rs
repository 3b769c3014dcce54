//! Programs required by a test. With `CI=true` a missing one is a failure; elsewhere the test is skipped with a
//! message.

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::{LazyLock, Mutex, PoisonError};

/// Messages already reported by this process.
static REPORTED: LazyLock<Mutex<BTreeSet<String>>> = LazyLock::new(Mutex::default);

/// Reports a missing program, once per process and reason. The caller's test then returns.
///
/// # Panics
/// With `CI=true`: nothing may be skipped there.
pub fn skip(reason: &str) {
    assert!(
        !std::env::var("CI").is_ok_and(|value| value == "true"),
        "{reason}, and with CI=true nothing is skipped"
    );
    let first = REPORTED
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .insert(reason.to_owned());
    if first {
        // Not eprintln!: the test harness would hide it, as for all passing tests.
        let _ = writeln!(std::io::stderr(), "SKIPPED: {reason}");
    }
}
