//! Fault injection: each switch violates one invariant, to prove that the chaos checker detects it. Builds without the
//! feature `broken`, which is every build but that one, have no switches: [`is`] is a constant there.

/// What is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Break {
    /// Events are written whoever has the lease (I4).
    NoFence,
    /// Nobody looks without a wake-up (I11).
    NoPoll,
    /// A run ends before its events are written (I2, I4).
    SettleBeforeEvents,
    /// A number is left out (I2).
    DroppedSeq,
    /// A turn ends twice (I1).
    DoneTwice,
    /// A reader that reads the past misses something of it (I3).
    ReaderSkips,
    /// A job whose lease expired keeps its attempt: two have the same fence (I5).
    SweepWithoutBump,
    /// What is remembered of keys is shared between them (I14).
    KeysShared,
    /// Success is told before the commit (I1).
    AnswerBeforeCommit,
    /// Tools act before that is on record (I7).
    ActBeforeRecord,
    /// A call that may have acted is repeated (I7).
    RepeatUnknown,
    /// A commit whose answer was lost is repeated (I4).
    CommitRepeated,
    /// Cancellations are confirmed and not heeded (I13).
    CancelIgnored,
    /// Idempotency keys are not looked at (I8).
    IdempotencyIgnored,
    /// A worker that leaves hands nothing over (I9).
    DrainDrops,
    /// Turns of a conversation don't wait for each other (I5).
    RunsSideBySide,
    /// Jobs of workers that died are not put back (I6).
    NoSweep,
    /// Readers keep what they have sent (I10).
    ReadersKeep,
    /// A parent is not woken when its last sub-agent ends (I12).
    ParentSleeps,
}

impl Break {
    pub const ALL: [Self; 19] = [
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
    ];

    /// How it is asked for.
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
        }
    }
}

/// The environment variable that chooses one, in a build that can be broken.
pub const VARIABLE: &str = "REJOIN_BREAK";

/// Whether this build can be broken at all.
pub const IS_POSSIBLE: bool = cfg!(feature = "broken");

/// Whether this promise is broken.
#[cfg(feature = "broken")]
pub fn is(one: Break) -> bool {
    use std::sync::LazyLock;
    static CHOSEN: LazyLock<Option<Break>> = LazyLock::new(|| {
        let name = std::env::var(VARIABLE).ok()?;
        Break::ALL.into_iter().find(|one| one.name() == name)
    });
    *CHOSEN == Some(one)
}

/// Whether this promise is broken: never.
#[cfg(not(feature = "broken"))]
pub const fn is(_: Break) -> bool {
    false
}
