//! Parameters that a model rejects: learned from its rejection, remembered for the process's lifetime, and omitted from
//! then on.
//!
//! The catalogue lists most of them. An unlisted model (a newer one, or a private server) costs one rejected call per
//! model and process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

/// Maximum number of models whose rejections are remembered.
const MODELS_MAX: usize = 1_000;

/// An optional parameter of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parameter {
    Temperature,
    /// By the name known to the provider's older models.
    MaxTokens,
    /// By OpenAI's newer name, sent after the older one was rejected.
    MaxCompletionTokens,
    Effort,
    /// The reasoning summary, and what preserves reasoning between steps.
    Summary,
    ReasoningContent,
    CacheKey,
    CacheControl,
    /// The schema of a structured output.
    Output,
}

impl Parameter {
    pub(super) const ALL: [Self; 9] = [
        Self::Temperature,
        Self::MaxCompletionTokens,
        Self::MaxTokens,
        Self::Summary,
        Self::Effort,
        Self::ReasoningContent,
        Self::CacheKey,
        Self::CacheControl,
        Self::Output,
    ];

    /// Returns providers' names for it in rejections.
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::Temperature => &["temperature"],
            Self::MaxTokens => &["max_tokens", "max_output_tokens", "maxOutputTokens"],
            Self::MaxCompletionTokens => &["max_completion_tokens"],
            Self::Effort => &[
                "reasoning_effort",
                "reasoning.effort",
                "output_config.effort",
                "effort",
                "thinking",
                "thinking_config",
                "thinkingConfig",
                "thinking_level",
                "thinkingLevel",
                "thinking_budget",
                "thinkingBudget",
            ],
            Self::Summary => &[
                "reasoning.summary",
                "reasoning.encrypted_content",
                "include_thoughts",
                "includeThoughts",
            ],
            Self::ReasoningContent => &["reasoning_content"],
            Self::CacheKey => &["prompt_cache_key"],
            Self::CacheControl => &["cache_control", "cachePoint"],
            Self::Output => &[
                "response_format",
                "text.format",
                "output_config.format",
                "output_format",
                "response_json_schema",
                "responseJsonSchema",
                "json_schema",
            ],
        }
    }

    fn bit(self) -> u16 {
        1 << (self as u16)
    }
}

/// Providers' phrases for rejecting the parameter itself, not its value.
const REFUSALS: [&str; 12] = [
    "unsupported",
    "not support",
    "deprecated",
    "unknown",
    "unrecognized",
    "unexpected",
    "not permitted",
    "not allowed",
    "not enabled",
    "extra inputs",
    "must be verified",
    "only the default",
];

/// Returns the parameter named by a rejection (HTTP 400 or 422), among those sent.
pub(super) fn named(status: u16, body: &str, sent: Parameters) -> Option<Parameter> {
    if !matches!(status, 400 | 422) {
        return None;
    }
    let json: Option<Value> = serde_json::from_str(body).ok();
    let field = |path: &str| {
        let value = json.as_ref().map(|json| json.get(0).unwrap_or(json))?;
        value.pointer(path)?.as_str()
    };
    let message = field("/error/message").or(field("/message")).unwrap_or(body);
    let lower = message.to_lowercase();
    let refuses = field("/error/code")
        .is_some_and(|code| code.starts_with("unsupported") || code.starts_with("unknown"))
        || REFUSALS.iter().any(|word| lower.contains(word));
    if !refuses {
        return None;
    }
    let param = field("/error/param");
    let sent = |parameter: &Parameter| sent.has(*parameter);
    // The provider's field takes precedence over its message.
    let by_field = Parameter::ALL
        .into_iter()
        .filter(sent)
        .find(|parameter| param.is_some_and(|param| parameter.names().contains(&param)));
    by_field.or_else(|| {
        let first = |parameter: &Parameter| parameter.names().iter().filter_map(|name| word_at(message, name)).min();
        Parameter::ALL
            .into_iter()
            .filter(sent)
            .filter_map(|parameter| Some((first(&parameter)?, parameter)))
            .min_by_key(|(at, _)| *at)
            .map(|(_, parameter)| parameter)
    })
}

/// Finds a name as a whole word in a text.
fn word_at(text: &str, name: &str) -> Option<usize> {
    let part_of_name = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(name).map(|(at, _)| at).find(|at| {
        let (before, after) = (&text[..*at], &text[at + name.len()..]);
        !before.ends_with(part_of_name) && !after.starts_with(part_of_name)
    })
}

/// A set of parameters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Parameters(u16);

impl Parameters {
    pub(super) fn has(self, parameter: Parameter) -> bool {
        self.0 & parameter.bit() != 0
    }

    pub(super) fn add(&mut self, parameter: Parameter) {
        self.0 |= parameter.bit();
    }
}

/// The rejected parameters of each model.
#[derive(Debug, Clone, Default)]
pub(super) struct Refusals(Arc<Mutex<HashMap<String, Parameters>>>);

impl Refusals {
    /// By `provider:model`.
    pub(super) fn of(&self, model: &str) -> Parameters {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(model).copied().unwrap_or_default()
    }

    pub(super) fn remember(&self, model: &str, parameter: Parameter) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MODELS_MAX && !known.contains_key(model) {
            known.clear();
        }
        known.entry(model.to_owned()).or_default().add(parameter);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Parameters {
        let mut all = Parameters::default();
        Parameter::ALL.into_iter().for_each(|parameter| all.add(parameter));
        all
    }

    #[test]
    fn a_refused_parameter_is_found_in_what_each_provider_says() {
        let anthropic = |message: &str| {
            format!(r#"{{"type":"error","error":{{"type":"invalid_request_error","message":"{message}"}}}}"#)
        };
        let openai = |message: &str, param: &str, code: &str| {
            format!(
                r#"{{"error":{{"message":"{message}","type":"invalid_request_error","param":"{param}","code":"{code}"}}}}"#
            )
        };
        for (body, parameter) in [
            (anthropic("`temperature` is deprecated for this model."), Parameter::Temperature),
            (anthropic("tools.49.cache_control: Extra inputs are not permitted"), Parameter::CacheControl),
            (anthropic("adaptive thinking is not supported on this model"), Parameter::Effort),
            (
                openai(
                    "Unsupported value: 'temperature' does not support 0.1 with this model. Only the default (1) value is supported.",
                    "temperature",
                    "unsupported_value",
                ),
                Parameter::Temperature,
            ),
            (
                openai(
                    "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
                    "max_tokens",
                    "unsupported_parameter",
                ),
                Parameter::MaxTokens,
            ),
            (
                openai(
                    "Your organization must be verified to generate reasoning summaries.",
                    "reasoning.summary",
                    "unsupported_value",
                ),
                Parameter::Summary,
            ),
            (
                openai(
                    "Unsupported parameter: 'reasoning.effort' is not supported with this model.",
                    "reasoning.effort",
                    "unsupported_parameter",
                ),
                Parameter::Effort,
            ),
            (
                r#"[{"error":{"code":400,"message":"Thinking is not enabled: thinking_level is not supported for this model.","status":"INVALID_ARGUMENT"}}]"#.to_owned(),
                Parameter::Effort,
            ),
            (r#"{"message":"unknown field reasoning_content"}"#.to_owned(), Parameter::ReasoningContent),
        ] {
            assert_eq!(named(400, &body, all()), Some(parameter), "{body}");
        }
    }

    #[test]
    fn other_refusals_and_what_was_not_sent_are_no_parameters() {
        let body_text = r#"{"error":{"message":"`temperature` is deprecated for this model."}}"#;
        assert_eq!(named(400, body_text, Parameters::default()), None);
        assert_eq!(named(500, body_text, all()), None);
        let of_value = r#"{"error":{"message":"temperature: Input should be less than or equal to 1"}}"#;
        assert_eq!(named(400, of_value, all()), None);
        let other = r#"{"error":{"message":"messages.3: unexpected `tool_use_id` found"}}"#;
        assert_eq!(named(400, other, all()), None);
        assert_eq!(named(400, "unsupported", all()), None);
    }

    #[test]
    fn refusals_are_remembered_by_model_and_bounded() {
        let refusals = Refusals::default();
        refusals.remember("a:b", Parameter::Temperature);
        assert!(refusals.of("a:b").has(Parameter::Temperature));
        assert!(!refusals.of("a:b").has(Parameter::Effort));
        assert_eq!(refusals.of("a:c"), Parameters::default());
        for model in 0..MODELS_MAX * 2 {
            refusals.remember(&format!("a:{model}"), Parameter::Effort);
        }
        assert!(refusals.0.lock().unwrap().len() <= MODELS_MAX);
    }
}
