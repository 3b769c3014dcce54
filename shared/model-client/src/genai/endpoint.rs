//! The endpoint of each provider: its adapter in genai, its address and its key.

use ::genai::adapter::AdapterKind;
use rejoin_models::{Ability, Model};

use super::misconfigured;
use crate::ModelError;
use crate::name::{ModelName, ModelSettings, ProviderKind, ProviderSettings, Secret};

/// Sent as the key to a custom base URL without a key: many local servers require a header with any value.
const PLACEHOLDER_KEY: &str = "none";
const OLLAMA_PORT: u16 = 11_434;

/// The endpoint of a provider.
pub(super) struct Address {
    pub(super) adapter: AdapterKind,
    /// Ends with a slash; genai joins paths onto it.
    pub(super) base_url: String,
    pub(super) key: Option<Secret>,
    /// Whether the operator chose the address, instead of the provider's own.
    pub(super) is_own_server: bool,
}

impl Address {
    /// `settings` must contain what the provider needs ([`ModelSettings::missing_variable`]); `known` is the
    /// catalogue's entry of the model.
    pub(super) fn of(settings: &ModelSettings, name: &ModelName, known: Option<&Model>) -> Result<Self, ModelError> {
        let openai = |adapter| {
            let key = settings.openai.key.clone();
            (
                adapter,
                base_url(&settings.openai, "https://api.openai.com/v1"),
                Some(key.unwrap_or_else(|| Secret::new(PLACEHOLDER_KEY))),
                settings.openai.base_url.is_some(),
            )
        };
        let (adapter, base_url, key, is_own_server) = match name.provider {
            // OpenAI's own reasoning models keep their reasoning between steps only with its Responses API. Other
            // servers use the older one.
            ProviderKind::OpenAi if settings.openai.base_url.is_none() && known.is_some_and(by_responses) => {
                openai(AdapterKind::OpenAIResp)
            }
            ProviderKind::OpenAi => openai(AdapterKind::OpenAI),
            ProviderKind::OpenAiResponses => openai(AdapterKind::OpenAIResp),
            // The same two at Azure. The model behind a deployment with another name is unknown, so the older protocol is used.
            ProviderKind::Azure => (
                if known.is_some_and(by_responses) {
                    AdapterKind::OpenAIResp
                } else {
                    AdapterKind::OpenAI
                },
                azure_base_url(settings.azure.base_url.as_deref().unwrap_or_default()),
                settings.azure.key.clone(),
                false,
            ),
            ProviderKind::OpenRouter => (
                AdapterKind::OpenRouter,
                base_url(&settings.openrouter, "https://openrouter.ai/api/v1"),
                settings.openrouter.key.clone(),
                settings.openrouter.base_url.is_some(),
            ),
            ProviderKind::Bedrock => (
                AdapterKind::BedrockApi,
                base_url(&settings.bedrock, &bedrock_base_url(&settings.bedrock_region)),
                settings.bedrock.key.clone(),
                settings.bedrock.base_url.is_some(),
            ),
            ProviderKind::Anthropic => (
                AdapterKind::Anthropic,
                anthropic_base_url(settings.anthropic.base_url.as_deref()),
                settings.anthropic.key.clone(),
                settings.anthropic.base_url.is_some(),
            ),
            ProviderKind::Gemini => (
                AdapterKind::Gemini,
                base_url(&settings.gemini, "https://generativelanguage.googleapis.com/v1beta"),
                settings.gemini.key.clone(),
                settings.gemini.base_url.is_some(),
            ),
            ProviderKind::Vertex => (
                AdapterKind::Vertex,
                base_url(&settings.vertex, &vertex_base_url(settings)),
                settings.vertex.key.clone(),
                settings.vertex.base_url.is_some(),
            ),
            ProviderKind::Ollama => (
                AdapterKind::Ollama,
                ollama_base_url(settings.ollama_host.as_deref()),
                None,
                true,
            ),
            ProviderKind::Demo => return Err(misconfigured(format!("`{name}` is not served over the network"))),
        };
        Ok(Self {
            adapter,
            base_url,
            key,
            is_own_server,
        })
    }

    /// Host and port only: a path or query may contain a key.
    pub(super) fn host(&self, name: &ModelName) -> Result<String, ModelError> {
        let url = reqwest::Url::parse(&self.base_url)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
            .ok_or_else(|| {
                misconfigured(format!(
                    "the base URL for `{}` must be an http or https URL, for example http://127.0.0.1:8080/v1",
                    name.provider
                ))
            })?;
        Ok(url.host_str().map_or_else(String::new, |host| match url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        }))
    }

    pub(super) fn key_text(&self) -> &str {
        self.key.as_ref().map_or(PLACEHOLDER_KEY, Secret::expose)
    }
}

fn by_responses(model: &Model) -> bool {
    model.responses_only || model.can(Ability::Reasoning) == Some(true)
}

/// Ends the URL's path with exactly one slash: genai joins paths onto it. A query is kept.
fn with_slash(url: &str) -> String {
    let (path, query) = url
        .split_once('?')
        .map_or((url, None), |(path, query)| (path, Some(query)));
    let path = path.trim_end_matches('/');
    query.map_or_else(|| format!("{path}/"), |query| format!("{path}/?{query}"))
}

fn base_url(settings: &ProviderSettings, default: &str) -> String {
    with_slash(settings.base_url.as_deref().unwrap_or(default))
}

fn anthropic_base_url(own: Option<&str>) -> String {
    let url = own.unwrap_or("https://api.anthropic.com").trim_end_matches('/');
    format!("{}/v1/", url.strip_suffix("/v1").unwrap_or(url))
}

/// The resource's address, as shown by its page, or including `/openai/v1`. That path supports OpenAI's API with its
/// keys.
fn azure_base_url(endpoint: &str) -> String {
    let url = with_slash(endpoint);
    if url
        .split_once('?')
        .map_or(url.as_str(), |(path, _)| path)
        .contains("/openai/")
    {
        url
    } else {
        format!("{url}openai/v1/")
    }
}

fn bedrock_base_url(region: &str) -> String {
    format!("https://bedrock-runtime.{region}.amazonaws.com")
}

fn vertex_base_url(settings: &ModelSettings) -> String {
    let location = &settings.vertex_location;
    let project = settings.vertex_project.as_deref().unwrap_or_default();
    let region = if location == "global" {
        String::new()
    } else {
        format!("{location}-")
    };
    format!("https://{region}aiplatform.googleapis.com/v1/projects/{project}/locations/{location}")
}

/// `OLLAMA_HOST` is also the server's listen address, so it may lack scheme and port, and be 0.0.0.0.
fn ollama_base_url(host: Option<&str>) -> String {
    let host = host.unwrap_or("127.0.0.1").trim_end_matches('/');
    let (scheme, rest) = host.split_once("://").unwrap_or(("http", host));
    let rest = if rest.starts_with(':') {
        format!("127.0.0.1{rest}")
    } else {
        rest.replacen("0.0.0.0", "127.0.0.1", 1)
    };
    let authority = rest.split('/').next().unwrap_or_default();
    let after_address = authority.rsplit(']').next().unwrap_or_default();
    if scheme == "http" && !after_address.contains(':') && !rest.contains('/') {
        format!("{scheme}://{rest}:{OLLAMA_PORT}/")
    } else {
        format!("{scheme}://{rest}/")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_urls_are_taken_as_people_write_them() {
        assert_eq!(with_slash("http://h:1/v1"), "http://h:1/v1/");
        assert_eq!(with_slash("http://h:1/v1//"), "http://h:1/v1/");
        assert_eq!(
            with_slash("http://h:1/v1?api-version=1"),
            "http://h:1/v1/?api-version=1"
        );
        assert_eq!(anthropic_base_url(None), "https://api.anthropic.com/v1/");
        assert_eq!(anthropic_base_url(Some("http://h/v1/")), "http://h/v1/");
        assert_eq!(ollama_base_url(None), "http://127.0.0.1:11434/");
        assert_eq!(ollama_base_url(Some("0.0.0.0:1234")), "http://127.0.0.1:1234/");
        assert_eq!(ollama_base_url(Some(":1234")), "http://127.0.0.1:1234/");
        assert_eq!(ollama_base_url(Some("[::1]")), "http://[::1]:11434/");
        assert_eq!(
            ollama_base_url(Some("https://ollama.example/")),
            "https://ollama.example/"
        );
        assert_eq!(
            azure_base_url("https://us.openai.azure.com"),
            "https://us.openai.azure.com/openai/v1/"
        );
        assert_eq!(azure_base_url("https://h/openai/v1/"), "https://h/openai/v1/");
    }

    #[test]
    fn azure_is_asked_as_openai_is() {
        let settings = ModelSettings::from_map(&std::collections::HashMap::from([
            ("AZURE_OPENAI_API_KEY".to_owned(), "key".to_owned()),
            (
                "AZURE_OPENAI_ENDPOINT".to_owned(),
                "https://us.openai.azure.com".to_owned(),
            ),
        ]));
        let adapter = |name: &str| {
            let known = rejoin_models::catalogue().find(name);
            let name = ModelName::parse(name).expect("a name");
            Address::of(&settings, &name, known).expect("an address").adapter
        };
        assert_eq!(adapter("azure:gpt-6-luna"), AdapterKind::OpenAIResp);
        assert_eq!(adapter("azure:gpt-4.1-mini"), AdapterKind::OpenAI);
        assert_eq!(adapter("azure:a-name-of-ones-own"), AdapterKind::OpenAI);
    }
}
