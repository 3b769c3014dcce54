//! Requests to the API, with refusals as errors that know their exit code. Called by `chat`, `tail` and `runs`.
//!
//! Invariant: a retried request carries the same idempotency key, so that retrying is safe.
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result};
use bytes::Bytes;
use rand::RngExt;
use reqwest::{
    Method, RequestBuilder, Response, StatusCode,
    header::{CONTENT_TYPE, RETRY_AFTER},
};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use crate::{dev_instance::Access, exit::Exit};

/// Silence of the API after which we give up. Longer than a restart of everything.
pub const SILENCE_LIMIT: Duration = Duration::from_secs(120);
/// Timeout for an API that has never responded: a wrong address is likelier than a restart.
pub const FIRST_CONTACT_LIMIT: Duration = Duration::from_secs(10);
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// Timeout of a request that is not a stream.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// Timeout of a file transfer.
const TRANSFER_LIMIT: Duration = Duration::from_secs(600);
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Maximum `Retry-After` that is honoured.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(30);

/// A client of one API, with our key.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    access: Access,
    /// The API has responded at least once.
    met: Arc<AtomicBool>,
}

/// An error body of the API (RFC 9457).
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Problem {
    pub code: String,
    pub title: String,
    pub detail: String,
}

/// A response that is not a success.
#[derive(Debug)]
pub struct Refusal {
    pub status: StatusCode,
    pub problem: Problem,
    pub retry_after: Option<Duration>,
}

impl Client {
    /// # Errors
    /// The TLS setup fails.
    pub fn new(access: Access) -> Result<Self> {
        let builder = reqwest::Client::builder()
            .connect_timeout(CONNECT_LIMIT)
            .user_agent(concat!("rejoin/", env!("CARGO_PKG_VERSION")));
        // No proxy for servers on this machine.
        let local = url::Url::parse(&access.url).is_ok_and(|url| match url.host() {
            Some(url::Host::Ipv4(ip)) => ip.is_loopback(),
            Some(url::Host::Ipv6(ip)) => ip.is_loopback(),
            Some(url::Host::Domain(name)) => name == "localhost",
            None => false,
        });
        let builder = if local { builder.no_proxy() } else { builder };
        Ok(Self {
            http: builder.build().context("creating the HTTP client failed")?,
            access,
            met: Arc::new(AtomicBool::new(false)),
        })
    }

    /// Sends a request, and records whether the API responds.
    ///
    /// # Errors
    /// There is no response.
    pub async fn send(&self, request: RequestBuilder) -> reqwest::Result<Response> {
        let answer = request.send().await;
        if answer.is_ok() {
            self.met.store(true, Ordering::Relaxed);
        }
        answer
    }

    /// Returns whether the API has never responded within the timeout.
    pub fn is_nobody_there(&self, since: Instant) -> bool {
        !self.met.load(Ordering::Relaxed) && since.elapsed() > FIRST_CONTACT_LIMIT
    }

    pub fn url(&self) -> &str {
        &self.access.url
    }

    /// Builds a request with our key and, if known, our project.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self
            .http
            .request(method, format!("{}{path}", self.access.url))
            .bearer_auth(&self.access.api_key);
        match self.access.workspace_id {
            Some(id) => request.header("x-project-id", id.to_string()),
            None => request,
        }
    }

    /// Returns the project for paths.
    ///
    /// # Errors
    /// It was not given, and the API, which knows the key's project, is unreachable.
    pub async fn project(&self, asked: Option<Uuid>) -> Result<Uuid> {
        if let Some(id) = asked.or(self.access.workspace_id) {
            return Ok(id);
        }
        let me = self.get("/api/me").await?;
        let id = me["projectId"].as_str().and_then(|id| id.parse().ok());
        id.context("the API did not return the key's project; pass --project ID, or set REJOIN_PROJECT_ID")
    }

    /// # Errors
    /// The API is unreachable or refuses.
    pub async fn get(&self, path: &str) -> Result<Value> {
        self.json(self.request(Method::GET, path), path).await
    }

    /// Returns a text response.
    ///
    /// # Errors
    /// The API is unreachable or refuses.
    pub async fn text(&self, path: &str) -> Result<String> {
        Ok(self
            .answered(self.request(Method::GET, path), path)
            .await?
            .text()
            .await?)
    }

    /// Returns a file.
    ///
    /// # Errors
    /// The API is unreachable or refuses.
    pub async fn bytes(&self, path: &str) -> Result<Bytes> {
        let request = self.request(Method::GET, path).timeout(TRANSFER_LIMIT);
        Ok(self.accepted(request, path).await?.bytes().await?)
    }

    /// # Errors
    /// The API is unreachable or refuses.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Value> {
        self.json(self.request(Method::POST, path).json(body), path).await
    }

    /// Posts a file's content.
    ///
    /// # Errors
    /// The API is unreachable or refuses.
    pub async fn upload(&self, path: &str, kind: &str, content: Vec<u8>) -> Result<Value> {
        let request = self.request(Method::POST, path).header(CONTENT_TYPE, kind);
        let request = request.body(content).timeout(TRANSFER_LIMIT);
        let response = self.accepted(request, path).await?;
        Ok(response.json().await?)
    }

    /// # Errors
    /// The API is unreachable or refuses.
    pub async fn change(&self, method: Method, path: &str, body: &Value) -> Result<Value> {
        self.json(self.request(method, path).json(body), path).await
    }

    /// # Errors
    /// The API is unreachable or refuses.
    pub async fn delete(&self, path: &str) -> Result<()> {
        self.answered(self.request(Method::DELETE, path), path).await?;
        Ok(())
    }

    async fn json(&self, request: RequestBuilder, path: &str) -> Result<Value> {
        self.answered(request, path).await?.json().await.with_context(|| {
            format!(
                "the API's response to {path} is not JSON; is {} a Rejoin API?",
                self.url()
            )
        })
    }

    /// Returns the response, if it is a success.
    async fn answered(&self, request: RequestBuilder, path: &str) -> Result<Response> {
        self.accepted(request.timeout(ANSWER_LIMIT), path).await
    }

    async fn accepted(&self, request: RequestBuilder, path: &str) -> Result<Response> {
        let answer = self.send(request).await;
        let response = answer.with_context(|| self.unreachable())?;
        if response.status().is_success() {
            Ok(response)
        } else {
            Err(Refusal::read(response).await.into_error(path))
        }
    }

    /// Posts a message, retrying until it is acknowledged: the idempotency key makes it one message.
    ///
    /// # Errors
    /// The API refuses, or is unreachable for [`SILENCE_LIMIT`].
    pub async fn post_surely(&self, path: &str, body: &Value, note: impl Fn(&str)) -> Result<Value> {
        let key = Uuid::now_v7().to_string();
        let began = Instant::now();
        let mut pauses = Pauses::default();
        loop {
            let request = self
                .request(Method::POST, path)
                .header("idempotency-key", &key)
                .header("accept", "application/json")
                .json(body)
                .timeout(ANSWER_LIMIT);
            let (why, wait) = match self.send(request).await {
                Ok(response) if response.status().is_success() => match response.json().await {
                    Ok(answer) => return Ok(answer),
                    // The message arrived, but its response was lost. The key returns the same response again.
                    Err(error) => (error.to_string(), None),
                },
                Ok(response) => {
                    let refusal = Refusal::read(response).await;
                    if !refusal.is_temporary() {
                        return Err(refusal.into_error(path));
                    }
                    (refusal.to_string(), refusal.retry_after)
                }
                Err(error) if self.is_nobody_there(began) => {
                    return Err(error).with_context(|| self.unreachable());
                }
                Err(error) => (root_cause(&error), None),
            };
            if began.elapsed() > SILENCE_LIMIT {
                let message = format!("posting the message failed for {SILENCE_LIMIT:?}: {why}");
                return Err(Exit::Unreachable.because(message).into());
            }
            if pauses.count == 0 {
                note(&format!("(posting the message failed: {why}; retrying)"));
            }
            sleep(pauses.next(wait)).await;
        }
    }

    pub fn unreachable(&self) -> String {
        format!(
            "cannot reach the API at {} (is it running? `rejoin dev` starts one; `rejoin doctor` checks the setup)",
            self.url()
        )
    }
}

impl Refusal {
    pub async fn read(response: Response) -> Self {
        let status = response.status();
        let retry_after = response.headers().get(RETRY_AFTER);
        let retry_after = retry_after.and_then(|value| value.to_str().ok()?.parse().ok());
        Self {
            status,
            retry_after: retry_after.map(Duration::from_secs),
            problem: response.json().await.unwrap_or_default(),
        }
    }

    /// Returns whether a retry may succeed.
    pub fn is_temporary(&self) -> bool {
        self.status.is_server_error()
            || self.status == StatusCode::TOO_MANY_REQUESTS
            || self.status == StatusCode::REQUEST_TIMEOUT
    }

    pub fn into_error(self, path: &str) -> anyhow::Error {
        let exit = match self.status {
            StatusCode::UNAUTHORIZED => Exit::NotAuthenticated,
            StatusCode::NOT_FOUND => Exit::NotFound,
            status if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => Exit::Unreachable,
            _ => Exit::Failed,
        };
        let todo = match self.status {
            StatusCode::UNAUTHORIZED => {
                "; set REJOIN_API_KEY to a key of this server (`rejoin keys create` creates \
                one)"
            }
            StatusCode::FORBIDDEN => {
                "; the key lacks the required scope; create one with `rejoin keys create \
                --scopes read,write,admin`"
            }
            _ => "",
        };
        exit.because(format!("{path}: {self}{todo}")).into()
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let words = [&self.problem.detail, &self.problem.title]
            .into_iter()
            .find(|words| !words.is_empty());
        write!(f, "{}", words.map_or("the API rejected the request", String::as_str))?;
        write!(f, " ({}", self.status.as_u16())?;
        if !self.problem.code.is_empty() {
            write!(f, " {}", self.problem.code)?;
        }
        write!(f, ")")
    }
}

/// Delays between retries: they double, with jitter.
#[derive(Debug, Default)]
pub struct Pauses {
    pub count: u32,
}

impl Pauses {
    /// Returns the next delay; at least the server's `Retry-After`.
    pub fn next(&mut self, asked: Option<Duration>) -> Duration {
        let pause = PAUSE_MIN
            .saturating_mul(2_u32.saturating_pow(self.count.min(16)))
            .min(PAUSE_MAX);
        self.count += 1;
        let jitter = rand::rng().random_range(0.5..1.0);
        pause
            .mul_f64(jitter)
            .max(asked.unwrap_or_default().min(RETRY_AFTER_MAX))
    }
}

/// Returns the most specific text of an error: "connection refused", not "error sending request".
pub fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_limit_and_heed_the_server() {
        let mut pauses = Pauses::default();
        assert!(pauses.next(None) <= PAUSE_MIN);
        for _ in 0..40 {
            assert!(pauses.next(None) <= PAUSE_MAX);
        }
        assert!(pauses.next(None) >= PAUSE_MAX / 2);
        assert_eq!(pauses.next(Some(Duration::from_secs(7))), Duration::from_secs(7));
        assert_eq!(pauses.next(Some(Duration::from_secs(700))), RETRY_AFTER_MAX);
    }

    #[test]
    fn a_refusal_says_what_the_api_said_and_ends_with_its_exit_code() {
        let refusal = |status, code: &str, detail: &str| Refusal {
            status,
            problem: Problem {
                code: code.to_owned(),
                title: String::new(),
                detail: detail.to_owned(),
            },
            retry_after: None,
        };
        let error = refusal(StatusCode::NOT_FOUND, "run_not_found", "The run was not found").into_error("/api/x");
        assert_eq!(Exit::of(&error), Exit::NotFound);
        assert_eq!(error.to_string(), "/api/x: The run was not found (404 run_not_found)");
        let error = refusal(StatusCode::UNAUTHORIZED, "", "").into_error("/api/x");
        assert_eq!(Exit::of(&error), Exit::NotAuthenticated);
        assert!(refusal(StatusCode::SERVICE_UNAVAILABLE, "", "").is_temporary());
        assert!(!refusal(StatusCode::CONFLICT, "", "").is_temporary());
    }
}
