//! One scripted answer: text, calls, pace, and failures.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Notify;

/// An answer. Built by chaining; a clone shares its gate.
#[derive(Debug, Clone)]
pub struct Reply {
    pub(super) reasoning: String,
    pub(super) words: Vec<String>,
    pub(super) tools: Vec<(String, String)>,
    pub(super) finish: Option<&'static str>,
    /// Token counts of prompt and answer, instead of counted words.
    pub(super) counted: Option<(u64, u64)>,
    pub(super) delay: Duration,
    pub(super) pace: Duration,
    pub(super) gate: Option<Arc<Notify>>,
    pub(super) trouble: Trouble,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble {
    None,
    /// Fails with this status before the answer begins.
    Status {
        status: u16,
        retry_after_s: Option<u64>,
    },
    /// The socket closes after the contents.
    Cut,
    /// The answer stops after the contents without its end marker, but HTTP's framing is complete.
    EndEarly,
    /// A chunk in the middle is not JSON.
    Malformed,
    /// Nothing follows the contents, and the connection stays open.
    Hang,
}

impl Reply {
    fn new() -> Self {
        Self {
            reasoning: String::new(),
            words: Vec::new(),
            tools: Vec::new(),
            finish: None,
            counted: None,
            delay: Duration::ZERO,
            pace: Duration::ZERO,
            gate: None,
            trouble: Trouble::None,
        }
    }

    /// A text, one chunk per word.
    pub fn text(text: impl AsRef<str>) -> Self {
        Self {
            words: text.as_ref().split_inclusive(' ').map(str::to_owned).collect(),
            ..Self::new()
        }
    }

    /// `t0 t1 … ` up to `n` chunks, at full speed.
    pub fn tokens(n: usize) -> Self {
        Self {
            words: (0..n).map(|number| format!("t{number} ")).collect(),
            ..Self::new()
        }
    }

    /// One tool call.
    pub fn tool(name: &str, arguments: Value) -> Self {
        Self::new().then_tool(name, arguments)
    }

    /// Parallel tool calls.
    pub fn tools<'a>(calls: impl IntoIterator<Item = (&'a str, Value)>) -> Self {
        calls
            .into_iter()
            .fold(Self::new(), |reply, (name, arguments)| reply.then_tool(name, arguments))
    }

    /// A tool call whose arguments are this text, JSON or not.
    pub fn tool_text(name: &str, arguments: &str) -> Self {
        let mut reply = Self::new();
        reply.tools.push((name.to_owned(), arguments.to_owned()));
        reply
    }

    /// Adds a tool call, after the text.
    pub fn then_tool(mut self, name: &str, arguments: Value) -> Self {
        self.tools.push((name.to_owned(), arguments.to_string()));
        self
    }

    /// Adds reasoning before the text.
    pub fn reasoning(mut self, text: &str) -> Self {
        text.clone_into(&mut self.reasoning);
        self
    }

    /// Sets the token counts of prompt and answer.
    pub fn counted(mut self, prompt: u64, answer: u64) -> Self {
        self.counted = Some((prompt, answer));
        self
    }

    /// Sets a different `finish_reason`.
    pub fn finish(mut self, reason: &'static str) -> Self {
        self.finish = Some(reason);
        self
    }

    /// Pause after each chunk, ms.
    pub fn words_every(mut self, ms: u64) -> Self {
        self.pace = Duration::from_millis(ms);
        self
    }

    /// Pause before the first chunk, ms.
    pub fn delay_ms(mut self, ms: u64) -> Self {
        self.delay = Duration::from_millis(ms);
        self
    }

    /// Waits in the middle of its chunks until the test calls `notify_one`.
    pub fn gate(mut self, gate: Arc<Notify>) -> Self {
        self.gate = Some(gate);
        self
    }

    /// After some chunks the socket closes: no finish, no `[DONE]`, no last HTTP chunk.
    pub fn cut_after(chunks: usize) -> Self {
        Self {
            trouble: Trouble::Cut,
            ..Self::tokens(chunks)
        }
    }

    /// After some chunks the response ends as if complete, without finish and `[DONE]`.
    pub fn end_early_after(chunks: usize) -> Self {
        Self {
            trouble: Trouble::EndEarly,
            ..Self::tokens(chunks)
        }
    }

    /// An HTTP status instead of an answer.
    pub fn status(status: u16) -> Self {
        Self {
            trouble: Trouble::Status {
                status,
                retry_after_s: None,
            },
            ..Self::new()
        }
    }

    /// `Retry-After` of a [`Self::status`], seconds.
    pub fn retry_after(mut self, seconds: u64) -> Self {
        if let Trouble::Status { retry_after_s, .. } = &mut self.trouble {
            *retry_after_s = Some(seconds);
        }
        self
    }

    /// A valid chunk, then one that is not JSON.
    pub fn malformed() -> Self {
        Self {
            trouble: Trouble::Malformed,
            ..Self::tokens(2)
        }
    }

    /// Accepts the call, and never responds.
    pub fn hang() -> Self {
        Self::hang_after(0)
    }

    /// After some chunks nothing follows.
    pub fn hang_after(chunks: usize) -> Self {
        Self {
            trouble: Trouble::Hang,
            ..Self::tokens(chunks)
        }
    }

    pub(super) fn failure(&self) -> Option<(u16, Option<u64>)> {
        match self.trouble {
            Trouble::Status { status, retry_after_s } => Some((status, retry_after_s)),
            Trouble::None | Trouble::Cut | Trouble::EndEarly | Trouble::Malformed | Trouble::Hang => None,
        }
    }

    pub(super) fn finish_reason(&self) -> &'static str {
        self.finish
            .unwrap_or(if self.tools.is_empty() { "stop" } else { "tool_calls" })
    }
}
