//! An agent definition's model and how it is selected.

use serde::{Deserialize, Serialize};

/// Maximum number of fallback models.
const FALLBACKS_MAX: usize = 5;

/// The model of a definition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ModelChoice {
    /// `provider:model`, a bare well-known name, or `default`: the model of plain conversations.
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Maximum length of one answer, including reasoning, in tokens.
    #[serde(
        default,
        alias = "max_tokens",
        alias = "maxOutputTokens",
        alias = "max_output_tokens",
        skip_serializing_if = "Option::is_none"
    )]
    pub max_tokens: Option<u32>,
    /// None: the provider's default.
    #[serde(default, alias = "reasoning_effort", skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<ReasoningEffort>,
    /// Tried in this order when the model can't answer: it is overloaded, limits our requests, or fails before its
    /// first word.
    #[serde(default, alias = "fallback_models", skip_serializing_if = "Vec::is_empty")]
    pub fallback_models: Vec<String>,
    /// If the model's provider has no key, the model of plain conversations answers instead.
    #[serde(default, alias = "or_default", skip_serializing_if = "std::ops::Not::not")]
    pub or_default: bool,
}

impl ModelChoice {
    /// A model with the provider's defaults for everything else.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            temperature: None,
            max_tokens: None,
            reasoning_effort: None,
            fallback_models: Vec::new(),
            or_default: false,
        }
    }

    /// Validates it. The error is a message for the author.
    pub fn check(&self) -> Result<(), String> {
        if self.name.trim().is_empty() {
            return Err("model.name must not be empty".to_owned());
        }
        if self
            .temperature
            .is_some_and(|temperature| !(0.0..=2.0).contains(&temperature))
        {
            return Err("model.temperature must be between 0 and 2".to_owned());
        }
        if self.max_tokens == Some(0) {
            return Err("model.maxTokens must be greater than 0".to_owned());
        }
        if self.fallback_models.len() > FALLBACKS_MAX || self.fallback_models.iter().any(|name| name.trim().is_empty())
        {
            return Err(format!(
                "model.fallbackModels must have at most {FALLBACKS_MAX} names, none of them empty"
            ));
        }
        Ok(())
    }
}

rejoin_types::text_enum! {
    /// The reasoning effort of a model. A level that a model lacks is replaced by the next lower one.
    /// Its text is the spelling used by definitions and providers.
    #[derive(PartialOrd, Ord)]
    pub enum ReasoningEffort {
        None = "none",
        Minimal = "minimal",
        Low = "low",
        Medium = "medium",
        High = "high",
        XHigh = "xhigh",
        Max = "max",
    }
}
