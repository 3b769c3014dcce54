//! The result of routing: an agent, the reason for it, and how certain it is.

use serde::Serialize;
use uuid::Uuid;

/// The decisive signal. Stable codes: they are stored, sent and counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    Pinned,
    ConsoleDatabase,
    ConsoleContent,
    Message,
    OnlyDatabase,
    Preference,
    History,
    Triage,
}

impl Reason {
    pub const ALL: [Self; 8] = [
        Self::Pinned,
        Self::ConsoleDatabase,
        Self::ConsoleContent,
        Self::Message,
        Self::OnlyDatabase,
        Self::Preference,
        Self::History,
        Self::Triage,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Pinned => "pinned",
            Self::ConsoleDatabase => "console_database",
            Self::ConsoleContent => "console_content",
            Self::Message => "message",
            Self::OnlyDatabase => "only_database",
            Self::Preference => "preference",
            Self::History => "history",
            Self::Triage => "triage",
        }
    }

    /// Returns the reliability of this signal.
    pub const fn confidence(self) -> Confidence {
        match self {
            Self::Pinned | Self::ConsoleDatabase => Confidence::High,
            Self::ConsoleContent | Self::Message => Confidence::Medium,
            Self::OnlyDatabase | Self::Preference | Self::History | Self::Triage => Confidence::Low,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    High,
    Medium,
    Low,
}

impl Confidence {
    pub const fn name(self) -> &'static str {
        match self {
            Self::High => "high",
            Self::Medium => "medium",
            Self::Low => "low",
        }
    }
}

/// The chosen agent, with the reason.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// None: triage.
    pub agent: Option<Uuid>,
    pub reason: Reason,
    /// From 0 to 1: how clear the choice was. Comparable only between choices with the same reason.
    pub score: f32,
    /// A sentence for users.
    pub because: String,
}

impl Choice {
    pub const fn confidence(&self) -> Confidence {
        self.reason.confidence()
    }
}
