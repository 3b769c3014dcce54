//! A server's settings with the values of the project's secrets filled in, and what hides those values in everything that comes back.
//! Called by `connections` whenever a connection is made.
//!
//! Invariant: a value goes to the server, and nowhere else: not into results, errors or logs.

use std::collections::HashMap;
use std::sync::Arc;

use rejoin_shared::mcp::{Server, template};
use rejoin_shared::secrets::{self, MasterKeys};
use serde_json::{Map, Value};
use sqlx::PgPool;

/// Shorter values stand for too many other things to be hidden [bytes].
const HIDDEN_FROM_BYTES: usize = 4;
const HIDDEN: &str = "[secret]";

/// The settings as the server is reached by them.
pub struct Filled {
    pub url: Option<String>,
    pub headers: Vec<(String, String)>,
    pub env: Vec<(String, String)>,
    pub hider: Hider,
}

/// Opens the secrets that the settings name.
///
/// # Errors
/// One is missing or can't be opened: what to tell.
pub async fn fill(db: &PgPool, keys: Option<&MasterKeys>, server: &Server) -> Result<Filled, String> {
    let settings = &server.settings;
    let templates = settings
        .url
        .iter()
        .map(String::as_str)
        .chain(settings.headers.values().filter_map(Value::as_str))
        .chain(settings.env.values().filter_map(Value::as_str));
    let mut values = HashMap::new();
    for template in templates {
        for name in template::names(template)? {
            if values.contains_key(name) {
                continue;
            }
            let keys = keys.ok_or_else(|| {
                format!("it names the secret {name}, and this worker has no master key (REJOIN_SECRET_KEYS_FILE)")
            })?;
            let opened = secrets::open(db, keys, server.project_id, name)
                .await
                .map_err(|error| error.to_string())?
                .ok_or_else(|| format!("the project has no secret {name}"))?;
            let text = opened
                .expose_text()
                .ok_or_else(|| format!("the secret {name} is not text"))?;
            values.insert(name.to_owned(), text.to_owned());
        }
    }
    let fill = |template: &str| template::filled(template, |name| values.get(name).cloned());
    let all = |templates: &Map<String, Value>| {
        templates
            .iter()
            .map(|(name, value)| Ok((name.clone(), fill(value.as_str().unwrap_or_default())?)))
            .collect::<Result<Vec<_>, String>>()
    };
    Ok(Filled {
        url: settings.url.as_deref().map(&fill).transpose()?,
        headers: all(&settings.headers)?,
        env: all(&settings.env)?,
        hider: Hider::new(values.into_values()),
    })
}

/// Takes values of secrets out of what a server says. Cheap to clone.
#[derive(Clone, Default)]
pub struct Hider(Arc<Vec<String>>);

impl Hider {
    fn new(values: impl Iterator<Item = String>) -> Self {
        let mut values: Vec<String> = values.filter(|value| value.len() >= HIDDEN_FROM_BYTES).collect();
        // One may be a part of another.
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        Self(Arc::new(values))
    }

    pub fn text(&self, text: String) -> String {
        self.0
            .iter()
            .fold(text, |text, value| match text.contains(value.as_str()) {
                true => text.replace(value.as_str(), HIDDEN),
                false => text,
            })
    }

    pub fn value(&self, value: Value) -> Value {
        if self.0.is_empty() {
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
        let hider = Hider::new(["s3cret".to_owned(), "s3cret-and-more".to_owned(), "abc".to_owned()].into_iter());
        let said = json!({"env": {"TOKEN": "s3cret", "s3cret": [1, "a s3cret-and-more b"]}, "abc": "abc"});
        assert_eq!(
            hider.value(said),
            json!({"env": {"TOKEN": HIDDEN, HIDDEN: [1, "a [secret] b"]}, "abc": "abc"})
        );
    }
}
