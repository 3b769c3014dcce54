//! The scripted model server: OpenAI's Chat Completions protocol on 127.0.0.1, streamed or not.
//!
//! Each test starts one ([`ModelServer::start`]), points `OPENAI_BASE_URL` at [`ModelServer::base_url`] and scripts
//! [`Reply`]s. It is as strict as a real provider: a conversation in which a tool call has no answer, or an answer no
//! call, is rejected with 400 and recorded in [`ModelServer::violations`]. A dropped server is stopped.
//!
//! - `reply`     scripted answers and failures
//! - `actions`   what the server does to send one
//! - `protocol`  the frames, and the validation of requests

mod actions;
mod protocol;
mod reply;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use self::actions::Action;
pub use self::protocol::last_user_message;
pub use self::reply::Reply;

/// Requests with files in base64 are large.
const REQUEST_MAX_BYTES: usize = 100 * 1024 * 1024;

type Predicate = Box<dyn Fn(&Value) -> bool + Send + Sync>;
type Answer = Box<dyn Fn(&Value) -> Option<Reply> + Send + Sync>;

/// A scripted model server.
pub struct ModelServer {
    base_url: String,
    state: Arc<Script>,
    server: JoinHandle<()>,
}

#[derive(Default)]
struct Script {
    inner: Mutex<Inner>,
    counts: watch::Sender<Counts>,
}

#[derive(Default)]
struct Inner {
    queue: VecDeque<Reply>,
    rules: Vec<Rule>,
    requests: Vec<Value>,
    violations: Vec<String>,
    replies: u64,
    answer: Option<Answer>,
}

struct Rule {
    applies: Predicate,
    replies: VecDeque<Reply>,
    /// Repeats its only reply forever.
    repeats: bool,
}

/// Counts of the calls so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Calls received, including rejected ones.
    pub requests: usize,
    /// Answers sent to their scripted end.
    pub finished: usize,
    /// Answers whose reader disconnected before.
    pub abandoned: usize,
}

impl ModelServer {
    pub async fn start() -> Result<Self> {
        Self::start_on("127.0.0.1:0").await
    }

    pub async fn start_on(address: &str) -> Result<Self> {
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("binding the scripted model server to {address}"))?;
        let base_url = format!("http://{}/v1", listener.local_addr()?);
        let state = Arc::new(Script::default());
        let router = Router::new()
            .route("/v1/chat/completions", post(complete))
            .layer(DefaultBodyLimit::max(REQUEST_MAX_BYTES))
            .with_state(state.clone());
        let server = tokio::spawn(async move {
            // Serving ends only with the process or with the abort of this task.
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self {
            base_url,
            state,
            server,
        })
    }

    /// Includes `/v1`, without a trailing slash: the value of `OPENAI_BASE_URL`.
    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    /// Queues replies for any request without a matching rule of [`Self::on`], in this order.
    pub fn script(&self, replies: impl IntoIterator<Item = Reply>) {
        self.state.lock().queue.extend(replies);
    }

    /// Queues replies, in this order, for requests whose last user message contains `text`: parallel conversations keep
    /// theirs apart.
    pub fn on(&self, text: &str, replies: impl IntoIterator<Item = Reply>) {
        self.rule(holds(text), replies, false);
    }

    /// Sets a reply for every request whose last user message contains `text`.
    pub fn always(&self, text: &str, reply: Reply) {
        self.rule(holds(text), [reply], true);
    }

    /// Queues replies, in this order, for matching requests.
    pub fn on_request(
        &self,
        applies: impl Fn(&Value) -> bool + Send + Sync + 'static,
        replies: impl IntoIterator<Item = Reply>,
    ) {
        self.rule(Box::new(applies), replies, false);
    }

    /// From now on computes replies without a rule from the request alone. Requests are no longer recorded: there may
    /// be very many.
    pub fn answer_by(&self, answer: impl Fn(&Value) -> Option<Reply> + Send + Sync + 'static) {
        self.state.lock().answer = Some(Box::new(answer));
    }

    fn rule(&self, applies: Predicate, replies: impl IntoIterator<Item = Reply>, repeats: bool) {
        self.state.lock().rules.push(Rule {
            applies,
            replies: replies.into_iter().collect(),
            repeats,
        });
    }

    /// Bodies of all requests so far, refused ones included.
    pub fn requests(&self) -> Vec<Value> {
        self.state.lock().requests.clone()
    }

    /// Returns what a strict provider would have rejected.
    pub fn violations(&self) -> Vec<String> {
        self.state.lock().violations.clone()
    }

    /// Returns the number of unused replies of queue and rules.
    pub fn left(&self) -> usize {
        let inner = self.state.lock();
        let ruled: usize = inner
            .rules
            .iter()
            .filter(|rule| !rule.repeats)
            .map(|rule| rule.replies.len())
            .sum();
        inner.queue.len() + ruled
    }

    pub fn counts(&self) -> Counts {
        *self.state.counts.borrow()
    }

    /// Waits until the counts satisfy the condition.
    pub async fn wait_for(&self, limit: Duration, condition: impl Fn(Counts) -> bool) -> Result<Counts> {
        let mut counts = self.state.counts.subscribe();
        let reached = tokio::time::timeout(limit, counts.wait_for(|counts| condition(*counts))).await;
        match reached {
            Ok(Ok(counts)) => Ok(*counts),
            Ok(Err(_)) => bail!("the scripted model server is gone"),
            Err(_) => bail!(
                "the scripted model server saw only {:?} within {limit:?}",
                self.counts()
            ),
        }
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.server.abort();
    }
}

fn holds(text: &str) -> Predicate {
    let text = text.to_owned();
    Box::new(move |body| protocol::last_user_message(body).contains(&text))
}

impl Script {
    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        // A panic of one test thread must not hide other results.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn take(&mut self, body: &Value) -> Reply {
        let rule = self
            .rules
            .iter_mut()
            .find(|rule| !rule.replies.is_empty() && (rule.applies)(body));
        let scripted = match rule {
            Some(rule) if rule.repeats => rule.replies.front().cloned(),
            Some(rule) => rule.replies.pop_front(),
            None => self
                .answer
                .as_ref()
                .and_then(|answer| answer(body))
                .or_else(|| self.queue.pop_front()),
        };
        scripted.unwrap_or_else(|| Reply::text(format!("unscripted: {}", protocol::last_user_message(body))))
    }
}

async fn complete(State(script): State<Arc<Script>>, headers: HeaderMap, body: Bytes) -> Response {
    let body: Value = match serde_json::from_slice(&body) {
        Ok(body) => body,
        Err(error) => return refuse(StatusCode::BAD_REQUEST, &format!("the body is not JSON: {error}")),
    };
    let mut violations = protocol::violations(&body);
    if !headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|value| value.len() > "Bearer ".len() && value.starts_with("Bearer "))
    {
        violations.push("there is no bearer key".to_owned());
    }
    let taken = {
        let mut inner = script.lock();
        if inner.answer.is_none() {
            inner.requests.push(body.clone());
        }
        inner.violations.extend(violations.iter().cloned());
        inner.replies += 1;
        violations.is_empty().then(|| (inner.take(&body), inner.replies))
    };
    script.counts.send_modify(|counts| counts.requests += 1);
    let Some((reply, number)) = taken else {
        return refuse(StatusCode::BAD_REQUEST, &violations.join("; "));
    };
    if let Some((status, retry_after_s)) = reply.failure() {
        let mut response = refuse(
            StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            "scripted failure",
        );
        if let Some(seconds) = retry_after_s {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        return response;
    }
    let reading = Reading {
        script: script.clone(),
        finished: false,
    };
    if body["stream"] == json!(true) {
        stream(reading, reply.actions(&body, number))
    } else {
        whole(reading, &reply, &body, number).await
    }
}

/// Records, when dropped, whether the reader stayed to the end.
struct Reading {
    script: Arc<Script>,
    finished: bool,
}

impl Reading {
    fn finish(&mut self) {
        self.finished = true;
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        let finished = self.finished;
        self.script.counts.send_modify(|counts| {
            if finished {
                counts.finished += 1;
            } else {
                counts.abandoned += 1;
            }
        });
    }
}

fn stream(reading: Reading, actions: VecDeque<Action>) -> Response {
    let frames = futures::stream::unfold((reading, actions), |(mut reading, mut actions)| async move {
        loop {
            let Some(action) = actions.pop_front() else {
                reading.finish();
                return None;
            };
            match action {
                Action::Send(frame) => {
                    reading.finished = actions.is_empty();
                    return Some((Ok(Bytes::from(frame)), (reading, actions)));
                }
                Action::Wait(pause) => tokio::time::sleep(pause).await,
                Action::Gate(gate) => gate.notified().await,
                Action::Hang => std::future::pending().await,
                // An error of the body makes hyper close the socket without the last chunk, and drop unwritten data; it
                // writes when the body is pending, so be pending once.
                Action::Cut => {
                    tokio::task::yield_now().await;
                    reading.finish();
                    return Some((Err(std::io::Error::other("scripted cut")), (reading, VecDeque::new())));
                }
            }
        }
    });
    (
        [
            (header::CONTENT_TYPE, "text/event-stream"),
            (header::CACHE_CONTROL, "no-cache"),
        ],
        Body::from_stream(frames),
    )
        .into_response()
}

async fn whole(mut reading: Reading, reply: &Reply, request: &Value, number: u64) -> Response {
    for action in reply.actions(request, number) {
        match action {
            Action::Send(_) => {}
            Action::Wait(pause) => tokio::time::sleep(pause).await,
            Action::Gate(gate) => gate.notified().await,
            Action::Hang => std::future::pending().await,
            Action::Cut => return refuse(StatusCode::BAD_GATEWAY, "scripted cut"),
        }
    }
    reading.finish();
    axum::Json(protocol::completion(reply, request, number)).into_response()
}

fn refuse(status: StatusCode, message: &str) -> Response {
    let body = json!({"error": {"message": message, "type": "scripted_model", "code": status.as_u16()}});
    (status, axum::Json(body)).into_response()
}

/// Returns the messages of a recorded model request: (role, content).
pub fn sent(request: &Value) -> Vec<(String, String)> {
    let messages = request["messages"].as_array().expect("messages");
    messages
        .iter()
        .map(|m| {
            (
                m["role"].as_str().unwrap().to_owned(),
                m["content"].as_str().unwrap_or_default().to_owned(),
            )
        })
        .collect()
}
