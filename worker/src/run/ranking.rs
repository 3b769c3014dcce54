//! Ranks tools by the similarity of their descriptions to a message, if not all are shown. Vectors of tools are
//! computed in the background, once per process; until then, and if the text model is too slow, words alone decide.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rejoin_embeddings::{Embedder, MAX_TEXTS};
use rejoin_tools::ToolSpec;
use tracing::warn;

/// Maximum time that a first token waits for the message's vector.
const PATIENCE: Duration = Duration::from_millis(100);
/// Maximum number of cached tools; beyond it, the cache is cleared.
const TOOLS_MAX: usize = 5_000;
/// Maximum length of a description, in characters.
const DESCRIPTION_CHARS: usize = 600;

type Vectors = HashMap<String, Arc<[f32]>>;

/// The vectors of tools, by their descriptions.
#[derive(Default)]
pub struct ToolVectors {
    known: Mutex<Vectors>,
    /// Held while computing vectors.
    making: tokio::sync::Mutex<()>,
}

impl ToolVectors {
    /// Returns the cosine similarity of the message and each tool, in the tools' order. None: not available in time.
    pub async fn nearness(
        self: &Arc<Self>,
        embedder: &Embedder,
        message: &str,
        tools: &[&ToolSpec],
    ) -> Option<Vec<f32>> {
        embedder.model()?;
        let texts: Vec<String> = tools.iter().map(|spec| text_of(spec)).collect();
        let missing: Vec<String> = {
            let known = self.lock();
            texts
                .iter()
                .filter(|text| !known.contains_key(*text))
                .cloned()
                .collect()
        };
        if !missing.is_empty() {
            let (this, embedder) = (self.clone(), embedder.clone());
            tokio::spawn(async move { this.make(&embedder, missing).await });
            return None;
        }
        let asked = [message.to_owned()];
        let vectors = tokio::time::timeout(PATIENCE, embedder.embed(&asked))
            .await
            .ok()?
            .ok()?;
        let message = vectors.first()?;
        let known = self.lock();
        texts
            .iter()
            .map(|text| known.get(text).map(|vector| dot(vector, message)))
            .collect()
    }

    async fn make(&self, embedder: &Embedder, texts: Vec<String>) {
        // Concurrent callers compute missing ones at the next turn.
        let Ok(_making) = self.making.try_lock() else { return };
        for part in texts.chunks(MAX_TEXTS) {
            match embedder.embed(part).await {
                Ok(vectors) => {
                    let mut known = self.lock();
                    if known.len() + part.len() > TOOLS_MAX {
                        known.clear();
                    }
                    known.extend(part.iter().cloned().zip(vectors.into_iter().map(Arc::from)));
                }
                Err(error) => {
                    warn!(%error, "tools are ranked by keywords only: embedding them failed");
                    return;
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vectors> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn text_of(spec: &ToolSpec) -> String {
    let description: String = spec.description.chars().take(DESCRIPTION_CHARS).collect();
    format!("{}: {description}", spec.name.replace('_', " "))
}

/// The cosine similarity of vectors of length 1.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
