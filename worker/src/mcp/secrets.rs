//! A server's settings with the values of the project's secrets filled in, and what hides those values in everything that comes back.
//! Called by `connections` whenever a connection is made.
//!
//! Invariant: a value goes to the server, and nowhere else: not into results, errors or logs.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use rejoin_shared::mcp::{Server, template};
use rejoin_shared::secrets::{self, MasterKeys};
use serde_json::{Map, Value};
use sqlx::PgPool;

use super::oauth::Grant;

/// Shorter values stand for too many other things to be hidden [bytes].
const HIDDEN_FROM_BYTES: usize = 4;
const HIDDEN: &str = "[secret]";
/// Tokens of a connection that are hidden: the latest.
const MAX_TOKENS: usize = 16;

/// The settings as the server is reached by them.
pub struct Filled {
    pub url: Option<String>,
    pub headers: Vec<(String, String)>,
    pub env: Vec<(String, String)>,
    pub oauth: Option<Grant>,
    pub hider: Hider,
}

/// Opens the secrets that the settings name.
///
/// # Errors
/// One is missing or can't be opened: what to tell.
pub async fn fill(db: &PgPool, keys: Option<&MasterKeys>, server: &Server) -> Result<Filled, String> {
    let settings = &server.settings;
    let mut templates: Vec<&str> = settings.url.as_deref().into_iter().collect();
    templates.extend(settings.headers.values().filter_map(Value::as_str));
    templates.extend(settings.env.values().filter_map(Value::as_str));
    if let Some(oauth) = &settings.oauth {
        templates.extend([oauth.client_id.as_str(), oauth.client_secret.as_str()]);
        templates.extend(oauth.token_url.as_deref());
    }
    let mut values = HashMap::new();
    for template in templates {
        for name in template::names(template)? {
            if values.contains_key(name) {
                continue;
            }
            let keys = keys.ok_or_else(|| {
                format!("it uses the secret {name}, but this worker has no master key (REJOIN_SECRET_KEYS_FILE)")
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
    let oauth = settings.oauth.as_ref().map(|oauth| {
        Ok::<_, String>(Grant {
            client_id: fill(&oauth.client_id)?,
            client_secret: fill(&oauth.client_secret)?,
            scopes: oauth.scopes.clone(),
            token_url: oauth.token_url.as_deref().map(&fill).transpose()?,
        })
    });
    let oauth = oauth.transpose()?;
    let travelling = oauth.iter().flat_map(Grant::hidden).collect::<Vec<_>>();
    Ok(Filled {
        url: settings.url.as_deref().map(&fill).transpose()?,
        headers: all(&settings.headers)?,
        env: all(&settings.env)?,
        hider: Hider::new(values.into_values().chain(travelling)),
        oauth,
    })
}

/// Takes values of secrets out of what a server says. Cheap to clone; clones know of the same values.
#[derive(Clone, Default)]
pub struct Hider(Arc<RwLock<Arc<Hidden>>>);

/// What is hidden.
#[derive(Clone, Default)]
struct Hidden {
    fixed: Vec<String>,
    /// The latest is last.
    tokens: Vec<String>,
    /// All of them, the longest first: one may be a part of another.
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

impl Hider {
    /// One that hides these.
    pub fn new(values: impl Iterator<Item = String>) -> Self {
        let fixed = values.filter(|value| value.len() >= HIDDEN_FROM_BYTES).collect();
        let hidden = Hidden {
            fixed,
            ..Hidden::default()
        };
        Self(Arc::new(RwLock::new(Arc::new(hidden.sorted()))))
    }

    /// Hides a token from now on, in all clones.
    pub fn also(&self, token: String) {
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

    /// A text without them.
    pub fn text(&self, text: String) -> String {
        self.hidden()
            .all
            .iter()
            .fold(text, |text, value| match text.contains(value.as_str()) {
                true => text.replace(value.as_str(), HIDDEN),
                false => text,
            })
    }

    /// JSON without them.
    pub fn value(&self, value: Value) -> Value {
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
        let hider = Hider::new(["s3cret".to_owned(), "s3cret-and-more".to_owned(), "abc".to_owned()].into_iter());
        let said = json!({"env": {"TOKEN": "s3cret", "s3cret": [1, "a s3cret-and-more b"]}, "abc": "abc"});
        assert_eq!(
            hider.value(said),
            json!({"env": {"TOKEN": HIDDEN, HIDDEN: [1, "a [secret] b"]}, "abc": "abc"})
        );
    }

    #[test]
    fn the_latest_tokens_are_hidden_in_all_clones() {
        let hider = Hider::new(["s3cret".to_owned()].into_iter());
        let clone = hider.clone();
        for number in 0..=MAX_TOKENS {
            hider.also(format!("token-{number:03}-s3cret"));
        }
        let latest = format!("s3cret token-{MAX_TOKENS:03}-s3cret token-001-s3cret");
        assert_eq!(clone.text(latest), "[secret] [secret] [secret]");
        assert_eq!(clone.text("token-000-s3cret".to_owned()), "token-000-[secret]");
    }
}
