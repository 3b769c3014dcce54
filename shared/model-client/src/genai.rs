//! Language models over the network, through the genai crate, which is used only here.
//!
//! `registry` creates a [`GenaiProvider`] per run.
//!
//! - `endpoint`   addresses of providers
//! - `request`    our request in the model's format
//! - `parts`      files of messages, as content parts
//! - `turns`      alternating messages, for Bedrock
//! - `openrouter` OpenRouter's additions to OpenAI's protocol
//! - `parameters` unsupported parameters, learned from rejections
//! - `converse`   Amazon Bedrock's protocol, which genai implements in part
//! - `ollama`     Ollama's protocol, which genai implements in part
//! - `wire`       requests for protocols that genai implements in part
//! - `answer`     the provider's stream as our chunks
//! - `errors`     maps genai's errors to ours
//! - `google_tokens` access tokens of Vertex AI

mod answer;
mod converse;
mod endpoint;
mod errors;
mod google_tokens;
mod ollama;
mod openrouter;
mod parameters;
mod parts;
mod request;
mod turns;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use ::genai::adapter::AdapterKind;
use ::genai::chat::ChatStreamEvent;
use ::genai::resolver::{AuthData, Endpoint};
use ::genai::{Client, ModelIden, ServiceTarget, WebConfig};
use async_trait::async_trait;
use futures::StreamExt;
use rejoin_models::{Model, catalogue};

use self::answer::Answer;
use self::endpoint::Address;
use self::errors::ErrorContext;
use self::google_tokens::GoogleTokens;
use self::openrouter::Blocks;
use self::parameters::{Parameter, Parameters, Refusals};
use self::request::Target;
use self::wire::{Upstream, Wire};
use crate::name::{ModelName, ModelSettings, ProviderKind, Secret};
use crate::{ModelError, ModelRequest, ModelStream, Provider};

/// The shared HTTP client; cheap to clone.
#[derive(Clone)]
pub(crate) struct GenaiModels {
    client: Client,
    /// genai's, and for the protocols that it implements in part.
    http: reqwest::Client,
    refusals: Refusals,
    google_tokens: GoogleTokens,
}

impl GenaiModels {
    pub(crate) fn new(settings: &ModelSettings) -> Result<Self, ModelError> {
        let failed = |error: &dyn std::fmt::Display| {
            misconfigured(format!("creating the HTTP client for models failed: {error}"))
        };
        let web = WebConfig::default().with_connect_timeout(settings.connect_timeout);
        let http = web
            .apply_to_builder(rejoin_egress::tls::http_client())
            // genai keeps four: as many as there are turns at once, or each turn pays for a new connection.
            .pool_max_idle_per_host(usize::MAX)
            .build()
            .map_err(|error| failed(&error))?;
        let client = Client::builder()
            .with_reqwest(http.clone())
            .build()
            .map_err(|error| failed(&error))?;
        Ok(Self {
            client,
            http,
            refusals: Refusals::default(),
            google_tokens: GoogleTokens::default(),
        })
    }

    /// `settings` must hold what the provider needs ([`ModelSettings::missing_variable`]).
    pub(crate) fn provider(&self, settings: &ModelSettings, name: ModelName) -> Result<GenaiProvider, ModelError> {
        let full_name = name.to_string();
        let known = catalogue().find(&full_name);
        let address = Address::of(settings, &name, known)?;
        Ok(GenaiProvider {
            client: self.client.clone(),
            http: self.http.clone(),
            base_url: address.base_url.clone(),
            refusals: self.refusals.clone(),
            tokens: (name.provider == ProviderKind::Vertex && address.key.is_none())
                .then(|| self.google_tokens.clone()),
            known,
            adapter: address.adapter,
            is_own_server: address.is_own_server,
            caches: settings.prompt_cache,
            target: ServiceTarget {
                auth: AuthData::from_single(address.key_text()),
                model: ModelIden::new(address.adapter, name.model.clone()),
                endpoint: Endpoint::from_owned(address.base_url.clone()),
            },
            idle_timeout: settings.idle_timeout,
            context: Arc::new(ErrorContext {
                host: address.host(&name)?,
                known,
                full_name,
                name,
                key: address.key,
            }),
        })
    }
}

/// One model of one provider.
pub(crate) struct GenaiProvider {
    client: Client,
    http: reqwest::Client,
    base_url: String,
    refusals: Refusals,
    /// The source of keys, if the settings have none.
    tokens: Option<GoogleTokens>,
    known: Option<&'static Model>,
    adapter: AdapterKind,
    is_own_server: bool,
    caches: bool,
    target: ServiceTarget,
    idle_timeout: Duration,
    context: Arc<ErrorContext>,
}

#[async_trait]
impl Provider for GenaiProvider {
    /// Waits for the provider's response status: an unsupported parameter is removed, and the request sent once more.
    async fn stream(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        for _ in Parameter::ALL {
            match self.open(&request).await? {
                Opened::Stream(answer) => {
                    return Ok(futures::stream::unfold(*answer, |mut answer| async move {
                        answer.next().await.map(|item| (item, answer))
                    })
                    .boxed());
                }
                Opened::Refused(parameter) => {
                    tracing::info!(model = %self.context.full_name, ?parameter, "the model rejects a parameter; \
                        retrying without it");
                    self.refusals.remember(&self.context.full_name, parameter);
                }
            }
        }
        Err(self.context.protocol("the model rejected one parameter after another"))
    }
}

enum Opened {
    Stream(Box<Answer>),
    Refused(Parameter),
}

impl GenaiProvider {
    fn wire<'a>(&'a self, model: &'a ModelIden) -> Wire<'a> {
        Wire {
            http: &self.http,
            base_url: &self.base_url,
            model,
        }
    }

    async fn open(&self, request: &ModelRequest) -> Result<Opened, ModelError> {
        let to = Target {
            adapter: self.adapter,
            name: &self.context.full_name,
            known: self.known,
            is_own_server: self.is_own_server,
            caches: self.caches,
            refused: self.refusals.of(&self.context.full_name),
        };
        let mut sent = to.request(request);
        let (mut target, mut context) = (self.target.clone(), self.context.clone());
        if let Some(tokens) = &self.tokens {
            let access = tokens.access().await?;
            target.auth = AuthData::from_single(access.token.expose());
            if let Some(project) = access.quota_project {
                sent.options = sent
                    .options
                    .with_extra_headers([(google_tokens::QUOTA_PROJECT, project)]);
            }
            context = Arc::new(context.with_key(access.token));
        }
        let blocks = Blocks::default();
        if self.adapter == AdapterKind::OpenRouter {
            sent.options = sent.options.with_raw_frame_sink(blocks.clone());
        }
        let mut upstream: Upstream = match self.adapter {
            AdapterKind::BedrockApi => {
                let key = context.key.as_ref().map_or("", Secret::expose);
                converse::stream(&self.wire(&target.model), key, sent.chat, &sent.options)
            }
            AdapterKind::Ollama => ollama::stream(&self.wire(&target.model), sent.chat, &sent.options),
            _ => self
                .client
                .exec_chat_stream(target, sent.chat, Some(&sent.options))
                .await
                .map_err(|error| context.classify(&error))?
                .stream
                .boxed(),
        };
        // Nothing is sent before polling. A rejection is the first item, or follows the mark of the start.
        let mut first = self.first(&mut upstream, &context, sent.parameters).await?;
        if matches!(first, First::Event(ChatStreamEvent::Start)) {
            first = self.first(&mut upstream, &context, sent.parameters).await?;
        }
        let first = match first {
            First::Event(event) => event,
            First::Refused(parameter) => return Ok(Opened::Refused(parameter)),
        };
        let mut answer = Answer::new(
            upstream,
            self.adapter,
            &request.messages,
            self.idle_timeout,
            (sent.bound_to, blocks),
            context,
        );
        answer.take(first)?;
        Ok(Opened::Stream(Box::new(answer)))
    }

    /// Waits for the next item of a stream that has given nothing but its start.
    async fn first(
        &self,
        upstream: &mut Upstream,
        context: &ErrorContext,
        sent: Parameters,
    ) -> Result<First, ModelError> {
        match tokio::time::timeout(self.idle_timeout, upstream.next()).await {
            Ok(Some(Ok(event))) => Ok(First::Event(event)),
            Ok(Some(Err(error))) => match context.refused_parameter(&error, sent) {
                Some(parameter) => Ok(First::Refused(parameter)),
                None => Err(context.classify(&error)),
            },
            Ok(None) => Err(context.cut()),
            Err(_) => Err(context.silent(self.idle_timeout)),
        }
    }
}

/// The beginning of a response.
enum First {
    Event(ChatStreamEvent),
    Refused(Parameter),
}

fn misconfigured(message: String) -> ModelError {
    ModelError {
        code: "model_misconfigured",
        message,
        retryable: false,
        retry_after: None,
    }
}
