//! Resolves the model name of a definition to a provider.
//!
//! The worker creates one [`Models`] at start; the executor resolves per run. A resolved provider is bound to its model
//! and ignores [`ModelRequest::model`](crate::ModelRequest::model). A retired model is replaced by its successor, and
//! the caller is notified.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use ::rejoin_models as known;
use chrono::NaiveDate;
use rejoin_models::DEFAULT_MODEL;
use rejoin_models::choice::ModelChoice;

use crate::demo::DemoGraph;
use crate::genai::GenaiModels;
use crate::name::{ModelName, ModelSettings, ProviderKind, unknown};
use crate::{ModelError, Provider};

/// The only model of the `demo` provider.
pub(crate) const DEMO_MODEL: &str = "graph";
/// Maximum number of models in an error.
const LISTED_MAX: usize = 40;

/// All models available to this process.
#[derive(Clone)]
pub struct Models {
    settings: Arc<ModelSettings>,
    genai: GenaiModels,
    /// Retired names already logged; each is one of the catalogue's.
    warned: Arc<Mutex<HashSet<String>>>,
}

/// A resolved model.
#[derive(Clone)]
pub struct Resolved {
    /// `provider:model`, as requested from the provider.
    pub name: String,
    /// Calls it.
    pub provider: Arc<dyn Provider>,
    /// Set if another model was requested.
    pub replaced: Option<Replaced>,
}

/// A model replaced by another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replaced {
    /// As named by the definition.
    pub requested: String,
    /// The day on which its provider retired it. None: it is served, but has no key here.
    pub retired_on: Option<NaiveDate>,
}

impl Models {
    /// Fails if the HTTP client can't be created (broken TLS settings), not for missing keys: those concern single
    /// runs.
    pub fn new(settings: ModelSettings) -> Result<Self, ModelError> {
        Ok(Self {
            genai: GenaiModels::new(&settings)?,
            settings: Arc::new(settings),
            warned: Arc::default(),
        })
    }

    /// Returns the replacement under `rejoin dev` for a model without a key: the model of plain conversations if it has
    /// a key (and no model is set for all), else the demo.
    fn stand_in(&self) -> Result<ModelName, ModelError> {
        let chat = ModelName::parse(self.settings.chat_model())?;
        let has_key = self.settings.missing_variable(chat.provider).is_none();
        Ok(if has_key && self.settings.model_override.is_none() {
            chat
        } else {
            ModelName {
                provider: ProviderKind::Demo,
                model: DEMO_MODEL.to_owned(),
            }
        })
    }

    /// Resolves the model of a definition, with its provider; None: that of conversations without an agent. Retirement,
    /// the override, the default and the demo fallback may replace it.
    pub fn resolve(&self, model: Option<&str>) -> Result<Resolved, ModelError> {
        self.resolve_or(self.wanted(model), false)
    }

    /// The same for a definition's model settings.
    pub fn of_definition(&self, model: Option<&ModelChoice>) -> Result<Resolved, ModelError> {
        let or_default = model.is_some_and(|model| model.or_default);
        self.resolve_or(self.wanted(model.map(|model| model.name.as_str())), or_default)
    }

    /// The same for a model that a setting names for one purpose: the override does not replace it.
    pub fn of_setting(&self, model: &str) -> Result<Resolved, ModelError> {
        self.resolve_or(model, false)
    }

    fn wanted<'a>(&'a self, model: Option<&'a str>) -> &'a str {
        let of_definition = model.map(str::trim).filter(|name| *name != DEFAULT_MODEL);
        let replacement = self.settings.model_override.as_deref();
        replacement
            .or(of_definition)
            .unwrap_or_else(|| self.settings.chat_model())
    }

    fn resolve_or(&self, wanted: &str, or_default: bool) -> Result<Resolved, ModelError> {
        let (mut name, retired_on) = self.live(wanted)?;
        let mut replaced = retired_on.is_some();
        if let Some(variable) = self.settings.missing_variable(name.provider) {
            let stand_in = match (self.default_of(or_default)?, self.settings.demo_fallback) {
                (Some(default), _) => default,
                (None, true) => self.stand_in()?,
                (None, false) => return Err(key_missing(&name, variable)),
            };
            tracing::info!(model = %name, variable, %stand_in, "no API key for this model; using another one instead");
            name = stand_in;
            replaced = true;
        }
        let effective = name.to_string();
        let provider: Arc<dyn Provider> = match name.provider {
            ProviderKind::Demo if name.model == DEMO_MODEL => Arc::new(DemoGraph::new(self.settings.demo_word_pause)),
            ProviderKind::Demo => {
                return Err(unknown(format!(
                    "there is no model `{name}`; the only demo model is `demo:{DEMO_MODEL}`"
                )));
            }
            ProviderKind::OpenAi
            | ProviderKind::OpenAiResponses
            | ProviderKind::Azure
            | ProviderKind::OpenRouter
            | ProviderKind::Bedrock
            | ProviderKind::Anthropic
            | ProviderKind::Gemini
            | ProviderKind::Vertex
            | ProviderKind::Ollama => Arc::new(self.genai.provider(&self.settings, name)?),
        };
        Ok(Resolved {
            name: effective,
            provider,
            replaced: replaced.then(|| Replaced {
                requested: wanted.to_owned(),
                retired_on,
            }),
        })
    }

    /// Returns why a model can't be resolved, with the models that can: those of the catalogue whose providers have a key here.
    pub fn explain(&self, error: &ModelError) -> String {
        let today = known::today();
        let is_offered = |model: &&known::Model| self.settings.offers(model.provider()) && !model.is_retired(today);
        let offered = known::catalogue().all().iter().filter(is_offered);
        let names: Vec<&str> = offered.map(|model| model.name.as_str()).collect();
        if names.is_empty() && self.settings.openai.base_url.is_none() {
            return format!(
                "{error}. No model is configured: set the key of a provider in the workers' environment, such as OPENAI_API_KEY, \
                ANTHROPIC_API_KEY or GEMINI_API_KEY"
            );
        }
        let mut listed = names[..names.len().min(LISTED_MAX)].join(", ");
        if names.len() > LISTED_MAX {
            listed.push_str(&format!(" and {} more (`rejoin models`)", names.len() - LISTED_MAX));
        }
        if self.settings.openai.base_url.is_some() {
            let of_server = "`openai:NAME` for any model of the server at OPENAI_BASE_URL";
            let separator = if listed.is_empty() { "" } else { ", " };
            listed.push_str(&format!("{separator}{of_server}"));
        }
        format!("{error}. The models here: `default`, {listed}")
    }

    /// Returns the model of plain conversations, for definitions that use it if their own has no key. None: it has
    /// none, either.
    fn default_of(&self, or_default: bool) -> Result<Option<ModelName>, ModelError> {
        if !or_default || self.settings.model_override.is_some() {
            return Ok(None);
        }
        let (chat, _) = self.live(self.settings.chat_model())?;
        Ok(self.settings.missing_variable(chat.provider).is_none().then_some(chat))
    }

    /// Returns the model to request for this name, and the day on which its own model was retired.
    fn live(&self, wanted: &str) -> Result<(ModelName, Option<NaiveDate>), ModelError> {
        let name = ModelName::parse(wanted)?;
        if !self.settings.heeds_retirement(name.provider) {
            return Ok((name, None));
        }
        let resolved = known::catalogue().resolve(&name.to_string(), known::today());
        let Some(retired) = resolved.retired else {
            return Ok((name, None));
        };
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        if known::catalogue()
            .find(wanted)
            .is_some_and(|model| warned.insert(model.name.clone()))
        {
            let (retired_on, successor) = (retired.on, retired.successor.as_deref());
            tracing::warn!(model = wanted, %retired_on, successor, "this model is retired; use another one in its \
                definition");
        }
        drop(warned);
        Ok((ModelName::parse(&resolved.name)?, Some(retired.on)))
    }
}

fn key_missing(name: &ModelName, variable: &str) -> ModelError {
    let alternative = match name.provider {
        ProviderKind::OpenAi | ProviderKind::OpenAiResponses => {
            " (or OPENAI_BASE_URL for a server that needs no API \
            key)"
        }
        ProviderKind::Vertex if variable == "VERTEX_API_KEY" => " (or VERTEX_PROJECT_ID with Google Cloud credentials)",
        ProviderKind::Azure
        | ProviderKind::OpenRouter
        | ProviderKind::Bedrock
        | ProviderKind::Anthropic
        | ProviderKind::Gemini
        | ProviderKind::Vertex
        | ProviderKind::Ollama
        | ProviderKind::Demo => "",
    };
    ModelError {
        code: "model_key_missing",
        message: format!(
            "the model `{name}` cannot be used: set {variable} in the workers' environment{alternative}, or choose \
            another model with REJOIN_MODEL"
        ),
        retryable: false,
        retry_after: None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use rejoin_models::answering::Environment;

    use super::*;

    #[test]
    fn an_unknown_model_is_answered_with_the_known_ones() {
        let explained = |variable: &str| {
            let vars = HashMap::from([(variable.to_owned(), "k".to_owned())]);
            let models = Models::new(ModelSettings::from_map(&vars)).expect("models");
            let error = models.resolve(Some("mystery")).err().expect("an unknown model");
            models.explain(&error)
        };
        let listed = explained("ANTHROPIC_API_KEY");
        assert!(
            listed.contains("mystery") && listed.contains("anthropic:claude-haiku-5-5") && !listed.contains(" gemini:"),
            "{listed}"
        );
        let none = explained("OLLAMA_NOTHING");
        assert!(none.contains("No model is configured"), "{none}");
        let own = explained("OPENAI_BASE_URL");
        assert!(own.contains("`openai:NAME`"), "{own}");
    }

    /// With the same environment, an API expects the model that a worker uses.
    #[test]
    fn the_api_expects_the_model_that_a_worker_asks() {
        let variables = [
            ("OPENAI_API_KEY", "k"),
            ("OPENAI_BASE_URL", "http://127.0.0.1:1/v1"),
            ("ANTHROPIC_API_KEY", "k"),
            ("GEMINI_API_KEY", "k"),
            ("OLLAMA_HOST", "127.0.0.1"),
            ("REJOIN_MODEL", "anthropic:claude-haiku-5-5"),
            ("REJOIN_CHAT_MODEL", "gpt-6-sol"),
            ("REJOIN_DEMO_FALLBACK", "1"),
        ];
        let names = [
            "default",
            "gemini-2.0-flash",
            " Anthropic : claude-haiku-5-5",
            "openai-responses:gpt-5-codex",
            "gpt-4",
            "ollama:llama3.2:3b",
            "demo:graph",
            "mystery",
            "openai:",
        ];
        // One client for all.
        let genai = GenaiModels::new(&ModelSettings::default()).expect("a client");
        let mut expected_some = 0;
        for set in 0..1_usize << variables.len() {
            let vars: HashMap<String, String> = (variables.iter().enumerate())
                .filter(|(at, _)| set & (1 << at) != 0)
                .map(|(_, (name, value))| ((*name).to_owned(), (*value).to_owned()))
                .collect();
            let environment = Environment::from_lookup(|name| vars.get(name).cloned());
            let models = Models {
                settings: Arc::new(ModelSettings::from_map(&vars)),
                genai: genai.clone(),
                warned: Arc::default(),
            };
            let choices = names.iter().flat_map(|name| {
                [false, true].map(|or_default| {
                    Some(ModelChoice {
                        or_default,
                        ..ModelChoice::named(*name)
                    })
                })
            });
            for choice in choices.chain([None]) {
                let expected = environment.answering(choice.as_ref());
                let Ok(asked) = models.of_definition(choice.as_ref()) else {
                    continue;
                };
                expected_some += usize::from(!expected.is_empty());
                assert!(
                    expected.is_empty() || expected.contains(&asked.name),
                    "{vars:?} {choice:?}: {expected:?} without {}",
                    asked.name
                );
                if vars.contains_key("REJOIN_DEMO_FALLBACK") {
                    assert!(expected.len() <= 1, "{vars:?} {choice:?}: {expected:?}");
                }
            }
        }
        assert!(expected_some > 1_000, "{expected_some}");
    }
}
