//! The interface to language models: one trait and its types.
//!
//! The executor builds a [`ModelRequest`] per step and reads a [`ModelStream`]. Providers live in the files beside:
//!
//! - `name`      `provider:model` names, bare well-known names, and where keys and base URLs come from
//! - `registry`  resolves a definition's model to a provider
//! - `retry`     retries a call that failed before its first chunk
//! - `fallback`  switches to another model if the first one can't answer
//! - `reasoning` a model's reasoning, as its provider expects it back
//! - `genai`     models over the network, through the genai crate
//! - `flow`      sequential, loop and parallel definitions: no language model, but sub-agents
//! - `demo`      `demo:graph`, the rule-based substitute of `rejoin dev`
//!
//! The message types here are also what `kb.agent_run_messages.content` stores, so that a run can be rebuilt exactly.

pub mod demo;
pub mod fallback;
pub mod flow;
pub mod genai;
pub mod name;
pub mod reasoning;
pub mod registry;
pub mod retry;

use std::fmt;
use std::ops::AddAssign;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::BoxStream;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use rejoin_shared::agents::ReasoningEffort;
use rejoin_shared::files::FileRef;
use rejoin_shared::models::Tokens;
use rejoin_shared::tools::ToolSpec;

pub use reasoning::{Reasoning, ReasoningPart};

/// One model call: the whole context of a step.
#[derive(Debug, Clone, Default)]
pub struct ModelRequest {
    /// As the definition names it, e.g. `openai:gpt-6-luna`; resolved by the provider registry.
    pub model: String,
    pub system: String,
    pub messages: Vec<Message>,
    /// Tools that the model may call in this step. Empty: it must answer in text.
    pub tools: Vec<ToolSpec>,
    /// Tools that earlier steps had and this one, without any, may not call. A provider that ties the model's reasoning to them is told of
    /// them all the same, and that none may be called.
    pub withdrawn_tools: Vec<ToolSpec>,
    pub temperature: Option<f64>,
    /// Maximum length of the answer, reasoning included [tokens].
    pub max_tokens: Option<u32>,
    /// How hard the model reasons. None: as its provider sets it.
    pub effort: Option<ReasoningEffort>,
    /// The JSON schema that an answer in words has to fit, for providers that see to it themselves.
    pub output: Option<Value>,
    /// Requests with one key begin with the same words: a hint for the provider's prompt cache.
    pub cache_key: Option<String>,
}

/// A message of the run, in the form that is stored and sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Message {
    User {
        text: String,
        /// The files that came with it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attachments: Vec<Attached>,
    },
    Assistant {
        text: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall>,
        /// What the provider wants back with it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reasoning: Option<Reasoning>,
    },
    ToolResult {
        call_id: String,
        tool: String,
        /// What the model reads: the tool's JSON, or an error in words.
        content: String,
        #[serde(default)]
        is_error: bool,
        /// Files that the tool has made and a model may read.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attachments: Vec<Attached>,
    },
}

impl Message {
    /// What a user says, without files.
    pub fn user(text: impl Into<String>) -> Self {
        Self::User {
            text: text.into(),
            attachments: Vec::new(),
        }
    }

    /// The files that go with it.
    pub fn attachments(&self) -> &[Attached] {
        match self {
            Self::User { attachments, .. } | Self::ToolResult { attachments, .. } => attachments,
            Self::Assistant { .. } => &[],
        }
    }
}

/// A file that goes with a message. Its content is loaded for each call anew (`run/files.rs`), and never stored with the message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Attached {
    #[serde(flatten)]
    pub file: FileRef,
    #[serde(skip)]
    pub content: Option<Base64>,
}

impl From<FileRef> for Attached {
    fn from(file: FileRef) -> Self {
        Self { file, content: None }
    }
}

/// Bytes as base64.
#[derive(Clone, PartialEq)]
pub struct Base64(pub Arc<str>);

impl fmt::Debug for Base64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} characters of base64", self.0.len())
    }
}

/// A call that the model asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The provider's id of the call, unique in its run; made up by us where the provider gives none.
    pub id: String,
    pub name: String,
    /// Parsed arguments. Where the model's text was not JSON, this is a JSON string of that text, and the executor answers
    /// with an error that the model can repair.
    pub arguments: Value,
}

/// A piece of a model's answer, in the order that it arrives.
#[derive(Debug, Clone, PartialEq)]
pub enum Chunk {
    /// An increment of the reply's text, never empty.
    Text(String),
    /// An increment of the model's reasoning.
    Reasoning(String),
    /// A whole tool call (providers' partial arguments are collected first).
    ToolCall(ToolCall),
    /// The answer is complete. Always the last chunk of a stream that did not fail.
    End {
        usage: Usage,
        finish: Finish,
        /// What the provider wants back with this answer in the next step.
        reasoning: Option<Reasoning>,
    },
}

/// Whether a model (`provider:model`) uses tokens. Flows and the stand-in of `rejoin dev` follow rules.
pub fn is_language_model(name: &str) -> bool {
    !["demo:", "flow:"].iter().any(|provider| name.starts_with(provider))
}

/// Tokens of one model call, as the provider counted them; 0 where it does not say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Usage {
    /// The whole prompt, with what was read from and written to a cache.
    pub input_tokens: u64,
    /// The whole answer, with its reasoning.
    pub output_tokens: u64,
    /// Of the input: read from the provider's prompt cache.
    pub cached_tokens: u64,
    /// Of the input: written to the provider's prompt cache.
    pub cache_write_tokens: u64,
    /// Of the output: spent on reasoning.
    pub reasoning_tokens: u64,
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input_tokens += other.input_tokens;
        self.output_tokens += other.output_tokens;
        self.cached_tokens += other.cached_tokens;
        self.cache_write_tokens += other.cache_write_tokens;
        self.reasoning_tokens += other.reasoning_tokens;
    }
}

impl From<Usage> for Tokens {
    fn from(usage: Usage) -> Self {
        Self {
            input: usage.input_tokens,
            cached: usage.cached_tokens,
            cache_write: usage.cache_write_tokens,
            output: usage.output_tokens,
        }
    }
}

/// Why the model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    Stop,
    ToolCalls,
    /// The answer hit its token limit.
    Length,
    /// Refused or filtered by the provider.
    ContentFilter,
}

pub type ModelStream = BoxStream<'static, Result<Chunk, ModelError>>;

/// Dropping the stream closes the call upstream.
#[async_trait]
pub trait Provider: Send + Sync {
    /// Starts a model call. An error here, or as the stream's first item, came before any token.
    async fn stream(&self, request: ModelRequest) -> Result<ModelStream, ModelError>;
}

/// A model call that failed.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    /// Stable word for clients: `model_key_missing`, `model_key_rejected`, `model_rate_limited`, `model_overloaded`,
    /// `model_quota_exhausted`, `model_context_overflow`, `model_refused`, `model_unavailable`, `model_rejected`,
    /// `model_stream_cut`, `model_protocol`, `model_unknown`, `model_misconfigured`, `model_cannot_read_file`,
    /// `model_files_too_large` (docs/guide/models.md, docs/guide/files.md).
    pub code: &'static str,
    /// What was attempted and what to do, without secrets.
    pub message: String,
    /// Whether the same call may succeed later.
    pub retryable: bool,
    /// The provider's own wish (`Retry-After`).
    pub retry_after: Option<Duration>,
}
