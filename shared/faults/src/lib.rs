//! Fault injection: each switch violates one invariant, to prove that the chaos checker detects it. A build with optimization has no
//! switches, unless it has the feature `fault-injection`: [`enabled`] is a constant there. A debug build always has them, so that tests
//! need no second build.

/// A fault: the invariant that it violates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Events are written without checking the lease (I4).
    NoFence,
    /// Polling is off (I11).
    NoPoll,
    /// A run ends before its events are written (I2, I4).
    SettleBeforeEvents,
    /// A number is skipped (I2).
    DroppedSeq,
    /// A turn ends twice (I1).
    DoneTwice,
    /// A reader of the past skips events (I3).
    ReaderSkips,
    /// A job whose lease expired keeps its attempt: two workers have the same fence (I5).
    SweepWithoutBump,
    /// Cached keys are mixed up (I14).
    KeysShared,
    /// Success is reported before the commit (I1).
    AnswerBeforeCommit,
    /// Tools act before they are recorded (I7).
    ActBeforeRecord,
    /// A call that may have acted is repeated (I7).
    RepeatUnknown,
    /// A commit with a lost response is repeated (I4).
    CommitRepeated,
    /// Cancellations are confirmed and ignored (I13).
    CancelIgnored,
    /// Idempotency keys are ignored (I8).
    IdempotencyIgnored,
    /// A stopping worker releases nothing (I9).
    DrainDrops,
    /// Turns of a conversation run concurrently (I5).
    RunsSideBySide,
    /// Jobs of dead workers are not made available again (I6).
    NoSweep,
    /// Readers keep what they have sent in memory (I10).
    ReadersKeep,
    /// A parent is not resumed when its last sub-agent ends (I12).
    ParentSleeps,
    /// A call of a user's program is handed out again after its loss, whatever its tool may (I7).
    LostCallRepeated,
    /// The result of an attempt that has lost its call is accepted (I15).
    StaleResultAccepted,
    /// A durable function that begins again does not get its recorded steps (I7).
    StepsForgotten,
    /// What the step of an agent's function has written is kept when its program is lost, and written again (I4).
    TextKept,
    /// A project is copied to another database while requests may still change it (I1).
    HoldWithoutWaiting,
}

impl Fault {
    pub const ALL: [Self; 24] = [
        Self::NoFence,
        Self::NoPoll,
        Self::SettleBeforeEvents,
        Self::DroppedSeq,
        Self::DoneTwice,
        Self::ReaderSkips,
        Self::SweepWithoutBump,
        Self::KeysShared,
        Self::AnswerBeforeCommit,
        Self::ActBeforeRecord,
        Self::RepeatUnknown,
        Self::CommitRepeated,
        Self::CancelIgnored,
        Self::IdempotencyIgnored,
        Self::DrainDrops,
        Self::RunsSideBySide,
        Self::NoSweep,
        Self::ReadersKeep,
        Self::ParentSleeps,
        Self::LostCallRepeated,
        Self::StaleResultAccepted,
        Self::StepsForgotten,
        Self::TextKept,
        Self::HoldWithoutWaiting,
    ];

    /// The name in the environment variable.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoFence => "no-fence",
            Self::NoPoll => "no-poll",
            Self::SettleBeforeEvents => "settle-before-events",
            Self::DroppedSeq => "dropped-seq",
            Self::DoneTwice => "done-twice",
            Self::ReaderSkips => "reader-skips",
            Self::SweepWithoutBump => "sweep-without-bump",
            Self::KeysShared => "keys-shared",
            Self::AnswerBeforeCommit => "answer-before-commit",
            Self::ActBeforeRecord => "act-before-record",
            Self::RepeatUnknown => "repeat-unknown",
            Self::CommitRepeated => "commit-repeated",
            Self::CancelIgnored => "cancel-ignored",
            Self::IdempotencyIgnored => "idempotency-ignored",
            Self::DrainDrops => "drain-drops",
            Self::RunsSideBySide => "runs-side-by-side",
            Self::NoSweep => "no-sweep",
            Self::ReadersKeep => "readers-keep",
            Self::ParentSleeps => "parent-sleeps",
            Self::LostCallRepeated => "lost-call-repeated",
            Self::StaleResultAccepted => "stale-result-accepted",
            Self::StepsForgotten => "steps-forgotten",
            Self::TextKept => "text-kept",
            Self::HoldWithoutWaiting => "hold-without-waiting",
        }
    }
}

/// The environment variable that enables a fault, in a build with fault injection.
pub const VARIABLE: &str = "REJOIN_BREAK";

/// Whether this build supports fault injection.
pub const COMPILED_IN: bool = cfg!(any(feature = "fault-injection", debug_assertions));

/// Returns whether this fault is enabled.
#[cfg(any(feature = "fault-injection", debug_assertions))]
pub fn enabled(one: Fault) -> bool {
    use std::sync::LazyLock;
    static SELECTED: LazyLock<Option<Fault>> = LazyLock::new(|| {
        let name = std::env::var(VARIABLE).ok()?;
        Fault::ALL.into_iter().find(|one| one.name() == name)
    });
    *SELECTED == Some(one)
}

/// Returns whether this fault is enabled: never.
#[cfg(not(any(feature = "fault-injection", debug_assertions)))]
pub const fn enabled(_: Fault) -> bool {
    false
}
