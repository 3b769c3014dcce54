//! A lying MCP server over real HTTP: its lists, answers and notifications are whatever a test wants.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use futures::stream;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// The server; stopped when dropped.
pub struct Hostile {
    pub url: String,
    shared: Arc<Shared>,
    server: JoinHandle<()>,
}

struct Shared {
    state: Mutex<Inner>,
    /// Its list was requested.
    listed: Notify,
}

/// The response to a call.
#[derive(Debug, Clone)]
pub enum Answer {
    /// A result, in a valid message.
    Result(Value),
    /// A message; `id` is inserted if absent.
    Message(Value),
    /// An arbitrary body.
    Body(&'static str, Bytes),
    /// An endless stream of such pieces.
    Endless(&'static str, Bytes),
    Status(StatusCode),
}

/// State that a test may change, and records.
pub struct Inner {
    /// Results of `tools/list`, by their cursors: the first has none.
    pub pages: HashMap<String, Value>,
    /// Every page has a next one.
    pub is_endless: bool,
    /// Its description of itself.
    pub about: Value,
    /// By the names of tools.
    pub answers: HashMap<String, Answer>,
    /// Times of list requests.
    pub lists: Vec<Instant>,
    /// The arguments of calls.
    pub calls: Vec<Value>,
}

impl Hostile {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("its number");
        let shared = Arc::new(Shared {
            state: Mutex::new(Inner {
                pages: HashMap::new(),
                is_endless: false,
                about: json!({"name": "hostile", "version": "1.0.0"}),
                answers: HashMap::new(),
                lists: Vec::new(),
                calls: Vec::new(),
            }),
            listed: Notify::new(),
        });
        let routes = Router::new()
            .route("/mcp", post(speak).get(shout).delete(|| async { StatusCode::OK }))
            .with_state(shared.clone());
        let server = tokio::spawn(async move { axum::serve(listener, routes).await.expect("it serves") });
        Self {
            url: format!("http://{address}/mcp"),
            shared,
            server,
        }
    }

    pub fn state(&self) -> MutexGuard<'_, Inner> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Offers these tools, on one page.
    pub fn offers(&self, tools: Vec<Value>) {
        self.state().pages = HashMap::from([(String::new(), json!({ "tools": tools }))]);
    }

    /// Offers tools without arguments, each with its answer.
    pub fn answers(&self, answers: Vec<(&str, Answer)>) {
        self.offers(answers.iter().map(|(name, _)| tool(name)).collect());
        self.state().answers = answers
            .into_iter()
            .map(|(name, answer)| (name.to_owned(), answer))
            .collect();
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// Returns a valid tool description.
pub fn tool(name: &str) -> Value {
    json!({"name": name, "description": "Does something.", "inputSchema": {"type": "object", "properties": {}}})
}

/// Returns a valid result.
pub fn text(said: &str) -> Value {
    json!({"content": [{"type": "text", "text": said}]})
}

type There = State<Arc<Shared>>;

async fn speak(State(shared): There, Json(message): Json<Value>) -> Response {
    let mut state = shared.state.lock().unwrap_or_else(PoisonError::into_inner);
    let id = message["id"].clone();
    let answered = |result: Value| Json(json!({"jsonrpc": "2.0", "id": id, "result": result})).into_response();
    match message["method"].as_str().unwrap_or_default() {
        "initialize" => {
            let result = json!({
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {"listChanged": true}},
                "serverInfo": {"name": state.about["name"], "version": state.about["version"]},
                "instructions": state.about["instructions"],
            });
            ([("mcp-session-id", "one")], answered(result)).into_response()
        }
        "tools/list" => {
            state.lists.push(Instant::now());
            shared.listed.notify_one();
            if state.is_endless {
                let number = state.lists.len();
                return answered(json!({"tools": [tool(&format!("t{number}"))], "nextCursor": format!("{number}")}));
            }
            let cursor = message["params"]["cursor"].as_str().unwrap_or_default();
            answered(state.pages.get(cursor).cloned().unwrap_or_else(|| json!({"tools": []})))
        }
        "tools/call" => {
            state.calls.push(message["params"]["arguments"].clone());
            let name = message["params"]["name"].as_str().unwrap_or_default();
            match state.answers.get(name).cloned() {
                None => answered(text("done")),
                Some(Answer::Result(result)) => answered(result),
                Some(Answer::Message(mut message)) => {
                    if message.is_object() && message.get("id").is_none() {
                        message["id"] = id.clone();
                    }
                    Json(message).into_response()
                }
                Some(Answer::Body(kind, body)) => ([(header::CONTENT_TYPE, kind)], body).into_response(),
                Some(Answer::Endless(kind, piece)) => {
                    let pieces = stream::repeat_with(move || Ok::<_, Infallible>(piece.clone()));
                    ([(header::CONTENT_TYPE, kind)], Body::from_stream(pieces)).into_response()
                }
                Some(Answer::Status(status)) => status.into_response(),
            }
        }
        _ => StatusCode::ACCEPTED.into_response(),
    }
}

/// Announces a changed list whenever it was requested.
async fn shout(State(shared): There) -> Response {
    let body = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    let event = Bytes::from(format!("data: {body}\n\n"));
    let events = stream::unfold(shared, move |shared| {
        let event = event.clone();
        async move {
            shared.listed.notified().await;
            Some((Ok::<_, Infallible>(event), shared))
        }
    });
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(events)).into_response()
}
