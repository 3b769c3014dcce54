//! A request that came in, and what its protocol's check made of it.

use std::collections::HashMap;

use axum::http::{HeaderMap, StatusCode};
use chrono::NaiveDate;
use serde_json::Value;

use super::account::{Caching, Prompt};
use super::refusal::Refusal;
use super::service::Service;

/// One call of a model.
pub(super) struct Request {
    pub(super) service: Service,
    pub(super) headers: HeaderMap,
    pub(super) body: Value,
    /// From the path, where the protocol has it there.
    pub(super) model: Option<String>,
    /// From the path, where the protocol has it there.
    pub(super) streams: Option<bool>,
    /// The project of Google Cloud, where the path has one.
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

/// A request that the provider accepts.
pub(super) struct Plan {
    /// As the request names it.
    pub(super) model: String,
    pub(super) stream: bool,
    /// The model reasons before it answers.
    pub(super) reasons: bool,
    /// The request may read the reasoning.
    pub(super) shown: bool,
    /// The reasoning or the calls are signed.
    pub(super) signs: bool,
    /// Hash of the conversation that thinking blocks are bound to, where they are.
    pub(super) bound: Option<u64>,
    pub(super) store: bool,
    pub(super) prompt: Prompt,
    pub(super) caching: Caching,
    /// System prompt and first user message: where scripts look for their marker.
    pub(super) opening: String,
    /// What the provider accepts, and says not to do.
    pub(super) losses: Vec<String>,
}

/// The list behind a field, empty where there is none.
pub(super) fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value[field].as_array().map_or(&[], Vec::as_slice)
}

/// All texts in a content: the text itself, or the `text` of its parts.
pub(super) fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => String::new(),
    }
}

/// Whether a name has only letters, digits, `_`, `-` and those in `more`.
pub(super) fn is_plain(name: &str, more: &str) -> bool {
    !name.is_empty()
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-' || more.contains(c))
}

pub(super) fn bad_request(kind: &'static str, message: impl Into<String>) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, kind, message)
}
