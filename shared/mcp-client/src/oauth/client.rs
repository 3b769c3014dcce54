//! Requests to URLs named by others: checked, bounded in time and size, with errors in words. Called by all files of
//! `oauth`.

use std::time::Duration;

use reqwest::header::ACCEPT;
use reqwest::{RequestBuilder, StatusCode};
use serde_json::Value;
use tokio::time::timeout;
use url::Url;

use super::{Refusal, shown};
use crate::http::error_chain;
use crate::redact::Redactor;
use rejoin_egress::ssrf_guard::Hosts;

/// Timeout of a response.
pub(super) const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// Maximum size of a response, in bytes.
const ANSWER_MAX_BYTES: usize = 256 * 1024;
/// Maximum length of an error's description, in characters.
const WORDS_MAX_CHARS: usize = 300;

/// The HTTP client for authorization servers. It must check names against the host policy, and follow no redirects.
pub(crate) struct OAuthClient {
    pub(crate) http: reqwest::Client,
    pub(crate) hosts: Hosts,
    pub(crate) redactor: Redactor,
}

/// A response.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    /// Null: it was not JSON.
    pub(super) json: Value,
}

impl OAuthClient {
    /// Err: why this URL must not receive secrets.
    pub(super) fn may_receive_secrets(&self, url: &Url) -> Result<(), String> {
        self.judge(url)?;
        if url.scheme() == "https" || self.hosts.name(url) {
            Ok(())
        } else {
            Err("it must start with https://".to_owned())
        }
    }

    /// Err: why no user is sent to this URL.
    pub(super) fn may_lead_users(&self, url: &Url) -> Result<(), String> {
        if url.scheme() == "https" || url.scheme() == "http" && self.hosts.name(url) {
            Ok(())
        } else {
            Err(format!("{} must start with https://", shown(url)))
        }
    }

    fn judge(&self, url: &Url) -> Result<(), String> {
        match url.scheme() {
            "http" | "https" => self.hosts.judge(url),
            _ => Err("it must start with http:// or https://".to_owned()),
        }
    }

    /// Fetches a published document.
    pub(super) async fn get(&self, url: &Url, what: &str) -> Result<Answer, Refusal> {
        self.judge(url)
            .map_err(|words| Refusal::permanent(format!("{what} {}: {words}", shown(url))))?;
        let request = self.http.get(url.clone()).header(ACCEPT, "application/json");
        self.send(request, url, what).await
    }

    /// Returns the error of a rejecting response, with the `error` of RFC 6749, section 5.2.
    pub(super) fn refusal(&self, answer: &Answer, what: &str, url: &Url) -> Refusal {
        let field = |name: &str| answer.json[name].as_str();
        let moved = if answer.status.is_redirection() {
            " (redirects are not followed)"
        } else {
            ""
        };
        let why = self.because(field("error"), field("error_description"));
        let words = format!("{what} {} responded with {}{moved}{why}", shown(url), answer.status);
        // Rate limits and server errors may be retried.
        let is_passing = answer.status.is_server_error()
            || matches!(
                answer.status,
                StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY
            );
        Refusal {
            words,
            is_final: !is_passing,
        }
    }

    /// Returns `: invalid_client (the client is not known)`, or nothing.
    pub(super) fn because(&self, error: Option<&str>, description: Option<&str>) -> String {
        // Redacted before it is truncated, so that no part of a secret remains.
        let clean = |words: &str| {
            let words = self.redactor.text(words.to_owned());
            let words = words.chars().filter(|c| !c.is_control());
            words.take(WORDS_MAX_CHARS).collect::<String>()
        };
        match (error.map(clean), description.map(clean)) {
            (Some(error), Some(description)) => format!(": {error} ({description})"),
            (Some(words), None) | (None, Some(words)) => format!(": {words}"),
            (None, None) => String::new(),
        }
    }

    /// Sends a request to a checked URL.
    pub(super) async fn send(&self, request: RequestBuilder, url: &Url, what: &str) -> Result<Answer, Refusal> {
        let asked = async {
            let mut response = request.send().await?;
            let mut body = Vec::new();
            while let Some(chunk) = response.chunk().await? {
                // A truncated document is invalid JSON.
                let room = ANSWER_MAX_BYTES - body.len();
                body.extend_from_slice(&chunk[..chunk.len().min(room)]);
                if body.len() == ANSWER_MAX_BYTES {
                    break;
                }
            }
            Ok::<_, reqwest::Error>((response.status(), body))
        };
        let (status, body) = timeout(ANSWER_LIMIT, asked)
            .await
            .map_err(|_| {
                Refusal::transient(format!(
                    "{what} {} did not respond within {} s",
                    shown(url),
                    ANSWER_LIMIT.as_secs()
                ))
            })?
            .map_err(|error| {
                Refusal::transient(format!(
                    "the request to {what} {} failed: {}",
                    shown(url),
                    error_chain(&error.without_url())
                ))
            })?;
        Ok(Answer {
            status,
            json: serde_json::from_slice(&body).unwrap_or_default(),
        })
    }
}
