//! From the name in a definition to a provider that is ready to be called.
//!
//! The worker makes one [`Models`] at start; the executor resolves per run. A resolved provider is bound to its model:
//! what [`ModelRequest::model`](super::ModelRequest::model) says no longer matters then.

use std::sync::Arc;

use super::demo::DemoGraph;
use super::genai::GenaiModels;
use super::name::{ModelName, ModelSettings, ProviderKind, unknown};
use super::{ModelError, Provider};

/// The only model of the `demo` provider.
pub const DEMO_MODEL: &str = "graph";

/// All models that this process can reach.
#[derive(Clone)]
pub struct Models {
    settings: Arc<ModelSettings>,
    genai: GenaiModels,
}

impl Models {
    /// Fails where the HTTP client cannot be made (broken TLS settings), not for missing keys: those concern single runs.
    pub fn new(settings: ModelSettings) -> Result<Self, ModelError> {
        Ok(Self {
            genai: GenaiModels::new(&settings)?,
            settings: Arc::new(settings),
        })
    }

    /// What answers under `rejoin dev` for a model without a key: the model of plain conversations if that one has a key (and
    /// nobody has chosen one model for all), else the demo.
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

    /// The provider for a definition's model, or for a conversation without an agent (`None`), with the name that is
    /// really used: the override, the default and the demo fallback may change it.
    pub fn resolve(&self, model: Option<&str>) -> Result<(String, Arc<dyn Provider>), ModelError> {
        let wanted = self
            .settings
            .model_override
            .as_deref()
            .or(model)
            .unwrap_or_else(|| self.settings.chat_model());
        let mut name = ModelName::parse(wanted)?;
        if let Some(variable) = self.settings.missing_variable(name.provider) {
            if !self.settings.demo_fallback {
                return Err(key_missing(&name, variable));
            }
            let stand_in = self.stand_in()?;
            tracing::info!(model = %name, variable, %stand_in, "no key for this model: another one answers instead");
            name = stand_in;
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
        Ok((effective, provider))
    }
}

fn key_missing(name: &ModelName, variable: &str) -> ModelError {
    let alternative = match name.provider {
        ProviderKind::OpenAi | ProviderKind::OpenAiResponses => " (or OPENAI_BASE_URL for a server that needs no key)",
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
            "the model `{name}` cannot be called: set {variable} in the environment of the workers{alternative}, or choose \
             another model with REJOIN_MODEL"
        ),
        retryable: false,
        retry_after: None,
    }
}
