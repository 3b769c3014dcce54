//! A model of negligible cost that reports its request times: the rest of a turn's time is the platform's.
//!
//! It runs in a separate process ([`start`], which runs `bench model`) with OpenAI's streamed Chat Completions. The
//! user's message contains its script ([`Script::message`]). It is stateless: the times of a turn are passed in the ids
//! of its tool calls, which return with the next request, and the first token of the answer contains them all
//! ([`Moments`]).

use std::convert::Infallible;
use std::time::Duration;

use anyhow::{Context as _, Result};
use axum::body::{Body, Bytes};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures::StreamExt as _;
use serde_json::{Value, json};

use crate::load::now_us;
use crate::process::{self, Process};

/// The model's script for a turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Script {
    /// Tool calls before the answer, one per step. Consecutive ones use different tools: repeated calls would be
    /// refused.
    pub calls: usize,
    /// Tokens of the answer, including the first one.
    pub tokens: usize,
    /// Delay between two tokens.
    pub pause_ms: u64,
    /// Delay before each answer, varied from 0.7 to 1.3 of it.
    pub think_ms: u64,
    /// Further tool calls beside the one of each step.
    pub more: usize,
    /// Agents called [`SUB_AGENT`] that the first step starts, in the place of its tool call. Each answers with as many tokens.
    pub agents: usize,
}

/// Tools that cost one small query.
const TOOLS: [&str; 2] = ["schema_version", "list_entity_types"];
/// Those of a user's program, called if the first one is offered.
pub const REMOTE_TOOLS: [&str; 2] = ["bench_first", "bench_second"];
/// The agent that scripts with `agents` start.
pub const SUB_AGENT: &str = "bench-sub-agent";
const PREFIX: &str = "bench";

impl Script {
    /// Returns the user's message that requests this.
    pub fn message(self) -> String {
        format!(
            "{PREFIX} {} {} {} {} {} {}",
            self.calls, self.tokens, self.pause_ms, self.think_ms, self.more, self.agents
        )
    }

    fn of(message: &str) -> Option<Self> {
        // As a task's title it follows a heading mark.
        let message = message.trim_start_matches("# ");
        let mut words = message.strip_prefix(PREFIX)?.split_whitespace();
        Some(Self {
            calls: words.next()?.parse().ok()?,
            tokens: words.next()?.parse().ok()?,
            pause_ms: words.next()?.parse().ok()?,
            think_ms: words.next()?.parse().ok()?,
            more: words.next().map_or(Some(0), |more| more.parse().ok())?,
            agents: words.next().map_or(Some(0), |agents| agents.parse().ok())?,
        })
    }

    /// The arguments of the call that starts its agents.
    fn spawn(self) -> Value {
        let task = Self {
            tokens: self.tokens,
            ..Self::default()
        };
        let agent = json!({"agent_name": SUB_AGENT, "task": task.message()});
        json!({"agents": vec![agent; self.agents]})
    }
}

/// Times of the model's requests and answers (or the answer's first token), step by step, in µs of `now_us`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Moments(pub Vec<(u64, u64)>);

impl Moments {
    fn token(&self) -> String {
        let steps: Vec<String> = self.0.iter().map(|(asked, said)| format!("{asked}_{said}")).collect();
        format!("@{} ", steps.join(","))
    }

    /// Parses the first token of an answer, which may be merged with the next ones.
    pub fn of(token: &str) -> Option<Self> {
        let first = token.strip_prefix('@')?.split_whitespace().next()?;
        let steps = first.split(',').map(step);
        steps.collect::<Option<Vec<_>>>().map(Self)
    }

    /// The platform's time between the steps, in µs.
    pub fn between_us(&self) -> u64 {
        self.0.windows(2).map(|pair| pair[1].0.saturating_sub(pair[0].1)).sum()
    }
}

fn step(text: &str) -> Option<(u64, u64)> {
    let (asked, said) = text.split_once('_')?;
    Some((asked.parse().ok()?, said.parse().ok()?))
}

/// Starts the model in a separate process; returns its base URL.
pub async fn start() -> Result<(Process, String)> {
    let address = rejoin_free_ports::address()?.to_string();
    let mut command = std::process::Command::new(std::env::current_exe()?);
    command.args(["model", &address]);
    let process = Process::spawn(&mut command)?;
    process::wait_until_ready(&format!("http://{address}/readyz")).await?;
    Ok((process, format!("http://{address}/v1")))
}

/// `bench model ADDRESS`, until it is killed.
pub async fn serve(address: &str) -> Result<()> {
    let router = axum::Router::new()
        .route("/readyz", get(async || "ready"))
        .route("/v1/chat/completions", post(complete));
    let listener = tokio::net::TcpListener::bind(address)
        .await
        .with_context(|| format!("listening on {address}"))?;
    // Nagle's algorithm would delay a token until the previous one is acknowledged.
    let listener = axum::serve::ListenerExt::tap_io(listener, |stream| {
        // A closing connection needs nothing.
        let _ = stream.set_nodelay(true);
    });
    axum::serve(listener, router).await?;
    Ok(())
}

async fn complete(body: Bytes) -> Response {
    let asked = now_us();
    let Ok(request) = serde_json::from_slice::<Value>(&body) else {
        return axum::http::StatusCode::BAD_REQUEST.into_response();
    };
    let messages = request["messages"].as_array().map_or(&[] as &[Value], Vec::as_slice);
    let user = messages
        .iter()
        .rposition(|message| message["role"] == "user")
        .unwrap_or_default();
    let script = messages
        .get(user)
        .and_then(|message| Script::of(message["content"].as_str()?));
    let script = script.unwrap_or(Script {
        tokens: 1,
        ..Script::default()
    });
    let mut moments = Moments(messages[user..].iter().filter_map(moment_of_call).collect());
    let calls = moments.0.len();
    // Like real models, with varying durations: agents that begin together don't stay in step.
    let share = 0.7 + 0.6 * rand::random::<f64>();
    tokio::time::sleep(Duration::from_millis(script.think_ms).mul_f64(share)).await;
    if calls < script.calls {
        let id = format!("call_{asked}_{}", now_us());
        let offered = request["tools"].as_array().into_iter().flatten();
        let is_remote = offered.clone().any(|tool| tool["function"]["name"] == REMOTE_TOOLS[0]);
        let tools = if is_remote { REMOTE_TOOLS } else { TOOLS };
        let name = tools[calls % tools.len()];
        let function = if calls == 0 && script.agents > 0 {
            json!({"name": "spawn_agents", "arguments": script.spawn().to_string()})
        } else {
            json!({"name": name, "arguments": "{}"})
        };
        let first = json!({"index": 0, "id": id, "type": "function", "function": function});
        let mut step = vec![first];
        step.extend((1..=script.more).map(|nth| {
            json!({"index": nth, "id": format!("more_{calls}_{nth}"), "type": "function",
                "function": {"name": name, "arguments": format!("{{\"nth\":{nth}}}")}})
        }));
        let body = frame(json!({"tool_calls": step}), None) + &end("tool_calls");
        return event_stream(Body::from(body));
    }
    let tokens = futures::stream::iter(0..script.tokens).then(move |index| {
        let mut moments = std::mem::take(&mut moments);
        async move {
            let text = if index == 0 {
                moments.0.push((asked, now_us()));
                moments.token()
            } else {
                tokio::time::sleep(Duration::from_millis(script.pause_ms)).await;
                "word ".to_owned()
            };
            Ok::<_, Infallible>(Bytes::from(frame(json!({"content": text}), None)))
        }
    });
    let end = futures::stream::once(async { Ok(Bytes::from(end("stop"))) });
    event_stream(Body::from_stream(tokens.chain(end)))
}

/// Returns the times in the id of an assistant's tool call.
fn moment_of_call(message: &Value) -> Option<(u64, u64)> {
    step(message["tool_calls"][0]["id"].as_str()?.strip_prefix("call_")?)
}

fn event_stream(body: Body) -> Response {
    ([(CONTENT_TYPE, "text/event-stream")], body).into_response()
}

fn frame(delta: Value, finish: Option<&str>) -> String {
    let chunk = json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0, "model": "scripted",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
    format!("data: {chunk}\n\n")
}

fn end(reason: &str) -> String {
    let usage = json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0, "model": "scripted",
        "choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}});
    format!("{}data: {usage}\n\ndata: [DONE]\n\n", frame(json!({}), Some(reason)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_models_instructions_are_understood() {
        let script = Script {
            calls: 3,
            tokens: 5,
            pause_ms: 20,
            think_ms: 30,
            more: 2,
            agents: 1,
        };
        assert_eq!(Script::of(&script.message()), Some(script));
        assert_eq!(Script::of("hello"), None);
    }

    #[test]
    fn moments_travel_in_ids_and_tokens() {
        let moments = Moments(vec![(100, 110), (150, 155), (175, 180)]);
        assert_eq!(Moments::of(&moments.token()), Some(moments.clone()));
        assert_eq!(moments.between_us(), 40 + 20);
        let message = json!({"role": "assistant", "tool_calls": [{"id": "call_100_110"}]});
        assert_eq!(moment_of_call(&message), Some((100, 110)));
        assert_eq!(
            moment_of_call(&json!({"role": "tool", "tool_call_id": "call_100_110"})),
            None
        );
    }
}
