//! A strict fake of model providers: a real HTTP server on a loopback port that implements OpenAI's Chat Completions and Responses,
//! Anthropic's Messages, Google's Gemini API, Bedrock's Converse and Ollama's protocol, also in the variants of Azure, OpenRouter and
//! Vertex AI, and rejects what they reject, with their statuses and error formats.
//!
//! A test starts one ([`Providers::start`]), points `OPENAI_BASE_URL`, `ANTHROPIC_BASE_URL` and the like at it and scripts [`Turn`]s. It
//! knows the models of the catalogue; each rule names the provider's page. Beyond rejections it records [`Providers::losses`]: what a
//! provider accepts but advises against, such as calls sent back without their reasoning.
//!
//! - `turn`       one scripted answer
//! - `refusal`    a broken rule
//! - `fields`     unknown, missing and mistyped fields
//! - `schemas`    JSON Schemas that providers reject
//! - `models`     the abilities of the named model
//! - `account`    tokens and prompt caches
//! - `ledger`     earlier outputs that must be sent back unchanged
//! - `plan`       a validated request
//! - `answer`     a turn with ids, signatures and tokens
//! - `delivery`   frames with pauses, gates and cuts
//! - `openai`     shared by OpenAI's protocols
//! - `chat`, `responses`, `messages`, `gemini`, `converse`, `ollama`  the protocols
//! - `azure`, `openrouter`, `vertex`  the differences of other services that implement one of them
//! - `protocol`   the protocols behind one type
//! - `service`    the services, with their keys
//! - `routes`     paths
//! - `server`     receives requests and serves turns

mod account;
mod answer;
mod azure;
mod chat;
mod converse;
mod delivery;
mod fields;
mod gemini;
mod ledger;
mod messages;
mod models;
mod ollama;
mod openai;
mod openrouter;
mod plan;
mod protocol;
mod refusal;
mod responses;
mod routes;
mod schemas;
mod server;
mod service;
mod turn;
mod vertex;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rejoin_models::Tokens;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub use self::azure::AZURE_DEPLOYMENT;
pub use self::protocol::Protocol;
use self::server::Standin;
pub use self::server::{Outcome, Recorded};
pub use self::service::{
    ANTHROPIC_KEY, AZURE_KEY, BEDROCK_KEY, GEMINI_KEY, OPENAI_KEY, OPENROUTER_KEY, Service, VERTEX_KEY,
};
pub use self::turn::{Stop, Turn};
pub use self::vertex::VERTEX_PROJECT;

/// The fake providers. Stopped when dropped.
pub struct Providers {
    address: String,
    state: Arc<Standin>,
    server: JoinHandle<()>,
}

impl Providers {
    /// Starts on a free port. Its date is that of the catalogue, so that retirements do not depend on the current date.
    pub async fn start() -> Result<Self> {
        Self::start_on("127.0.0.1:0").await
    }

    pub async fn start_on(address: &str) -> Result<Self> {
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("binding the stand-in of providers to {address}"))?;
        let address = format!("http://{}", listener.local_addr()?);
        let state = Arc::new(Standin::new());
        let router = routes::router(state.clone());
        let server = tokio::spawn(async move {
            // Serving ends only with the process or with the abort of this task.
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self { address, state, server })
    }

    /// The value of `OPENAI_BASE_URL`.
    pub fn openai_url(&self) -> String {
        format!("{}/v1", self.address)
    }

    /// The value of `ANTHROPIC_BASE_URL`.
    pub fn anthropic_url(&self) -> String {
        self.address.clone()
    }

    /// The value of `GEMINI_BASE_URL`.
    pub fn gemini_url(&self) -> String {
        format!("{}/v1beta", self.address)
    }

    /// The value of `AZURE_OPENAI_ENDPOINT`, `BEDROCK_BASE_URL` and `OLLAMA_HOST`.
    pub fn url(&self) -> String {
        self.address.clone()
    }

    /// The value of `OPENROUTER_BASE_URL`.
    pub fn openrouter_url(&self) -> String {
        format!("{}/api/v1", self.address)
    }

    /// The value of `VERTEX_BASE_URL`.
    pub fn vertex_url(&self) -> String {
        format!("{}/v1/projects/{VERTEX_PROJECT}/locations/europe-west4", self.address)
    }

    /// Queues turns, in this order, for conversations whose system prompt or first user message contains `marker`:
    /// parallel ones keep theirs apart. An empty marker matches all.
    pub fn script(&self, marker: &str, turns: impl IntoIterator<Item = Turn>) {
        self.state
            .lock()
            .scripts
            .push((marker.to_owned(), turns.into_iter().collect()));
    }

    /// Disables caching from now on, to compute the costs without a cache.
    pub fn forget_caches(&self) {
        self.state.lock().caching = false;
    }

    /// Returns all calls so far, in order.
    pub fn recorded(&self) -> Vec<Recorded> {
        self.state.lock().recorded.clone()
    }

    /// Returns calls that violated a rule: status and message.
    pub fn refusals(&self) -> Vec<(u16, String)> {
        self.recorded()
            .into_iter()
            .filter_map(|call| match call.outcome {
                Outcome::Refused { status, message } => Some((status, message)),
                Outcome::Answered { .. } | Outcome::Failed { .. } => None,
            })
            .collect()
    }

    /// Returns what was accepted although the provider advises against it: omitted reasoning, disabled caches.
    pub fn losses(&self) -> Vec<String> {
        self.state.lock().losses.clone()
    }

    /// Returns the number of unused turns.
    pub fn left(&self) -> usize {
        self.state.lock().scripts.iter().map(|(_, turns)| turns.len()).sum()
    }

    /// Returns the cost of all answers so far, by the catalogue's prices.
    pub fn cost_usd(&self) -> f64 {
        self.recorded()
            .iter()
            .map(|call| match &call.outcome {
                Outcome::Answered { usd, .. } => usd.unwrap_or(0.0),
                Outcome::Refused { .. } | Outcome::Failed { .. } => 0.0,
            })
            .sum()
    }

    /// Returns the tokens of all answers so far.
    pub fn tokens(&self) -> Tokens {
        self.recorded()
            .iter()
            .fold(Tokens::default(), |sum, call| match &call.outcome {
                Outcome::Answered { tokens, .. } => Tokens {
                    input: sum.input + tokens.input,
                    cached: sum.cached + tokens.cached,
                    cache_write: sum.cache_write + tokens.cache_write,
                    output: sum.output + tokens.output,
                },
                Outcome::Refused { .. } | Outcome::Failed { .. } => sum,
            })
    }

    /// Waits for this many calls.
    pub async fn wait_for_calls(&self, calls: usize, limit: Duration) -> Result<()> {
        let mut count = self.state.count.subscribe();
        match tokio::time::timeout(limit, count.wait_for(|count| *count >= calls)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) => bail!("the stand-in of providers is gone"),
            Err(_) => bail!("only {} calls came in within {limit:?}", *self.state.count.borrow()),
        }
    }
}

impl Drop for Providers {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// Returns a provider's error message, whatever the format: for tests of the formats themselves.
pub fn message_of(body: &Value) -> &str {
    let message = [&body["error"]["message"], &body["message"], &body["error"]];
    message.into_iter().find_map(Value::as_str).unwrap_or_default()
}

/// Returns a minimal request in a protocol's format.
pub fn hello(protocol: Protocol, model: &str) -> Value {
    match protocol {
        Protocol::Chat => json!({"model": model, "messages": [{"role": "user", "content": "hello"}]}),
        Protocol::Responses => json!({"model": model, "input": "hello"}),
        Protocol::Messages => {
            json!({"model": model, "max_tokens": 1_000, "messages": [{"role": "user", "content": "hello"}]})
        }
        Protocol::Gemini => json!({"contents": [{"role": "user", "parts": [{"text": "hello"}]}]}),
        Protocol::Converse => json!({"messages": [{"role": "user", "content": [{"text": "hello"}]}]}),
        Protocol::Ollama => {
            json!({"model": model, "messages": [{"role": "user", "content": "hello"}], "stream": false})
        }
    }
}
