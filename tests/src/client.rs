//! A minimal client of the HTTP API: requests, and streams read verbatim.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};

use crate::support::LIMIT;

/// Timeout of each part of an answer: longer than any stream of a test is silent.
const SILENCE: Duration = Duration::from_secs(90);

#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    pub url: String,
    pub key: String,
}

/// A frame as it came: its lines.
#[derive(Debug, Clone, PartialEq)]
pub struct Frame {
    pub id: Option<i64>,
    pub data: Option<String>,
    pub comment: Option<String>,
    pub retry: Option<String>,
}

impl Frame {
    pub fn json(&self) -> Value {
        self.data.as_deref().map_or(Value::Null, |data| {
            serde_json::from_str(data).expect("a frame's data is JSON")
        })
    }

    pub fn kind(&self) -> String {
        self.json()["type"].as_str().unwrap_or_default().to_owned()
    }
}

impl Client {
    pub fn new(url: String, key: &str) -> Self {
        let http = rejoin_egress::tls::http_client();
        let http = http.read_timeout(SILENCE).build().expect("a client");
        Self {
            http,
            url,
            key: key.to_owned(),
        }
    }

    pub fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.http
            .request(method, format!("{}{path}", self.url))
            .bearer_auth(&self.key)
    }

    /// Sends a request unchanged.
    pub async fn execute(&self, request: reqwest::Request) -> reqwest::Result<Response> {
        self.http.execute(request).await
    }

    pub async fn get(&self, path: &str) -> (StatusCode, Value) {
        answer(self.request(Method::GET, path).send().await.expect("an answer")).await
    }

    pub async fn post(&self, path: &str, body: Value) -> (StatusCode, Value) {
        answer(
            self.request(Method::POST, path)
                .json(&body)
                .send()
                .await
                .expect("an answer"),
        )
        .await
    }

    pub async fn patch(&self, path: &str, body: Value) -> (StatusCode, Value) {
        answer(
            self.request(Method::PATCH, path)
                .json(&body)
                .send()
                .await
                .expect("an answer"),
        )
        .await
    }

    pub async fn put(&self, path: &str, body: Value) -> (StatusCode, Value) {
        answer(
            self.request(Method::PUT, path)
                .json(&body)
                .send()
                .await
                .expect("an answer"),
        )
        .await
    }

    pub async fn delete(&self, path: &str) -> (StatusCode, Value) {
        answer(self.request(Method::DELETE, path).send().await.expect("an answer")).await
    }

    /// Posts a message and returns `{conversationId, messageId, runId, cursor}` immediately.
    pub async fn post_message(&self, body: Value) -> Value {
        let request = self
            .request(Method::POST, "/api/chat/stream")
            .header("accept", "application/json")
            .json(&body);
        let (status, posted) = answer(request.send().await.expect("an answer")).await;
        assert_eq!(status, StatusCode::ACCEPTED, "{posted}");
        posted
    }

    /// Posts a message and reads its turn to the end.
    pub async fn chat(&self, body: Value) -> Vec<Frame> {
        self.stream_of("/api/chat/stream", body).await
    }

    /// Posts a body, and reads the response stream to the end.
    pub async fn stream_of(&self, path: &str, body: Value) -> Vec<Frame> {
        let response = self
            .request(Method::POST, path)
            .json(&body)
            .send()
            .await
            .expect("an answer");
        assert_eq!(response.status(), StatusCode::OK);
        Stream::of(response).rest().await
    }

    /// Asks in a new conversation with this agent (or none).
    pub async fn ask(&self, agent: Option<uuid::Uuid>, message: &str) -> Vec<Frame> {
        match agent {
            Some(agent) => {
                self.chat(json!({ "message": message, "agentDefinitionId": agent }))
                    .await
            }
            None => self.chat(json!({ "message": message })).await,
        }
    }

    /// Posts a streamable request, and requests JSON instead.
    pub async fn post_for_json(&self, path: &str, body: Value) -> (StatusCode, Value) {
        let request = self
            .request(Method::POST, path)
            .header("accept", "application/json")
            .json(&body);
        answer(request.send().await.expect("an answer")).await
    }

    /// Opens a stream at an address that also serves other types.
    pub async fn event_stream(&self, path: &str) -> Stream {
        let request = self.request(Method::GET, path).header("accept", "text/event-stream");
        let response = request.send().await.expect("an answer");
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        Stream::of(response)
    }

    /// Opens a stream.
    pub async fn stream(&self, path: &str) -> Stream {
        let response = self.request(Method::GET, path).send().await.expect("an answer");
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        Stream::of(response)
    }

    /// Opens a stream after a cursor, like a reconnecting browser.
    pub async fn stream_after(&self, path: &str, cursor: i64) -> Stream {
        let request = self
            .request(Method::GET, path)
            .header("last-event-id", cursor.to_string());
        let response = request.send().await.expect("an answer");
        assert_eq!(response.status(), StatusCode::OK, "{path} after {cursor}");
        Stream::of(response)
    }

    /// All lines of `/metrics`.
    pub async fn metrics(&self) -> String {
        let response = self.request(Method::GET, "/metrics").send().await.expect("an answer");
        response.text().await.expect("text")
    }

    /// Sums the metrics with these names, over all labels.
    pub async fn metric_sum(&self, names: &[&str]) -> f64 {
        let metrics = self.metrics().await;
        let lines = metrics
            .lines()
            .filter(|line| names.iter().any(|name| line.split(['{', ' ']).next() == Some(name)));
        lines
            .map(|line| {
                line.rsplit(' ')
                    .next()
                    .unwrap_or_default()
                    .parse::<f64>()
                    .expect("a number")
            })
            .sum()
    }

    /// Returns the status of a stream request, which is dropped immediately.
    pub async fn stream_status(&self, path: &str) -> StatusCode {
        self.request(Method::GET, path)
            .send()
            .await
            .expect("an answer")
            .status()
    }
}

/// Returns status and JSON body (null if empty).
pub async fn answer(response: Response) -> (StatusCode, Value) {
    let status = response.status();
    let body = response.bytes().await.expect("a body");
    (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
}

/// A stream of frames.
pub struct Stream {
    body: BoxStream<'static, reqwest::Result<Bytes>>,
    buffer: Vec<u8>,
    ready: VecDeque<Frame>,
    pub headers: reqwest::header::HeaderMap,
}

impl Stream {
    pub fn of(response: Response) -> Self {
        let headers = response.headers().clone();
        Self {
            body: response.bytes_stream().boxed(),
            buffer: Vec::new(),
            ready: VecDeque::new(),
            headers,
        }
    }

    /// Returns the next frame; None at the end. Panics after [`LIMIT`].
    pub async fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.ready.pop_front() {
                return Some(frame);
            }
            let chunk = tokio::time::timeout(LIMIT, self.body.next())
                .await
                .expect("a frame or the end within the limit")?;
            // A cut connection counts as the end, as for any client.
            let Ok(chunk) = chunk else { return None };
            self.buffer.extend_from_slice(&chunk);
            while let Some(end) = self.buffer.windows(2).position(|pair| pair == b"\n\n") {
                let text: Vec<u8> = self.buffer.drain(..end + 2).collect();
                self.ready.push_back(parse(std::str::from_utf8(&text).expect("UTF-8")));
            }
        }
    }

    /// Returns the next numbered frame; heartbeats don't extend the wait.
    pub async fn next_event(&mut self) -> Option<Frame> {
        let next = async {
            loop {
                let frame = self.next().await?;
                if frame.id.is_some() {
                    return Some(frame);
                }
            }
        };
        tokio::time::timeout(LIMIT, next)
            .await
            .expect("an event or the end within the limit")
    }

    /// All numbered frames until the end.
    pub async fn rest(mut self) -> Vec<Frame> {
        let mut frames = Vec::new();
        while let Some(frame) = self.next_event().await {
            frames.push(frame);
        }
        frames
    }

    /// Returns numbered frames up to and including the first of this kind.
    pub async fn until(&mut self, kind: &str) -> Vec<Frame> {
        let mut frames = Vec::new();
        loop {
            let frame = self
                .next_event()
                .await
                .unwrap_or_else(|| panic!("the stream ended before {kind}: {frames:#?}"));
            let found = frame.kind() == kind;
            frames.push(frame);
            if found {
                return frames;
            }
        }
    }

    /// Returns whether nothing arrives within `limit`.
    pub async fn is_silent_for(&mut self, limit: Duration) -> bool {
        tokio::time::timeout(limit, self.next_event()).await.is_err()
    }
}

fn parse(text: &str) -> Frame {
    assert!(!text.contains('\r'), "LF only: {text:?}");
    let mut frame = Frame {
        id: None,
        data: None,
        comment: None,
        retry: None,
    };
    for line in text.trim_end_matches('\n').split('\n') {
        if let Some(comment) = line.strip_prefix(':') {
            frame.comment = Some(comment.to_owned());
        } else if let Some(id) = line.strip_prefix("id: ") {
            frame.id = Some(id.parse().expect("a number"));
        } else if let Some(data) = line.strip_prefix("data: ") {
            assert!(frame.data.is_none(), "one line of data a frame: {text:?}");
            frame.data = Some(data.to_owned());
        } else if let Some(retry) = line.strip_prefix("retry: ") {
            frame.retry = Some(retry.to_owned());
        } else {
            panic!("an unknown line in a frame: {line:?}");
        }
    }
    frame
}

/// Returns the types of these frames, with consecutive tokens collapsed.
pub fn kinds(frames: &[Frame]) -> Vec<String> {
    let mut kinds: Vec<String> = frames.iter().map(Frame::kind).collect();
    kinds.dedup_by(|a, b| a == b && a == "token");
    kinds
}

/// Returns the frames kept by a client that applies resets.
pub fn apply_resets(frames: &[Frame]) -> Vec<Frame> {
    let mut kept: Vec<Frame> = Vec::new();
    for frame in frames {
        let event = frame.json();
        if event["type"] == "reset" {
            let after = event["discardAfter"].as_i64().expect("a number");
            kept.retain(|earlier| {
                earlier.id.is_some_and(|id| id <= after) || earlier.json()["runId"] != event["runId"]
            });
        } else {
            kept.push(frame.clone());
        }
    }
    kept
}

/// Returns the reply's text as displayed by a client.
pub fn text(frames: &[Frame]) -> String {
    apply_resets(frames)
        .iter()
        .map(Frame::json)
        .filter(|event| event["type"] == "token")
        .map(|event| event["token"].as_str().expect("text").to_owned())
        .collect()
}

/// The events of these frames.
pub fn json_of(frames: &[Frame]) -> Vec<Value> {
    frames.iter().map(Frame::json).collect()
}

/// Those of one type.
pub fn of_kind<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["type"] == kind).collect()
}
