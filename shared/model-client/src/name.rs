//! Names of models, and the source of their key and address.
//!
//! `registry` parses definitions' names with `ModelName` and reads [`ModelSettings`] once at start. Keys are held in
//! [`Secret`], whose `Debug` shows nothing, so that no log line and no error can contain one.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use rejoin_models::answering::OPENAI_HOST;
use rejoin_models::{CHAT_MODELS, DEFAULT_MODEL, names};

use crate::ModelError;

/// Default idle timeout between two parts of an answer (or before the first).
pub(crate) const DEFAULT_IDLE_TIMEOUT: Duration = Duration::from_secs(120);
/// Default timeout of a connection (TCP and TLS) to a provider.
pub(crate) const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Default pause of the demo model between two words.
pub(crate) const DEFAULT_DEMO_WORD_PAUSE: Duration = Duration::from_millis(25);

rejoin_types::text_enum! {
    /// A provider of models. Its text is the prefix before the colon.
    pub(crate) enum ProviderKind {
        /// OpenAI, and compatible servers of its Chat Completions API.
        OpenAi = "openai",
        /// OpenAI, and compatible servers of its Responses API.
        OpenAiResponses = "openai-responses",
        /// OpenAI's models on Azure.
        Azure = "azure",
        /// Models of many providers on OpenRouter.
        OpenRouter = "openrouter",
        /// Models of many providers on Amazon Bedrock.
        Bedrock = "bedrock",
        Anthropic = "anthropic",
        Gemini = "gemini",
        Vertex = "vertex",
        Ollama = "ollama",
        /// The rule-based demo model; no network.
        Demo = "demo",
    }
}

impl ProviderKind {
    /// Returns the provider with this prefix.
    fn of(word: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.as_str().eq_ignore_ascii_case(word.trim()))
    }
}

/// `provider:model`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ModelName {
    pub provider: ProviderKind,
    /// The provider's name for it; may contain colons itself (`llama3.2:3b`).
    pub(crate) model: String,
}

impl ModelName {
    /// Parses `provider:model`, or a bare name that is known to belong to one provider.
    pub(crate) fn parse(text: &str) -> Result<Self, ModelError> {
        let text = text.trim();
        if let Some((prefix, model)) = text.split_once(':')
            && let Some(provider) = ProviderKind::of(prefix)
        {
            let model = model.trim();
            if model.is_empty() {
                return Err(unknown(format!(
                    "the model name `{text}` is incomplete after `{provider}:`; use for example `{provider}:{}`",
                    example(provider)
                )));
            }
            return Ok(Self {
                provider,
                model: model.to_owned(),
            });
        }
        let provider = names::provider_of(text).and_then(ProviderKind::of).ok_or_else(|| {
            unknown(format!(
                "no provider is known for the model `{text}`; use `provider:model`, for example `openai:{text}` or \
                `ollama:{text}` (providers: {})",
                ProviderKind::TEXTS.join(", ")
            ))
        })?;
        Ok(Self {
            provider,
            model: text.to_owned(),
        })
    }
}

impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.provider, self.model)
    }
}

/// Checks the name of a model: its provider is known. Its key is not looked for.
pub fn check(name: &str) -> Result<(), ModelError> {
    ModelName::parse(name).map(drop)
}

fn example(provider: ProviderKind) -> &'static str {
    match provider {
        ProviderKind::OpenAi | ProviderKind::OpenAiResponses | ProviderKind::Azure => "gpt-6-luna",
        ProviderKind::OpenRouter => "anthropic/claude-haiku-5.5",
        ProviderKind::Bedrock => "anthropic.claude-haiku-5-5",
        ProviderKind::Anthropic => "claude-sonnet-5-5",
        ProviderKind::Gemini | ProviderKind::Vertex => "gemini-3.8-flash",
        ProviderKind::Ollama => "llama3.2",
        ProviderKind::Demo => "graph",
    }
}

pub(crate) fn unknown(message: String) -> ModelError {
    ModelError {
        code: "model_unknown",
        message,
        retryable: false,
        retry_after: None,
    }
}

/// A key. `Debug` shows only its existence.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Holds this key.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the key itself: for the request's header, and for redacting it in a provider's error.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// The key and address of one provider.
#[derive(Debug, Clone, Default)]
pub struct ProviderSettings {
    /// The key, if one is set.
    pub key: Option<Secret>,
    /// Replaces the provider's own address.
    pub base_url: Option<String>,
}

/// The settings of the model layer, from the environment.
#[derive(Debug, Clone)]
pub struct ModelSettings {
    /// `OPENAI_API_KEY`, `OPENAI_BASE_URL` (including `/v1`, with or without a trailing slash).
    pub openai: ProviderSettings,
    /// `AZURE_OPENAI_API_KEY`, `AZURE_OPENAI_ENDPOINT` (the resource's address).
    pub azure: ProviderSettings,
    /// `OPENROUTER_API_KEY`, `OPENROUTER_BASE_URL` (including `/v1`).
    pub openrouter: ProviderSettings,
    /// `AWS_BEARER_TOKEN_BEDROCK`, `BEDROCK_BASE_URL`.
    pub bedrock: ProviderSettings,
    /// `AWS_REGION`, else `AWS_DEFAULT_REGION`, else `us-east-1`.
    pub bedrock_region: String,
    /// `ANTHROPIC_API_KEY`, `ANTHROPIC_BASE_URL` (without `/v1`, like Anthropic's SDKs).
    pub anthropic: ProviderSettings,
    /// `GEMINI_API_KEY`, `GEMINI_BASE_URL` (including `/v1beta`).
    pub gemini: ProviderSettings,
    /// `VERTEX_API_KEY` (an OAuth access token), `VERTEX_BASE_URL` (including `…/locations/{location}`). Without a key,
    /// tokens come from Google's Application Default Credentials.
    pub vertex: ProviderSettings,
    /// Whether `GOOGLE_APPLICATION_CREDENTIALS` is set.
    pub google_credentials: bool,
    /// `VERTEX_PROJECT_ID`, else `GOOGLE_CLOUD_PROJECT`.
    pub vertex_project: Option<String>,
    /// `VERTEX_LOCATION`, else `GOOGLE_CLOUD_LOCATION`, else `global`.
    pub vertex_location: String,
    /// `OLLAMA_HOST`, in the formats that Ollama itself accepts.
    pub ollama_host: Option<String>,
    /// `REJOIN_MODEL`: replaces the model of every definition.
    pub model_override: Option<String>,
    /// `REJOIN_CHAT_MODEL`: for conversations without an agent. None: the first of [`CHAT_MODELS`] whose provider has a
    /// key.
    pub chat_model: Option<String>,
    /// `REJOIN_DEMO_FALLBACK=1`: a provider without a key is replaced by `demo:graph`. Only `rejoin dev` sets it.
    pub demo_fallback: bool,
    /// `REJOIN_DEMO_WORD_MS`.
    pub demo_word_pause: Duration,
    /// `REJOIN_PROMPT_CACHE=off` disables it: marks agents' prompts for Anthropic's cache.
    pub prompt_cache: bool,
    /// `REJOIN_MODEL_IDLE_TIMEOUT_MS`.
    pub idle_timeout: Duration,
    /// `REJOIN_MODEL_CONNECT_TIMEOUT_MS`.
    pub connect_timeout: Duration,
}

impl Default for ModelSettings {
    /// No keys, default limits: the settings of an empty environment.
    fn default() -> Self {
        Self::from_lookup(|_| None)
    }
}

impl ModelSettings {
    /// Reads the environment of this process.
    pub fn from_env() -> Self {
        Self::from_lookup(|name| std::env::var(name).ok())
    }

    /// Reads variables from a map, in place of the environment.
    pub fn from_map(vars: &HashMap<String, String>) -> Self {
        Self::from_lookup(|name| vars.get(name).cloned())
    }

    /// Returns the settings of a compatible server without a key: for tests and tools with their own server.
    pub fn openai_compatible(base_url: impl Into<String>) -> Self {
        let mut settings = Self::default();
        settings.openai.base_url = Some(base_url.into());
        settings
    }

    fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Self {
        // An empty variable counts as absent: compose files and CI set them so.
        let var = |name: &str| {
            lookup(name)
                .map(|value| value.trim().to_owned())
                .filter(|value| !value.is_empty())
        };
        let provider = |key: &str, base_url: &str| ProviderSettings {
            key: var(key).map(Secret::new),
            base_url: var(base_url),
        };
        let millis = |name: &str, default: Duration| {
            var(name)
                .and_then(|value| value.parse().ok())
                .map_or(default, Duration::from_millis)
        };
        Self {
            openai: provider("OPENAI_API_KEY", "OPENAI_BASE_URL"),
            azure: provider("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_ENDPOINT"),
            openrouter: provider("OPENROUTER_API_KEY", "OPENROUTER_BASE_URL"),
            bedrock: provider("AWS_BEARER_TOKEN_BEDROCK", "BEDROCK_BASE_URL"),
            bedrock_region: var("AWS_REGION")
                .or_else(|| var("AWS_DEFAULT_REGION"))
                .unwrap_or_else(|| "us-east-1".to_owned()),
            anthropic: provider("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
            gemini: provider("GEMINI_API_KEY", "GEMINI_BASE_URL"),
            vertex: provider("VERTEX_API_KEY", "VERTEX_BASE_URL"),
            google_credentials: var("GOOGLE_APPLICATION_CREDENTIALS").is_some(),
            vertex_project: var("VERTEX_PROJECT_ID").or_else(|| var("GOOGLE_CLOUD_PROJECT")),
            vertex_location: var("VERTEX_LOCATION")
                .or_else(|| var("GOOGLE_CLOUD_LOCATION"))
                .unwrap_or_else(|| "global".to_owned()),
            ollama_host: var("OLLAMA_HOST"),
            model_override: var("REJOIN_MODEL"),
            chat_model: var("REJOIN_CHAT_MODEL").filter(|name| name != DEFAULT_MODEL),
            demo_fallback: var("REJOIN_DEMO_FALLBACK").is_some_and(|value| value == "1" || value == "true"),
            prompt_cache: var("REJOIN_PROMPT_CACHE").is_none_or(|value| value != "off" && value != "0"),
            demo_word_pause: millis("REJOIN_DEMO_WORD_MS", DEFAULT_DEMO_WORD_PAUSE),
            idle_timeout: millis("REJOIN_MODEL_IDLE_TIMEOUT_MS", DEFAULT_IDLE_TIMEOUT),
            connect_timeout: millis("REJOIN_MODEL_CONNECT_TIMEOUT_MS", DEFAULT_CONNECT_TIMEOUT),
        }
    }

    /// Returns the model of conversations without an agent, and of definitions that name [`DEFAULT_MODEL`]. Without any
    /// key: the first one.
    pub(crate) fn chat_model(&self) -> &str {
        self.chat_model.as_deref().unwrap_or_else(|| {
            let with_key = CHAT_MODELS.iter().find(|(provider, _)| self.has_key(provider));
            with_key.unwrap_or(&CHAT_MODELS[0]).1
        })
    }

    /// Returns whether the provider with this prefix has all that it requires.
    fn has_key(&self, provider: &str) -> bool {
        ProviderKind::of(provider).is_some_and(|kind| self.missing_variable(kind).is_none())
    }

    /// Returns whether models of the provider with this prefix can be called by the names that the catalogue has: it has a key, and OpenAI's are
    /// its own. Ollama needs no key; it counts if its address is set.
    pub(crate) fn offers(&self, provider: &str) -> bool {
        match ProviderKind::of(provider) {
            Some(ProviderKind::Ollama) => self.ollama_host.is_some(),
            Some(kind) => self.has_key(provider) && self.heeds_retirement(kind),
            None => false,
        }
    }

    /// Returns whether retired models are unavailable in this deployment: a custom server behind OPENAI_BASE_URL may
    /// serve any model under any name, whatever OpenAI has retired.
    pub(crate) fn heeds_retirement(&self, provider: ProviderKind) -> bool {
        match provider {
            ProviderKind::OpenAi | ProviderKind::OpenAiResponses => self
                .openai
                .base_url
                .as_deref()
                .is_none_or(|url| url.contains(OPENAI_HOST)),
            ProviderKind::Azure
            | ProviderKind::OpenRouter
            | ProviderKind::Bedrock
            | ProviderKind::Anthropic
            | ProviderKind::Gemini
            | ProviderKind::Vertex
            | ProviderKind::Ollama
            | ProviderKind::Demo => true,
        }
    }

    /// Returns the missing variable that this provider requires, if any.
    pub(crate) fn missing_variable(&self, provider: ProviderKind) -> Option<&'static str> {
        match provider {
            // A custom base URL without a key: many local servers need none.
            ProviderKind::OpenAi | ProviderKind::OpenAiResponses if self.openai.base_url.is_some() => None,
            ProviderKind::OpenAi | ProviderKind::OpenAiResponses => {
                self.openai.key.is_none().then_some("OPENAI_API_KEY")
            }
            ProviderKind::Azure if self.azure.key.is_none() => Some("AZURE_OPENAI_API_KEY"),
            ProviderKind::Azure => self.azure.base_url.is_none().then_some("AZURE_OPENAI_ENDPOINT"),
            ProviderKind::OpenRouter => self.openrouter.key.is_none().then_some("OPENROUTER_API_KEY"),
            ProviderKind::Bedrock => self.bedrock.key.is_none().then_some("AWS_BEARER_TOKEN_BEDROCK"),
            ProviderKind::Anthropic => self.anthropic.key.is_none().then_some("ANTHROPIC_API_KEY"),
            ProviderKind::Gemini => self.gemini.key.is_none().then_some("GEMINI_API_KEY"),
            // Without a key, Google's credentials are looked up at the first call.
            ProviderKind::Vertex if self.vertex.base_url.is_some() || self.vertex_project.is_some() => None,
            ProviderKind::Vertex if self.vertex.key.is_some() || self.google_credentials => Some("VERTEX_PROJECT_ID"),
            ProviderKind::Vertex => Some("VERTEX_API_KEY"),
            ProviderKind::Ollama | ProviderKind::Demo => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> String {
        ModelName::parse(text).expect(text).to_string()
    }

    #[test]
    fn a_provider_is_read_up_to_the_first_colon() {
        assert_eq!(parsed("openai:gpt-4o"), "openai:gpt-4o");
        assert_eq!(parsed(" OpenAI : gpt-4o "), "openai:gpt-4o");
        assert_eq!(parsed("ollama:llama3.2:3b"), "ollama:llama3.2:3b");
        assert_eq!(parsed("vertex:gemini-2.0-flash"), "vertex:gemini-2.0-flash");
        assert_eq!(parsed("demo:graph"), "demo:graph");
    }

    #[test]
    fn well_known_bare_names_find_their_provider() {
        assert_eq!(parsed("gemini-2.0-flash"), "gemini:gemini-2.0-flash");
        assert_eq!(parsed("gpt-4o"), "openai:gpt-4o");
        assert_eq!(parsed("chatgpt-4o-latest"), "openai:chatgpt-4o-latest");
        assert_eq!(parsed("o3"), "openai:o3");
        assert_eq!(parsed("o4-mini"), "openai:o4-mini");
        assert_eq!(parsed("claude-sonnet-4-5"), "anthropic:claude-sonnet-4-5");
    }

    #[test]
    fn other_names_are_an_error_that_says_what_to_write() {
        for name in ["llama3:8b", "o35", "mystery", ""] {
            let error = ModelName::parse(name).expect_err(name);
            assert_eq!(error.code, "model_unknown");
            assert!(error.message.contains(&format!("ollama:{name}")), "{}", error.message);
            assert!(!error.retryable);
        }
        let error = ModelName::parse("openai:").expect_err("nothing after the colon");
        assert!(error.message.contains("openai:gpt-6-luna"), "{}", error.message);
    }

    #[test]
    fn settings_never_show_a_key() {
        let vars = HashMap::from([
            ("OPENAI_API_KEY".to_owned(), "sk-very-secret".to_owned()),
            ("GEMINI_API_KEY".to_owned(), " ".to_owned()),
        ]);
        let settings = ModelSettings::from_map(&vars);
        assert!(!format!("{settings:?}").contains("very-secret"));
        assert_eq!(settings.missing_variable(ProviderKind::OpenAi), None);
        assert_eq!(settings.missing_variable(ProviderKind::Gemini), Some("GEMINI_API_KEY"));
    }

    #[test]
    fn an_own_base_url_needs_no_key() {
        let settings = ModelSettings::openai_compatible("http://127.0.0.1:1/v1");
        assert_eq!(settings.missing_variable(ProviderKind::OpenAi), None);
        assert_eq!(
            ModelSettings::default().missing_variable(ProviderKind::OpenAi),
            Some("OPENAI_API_KEY")
        );
    }
}
