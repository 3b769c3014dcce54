//! Errors that a user can fix: how providers word them, and what to do.

use rejoin_models::{RETIRES_SOON_DAYS, catalogue, today};

use super::ErrorContext;
use crate::ModelError;

/// Providers' phrases for a prompt that exceeds the context window.
pub(super) const OVERFLOWS: [&str; 7] = [
    "context_length_exceeded",
    "prompt is too long",
    "maximum context length",
    "exceeds the maximum number of tokens",
    "exceed context limit",
    "context window",
    "input is too long",
];
/// Phrases for an unknown model of providers that answer 400 instead of 404: Bedrock, OpenRouter.
pub(super) const UNKNOWN: [&str; 2] = ["model identifier is invalid", "is not a valid model id"];
/// Providers' phrases for an exhausted account.
pub(super) const QUOTAS: [&str; 4] = [
    "insufficient_quota",
    "credit balance is too low",
    "billing_hard_limit",
    "billing_not_active",
];
/// Providers' phrases for refused content.
pub(super) const REFUSALS: [&str; 5] = [
    "content_policy",
    "content_filter",
    "content management policy",
    "safety system",
    "prohibited_content",
];

impl ErrorContext {
    pub(super) fn quota(&self, what: &str) -> ModelError {
        self.error(
            "model_quota_exhausted",
            format!(
                "the account's quota or credit is used up ({what}). Add credit at the provider, or choose another \
                model"
            ),
            false,
        )
    }

    pub(super) fn overloaded(&self, code: u16, quoted: &str) -> ModelError {
        self.error(
            "model_overloaded",
            format!(
                "the provider is overloaded (HTTP {code}){quoted}. Set fallbackModels in the agent's definition to \
                continue with another model"
            ),
            true,
        )
    }

    /// The prompt is too long.
    pub(super) fn overflow(&self, quoted: &str) -> ModelError {
        let reads = self
            .known
            .and_then(|model| model.context)
            .map_or_else(String::new, |tokens| {
                format!(" Its context window has {tokens} tokens.")
            });
        self.error(
            "model_context_overflow",
            format!(
                "the prompt is longer than the model's context window{quoted}.{reads} Start a new conversation, give \
                the agent fewer tools or shorter results, or choose a model with a larger context window"
            ),
            false,
        )
    }

    /// The provider's rules forbid an answer.
    pub(super) fn refused(&self, quoted: &str) -> ModelError {
        self.error(
            "model_refused",
            format!("the provider declined to answer this{quoted}. Rephrase the question, or use another model"),
            false,
        )
    }

    /// The model does not exist (or no longer).
    pub(super) fn gone(&self, quoted: &str) -> String {
        let resolved = catalogue().resolve(&self.full_name, today() + chrono::Days::new(RETIRES_SOON_DAYS));
        let advice = match resolved.retired.and_then(|retired| retired.successor) {
            Some(successor) => format!(". It is retired, or soon will be; use `{successor}`"),
            None => ". `rejoin models` lists the known models".to_owned(),
        };
        format!("there is no such model or path (HTTP 404){quoted}{advice}")
    }
}
