//! The services: each has its own keys, model names and errors.

/// The valid keys.
pub const OPENAI_KEY: &str = "sk-standin";

pub const ANTHROPIC_KEY: &str = "sk-ant-standin";

pub const GEMINI_KEY: &str = "AIzaStandin";

pub const AZURE_KEY: &str = "azure-standin";

pub const OPENROUTER_KEY: &str = "sk-or-standin";

/// An access token.
pub const VERTEX_KEY: &str = "ya29.standin";

pub const BEDROCK_KEY: &str = "bedrock-api-key-standin";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    OpenAi,
    Azure,
    OpenRouter,
    Anthropic,
    Gemini,
    Vertex,
    Bedrock,
    Ollama,
}

impl Service {
    /// The provider's name in the catalogue.
    pub fn provider(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Azure => "azure",
            Self::OpenRouter => "openrouter",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Vertex => "vertex",
            Self::Bedrock => "bedrock",
            Self::Ollama => "ollama",
        }
    }

    pub(super) fn key(self) -> &'static str {
        match self {
            Self::OpenAi => OPENAI_KEY,
            Self::Azure => AZURE_KEY,
            Self::OpenRouter => OPENROUTER_KEY,
            Self::Anthropic => ANTHROPIC_KEY,
            Self::Gemini => GEMINI_KEY,
            Self::Vertex => VERTEX_KEY,
            Self::Bedrock => BEDROCK_KEY,
            // Ollama requires no key.
            Self::Ollama => "",
        }
    }
}
