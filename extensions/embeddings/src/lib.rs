//! Text embeddings: converts texts to vectors whose proximity reflects similarity of meaning. The worker embeds the
//! graph's objects, the API and the tools embed queries.
//!
//! # Layout
//! - `settings`  the model and its address
//! - `local`     a small local model, without a key or network
//! - `http`      a server with OpenAI's embeddings API
//!
//! Invariants: all vectors of an [`Embedder`] have the same dimension, finite numbers and length 1; a failure is an
//! error and never a meaningless vector. Imports `shared` only.

pub mod extension;
pub mod http;
pub mod local;
pub mod settings;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use rejoin_graph::embedder::TextEmbedder;
use tracing::info;

use http::Http;
use local::Local;
pub use settings::{Choice, EmbeddingsArgs, Endpoints};

/// Maximum number of texts per call.
pub const MAX_TEXTS: usize = 256;
/// Maximum dimension of a vector: PostgreSQL's vector extension can index no larger ones.
pub const MAX_DIMENSIONS: usize = 4000;

/// The reason why there are no vectors.
#[derive(Debug, thiserror::Error)]
pub enum EmbedError {
    #[error("no embedding model: {0}")]
    Unavailable(String),
    #[error("the embedding model did not respond within {0:?}")]
    Slow(Duration),
    #[error("the embedding server cannot be reached")]
    Unreachable(#[source] reqwest::Error),
    #[error("the embedding server rejected the request: {status}: {reason}")]
    Refused { status: u16, reason: String },
    #[error("the embedding model's response is invalid: {0}")]
    Malformed(String),
    #[error("the local embedding model failed")]
    Local(#[from] std::io::Error),
}

/// The embedding model of a process. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Embedder(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    provider: Provider,
    timeout: Duration,
    /// The dimension of the first vectors; all later ones must match.
    dimensions: OnceLock<usize>,
}

#[derive(Debug)]
enum Provider {
    /// With the reason.
    Nothing(String),
    Local(Local),
    Http(Http),
}

impl Embedder {
    /// Creates the model named by the settings. A local model without its files embeds nothing and says so.
    pub fn new(args: &EmbeddingsArgs, endpoints: &Endpoints) -> Self {
        let endpoints = &endpoints.or(args);
        let provider = match &args.embeddings {
            Choice::Off => Provider::Nothing("it is disabled (REJOIN_EMBEDDINGS=off)".to_owned()),
            Choice::Local => match Local::find(args.embeddings_dir.as_deref()) {
                Some(local) => Provider::Local(local),
                None => Provider::Nothing(local::MISSING.to_owned()),
            },
            Choice::OpenAi { model, dimensions } => Provider::Http(Http::openai(model, *dimensions, endpoints)),
            Choice::Ollama { model } => Provider::Http(Http::ollama(model, endpoints)),
        };
        if let Provider::Nothing(reason) = &provider {
            info!("graph searches use keywords only: {reason}");
        }
        Self::with(provider, args.timeout())
    }

    /// Creates an embedder that embeds nothing.
    pub fn off() -> Self {
        Self::with(
            Provider::Nothing("it is disabled (REJOIN_EMBEDDINGS=off)".to_owned()),
            Duration::ZERO,
        )
    }

    fn with(provider: Provider, timeout: Duration) -> Self {
        Self(Arc::new(Inner {
            provider,
            timeout,
            dimensions: OnceLock::new(),
        }))
    }

    /// Returns the name under which its vectors are stored: vectors of different models are not comparable. None: it
    /// embeds nothing.
    pub fn model(&self) -> Option<&str> {
        match &self.0.provider {
            Provider::Nothing(_) => None,
            Provider::Local(_) => Some(local::NAME),
            Provider::Http(http) => Some(http.name()),
        }
    }

    /// Returns whether it uses this machine's CPU.
    pub fn is_local(&self) -> bool {
        matches!(self.0.provider, Provider::Local(_))
    }

    /// Returns the texts' vectors, in order; at most [`MAX_TEXTS`].
    pub async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        if texts.is_empty() {
            return Ok(Vec::new());
        }
        if texts.len() > MAX_TEXTS {
            return Err(EmbedError::Malformed(format!(
                "{} texts at once; the limit is {MAX_TEXTS}",
                texts.len()
            )));
        }
        let timeout = self.0.timeout;
        let vectors = match &self.0.provider {
            Provider::Nothing(reason) => Err(EmbedError::Unavailable(reason.clone())),
            Provider::Local(local) => local.embed(texts).await,
            Provider::Http(http) => tokio::time::timeout(timeout, http.embed(texts))
                .await
                .unwrap_or(Err(EmbedError::Slow(timeout))),
        }?;
        self.checked(vectors, texts.len())
    }

    fn checked(&self, mut vectors: Vec<Vec<f32>>, asked: usize) -> Result<Vec<Vec<f32>>, EmbedError> {
        let malformed = |what: String| Err(EmbedError::Malformed(what));
        if vectors.len() != asked {
            return malformed(format!("{} vectors for {asked} texts", vectors.len()));
        }
        let first = vectors[0].len();
        if first == 0 || first > MAX_DIMENSIONS {
            return malformed(format!(
                "vectors have {first} dimensions; only 1 to {MAX_DIMENSIONS} can be stored"
            ));
        }
        for vector in &mut vectors {
            let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
            if vector.len() != first || !length.is_finite() || length <= f32::MIN_POSITIVE {
                return malformed("vectors have different sizes, or no direction".to_owned());
            }
            vector.iter_mut().for_each(|x| *x /= length);
        }
        let expected = *self
            .0
            .dimensions
            .get_or_init(|| self.asked_dimensions().unwrap_or(first));
        if first != expected {
            return malformed(format!("vectors have {first} dimensions; {expected} were expected"));
        }
        Ok(vectors)
    }

    fn asked_dimensions(&self) -> Option<usize> {
        match &self.0.provider {
            Provider::Nothing(_) => None,
            Provider::Local(_) => Some(local::DIMENSIONS),
            Provider::Http(http) => http.dimensions(),
        }
    }
}

#[async_trait]
impl TextEmbedder for Embedder {
    fn name(&self) -> Option<&str> {
        self.model()
    }

    async fn vector(&self, text: &str) -> Result<Vec<f32>, Box<dyn std::error::Error + Send + Sync>> {
        Ok(self.embed(&[text.to_owned()]).await?.swap_remove(0))
    }
}
