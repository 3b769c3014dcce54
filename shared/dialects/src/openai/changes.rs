//! What a run's events change for a client, in the words that both protocols share.

use std::borrow::Cow;

use serde_json::Value;
use uuid::Uuid;

/// What an event changes for the client.
#[derive(Debug, Clone, PartialEq)]
pub enum Change<'a> {
    /// The response begins.
    Created,
    /// A worker has begun it, or continues it.
    InProgress,
    /// The text goes on, or begins.
    Text(Cow<'a, str>),
    /// The text shown since the last end of one is complete: this one.
    TextDone(Cow<'a, str>),
    /// That text, this one, is not part of the answer: its worker was lost, and the step was written again in other words.
    TextAbandoned(String),
    /// All texts of the response are not part of the answer; this is its text.
    Rewritten(&'a str),
    Reasoning(Cow<'a, str>),
    ReasoningDone,
    CallStarted(Call),
    CallDone {
        call: Call,
        output: Option<String>,
        error: Option<String>,
    },
    /// The client is to execute a function.
    Function {
        question: Uuid,
        name: String,
        arguments: String,
    },
    /// The client is to approve a call.
    Approval {
        question: Uuid,
        name: String,
        arguments: String,
    },
    /// The client is to answer a question.
    Question(String),
    /// The response ends, though not its run: it waits for the client.
    Waits,
    /// The response ends with its run.
    Ended(End),
}

/// A call of a tool that the server executes.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    pub id: String,
    pub name: String,
    pub arguments: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Completed,
    Failed,
    Cancelled,
    /// A limit paused the run.
    Paused,
}

/// Why a run failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub code: String,
    pub message: String,
}

/// Tokens, as native `usage` events count them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    pub input: u64,
    pub cached: u64,
    pub cache_write: u64,
    pub output: u64,
    pub reasoning: u64,
}

impl Usage {
    pub(super) fn of(event: &Value) -> Self {
        let number = |name: &str| event[name].as_u64().unwrap_or_default();
        Self {
            input: number("inputTokens"),
            cached: number("cachedTokens"),
            cache_write: number("cacheWriteTokens"),
            output: number("outputTokens"),
            reasoning: number("reasoningTokens"),
        }
    }

    pub(super) fn since(self, before: Self) -> Self {
        Self {
            input: self.input.saturating_sub(before.input),
            cached: self.cached.saturating_sub(before.cached),
            cache_write: self.cache_write.saturating_sub(before.cache_write),
            output: self.output.saturating_sub(before.output),
            reasoning: self.reasoning.saturating_sub(before.reasoning),
        }
    }
}
