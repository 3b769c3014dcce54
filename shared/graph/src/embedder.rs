//! The embedding model for queries, provided by the process (`rejoin-embeddings`) or absent. Called by the search tools
//! and the API's search route.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::PgPool;
use tracing::warn;
use uuid::Uuid;

use super::Error;
use super::query_vector::QueryVector;
use super::vectors;

/// Maximum time to wait for a query's vector.
const PATIENCE: Duration = Duration::from_secs(2);

/// A text embedding model.
#[async_trait]
pub trait TextEmbedder: Send + Sync + Debug {
    /// The name under which its vectors are stored; None: it computes none.
    fn name(&self) -> Option<&str>;

    /// Returns a text's vector, of length 1.
    async fn vector(&self, text: &str) -> Result<Vec<f32>, Box<dyn std::error::Error + Send + Sync>>;
}

pub type SharedTextEmbedder = Arc<dyn TextEmbedder>;

/// Computes no vectors: searches are lexical.
#[derive(Debug, Clone, Copy)]
pub struct NoEmbedder;

#[async_trait]
impl TextEmbedder for NoEmbedder {
    fn name(&self) -> Option<&str> {
        None
    }

    async fn vector(&self, _text: &str) -> Result<Vec<f32>, Box<dyn std::error::Error + Send + Sync>> {
        Err("no embedding model is configured".into())
    }
}

/// Returns the vector of a query, or the reason why there is none, in words. The model is not called for a workspace
/// without vectors.
pub async fn query_vector(
    model: &dyn TextEmbedder,
    pool: &PgPool,
    workspace_id: Uuid,
    text: &str,
) -> Result<Result<QueryVector, &'static str>, Error> {
    let Some(name) = model.name() else {
        return Ok(Err("keyword search only: no embedding model is configured"));
    };
    if text.trim().is_empty() || !vectors::any(pool, workspace_id, name).await? {
        return Ok(Err("keyword search only: no object has a vector yet"));
    }
    let made = tokio::time::timeout(PATIENCE, model.vector(text)).await;
    match made.unwrap_or_else(|_| Err(format!("the embedding model did not respond within {PATIENCE:?}").into())) {
        Ok(numbers) => Ok(Ok(QueryVector::new(name, numbers))),
        Err(error) => {
            let error: &(dyn std::error::Error + 'static) = error.as_ref();
            warn!(
                model = name,
                error, "embedding a query failed; using keyword search only"
            );
            Ok(Err("keyword search only: the embedding model failed"))
        }
    }
}
