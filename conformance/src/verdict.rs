//! Verdicts: what a case has shown, in words that a person understands. Made by `judge`; kept in results.

use serde::{Deserialize, Serialize};

/// From the best to the worst, apart from `Unsupported`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The product does not offer what the case is about, and says so. Not a pass.
    Unsupported,
    /// Each word once, as it arrived.
    Exact,
    /// Each word once, after the product's own rules took back what was written twice.
    ExactByRules,
    /// A word is shown twice, and stays.
    Duplicated,
    /// A word is missing, or the text is joined from two answers.
    Lost,
    /// An error that a user sees, where there should be none.
    Error,
    /// Nothing comes, and nothing says so.
    Hang,
    /// A tool was called, its effect did not happen, and nothing says so.
    EffectLost,
    /// The effect of one call happened twice.
    EffectTwice,
}

impl Verdict {
    /// In the order of reports.
    pub const ALL: [Self; 9] = [
        Self::Exact,
        Self::ExactByRules,
        Self::Duplicated,
        Self::Lost,
        Self::Error,
        Self::Hang,
        Self::EffectLost,
        Self::EffectTwice,
        Self::Unsupported,
    ];

    pub fn is_good(self) -> bool {
        matches!(self, Self::Exact | Self::ExactByRules)
    }

    /// The words of a report.
    pub fn label(self) -> &'static str {
        match self {
            Self::Unsupported => "unsupported",
            Self::Exact => "exact",
            Self::ExactByRules => "exact by its rules",
            Self::Duplicated => "duplicated words",
            Self::Lost => "lost words",
            Self::Error => "error",
            Self::Hang => "hang",
            Self::EffectLost => "effect lost",
            Self::EffectTwice => "effect twice",
        }
    }
}

/// A verdict with its reasons.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    pub verdict: Verdict,
    /// What was found, worst first.
    pub details: Vec<String>,
}

impl Default for Judgement {
    fn default() -> Self {
        Self {
            verdict: Verdict::Exact,
            details: Vec::new(),
        }
    }
}

impl Judgement {
    pub fn of(verdict: Verdict, detail: impl Into<String>) -> Self {
        Self {
            verdict,
            details: vec![detail.into()],
        }
    }

    /// Adds a finding. The worst one is the verdict.
    pub fn find(&mut self, verdict: Verdict, detail: impl Into<String>) {
        if verdict > self.verdict {
            self.verdict = verdict;
            self.details.insert(0, detail.into());
        } else {
            self.details.push(detail.into());
        }
    }

    pub fn merge(&mut self, other: Self) {
        let mut details = other.details.into_iter();
        match details.next() {
            Some(detail) => self.find(other.verdict, detail),
            None => self.verdict = self.verdict.max(other.verdict),
        }
        self.details.extend(details);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_finding_is_the_verdict() {
        let mut judgement = Judgement::default();
        judgement.find(Verdict::Duplicated, "twice");
        judgement.find(Verdict::EffectTwice, "paid twice");
        judgement.find(Verdict::Lost, "missing");
        assert_eq!(judgement.verdict, Verdict::EffectTwice);
        assert_eq!(judgement.details, ["paid twice", "twice", "missing"]);
        let mut whole = Judgement::default();
        whole.merge(judgement);
        assert_eq!(whole.verdict, Verdict::EffectTwice);
        assert!(!whole.verdict.is_good());
    }
}
