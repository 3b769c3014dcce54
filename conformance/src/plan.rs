//! The plan of a case: what the model says, who reads, and what is done at which moment. Made by `cases` from a seed, carried out by `play`,
//! shrunk by `shrink`.

use std::fmt;

use serde::Serialize;

use crate::cut::Cut;
use crate::gate::Point;
use crate::judge::Expect;
use crate::script::Script;
use crate::target::Which;

/// A case of one turn.
#[derive(Debug, Clone)]
pub struct Plan {
    pub script: Script,
    /// The one that posts is reader 0.
    pub readers: usize,
    pub actions: Vec<Action>,
    pub expect: Expect,
    /// Reader 0 takes its time after each piece, in milliseconds.
    pub slow_ms: u64,
    /// From the last deed until new words, where the product promises more than the end of a lease.
    pub go_on_within_s: Option<u64>,
}

/// Something that is done at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Action {
    pub at: Moment,
    pub deed: Deed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Moment {
    /// The turn waits there until all deeds of this moment are done.
    At(Point),
    /// Reader 0 has seen the end.
    AfterEnd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Deed {
    /// A reader loses its connection at the next such place, after this many bytes.
    Cut {
        reader: usize,
        cut: Cut,
        after: usize,
    },
    /// A reader closes its connection, and comes back.
    Leave {
        reader: usize,
        away_ms: u64,
    },
    /// Another reader begins to read.
    Join {
        reader: usize,
    },
    /// `kill -9`, and started again.
    Restart {
        which: Which,
    },
    /// SIGTERM, and started again.
    Drain {
        which: Which,
    },
    /// The workers are paused past their lease, while the turn goes on, and then continue.
    Pause,
    /// Nothing passes between the server and its database.
    Partition {
        for_ms: u64,
    },
    /// All that passes between them is late.
    Slow {
        by_ms: u64,
        for_ms: u64,
    },
    /// The database is killed, and its standby takes over.
    FailOver,
    /// What the database answers is lost.
    LoseAnswers {
        for_ms: u64,
    },
    Cancel,
}

impl Deed {
    /// Whether the turn goes on meanwhile.
    pub fn lets_go_on(self) -> bool {
        matches!(
            self,
            Self::Pause | Self::Partition { .. } | Self::Slow { .. } | Self::LoseAnswers { .. } | Self::Cut { .. }
        )
    }

    /// Whether it disturbs the server, so that the time to go on counts from it.
    pub fn is_fault(self) -> bool {
        !matches!(
            self,
            Self::Cut { .. } | Self::Leave { .. } | Self::Join { .. } | Self::Cancel
        )
    }
}

impl Plan {
    /// One reader, all words, nothing done.
    pub fn quiet(script: Script) -> Self {
        Self {
            script,
            readers: 1,
            actions: Vec::new(),
            expect: Expect::Whole,
            slow_ms: 0,
            go_on_within_s: None,
        }
    }

    /// With this deed at this point, after those that are there.
    #[must_use]
    pub fn at(mut self, point: Point, deed: Deed) -> Self {
        self.actions.push(Action {
            at: Moment::At(point),
            deed,
        });
        self
    }

    /// The words that readers can have at a point.
    pub fn words_before(&self, point: Point) -> usize {
        let (step, count) = match point {
            Point::Start { step } => (step, 0),
            Point::Words { step, count } => (step, count),
            Point::BeforeEffect { step } | Point::AfterEffect { step } | Point::End { step } => (step + 1, 0),
        };
        let earlier = self.script.steps.iter().take(step).map(|step| step.words);
        earlier.sum::<usize>() + count
    }
}

/// A moment or a deed in a few words.
impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            Moment::AfterEnd => write!(f, "after the end: ")?,
            Moment::At(Point::Start { step }) => write!(f, "before the first word of step {step}: ")?,
            Moment::At(Point::Words { step, count }) => write!(f, "after {count} words of step {step}: ")?,
            Moment::At(Point::BeforeEffect { step }) => write!(f, "before the effect of step {step}: ")?,
            Moment::At(Point::AfterEffect { step }) => write!(f, "after the effect of step {step}: ")?,
            Moment::At(Point::End { step }) => write!(f, "before the end of step {step}: ")?,
        }
        match self.deed {
            Deed::Cut { reader, cut, after } => write!(f, "reader {reader} is cut {cut:?} after {after} bytes"),
            Deed::Leave { reader, away_ms } => write!(f, "reader {reader} leaves for {away_ms} ms"),
            Deed::Join { reader } => write!(f, "reader {reader} joins"),
            Deed::Restart { which } => write!(f, "kill -9 {which:?}, start"),
            Deed::Drain { which } => write!(f, "SIGTERM {which:?}, start"),
            Deed::Pause => write!(f, "the workers are paused past their lease"),
            Deed::Partition { for_ms } => write!(f, "no connection to the database for {for_ms} ms"),
            Deed::Slow { by_ms, for_ms } => write!(f, "the database is {by_ms} ms late for {for_ms} ms"),
            Deed::LoseAnswers { for_ms } => write!(f, "answers of the database are lost for {for_ms} ms"),
            Deed::FailOver => write!(f, "kill -9 Database, its standby takes over"),
            Deed::Cancel => write!(f, "cancel"),
        }
    }
}
