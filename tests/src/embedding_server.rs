//! A fake embedding server, over real HTTP: texts about the same topic, by a list of words, get similar vectors. Tests
//! make it fail, slow, or return invalid responses.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use axum::{Json, Router};
use rejoin_embeddings::{Choice, EmbeddingsArgs};
use serde_json::{Value, json};

/// Dimension of a vector.
pub const DIMENSIONS: usize = 16;
/// A text with this word is rejected.
pub const POISON: &str = "poison";
/// Words of one line have the same topic.
const THINGS: [&[&str]; 4] = [
    &["burn", "dvd", "optical", "disc", "recorder"],
    &["browse", "browser", "web", "surf", "internet"],
    &["music", "sound", "songs", "audio"],
    &["letter", "document", "word", "writer"],
];

/// The server's behaviour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mood {
    Well,
    /// 503 to every request.
    Away,
    /// No response during the test.
    Slow,
    /// Vectors of half the dimension.
    Short,
}

#[derive(Debug)]
struct Seen {
    mood: Mood,
    texts: Vec<String>,
}

/// Stops with the test's runtime.
#[derive(Debug, Clone)]
pub struct EmbeddingServer {
    address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
}

impl EmbeddingServer {
    pub async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let server = Self {
            address: listener.local_addr().expect("an address"),
            seen: Arc::new(Mutex::new(Seen {
                mood: Mood::Well,
                texts: Vec::new(),
            })),
        };
        let router = Router::new()
            .route("/v1/embeddings", post(embed))
            .with_state(server.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        server
    }

    /// Returns the settings that name it.
    pub fn args(&self) -> EmbeddingsArgs {
        EmbeddingsArgs {
            embeddings: "openai:things".parse::<Choice>().expect("a choice"),
            embeddings_url: Some(format!("http://{}/v1", self.address)),
            embeddings_timeout_ms: 500,
            ..EmbeddingsArgs::off()
        }
    }

    pub fn set(&self, mood: Mood) {
        self.seen.lock().expect("a lock").mood = mood;
    }

    /// Returns all texts that it has embedded.
    pub fn texts(&self) -> Vec<String> {
        self.seen.lock().expect("a lock").texts.clone()
    }
}

async fn embed(State(server): State<EmbeddingServer>, Json(request): Json<Value>) -> Response {
    let mood = server.seen.lock().expect("a lock").mood;
    let size = match mood {
        Mood::Well => DIMENSIONS,
        Mood::Short => DIMENSIONS / 2,
        Mood::Away => return (StatusCode::SERVICE_UNAVAILABLE, "away").into_response(),
        Mood::Slow => {
            tokio::time::sleep(Duration::from_secs(60)).await;
            DIMENSIONS
        }
    };
    let texts: Vec<String> = serde_json::from_value(request["input"].clone()).expect("texts");
    if texts.iter().any(|text| text.contains(POISON)) {
        return (StatusCode::BAD_REQUEST, "one of the inputs is not to my taste").into_response();
    }
    let mut data: Vec<Value> = texts
        .iter()
        .enumerate()
        .map(|(index, text)| json!({"index": index, "embedding": vector(text, size)}))
        .collect();
    // The order is the index's.
    data.reverse();
    server.seen.lock().expect("a lock").texts.extend(texts);
    Json(json!({"object": "list", "data": data})).into_response()
}

/// A direction for each topic, with a small text-specific deviation.
fn vector(text: &str, size: usize) -> Vec<f32> {
    let text = text.to_lowercase();
    let mut vector = vec![0.01; size];
    for (direction, words) in THINGS.iter().enumerate() {
        vector[direction] += words.iter().filter(|word| text.contains(**word)).count() as f32;
    }
    let own = text.bytes().fold(0_usize, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(usize::from(byte))
    });
    vector[THINGS.len() + own % (size - THINGS.len())] += 0.3;
    vector
}
