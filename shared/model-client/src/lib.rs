//! The client of the model providers: one trait for all of them, and its types.
//!
//! The worker builds a [`ModelRequest`] per step and reads a [`ModelStream`]. The message types here are also what
//! `kb.agent_run_messages.content` stores, so that a run can be rebuilt exactly.
//!
//! # Layout
//! - `name`      `provider:model` names, bare well-known names, and where keys and base URLs come from
//! - `registry`  resolves a definition's model to a provider
//! - `retry`     retries a call that failed before its first chunk
//! - `fallback`  switches to another model if the first one can't answer
//! - `reasoning` a model's reasoning, as its provider expects it back
//! - `genai`     models over the network, through the genai crate
//! - `demo`      `demo:graph`, the rule-based substitute of `rejoin dev`
//!
//! Called by the worker's runs, which add their own provider: flows over sub-agents. Prices, limits and abilities of
//! models are in `rejoin_models`.

mod demo;
pub mod fallback;
mod genai;
pub mod name;
mod reasoning;
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

use rejoin_models::Tokens;
use rejoin_models::choice::ReasoningEffort;
use rejoin_tools::ToolSpec;
use rejoin_types::file_ref::FileRef;

pub use reasoning::{Reasoning, ReasoningPart};

/// One model call: the whole input of a step.
#[derive(Debug, Clone, Default)]
pub struct ModelRequest {
    /// As named by the definition, such as `openai:gpt-6-luna`; resolved by the provider registry.
    pub model: String,
    /// The system prompt.
    pub system: String,
    /// The conversation, and the steps of this run.
    pub messages: Vec<Message>,
    /// Tools that the model may call in this step. Empty: it must answer in text.
    pub tools: Vec<ToolSpec>,
    /// Tools of earlier steps that this one, without any tools, may not call. Providers that tie the model's reasoning
    /// to the tools still receive them, with calls disabled.
    pub withdrawn_tools: Vec<ToolSpec>,
    /// The sampling temperature. None: the provider's default.
    pub temperature: Option<f64>,
    /// Maximum length of the answer, including reasoning, in tokens.
    pub max_tokens: Option<u32>,
    /// Reasoning effort. None: the provider's default.
    pub effort: Option<ReasoningEffort>,
    /// The JSON Schema of a text answer, for providers that enforce it.
    pub output: Option<Value>,
    /// Requests with the same key share a prefix: a hint for the provider's prompt cache.
    pub cache_key: Option<String>,
}

/// A message of the run, as stored and sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Message {
    /// A user's message.
    User {
        /// The text, without the files.
        text: String,
        /// The attached files.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attachments: Vec<Attached>,
    },
    /// A model's answer.
    Assistant {
        /// The text; empty if it only called tools.
        text: String,
        /// The tools that it called.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall>,
        /// The reasoning that the provider expects back.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reasoning: Option<Reasoning>,
    },
    /// The outcome of a tool call.
    ToolResult {
        /// The id of the call.
        call_id: String,
        /// The tool's name.
        tool: String,
        /// The text for the model: the tool's JSON, or an error.
        content: String,
        /// Whether the call failed.
        #[serde(default)]
        is_error: bool,
        /// Files produced by the tool that a model may read.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attachments: Vec<Attached>,
    },
}

impl Message {
    /// Creates a user message without files.
    pub fn user(text: impl Into<String>) -> Self {
        Self::User {
            text: text.into(),
            attachments: Vec::new(),
        }
    }

    /// Returns its files.
    pub fn attachments(&self) -> &[Attached] {
        match self {
            Self::User { attachments, .. } | Self::ToolResult { attachments, .. } => attachments,
            Self::Assistant { .. } => &[],
        }
    }
}

/// A file attached to a message. Its content is loaded for each call (by the worker), and never stored with the
/// message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Attached {
    /// The stored file.
    #[serde(flatten)]
    pub file: FileRef,
    /// The content, if it is loaded.
    #[serde(skip)]
    pub content: Option<Base64>,
}

impl From<FileRef> for Attached {
    fn from(file: FileRef) -> Self {
        Self { file, content: None }
    }
}

/// Base64-encoded bytes.
#[derive(Clone, PartialEq)]
pub struct Base64(pub Arc<str>);

impl fmt::Debug for Base64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} characters of base64", self.0.len())
    }
}

/// A tool call requested by the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The provider's id of the call, unique in its run; generated if the provider gives none.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// Parsed arguments. If the model's text was not JSON, a JSON string of that text, to which the executor responds
    /// with an error that the model can correct.
    pub arguments: Value,
}

/// A part of a model's answer, in order of arrival.
#[derive(Debug, Clone, PartialEq)]
pub enum Chunk {
    /// An increment of the reply's text, never empty.
    Text(String),
    /// An increment of the model's reasoning.
    Reasoning(String),
    /// A complete tool call (partial arguments are collected first).
    ToolCall(ToolCall),
    /// The answer is complete. Always the last chunk of a successful stream.
    End {
        /// The tokens that the call used.
        usage: Usage,
        /// Why the model stopped.
        finish: Finish,
        /// The reasoning that the provider expects back in the next step.
        reasoning: Option<Reasoning>,
    },
}

/// Returns whether a model (`provider:model`) uses tokens. Flows and the demo model follow rules.
pub fn is_language_model(name: &str) -> bool {
    !["demo:", "flow:"].iter().any(|provider| name.starts_with(provider))
}

/// Token counts of one model call, as reported by the provider; 0 if it reports none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Usage {
    /// The whole prompt, including tokens read from or written to a cache.
    pub input_tokens: u64,
    /// The whole answer, including its reasoning.
    pub output_tokens: u64,
    /// Input tokens read from the provider's prompt cache.
    pub cached_tokens: u64,
    /// Input tokens written to the provider's prompt cache.
    pub cache_write_tokens: u64,
    /// Output tokens spent on reasoning.
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

/// The stop reason of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// The answer is finished.
    Stop,
    /// The model waits for the results of tool calls.
    ToolCalls,
    /// The answer reached its token limit.
    Length,
    /// Refused or filtered by the provider.
    ContentFilter,
}

/// A model's answer, as it arrives.
pub type ModelStream = BoxStream<'static, Result<Chunk, ModelError>>;

/// A provider of models. Dropping the stream cancels the call.
#[async_trait]
pub trait Provider: Send + Sync {
    /// Starts a model call. An error here, or as the stream's first item, precedes any token.
    async fn stream(&self, request: ModelRequest) -> Result<ModelStream, ModelError>;
}

/// The error of a model call.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    /// A stable code for clients: `model_key_missing`, `model_key_rejected`, `model_rate_limited`, `model_overloaded`,
    /// `model_quota_exhausted`, `model_context_overflow`, `model_refused`, `model_unavailable`, `model_rejected`,
    /// `model_stream_cut`, `model_protocol`, `model_unknown`, `model_misconfigured`, `model_cannot_read_file`,
    /// `model_files_too_large` (docs/guide/models.md, docs/guide/files.md).
    pub code: &'static str,
    /// What was attempted and what to do, without secrets.
    pub message: String,
    /// Whether the same call may succeed later.
    pub retryable: bool,
    /// The delay requested by the provider (`Retry-After`).
    pub retry_after: Option<Duration>,
}
