//! Predicts which model will answer a message, in a process that calls none: the API, from its own environment.
//!
//! Workers may have keys and settings that the API lacks. The result therefore lists all models that may be used, and
//! is empty if that is unknown. Invariant: a non-empty list contains the model chosen by any worker with at least these
//! variables; a test compares it with the worker's choice.

use super::choice::ModelChoice;
use super::{CHAT_MODELS, DEFAULT_MODEL, catalogue, names, today};

/// The host of OpenAI's own servers.
pub const OPENAI_HOST: &str = "api.openai.com";
/// The model of `rejoin dev` if no provider has a key.
const DEMO: &str = "demo:graph";

/// The model settings of an environment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environment {
    /// `REJOIN_MODEL`: replaces the model of every definition.
    model_override: Option<String>,
    /// `REJOIN_CHAT_MODEL`: the model of plain conversations.
    chat_model: Option<String>,
    /// Providers with a key.
    with_key: Vec<&'static str>,
    /// `OPENAI_BASE_URL` refers to a server that may serve any model under any name.
    openai_is_elsewhere: bool,
    /// `REJOIN_DEMO_FALLBACK`: this is `rejoin dev`, whose workers have the same environment.
    is_dev: bool,
}

impl Environment {
    /// Reads this process's environment.
    pub fn from_env() -> Self {
        Self::from_lookup(|name| std::env::var(name).ok())
    }

    pub fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Self {
        // An empty variable counts as absent: compose files and CI set them so.
        let var = |name: &str| {
            lookup(name)
                .map(|value| value.trim().to_owned())
                .filter(|value| !value.is_empty())
        };
        let is_set = |name: &str| var(name).is_some();
        let vertex_key = is_set("VERTEX_API_KEY") || is_set("GOOGLE_APPLICATION_CREDENTIALS");
        let vertex_place = is_set("VERTEX_BASE_URL") || is_set("VERTEX_PROJECT_ID") || is_set("GOOGLE_CLOUD_PROJECT");
        let providers = [
            ("openai", is_set("OPENAI_API_KEY") || is_set("OPENAI_BASE_URL")),
            (
                "azure",
                is_set("AZURE_OPENAI_API_KEY") && is_set("AZURE_OPENAI_ENDPOINT"),
            ),
            ("openrouter", is_set("OPENROUTER_API_KEY")),
            ("bedrock", is_set("AWS_BEARER_TOKEN_BEDROCK")),
            ("anthropic", is_set("ANTHROPIC_API_KEY")),
            ("gemini", is_set("GEMINI_API_KEY")),
            ("vertex", vertex_key && vertex_place),
            ("ollama", is_set("OLLAMA_HOST")),
        ];
        let with_key = providers.into_iter().filter(|(_, has_key)| *has_key);
        Self {
            model_override: var("REJOIN_MODEL"),
            chat_model: var("REJOIN_CHAT_MODEL").filter(|name| name != DEFAULT_MODEL),
            with_key: with_key.map(|(provider, _)| provider).collect(),
            openai_is_elsewhere: var("OPENAI_BASE_URL").is_some_and(|url| !url.contains(OPENAI_HOST)),
            is_dev: var("REJOIN_DEMO_FALLBACK").is_some_and(|value| value == "1" || value == "true"),
        }
    }

    /// Returns the models that may answer for a definition, or for a conversation without one; empty: unknown.
    pub fn answering(&self, choice: Option<&ModelChoice>) -> Vec<String> {
        self.known(choice).unwrap_or_default()
    }

    fn known(&self, choice: Option<&ModelChoice>) -> Option<Vec<String>> {
        let named = choice
            .map(|choice| choice.name.trim())
            .filter(|name| *name != DEFAULT_MODEL);
        let Some(wanted) = self.model_override.as_deref().or(named) else {
            return self.default_models();
        };
        let own = self.live(wanted)?;
        if self.has_key(provider(&own)) {
            return Some(vec![own]);
        }
        let takes_default = choice.is_some_and(|choice| choice.or_default) && self.model_override.is_none();
        if self.is_dev {
            match self.model_override {
                None => self.default_models(),
                Some(_) => Some(vec![DEMO.to_owned()]),
            }
        } else if takes_default {
            // Workers with the key use its own model, others the default.
            let mut may_be = self.default_models()?;
            may_be.insert(0, own);
            Some(may_be)
        } else {
            None
        }
    }

    /// Returns the models that may answer plain conversations, with the one that this environment has a key for last.
    /// Workers with more keys may choose an earlier one. None: unknown or, under `rejoin dev`, there is none.
    fn default_models(&self) -> Option<Vec<String>> {
        if let Some(named) = &self.chat_model {
            let name = self.live(named)?;
            return match (self.has_key(provider(&name)), self.is_dev) {
                (true, _) => Some(vec![name]),
                (false, true) => Some(vec![DEMO.to_owned()]),
                (false, false) => None,
            };
        }
        let Some(at) = CHAT_MODELS.iter().position(|(provider, _)| self.has_key(provider)) else {
            return self.is_dev.then(|| vec![DEMO.to_owned()]);
        };
        let first = if self.is_dev { at } else { 0 };
        CHAT_MODELS[first..=at]
            .iter()
            .map(|(_, name)| self.live(name))
            .collect()
    }

    /// Returns the model that serves this name today. None: not one of our providers, or a server that may serve any
    /// model under that name.
    fn live(&self, wanted: &str) -> Option<String> {
        let name = names::with_provider(wanted)?;
        let is_elsewhere = self.openai_is_elsewhere && matches!(provider(&name), "openai" | "openai-responses");
        (!is_elsewhere).then(|| catalogue().resolve(&name, today()).name)
    }

    /// Returns whether a run's model is known to be what its name says.
    pub fn is_known(&self, asked: &str) -> bool {
        let of = provider(asked);
        of == "flow" || (self.has_key(of) && self.live(asked).is_some())
    }

    fn has_key(&self, provider: &str) -> bool {
        let provider = match provider {
            "openai-responses" => "openai",
            // They need no key: the workers' environment must be known, though.
            "demo" | "ollama" if self.is_dev => return true,
            other => other,
        };
        self.with_key.contains(&provider)
    }
}

fn provider(name: &str) -> &str {
    name.split_once(':').map_or("", |(provider, _)| provider)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(vars: &[(&str, &str)]) -> Environment {
        Environment::from_lookup(|name| {
            let found = vars.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    fn answering(vars: &[(&str, &str)], model: &str, or_default: bool) -> Vec<String> {
        let choice = ModelChoice {
            or_default,
            ..ModelChoice::named(model)
        };
        environment(vars).answering(Some(&choice))
    }

    #[test]
    fn a_model_is_known_where_its_provider_has_a_key() {
        let key = [("ANTHROPIC_API_KEY", "k")];
        assert_eq!(
            answering(&key, "claude-haiku-5-5", false),
            ["anthropic:claude-haiku-5-5"]
        );
        assert!(answering(&[], "claude-haiku-5-5", false).is_empty());
        assert!(answering(&key, "mystery", false).is_empty());
        // The successor of another one.
        let gemini = [("GEMINI_API_KEY", "k")];
        assert_eq!(
            answering(&gemini, "gemini-2.0-flash", false),
            ["gemini:gemini-3.8-flash"]
        );
    }

    #[test]
    fn a_server_of_ones_own_may_serve_anything() {
        let own = [("OPENAI_BASE_URL", "http://127.0.0.1:1/v1"), ("OPENAI_API_KEY", "k")];
        assert!(answering(&own, "gpt-4", false).is_empty());
        assert!(!environment(&own).is_known("openai:gpt-4"));
        assert_eq!(answering(&own[1..], "gpt-6-luna", false), ["openai:gpt-6-luna"]);
        assert!(environment(&own[1..]).is_known("openai:gpt-6-luna"));
    }

    #[test]
    fn workers_with_more_keys_may_take_an_earlier_default() {
        let key = [("OPENAI_API_KEY", "k")];
        let both = ["gemini:gemini-3.8-flash", "openai:gpt-6-luna"];
        assert_eq!(answering(&key, "default", false), both);
        assert_eq!(environment(&key).answering(None), both);
        assert_eq!(answering(&key, "claude-haiku-5-5", true).len(), 3);
        assert!(environment(&[]).answering(None).is_empty());
        let elsewhere = ("OPENAI_BASE_URL", "http://127.0.0.1:1/v1");
        assert!(environment(&[elsewhere]).answering(None).is_empty());
        assert!(
            environment(&[elsewhere, ("REJOIN_DEMO_FALLBACK", "1")])
                .answering(None)
                .is_empty()
        );
    }

    #[test]
    fn under_dev_the_environment_is_the_workers() {
        let dev = ("REJOIN_DEMO_FALLBACK", "1");
        let key = ("OPENAI_API_KEY", "k");
        assert_eq!(answering(&[dev, key], "default", false), ["openai:gpt-6-luna"]);
        assert_eq!(answering(&[dev, key], "claude-haiku-5-5", false), ["openai:gpt-6-luna"]);
        assert_eq!(answering(&[dev], "claude-haiku-5-5", false), ["demo:graph"]);
        let forced = ("REJOIN_MODEL", "anthropic:claude-haiku-5-5");
        assert_eq!(answering(&[dev, key, forced], "default", false), ["demo:graph"]);
    }
}
