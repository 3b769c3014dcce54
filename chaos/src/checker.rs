//! The checker: decides after a run whether the invariants were kept, from the database and the evidence alone.
//!
//! One invariant per file; each returns its violations in words. Usable separately:
//! `chaos check --database-url … EVIDENCE`.

mod case;
mod i01_done;
mod i02_gapless;
mod i03_readers;
mod i04_fence;
mod i05_attempts;
mod i06_waits;
mod i07_effects;
mod i08_keys;
mod i09_drains;
mod i10_memory;
mod i11_visible;
mod i12_joins;
mod i13_cancelled;
mod i14_isolation;
mod i15_programs;
mod i16_steps;

use std::fmt;
use std::path::Path;

use anyhow::Result;
use sqlx::PgPool;

pub use case::Case;

/// The check of an invariant.
type Check = fn(&Case) -> Vec<String>;

/// All invariants.
const CHECKS: [(&str, &str, Check); 16] = [
    ("I1", "every accepted message gets exactly one done", i01_done::check),
    (
        "I2",
        "a log is 1..n without a gap, and a turn has no events after its done",
        i02_gapless::check,
    ),
    ("I3", "every reader reads the identical suffix", i03_readers::check),
    (
        "I4",
        "nothing is written under a lost lease: every token occurs once",
        i04_fence::check,
    ),
    (
        "I5",
        "one live attempt of a job, one active run of a conversation",
        i05_attempts::check,
    ),
    ("I6", "no runnable job waits", i06_waits::check),
    (
        "I7",
        "a call is recorded before it acts, and acts at most once",
        i07_effects::check,
    ),
    ("I8", "the same key returns the same run", i08_keys::check),
    ("I9", "a drain loses nothing", i09_drains::check),
    ("I10", "memory is bounded", i10_memory::check),
    (
        "I11",
        "events are visible within a second without wake-ups",
        i11_visible::check,
    ),
    ("I12", "a task runs once, a parent joins once", i12_joins::check),
    ("I13", "no tool starts after a cancellation", i13_cancelled::check),
    ("I14", "no data crosses a project or an owner", i14_isolation::check),
    (
        "I15",
        "one attempt of a program's call has its result on record",
        i15_programs::check,
    ),
    ("I16", "a step of a durable function has one result", i16_steps::check),
];

/// A violated invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub invariant: &'static str,
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.what)
    }
}

/// Returns the checked invariants, with their descriptions.
pub fn invariants() -> impl Iterator<Item = (&'static str, &'static str)> {
    CHECKS.iter().map(|(name, words, _)| (*name, *words))
}

/// Reads everything.
pub async fn load(db: &PgPool, evidence: &Path) -> Result<Case> {
    case::load(db, evidence).await
}

/// Returns all violations.
pub fn check(case: &Case) -> Vec<Violation> {
    CHECKS
        .iter()
        .flat_map(|(invariant, _, check)| check(case).into_iter().map(|what| Violation { invariant, what }))
        .collect()
}
