//! The scripted side: the model that the server under test asks, and the ledger of what its tools did. Called by `target`; set by `play`.
//!
//! One HTTP server on 127.0.0.1, in the runner's process, so that no fault on the server under test touches it.
//!
//! - `question`  what a request asks for, in each of the protocols
//! - `dialect`   the answer in each of the protocols
//! - `mcp`       the ledger as an MCP server

mod dialect;
mod mcp;
mod question;

use std::collections::{BTreeMap, HashSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use axum::Json;
use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures::StreamExt as _;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;

use self::dialect::{Dialect, Piece};
use self::question::Question;
use crate::adapter::Delegation;
use crate::gate::{Gate, Point};
use crate::script::{Script, Word, word, words_of};

/// The name of the tool, and the end of its name where a server puts something before it.
pub const TOOL: &str = "record";
/// Pieces of an answer that wait for their reader.
const PIECES: usize = 1;
const BODY_MAX_BYTES: usize = 16 * 1024 * 1024;

/// A model call.
#[derive(Debug, Clone)]
pub struct ModelCall {
    pub script: String,
    pub step: usize,
    /// From 0.
    pub attempt: usize,
    /// Results of tools that came with the question.
    pub results: Vec<String>,
    pub state: CallState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallState {
    Running,
    Finished,
    /// The server has closed the connection before the end.
    Abandoned,
}

/// What the model was asked, and what the tools did.
#[derive(Default)]
struct Records {
    calls: Vec<ModelCall>,
    effects: BTreeMap<String, usize>,
    /// By the id of their script.
    said: BTreeMap<String, HashSet<Word>>,
}

/// The state of the scripted side.
#[derive(Default)]
pub struct World {
    pub gate: Gate,
    delegation: Option<Delegation>,
    records: Mutex<Records>,
}

/// The running server; stopped when dropped.
pub struct Scripted {
    pub world: Arc<World>,
    /// `http://127.0.0.1:PORT`
    pub url: String,
    server: JoinHandle<()>,
}

impl Scripted {
    /// `delegation`: how agents of the server let others work.
    ///
    /// # Errors
    /// There is no free port.
    pub async fn start(delegation: Option<Delegation>) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .context("no port for the scripted model")?;
        let url = format!("http://{}", listener.local_addr()?);
        let world = Arc::new(World {
            delegation,
            ..World::default()
        });
        let router = Router::new()
            .route("/v1/chat/completions", post(chat))
            .route("/v1/responses", post(responses))
            .route("/v1/messages", post(messages))
            .route("/v1/models", get(models))
            .route("/effect", post(effect))
            .route("/mcp", post(mcp::speak))
            .layer(DefaultBodyLimit::max(BODY_MAX_BYTES))
            .with_state(world.clone());
        let server = tokio::spawn(async move {
            // Ends with the process, or with this task.
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self { world, url, server })
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl World {
    fn records(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The model calls of a turn.
    pub fn calls(&self, script: &str) -> Vec<ModelCall> {
        let records = self.records();
        records
            .calls
            .iter()
            .filter(|call| call.script == script)
            .cloned()
            .collect()
    }

    /// The words of a turn that the model has said, in all attempts.
    pub fn said(&self, script: &str) -> HashSet<Word> {
        self.records().said.get(script).cloned().unwrap_or_default()
    }

    /// How often a call has acted.
    pub fn effects(&self, call: &str) -> usize {
        self.records().effects.get(call).copied().unwrap_or_default()
    }

    /// Acts: the effect of the tool, between its two moments.
    pub(crate) async fn act(&self, call: &str) -> Value {
        let id = Script::id_of_call(call);
        let step = call
            .rsplit_once(':')
            .and_then(|(_, step)| step.parse().ok())
            .unwrap_or_default();
        self.gate.pass(id, Point::BeforeEffect { step }).await;
        *self.records().effects.entry(call.to_owned()).or_default() += 1;
        self.gate.pass(id, Point::AfterEffect { step }).await;
        json!({ "done": call })
    }

    /// Notes the beginning of a model call. Returns its index and its attempt.
    fn begin(&self, script: &str, step: usize, results: Vec<String>) -> (usize, usize) {
        let mut records = self.records();
        let is_same = |call: &&ModelCall| call.script == script && call.step == step;
        let attempt = records.calls.iter().filter(is_same).count();
        records.calls.push(ModelCall {
            script: script.to_owned(),
            step,
            attempt,
            results,
            state: CallState::Running,
        });
        (records.calls.len() - 1, attempt)
    }

    fn end(&self, index: usize, state: CallState) {
        self.records().calls[index].state = state;
    }

    /// The tool that the model calls after a step, with its arguments. None: it calls none, or it is not offered.
    fn call_after(&self, script: &Script, step: usize, tools: &[String]) -> Option<(String, String)> {
        let said = script.steps.get(step)?;
        if said.calls {
            let name = tools.iter().find(|name| name.ends_with(TOOL))?;
            return Some((name.clone(), json!({ "call": script.call(step) }).to_string()));
        }
        let delegation = self.delegation.as_ref().filter(|_| said.delegates)?;
        let name = tools.iter().find(|name| **name == delegation.tool)?;
        let arguments = delegation.arguments(&script.of_sub_agent(step).message()).ok()?;
        Some((name.clone(), arguments))
    }

    /// Says a step, until it is said or its reader has gone.
    async fn say(&self, script: &Script, step: usize, tools: &[String], attempt: usize, out: &mpsc::Sender<Piece>) {
        let id = script.id.as_str();
        self.gate.pass(id, Point::Start { step }).await;
        let Some(said) = script.steps.get(step) else {
            // Asked once more than the script has steps.
            let _ = out.send(Piece::End { calls: false }).await;
            return;
        };
        let _ = out.send(Piece::Begin).await;
        for number in 1..=said.words {
            // Before it is on its way: a word that a reader has is one that was said.
            let text = word(attempt, step, number);
            self.records()
                .said
                .entry(id.to_owned())
                .or_default()
                .extend(words_of(&text));
            let _ = out.send(Piece::Text(text)).await;
            self.gate.pass(id, Point::Words { step, count: number }).await;
            if said.pace_ms > 0 {
                tokio::time::sleep(Duration::from_millis(said.pace_ms)).await;
            }
        }
        let call = self.call_after(script, step, tools);
        let calls = call.is_some();
        if let Some((name, arguments)) = call {
            // Unlike the name of the effect, the id of a call is new with each answer, as a provider's is.
            let id = format!("call_{}_{attempt}", script.call(step).replace(':', "_"));
            let _ = out.send(Piece::Call { id, name, arguments }).await;
        }
        self.gate.pass(id, Point::End { step }).await;
        let _ = out.send(Piece::End { calls }).await;
    }
}

async fn chat(State(world): State<Arc<World>>, Json(request): Json<Value>) -> Response {
    answer(world, question::of_chat(&request), Dialect::chat(&request)).await
}

async fn responses(State(world): State<Arc<World>>, Json(request): Json<Value>) -> Response {
    answer(world, question::of_responses(&request), Dialect::responses(&request)).await
}

async fn messages(State(world): State<Arc<World>>, Json(request): Json<Value>) -> Response {
    answer(world, question::of_messages(&request), Dialect::messages(&request)).await
}

async fn models() -> Json<Value> {
    Json(json!({"object": "list", "data": [{"id": "scripted", "object": "model", "owned_by": "resume-suite"}]}))
}

/// The tool of servers that are given a URL.
async fn effect(State(world): State<Arc<World>>, Json(request): Json<Value>) -> Response {
    match request["call"].as_str() {
        Some(call) => Json(world.act(call).await).into_response(),
        None => (StatusCode::BAD_REQUEST, "the body is {\"call\": \"…\"}").into_response(),
    }
}

/// Answers a question. What has no script, such as a request for a title, gets a fixed answer.
async fn answer(world: Arc<World>, question: Question, dialect: Dialect) -> Response {
    let (sender, receiver) = mpsc::channel(PIECES);
    let is_stream = dialect.is_stream;
    tokio::spawn(async move {
        let Some(script) = question.script else {
            for piece in [
                Piece::Begin,
                Piece::Text("Yes.".to_owned()),
                Piece::End { calls: false },
            ] {
                let _ = sender.send(piece).await;
            }
            return;
        };
        let (index, attempt) = world.begin(&script.id, question.step, question.results);
        tokio::select! {
            () = world.say(&script, question.step, &question.tools, attempt, &sender) => world.end(index, CallState::Finished),
            () = sender.closed() => world.end(index, CallState::Abandoned),
        }
    });
    let pieces = ReceiverStream::new(receiver);
    if !is_stream {
        let pieces: Vec<Piece> = pieces.collect().await;
        return Json(dialect.whole(&pieces)).into_response();
    }
    let mut dialect = dialect;
    let frames = pieces.map(move |piece| Ok::<_, Infallible>(dialect.render(&piece)));
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(frames)).into_response()
}

#[cfg(test)]
mod tests;
