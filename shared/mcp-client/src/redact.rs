//! Redacts secrets from the output of MCP servers.

use std::sync::{Arc, PoisonError, RwLock};

use serde_json::Value;

/// Minimum length of redacted values, in bytes: shorter ones would match too much else.
const HIDDEN_FROM_BYTES: usize = 4;
const HIDDEN: &str = "[secret]";
/// Maximum number of a connection's redacted tokens: the latest.
const MAX_TOKENS: usize = 16;

/// Redacts secrets in a server's output. Cheap to clone; clones share the values.
#[derive(Clone, Default)]
pub struct Redactor(Arc<RwLock<Arc<Hidden>>>);

/// The redacted values.
#[derive(Clone, Default)]
struct Hidden {
    fixed: Vec<String>,
    /// Latest last.
    tokens: Vec<String>,
    /// All of them, longest first: one may be a part of another.
    all: Vec<String>,
}

impl Hidden {
    fn sorted(mut self) -> Self {
        self.all = self.fixed.iter().chain(&self.tokens).cloned().collect();
        self.all.sort_by_key(|value| std::cmp::Reverse(value.len()));
        self.all.dedup();
        self
    }
}

impl Redactor {
    /// Creates a redactor of these values.
    pub fn new(values: impl Iterator<Item = String>) -> Self {
        let fixed = values.filter(|value| value.len() >= HIDDEN_FROM_BYTES).collect();
        let hidden = Hidden {
            fixed,
            ..Hidden::default()
        };
        Self(Arc::new(RwLock::new(Arc::new(hidden.sorted()))))
    }

    /// Redacts a token from now on, in all clones.
    pub(crate) fn also(&self, token: String) {
        if token.len() < HIDDEN_FROM_BYTES {
            return;
        }
        let mut held = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let mut hidden = held.as_ref().clone();
        hidden.tokens.retain(|known| *known != token);
        hidden.tokens.push(token);
        let surplus = hidden.tokens.len().saturating_sub(MAX_TOKENS);
        hidden.tokens.drain(..surplus);
        *held = Arc::new(hidden.sorted());
    }

    fn hidden(&self) -> Arc<Hidden> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Redacts a text.
    pub(crate) fn text(&self, text: String) -> String {
        self.hidden().all.iter().fold(text, |text, value| {
            if text.contains(value.as_str()) {
                text.replace(value.as_str(), HIDDEN)
            } else {
                text
            }
        })
    }

    /// Redacts JSON.
    pub(crate) fn value(&self, value: Value) -> Value {
        if self.hidden().all.is_empty() {
            return value;
        }
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(items) => items.into_iter().map(|item| self.value(item)).collect(),
            Value::Object(fields) => fields
                .into_iter()
                .map(|(name, item)| (self.text(name), self.value(item)))
                .collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) => value,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_hidden_wherever_they_stand() {
        let redactor = Redactor::new(["s3cret".to_owned(), "s3cret-and-more".to_owned(), "abc".to_owned()].into_iter());
        let secret_inside = json!({"env": {"TOKEN": "s3cret", "s3cret": [1, "a s3cret-and-more b"]}, "abc": "abc"});
        assert_eq!(
            redactor.value(secret_inside),
            json!({"env": {"TOKEN": HIDDEN, HIDDEN: [1, "a [secret] b"]}, "abc": "abc"})
        );
    }

    #[test]
    fn the_latest_tokens_are_hidden_in_all_clones() {
        let redactor = Redactor::new(["s3cret".to_owned()].into_iter());
        let clone = redactor.clone();
        for number in 0..=MAX_TOKENS {
            redactor.also(format!("token-{number:03}-s3cret"));
        }
        let latest = format!("s3cret token-{MAX_TOKENS:03}-s3cret token-001-s3cret");
        assert_eq!(clone.text(latest), "[secret] [secret] [secret]");
        assert_eq!(clone.text("token-000-s3cret".to_owned()), "token-000-[secret]");
    }
}
