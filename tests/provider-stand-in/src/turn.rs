//! One scripted model answer: reasoning, text, calls, pace, and failures. The same turn can be served in any of the
//! four protocols.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Notify;

/// An answer. Built by chaining; a clone shares its gate.
#[derive(Debug, Clone, Default)]
pub struct Turn {
    pub(super) reasoning: String,
    pub(super) text: String,
    pub(super) calls: Vec<(String, Value)>,
    pub(super) stop: Option<Stop>,
    pub(super) output_tokens: Option<u64>,
    pub(super) reasoning_tokens: Option<u64>,
    pub(super) delay: Duration,
    pub(super) pace: Duration,
    pub(super) gate: Option<Arc<Notify>>,
    pub(super) trouble: Trouble,
}

/// Why an answer ends early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The limit of output tokens was reached.
    Length,
    /// The provider's safety filter ended it.
    Filtered,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Trouble {
    #[default]
    None,
    /// This status instead of an answer, with the seconds of `Retry-After`.
    Status(u16, Option<u64>),
    /// An error event in the middle of the stream, as of an overloaded provider.
    ErrorEvent,
    /// The connection closes in the middle.
    Cut,
    /// Nothing more arrives, and the connection stays open.
    Hang,
}

impl Turn {
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }

    /// One tool call.
    pub fn call(name: &str, arguments: Value) -> Self {
        Self::default().then_call(name, arguments)
    }

    /// Adds a parallel tool call.
    pub fn then_call(mut self, name: &str, arguments: Value) -> Self {
        self.calls.push((name.to_owned(), arguments));
        self
    }

    /// The reasoning before the text; sent if the request asks for it.
    pub fn reasoning(mut self, text: &str) -> Self {
        text.clone_into(&mut self.reasoning);
        self
    }

    pub fn stop(mut self, stop: Stop) -> Self {
        self.stop = Some(stop);
        self
    }

    /// Sets the output tokens including the reasoning's, instead of counting.
    pub fn output_tokens(mut self, tokens: u64) -> Self {
        self.output_tokens = Some(tokens);
        self
    }

    /// Sets the reasoning tokens, instead of counting.
    pub fn reasoning_tokens(mut self, tokens: u64) -> Self {
        self.reasoning_tokens = Some(tokens);
        self
    }

    /// Delay before the first byte.
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Pause between the events of a stream.
    pub fn every(mut self, pace: Duration) -> Self {
        self.pace = pace;
        self
    }

    /// Waits in the middle until the test calls `notify_one`.
    pub fn gate(mut self, gate: Arc<Notify>) -> Self {
        self.gate = Some(gate);
        self
    }

    /// A status instead of an answer, in the provider's error format: 429, 500, 503, 529.
    pub fn status(status: u16) -> Self {
        Self {
            trouble: Trouble::Status(status, None),
            ..Self::default()
        }
    }

    /// `Retry-After` of a [`Self::status`], in seconds.
    pub fn retry_after(mut self, seconds: u64) -> Self {
        if let Trouble::Status(_, retry_after) = &mut self.trouble {
            *retry_after = Some(seconds);
        }
        self
    }

    /// An error event in the middle of the stream.
    pub fn breaks_off(mut self) -> Self {
        self.trouble = Trouble::ErrorEvent;
        self
    }

    /// The connection closes in the middle of the stream.
    pub fn cut(mut self) -> Self {
        self.trouble = Trouble::Cut;
        self
    }

    /// Nothing follows the middle of the stream.
    pub fn hang(mut self) -> Self {
        self.trouble = Trouble::Hang;
        self
    }
}
