//! The paths of the services, each with its protocol.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, post};

use super::protocol::Protocol;
use super::server::{Asked, Standin, call};
use super::service::Service;

/// Maximum size of a request, in bytes: OpenAI and Gemini accept tens of megabytes.
const REQUEST_MAX_BYTES: usize = 64 << 20;

type Shared = State<Arc<Standin>>;

pub(super) fn router(state: Arc<Standin>) -> Router {
    Router::new()
        .route("/v1/chat/completions", plain(Service::OpenAi, Protocol::Chat))
        .route("/v1/responses", plain(Service::OpenAi, Protocol::Responses))
        .route("/v1/messages", plain(Service::Anthropic, Protocol::Messages))
        .route("/v1beta/models/{call}", post(generate_content))
        // The path used by Google's own clients since version 3.
        .route("/v1/models/{call}", post(generate_content))
        // <https://learn.microsoft.com/en-us/azure/foundry/openai/api-version-lifecycle>.
        .route("/openai/v1/chat/completions", plain(Service::Azure, Protocol::Chat))
        .route("/openai/v1/responses", plain(Service::Azure, Protocol::Responses))
        // <https://openrouter.ai/docs/api/reference/overview>.
        .route("/api/v1/chat/completions", plain(Service::OpenRouter, Protocol::Chat))
        // <https://cloud.google.com/vertex-ai/generative-ai/docs/reference/rest/v1/projects.locations.publishers.models>.
        .route(
            "/v1/projects/{project}/locations/{location}/publishers/{publisher}/models/{call}",
            post(of_publisher),
        )
        // <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html>.
        .route("/model/{model}/{call}", post(converse))
        // <https://docs.ollama.com/api/chat>.
        .route("/api/chat", plain(Service::Ollama, Protocol::Ollama))
        .layer(DefaultBodyLimit::max(REQUEST_MAX_BYTES))
        .with_state(state)
}

/// A path without the model's name.
fn plain(service: Service, protocol: Protocol) -> MethodRouter<Arc<Standin>> {
    post(
        move |State(state): Shared, Query(query): Query<HashMap<String, String>>, headers: HeaderMap, body: Bytes| async move {
            let asked = Asked {
                service,
                protocol,
                model: None,
                streams: None,
                project: None,
                query,
            };
            call(&state, asked, headers, body).await
        },
    )
}

/// `gemini-3.8-flash:streamGenerateContent`.
async fn generate_content(
    State(state): Shared,
    Path(path): Path<String>,
    Query(query): Query<HashMap<String, String>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let Some((model, streams)) = generated(&path, &query) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let asked = Asked {
        service: Service::Gemini,
        protocol: Protocol::Gemini,
        model: Some(model.to_owned()),
        streams: Some(streams),
        project: None,
        query,
    };
    call(&state, asked, headers, body).await
}

/// The model, and whether it streams.
fn generated<'a>(path: &'a str, query: &HashMap<String, String>) -> Option<(&'a str, bool)> {
    let (model, method) = path.split_once(':')?;
    match method {
        "generateContent" => Some((model, false)),
        // Without `alt=sse` the stream is one JSON array, which no client here reads.
        "streamGenerateContent" if query.get("alt").is_some_and(|alt| alt == "sse") => Some((model, true)),
        _ => None,
    }
}

#[derive(serde::Deserialize)]
struct OfPublisher {
    project: String,
    publisher: String,
    call: String,
}

/// Vertex AI: Gemini's methods, and those of Claude.
async fn of_publisher(
    State(state): Shared,
    Path(path): Path<OfPublisher>,
    Query(query): Query<HashMap<String, String>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let found = match path.publisher.as_str() {
        "google" => generated(&path.call, &query).map(|(model, streams)| (Protocol::Gemini, model, streams)),
        // <https://platform.claude.com/docs/en/build-with-claude/claude-on-vertex-ai>: `rawPredict` and `streamRawPredict`.
        "anthropic" => path.call.split_once(':').and_then(|(model, method)| match method {
            "rawPredict" => Some((Protocol::Messages, model, false)),
            "streamRawPredict" => Some((Protocol::Messages, model, true)),
            _ => None,
        }),
        _ => None,
    };
    let Some((protocol, model, streams)) = found else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let asked = Asked {
        service: Service::Vertex,
        protocol,
        model: Some(model.to_owned()),
        streams: Some(streams),
        project: Some(path.project),
        query,
    };
    call(&state, asked, headers, body).await
}

/// Bedrock's two methods of Converse.
async fn converse(
    State(state): Shared,
    Path((model, method)): Path<(String, String)>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let streams = match method.as_str() {
        "converse" => false,
        "converse-stream" => true,
        _ => return StatusCode::NOT_FOUND.into_response(),
    };
    let asked = Asked {
        service: Service::Bedrock,
        protocol: Protocol::Converse,
        model: Some(model),
        streams: Some(streams),
        project: None,
        query: HashMap::new(),
    };
    call(&state, asked, headers, body).await
}
