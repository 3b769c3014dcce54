//! Maps genai's errors to ours: a stable code, whether to retry, and the retry delay requested by the provider.
//!
//! - `advice` errors that a user can fix
//!
//! Used by the stream of `genai`. Invariant: no message holds a key. The provider's message is quoted with the key
//! redacted, except for a rejected key, where it often quotes a part of it.

mod advice;

use std::error::Error as StdError;
use std::time::Duration;

use ::genai::Error as GenaiError;
use ::genai::webc::Error as WebError;
use chrono::{DateTime, Utc};
use reqwest::StatusCode;
use reqwest::header::HeaderMap;
use serde_json::Value;

use rejoin_models::Model;

use super::parameters::{self, Parameter, Parameters};
use crate::ModelError;
use crate::name::{ModelName, ProviderKind, Secret};
use advice::{OVERFLOWS, QUOTAS, REFUSALS, UNKNOWN};

/// Maximum length of a quoted provider message, in characters.
const MAX_QUOTE_CHARS: usize = 300;
/// Minimum length of redacted keys, in characters: shorter ones (placeholders) would match ordinary words.
const MIN_SECRET_CHARS: usize = 6;
/// Maximum depth of causes.
const MAX_CAUSE_DEPTH: usize = 8;

/// The details of a call needed for a message.
pub(super) struct ErrorContext {
    pub(super) name: ModelName,
    /// The same as text.
    pub(super) full_name: String,
    /// The catalogue's entry of the model.
    pub(super) known: Option<&'static Model>,
    pub(super) host: String,
    pub(super) key: Option<Secret>,
}

impl ErrorContext {
    /// The same for a call with this key.
    pub(super) fn with_key(&self, key: Secret) -> Self {
        Self {
            name: self.name.clone(),
            full_name: self.full_name.clone(),
            known: self.known,
            host: self.host.clone(),
            key: Some(key),
        }
    }

    pub(super) fn classify(&self, error: &GenaiError) -> ModelError {
        if let Some(status) = error.status() {
            return self.status(status, error.headers(), body(error));
        }
        match error {
            GenaiError::WebStream { error, .. } => self.transport(error.as_ref()),
            GenaiError::WebModelCall { webc_error, .. } | GenaiError::WebAdapterCall { webc_error, .. } => {
                match webc_error {
                    WebError::Reqwest(cause) => self.reqwest(cause),
                    WebError::ResponseFailedNotJson { .. }
                    | WebError::ResponseFailedInvalidJson { .. }
                    | WebError::ResponseFailedStatus { .. }
                    | WebError::JsonValueExt(_) => self.protocol("the response is not the expected JSON"),
                }
            }
            GenaiError::StreamParse { serde_error, .. } => {
                self.protocol(&format!("a chunk of the stream is not JSON ({serde_error})"))
            }
            GenaiError::SerdeJson(_) | GenaiError::JsonValueExt(_) | GenaiError::InvalidJsonResponseElement { .. } => {
                self.protocol("a chunk of the stream lacks a field")
            }
            GenaiError::ChatResponse { body, .. } => self.in_stream(body),
            other => self.error(
                "model_rejected",
                format!("creating the request failed: {}", self.quote(&other.to_string())),
                false,
            ),
        }
    }

    /// The connection closed before the answer was complete.
    pub(super) fn cut(&self) -> ModelError {
        self.error(
            "model_stream_cut",
            "the connection was closed during the response".to_owned(),
            true,
        )
    }

    pub(super) fn silent(&self, idle: Duration) -> ModelError {
        self.error(
            "model_unavailable",
            format!(
                "no data for {} s, so the call was aborted (REJOIN_MODEL_IDLE_TIMEOUT_MS)",
                idle.as_secs_f64()
            ),
            true,
        )
    }

    /// A protocol error may come from a broken proxy as well as from an incompatible server, so a retry may help.
    pub(super) fn protocol(&self, what: &str) -> ModelError {
        self.error("model_protocol", format!("the response cannot be parsed: {what}"), true)
    }

    fn error(&self, code: &'static str, what: String, retryable: bool) -> ModelError {
        ModelError {
            code,
            message: format!("calling `{}` at {}: {what}", self.name, self.host),
            retryable,
            retry_after: None,
        }
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "a Retry-After date is the provider's clock against ours; no database is near"
    )]
    fn status(&self, status: StatusCode, headers: Option<&HeaderMap>, body: &str) -> ModelError {
        let quoted = self.quote(&provider_message(body));
        let quoted = if quoted.is_empty() {
            String::new()
        } else {
            format!(": {quoted}")
        };
        let code = status.as_u16();
        let lower = body.to_lowercase();
        let says = |words: &[&str]| words.iter().any(|word| lower.contains(word));
        let error = match code {
            // Not a rate limit: no retry helps until the account is topped up.
            400 | 402 | 403 | 429 if says(&QUOTAS) => self.quota(&format!("HTTP {code}{quoted}")),
            402 => self.quota(&format!("HTTP {code}{quoted}")),
            401 | 403 => self.error(
                "model_key_rejected",
                format!(
                    "the provider rejected the API key (HTTP {code}); check {}",
                    key_variable(self.name.provider)
                ),
                false,
            ),
            429 => self.error(
                "model_rate_limited",
                format!(
                    "too many requests (HTTP 429){quoted}. Raise the account's limits, run fewer agents at the same \
                    time, or set fallbackModels in the agent's definition"
                ),
                true,
            ),
            400 | 413 | 422 if says(&OVERFLOWS) => self.overflow(&quoted),
            400 | 422 if says(&REFUSALS) => self.refused(&quoted),
            400 if says(&UNKNOWN) => self.error("model_unknown", self.gone(&quoted), false),
            404 => self.error("model_unknown", self.gone(&quoted), false),
            529 => self.overloaded(code, &quoted),
            503 if says(&["overloaded", "high demand", "capacity", "server busy"]) => self.overloaded(code, &quoted),
            408 | 409 | 425 | 500.. => self.error("model_unavailable", format!("HTTP {code}{quoted}"), true),
            _ => self.error(
                "model_rejected",
                format!("the request was rejected (HTTP {code}){quoted}"),
                false,
            ),
        };
        ModelError {
            retry_after: error
                .retryable
                .then(|| headers.and_then(|headers| retry_after(headers, Utc::now())))
                .flatten(),
            ..error
        }
    }

    /// Returns the parameter named by a rejection, among those sent.
    pub(super) fn refused_parameter(&self, error: &GenaiError, sent: Parameters) -> Option<Parameter> {
        let error = unboxed(error);
        parameters::named(error.status()?.as_u16(), body(error), sent)
    }

    fn transport(&self, error: &(dyn StdError + Send + Sync + 'static)) -> ModelError {
        // The status of a streaming call arrives here, boxed, after the stream's start.
        if let Some(inner) = error.downcast_ref::<GenaiError>() {
            return match inner {
                // Recursive boxing would be a bug there; it is not followed.
                GenaiError::WebStream { cause, .. } => self.error("model_unavailable", self.quote(cause), true),
                other => self.classify(other),
            };
        }
        if let Some(inner) = error.downcast_ref::<reqwest::Error>() {
            return self.reqwest(inner);
        }
        if error.is::<std::string::FromUtf8Error>() || error.is::<std::str::Utf8Error>() {
            return self.protocol("the stream is not UTF-8");
        }
        self.error("model_unavailable", self.quote(&root_cause(error)), true)
    }

    fn reqwest(&self, error: &reqwest::Error) -> ModelError {
        // The root cause only: the errors above it print the URL.
        let cause = self.quote(&root_cause(error));
        if error.is_timeout() {
            self.error("model_unavailable", format!("timed out ({cause})"), true)
        } else if error.is_connect() {
            self.error("model_unavailable", format!("could not connect ({cause})"), true)
        } else if error.is_body() || error.is_decode() {
            self.cut()
        } else if error.is_builder() {
            self.error(
                "model_misconfigured",
                format!("sending the request failed ({cause})"),
                false,
            )
        } else {
            self.error("model_unavailable", format!("the request failed ({cause})"), true)
        }
    }

    /// An error event inside a stream that began with 200.
    fn in_stream(&self, body: &Value) -> ModelError {
        let inner = body.get("error").unwrap_or(body);
        let word = ["type", "code", "status", "finishReason"]
            .iter()
            .filter_map(|field| inner.get(field))
            .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
            .collect::<Vec<_>>()
            .join(" ")
            .to_lowercase();
        let has = |words: &[&str]| words.iter().any(|part| word.contains(part));
        let quoted = self.quote(&provider_message(&body.to_string()));
        let lower = quoted.to_lowercase();
        if has(&QUOTAS) {
            self.quota(&quoted)
        } else if has(&OVERFLOWS) || OVERFLOWS.iter().any(|words| lower.contains(words)) {
            self.overflow(&format!(": {quoted}"))
        } else if has(&["safety", "blocklist", "prohibited", "content_filter", "content_policy"]) {
            self.refused(&format!(": {quoted}"))
        } else if has(&["overloaded"]) {
            self.error(
                "model_overloaded",
                format!("the provider became overloaded while answering: {quoted}"),
                true,
            )
        } else if has(&["invalid_request", "not_found", "permission", "validation"]) {
            self.error("model_rejected", format!("the request was rejected: {quoted}"), false)
        } else if has(&["authentication", "invalid_api_key"]) {
            self.error(
                "model_key_rejected",
                format!(
                    "the provider rejected the API key; check {}",
                    key_variable(self.name.provider)
                ),
                false,
            )
        } else if has(&["rate_limit", "429", "resource_exhausted", "throttling"]) {
            self.error("model_rate_limited", format!("too many requests: {quoted}"), true)
        } else {
            self.error(
                "model_unavailable",
                format!("the provider failed while answering: {quoted}"),
                true,
            )
        }
    }

    fn quote(&self, text: &str) -> String {
        let text = match &self.key {
            Some(key) if key.expose().len() >= MIN_SECRET_CHARS => text.replace(key.expose(), "[key]"),
            Some(_) | None => text.to_owned(),
        };
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        match text.char_indices().nth(MAX_QUOTE_CHARS) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text,
        }
    }
}

/// Returns the error wrapped by a stream's error.
fn unboxed(error: &GenaiError) -> &GenaiError {
    let mut error = error;
    for _ in 0..MAX_CAUSE_DEPTH {
        match error {
            GenaiError::WebStream { error: inner, .. } => match inner.downcast_ref::<GenaiError>() {
                Some(inner) => error = inner,
                None => break,
            },
            _ => break,
        }
    }
    error
}

fn key_variable(provider: ProviderKind) -> &'static str {
    match provider {
        ProviderKind::OpenAi | ProviderKind::OpenAiResponses => "OPENAI_API_KEY",
        ProviderKind::Azure => "AZURE_OPENAI_API_KEY",
        ProviderKind::OpenRouter => "OPENROUTER_API_KEY",
        ProviderKind::Bedrock => "AWS_BEARER_TOKEN_BEDROCK",
        ProviderKind::Anthropic => "ANTHROPIC_API_KEY",
        ProviderKind::Gemini => "GEMINI_API_KEY",
        ProviderKind::Vertex => {
            "VERTEX_API_KEY (an access token, which expires), or the permissions of the Google Cloud credentials"
        }
        ProviderKind::Ollama => "OLLAMA_HOST",
        ProviderKind::Demo => "nothing: the demo model needs no API key",
    }
}

fn body(error: &GenaiError) -> &str {
    match error {
        GenaiError::HttpError { body, .. }
        | GenaiError::WebModelCall {
            webc_error: WebError::ResponseFailedStatus { body, .. },
            ..
        }
        | GenaiError::WebAdapterCall {
            webc_error: WebError::ResponseFailedStatus { body, .. },
            ..
        } => body,
        _ => "",
    }
}

/// Returns `error.message` of a JSON body, the format of all known providers; else the body.
fn provider_message(body: &str) -> String {
    let parsed: Option<Value> = serde_json::from_str(body).ok();
    let message = parsed.as_ref().and_then(|value| {
        // Gemini wraps its error object in a list.
        let value = value.get(0).unwrap_or(value);
        ["/error/message", "/message", "/error", "/finishReason"]
            .iter()
            .find_map(|path| value.pointer(path).and_then(Value::as_str))
    });
    message.unwrap_or(body).to_owned()
}

fn root_cause(error: &(dyn StdError + 'static)) -> String {
    let mut cause = error;
    for _ in 0..MAX_CAUSE_DEPTH {
        match cause.source() {
            Some(source) => cause = source,
            None => break,
        }
    }
    cause.to_string()
}

/// `retry-after-ms`, else `Retry-After` in seconds or as an HTTP date (RFC 9110, section 10.2.3).
fn retry_after(headers: &HeaderMap, now: DateTime<Utc>) -> Option<Duration> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let seconds = |text: &str| {
        text.parse::<f64>()
            .ok()
            .and_then(|s| Duration::try_from_secs_f64(s).ok())
    };
    if let Some(ms) = header("retry-after-ms").and_then(|text| text.parse::<u64>().ok()) {
        return Some(Duration::from_millis(ms));
    }
    let text = header("retry-after")?;
    seconds(text).or_else(|| {
        let until = DateTime::parse_from_rfc2822(text).ok()?.with_timezone(&Utc);
        Some((until - now).to_std().unwrap_or_default())
    })
}

#[cfg(test)]
mod tests;
