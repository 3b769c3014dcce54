//! The local model, without a key or network: all-MiniLM-L6-v2 (22 million parameters, 384 dimensions, English), read
//! from files fetched by `make`. Loaded on first use, so that a process that never searches stays small.
//!
//! - `wordpiece`  tokenizes texts
//! - `encoder`    converts tokens to a vector
//! - `tensors`    reads the model's weights

pub mod encoder;
pub mod tensors;
pub mod wordpiece;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tokio::sync::Semaphore;
use tracing::info;

use crate::EmbedError;
use encoder::Encoder;
use tensors::Tensors;
use wordpiece::Vocabulary;

/// The name under which its vectors are stored.
pub const NAME: &str = "local:all-minilm-l6-v2";
pub const DIMENSIONS: usize = 384;
pub(crate) const MISSING: &str = "the local model's files were not found (make setup-search downloads them)";

/// The files, by their publisher's names.
pub const WEIGHTS: &str = "model.safetensors";
pub const VOCABULARY: &str = "vocab.txt";
/// The search path: the checkout's cache, the machine's, and a package's location.
const PLACES: [&str; 3] = [
    ".cache/embeddings/all-minilm-l6-v2",
    "/var/cache/rejoin/embeddings/all-minilm-l6-v2",
    "/usr/share/rejoin/embeddings/all-minilm-l6-v2",
];
/// Maximum number of word pieces of a text, as in the model's training.
const MAX_PIECES: usize = 256;
/// Maximum size of a text, in bytes; longer than [`MAX_PIECES`] pieces.
const MAX_TEXT_BYTES: usize = 4096;
/// Number of word pieces processed together: 16 MB of intermediate numbers.
const BATCH_PIECES: usize = 1024;
/// Number of concurrent calls, each on a core: a query must not wait for a batch of objects.
const CALLS: usize = 2;

#[derive(Debug)]
pub struct Local {
    folder: PathBuf,
    loaded: Arc<Mutex<Option<Arc<Model>>>>,
    calls: Arc<Semaphore>,
}

#[derive(Debug)]
struct Model {
    vocabulary: Vocabulary,
    encoder: Encoder,
}

impl Local {
    /// Finds the model in this folder, or in the first default location with its files.
    pub fn find(folder: Option<&Path>) -> Option<Self> {
        let complete = |folder: &Path| folder.join(WEIGHTS).is_file() && folder.join(VOCABULARY).is_file();
        let folder = match folder {
            Some(folder) => Some(folder.to_owned()).filter(|folder| complete(folder)),
            None => PLACES.iter().map(PathBuf::from).find(|folder| complete(folder)),
        }?;
        Some(Self {
            folder,
            loaded: Arc::default(),
            calls: Arc::new(Semaphore::new(CALLS)),
        })
    }

    pub(crate) async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let permit = self.calls.clone().acquire_owned().await;
        let (folder, loaded, texts) = (self.folder.clone(), self.loaded.clone(), texts.to_vec());
        let embedding = tokio::task::spawn_blocking(move || {
            // Held until the work is done, even if the caller has stopped waiting.
            let _permit = permit;
            let model = Model::loaded(&folder, &loaded)?;
            model.embed(&texts)
        });
        Ok(embedding.await.map_err(io::Error::other)??)
    }
}

impl Model {
    fn loaded(folder: &Path, slot: &Mutex<Option<Arc<Self>>>) -> io::Result<Arc<Self>> {
        // Held while loading: concurrent callers wait.
        let mut slot = slot.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(model) = slot.as_ref() {
            return Ok(model.clone());
        }
        let model = Arc::new(Self::read(folder)?);
        info!(folder = %folder.display(), "the local embedding model is loaded");
        *slot = Some(model.clone());
        Ok(model)
    }

    fn read(folder: &Path) -> io::Result<Self> {
        let vocabulary = Vocabulary::read(&folder.join(VOCABULARY))?;
        let encoder = Encoder::read(Tensors::open(&folder.join(WEIGHTS))?)?;
        if encoder.words()? != vocabulary.count()
            || encoder.dimensions() != DIMENSIONS
            || encoder.positions() < MAX_PIECES
        {
            let what = "its files do not match, or belong to another model";
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        Ok(Self { vocabulary, encoder })
    }

    fn embed(&self, texts: &[String]) -> io::Result<Vec<Vec<f32>>> {
        let pieces = texts
            .iter()
            .map(|text| self.vocabulary.pieces_of(cut(text), MAX_PIECES));
        let mut vectors = Vec::with_capacity(texts.len());
        let mut batch: Vec<Vec<u32>> = Vec::new();
        let mut waiting = 0;
        for text in pieces {
            if waiting + text.len() > BATCH_PIECES {
                vectors.extend(self.encoder.encode(&batch)?);
                batch.clear();
                waiting = 0;
            }
            waiting += text.len();
            batch.push(text);
        }
        vectors.extend(self.encoder.encode(&batch)?);
        Ok(vectors)
    }
}

/// Returns the beginning of a text, at most [`MAX_TEXT_BYTES`].
fn cut(text: &str) -> &str {
    let end = (0..=MAX_TEXT_BYTES.min(text.len()))
        .rev()
        .find(|at| text.is_char_boundary(*at));
    &text[..end.unwrap_or(0)]
}
