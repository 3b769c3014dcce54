//! The checker: decides after a run whether the invariants were kept, from the database and the evidence alone.
//!
//! One invariant per file; each returns its violations in words. Usable separately:
//! `chaos check --database-url … EVIDENCE`.
//!
//! If acknowledged commits may have been lost, because replication was asynchronous, fewer invariants can hold: what clients, tools and programs
//! have outside the database may be gone from it.

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
mod taken_back;

use std::fmt;
use std::path::Path;

use anyhow::Result;
use sqlx::PgPool;

pub use case::Case;

/// The check of an invariant.
type Check = fn(&Case) -> Vec<String>;

/// An invariant.
pub struct Invariant {
    pub name: &'static str,
    pub words: &'static str,
    check: Check,
    /// Whether it holds also if acknowledged commits may be lost.
    outlives_losses: bool,
}

/// Always holds.
const fn always(name: &'static str, words: &'static str, check: Check) -> Invariant {
    Invariant {
        name,
        words,
        check,
        outlives_losses: true,
    }
}

/// Holds unless acknowledged commits are lost.
const fn without_losses(name: &'static str, words: &'static str, check: Check) -> Invariant {
    Invariant {
        outlives_losses: false,
        ..always(name, words, check)
    }
}

const INVARIANTS: [Invariant; 16] = [
    always("I1", "every accepted message gets exactly one done", i01_done::check),
    always(
        "I2",
        "a log is 1..n without a gap, and a turn has no events after its done",
        i02_gapless::check,
    ),
    always("I3", "every reader reads the identical suffix", i03_readers::check),
    always(
        "I4",
        "nothing is written under a lost lease: every token occurs once",
        i04_fence::check,
    ),
    always(
        "I5",
        "one live attempt of a job, one active run of a conversation",
        i05_attempts::check,
    ),
    always("I6", "no runnable job waits", i06_waits::check),
    without_losses(
        "I7",
        "a call is recorded before it acts, and acts at most once",
        i07_effects::check,
    ),
    without_losses("I8", "the same key returns the same run", i08_keys::check),
    without_losses("I9", "a drain loses nothing", i09_drains::check),
    always("I10", "memory is bounded", i10_memory::check),
    without_losses(
        "I11",
        "events are visible within a second without wake-ups",
        i11_visible::check,
    ),
    always("I12", "a task runs once, a parent joins once", i12_joins::check),
    without_losses("I13", "no tool starts after a cancellation", i13_cancelled::check),
    always("I14", "no data crosses a project or an owner", i14_isolation::check),
    without_losses(
        "I15",
        "one attempt of a program's call has its result on record",
        i15_programs::check,
    ),
    without_losses("I16", "a step of a durable function has one result", i16_steps::check),
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

/// Returns the invariants that are checked. `may_lose_commits`: whether acknowledged commits may have been lost.
pub fn invariants(may_lose_commits: bool) -> impl Iterator<Item = &'static Invariant> {
    INVARIANTS
        .iter()
        .filter(move |invariant| invariant.outlives_losses || !may_lose_commits)
}

/// Reads everything, of all databases.
pub async fn load(databases: &[PgPool], evidence: &Path) -> Result<Case> {
    case::load(databases, evidence).await
}

/// Returns all violations.
pub fn check(case: &Case) -> Vec<Violation> {
    invariants(case.notes.may_lose_commits)
        .flat_map(|invariant| {
            let violation = |what| Violation {
                invariant: invariant.name,
                what,
            };
            (invariant.check)(case).into_iter().map(violation)
        })
        .collect()
}
