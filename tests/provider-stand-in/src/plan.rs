//! A request, as validated by its protocol.

use std::collections::HashMap;

use axum::http::{HeaderMap, StatusCode};
use chrono::NaiveDate;
use serde_json::Value;

use super::account::{Caching, Prompt};
use super::refusal::Refusal;
use super::service::Service;

/// One model call.
pub(super) struct Request {
    pub(super) service: Service,
    pub(super) headers: HeaderMap,
    pub(super) body: Value,
    /// From the path, if the protocol has it there.
    pub(super) model: Option<String>,
    /// From the path, if the protocol has it there.
    pub(super) streams: Option<bool>,
    /// The Google Cloud project in the path.
    pub(super) project: Option<String>,
    pub(super) query: HashMap<String, String>,
    /// The key that is valid.
    pub(super) key: String,
    pub(super) today: NaiveDate,
}

impl Request {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    pub(super) fn bearer(&self) -> Option<&str> {
        self.header("authorization")?.strip_prefix("Bearer ")
    }
}

/// A request accepted by the provider.
pub(super) struct Plan {
    /// As named by the request.
    pub(super) model: String,
    pub(super) stream: bool,
    /// Whether the model reasons before it answers.
    pub(super) reasons: bool,
    /// Whether the request may see the reasoning.
    pub(super) shown: bool,
    /// Whether the reasoning or the calls are signed.
    pub(super) signs: bool,
    /// Hash of the conversation to which thinking blocks are bound, if they are.
    pub(super) bound: Option<u64>,
    pub(super) store: bool,
    pub(super) prompt: Prompt,
    pub(super) caching: Caching,
    /// System prompt and first user message, which contain the script's marker.
    pub(super) opening: String,
    /// Accepted but discouraged parts.
    pub(super) losses: Vec<String>,
}

/// Returns a list field, empty if absent.
pub(super) fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value[field].as_array().map_or(&[], Vec::as_slice)
}

/// Returns all texts in a content: the text itself, or the `text` of its parts.
pub(super) fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => String::new(),
    }
}

/// Returns whether a name consists of letters, digits, `_`, `-` and those in `more`.
pub(super) fn is_plain(name: &str, more: &str) -> bool {
    !name.is_empty()
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-' || more.contains(c))
}

pub(super) fn bad_request(kind: &'static str, message: impl Into<String>) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, kind, message)
}
