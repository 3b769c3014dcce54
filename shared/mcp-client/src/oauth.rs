//! Access tokens for a connection to an MCP server, by the client credentials grant (RFC 6749, section 4.4). Called by
//! `authorized`, which puts them into requests.
//!
//! - `discovery`  discovers the authorization server
//! - `client`     requests to URLs named by others
//!
//! rmcp has an OAuth client, too: it is made for a user at a browser, and renews rejected tokens only by refresh
//! tokens, which this grant lacks.
//!
//! Invariants: all addresses are checked; the redactor knows a token before anyone can use it; one task fetches, the
//! others wait.

mod client;
mod discovery;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::RequestBuilder;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tracing::debug;
use url::{Url, form_urlencoded};

use crate::redact::Redactor;
use client::OAuthClient;
use discovery::Endpoint;
use rejoin_egress::ssrf_guard::Hosts;

/// Safety margin before a token's expiry, for the time that a request takes.
const EXPIRY_MARGIN: Duration = Duration::from_secs(30);
/// Maximum size of a token, in bytes: a longer one fits into no header.
const TOKEN_MAX_BYTES: usize = 16 * 1024;
/// Maximum lifetime of a token, after which it is fetched again; avoids overflows.
const MAX_LIFETIME: Duration = Duration::from_secs(30 * 24 * 3_600);

/// The OAuth settings of a server, with resolved secrets.
pub struct Grant {
    /// The client id at the authorization server.
    pub client_id: String,
    /// The client secret.
    pub client_secret: String,
    /// Empty: those that the server requires.
    pub scopes: Vec<String>,
    /// None: discovered from the server.
    pub token_url: Option<String>,
}

impl Grant {
    /// Returns the client authentication by RFC 6749, section 2.3.1.
    fn basic(&self) -> String {
        let encoded = |part: &str| form_urlencoded::byte_serialize(part.as_bytes()).collect::<String>();
        STANDARD.encode(format!("{}:{}", encoded(&self.client_id), encoded(&self.client_secret)))
    }

    /// Returns the encodings in which the secret is sent.
    pub fn hidden(&self) -> Vec<String> {
        let encoded = form_urlencoded::byte_serialize(self.client_secret.as_bytes()).collect();
        vec![self.client_secret.clone(), encoded, self.basic()]
    }
}

/// The reason why there is no token, or why it does not help, without any secret.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The message.
    pub words: String,
    /// Whether a retry would fail the same way.
    pub is_final: bool,
}

impl Refusal {
    fn permanent(words: impl Into<String>) -> Self {
        Self {
            words: words.into(),
            is_final: true,
        }
    }

    fn transient(words: impl Into<String>) -> Self {
        Self {
            words: words.into(),
            is_final: false,
        }
    }
}

/// The state of a connection's tokens.
#[derive(Default)]
struct TokenState {
    /// The discovered endpoint, if the settings name none.
    endpoint: Option<Endpoint>,
    token: Option<Token>,
}

struct Token {
    value: String,
    /// No longer used after this; none: until the server rejects it.
    until: Option<Instant>,
}

impl Token {
    fn is_fresh(&self) -> bool {
        self.until.is_none_or(|until| Instant::now() < until)
    }
}

/// The tokens of one connection.
pub(crate) struct Tokens {
    client: OAuthClient,
    grant: Grant,
    /// The server's URL.
    server: Url,
    held: Mutex<TokenState>,
    /// Whether the last rejection is permanent.
    is_permanently_refused: AtomicBool,
}

impl Tokens {
    pub(crate) fn new(http: reqwest::Client, hosts: Hosts, redactor: Redactor, grant: Grant, server: Url) -> Arc<Self> {
        Arc::new(Self {
            client: OAuthClient { http, hosts, redactor },
            grant,
            server,
            held: Mutex::default(),
            is_permanently_refused: AtomicBool::new(false),
        })
    }

    /// Returns a token, fetching a new one if the current one is about to expire. None: the endpoint is unknown until
    /// the server rejects a request.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) async fn current(&self) -> Result<Option<String>, Refusal> {
        let mut held = self.held.lock().await;
        if let Some(token) = held.token.as_ref().filter(|token| token.is_fresh()) {
            return Ok(Some(token.value.clone()));
        }
        if held.endpoint.is_some() || self.grant.token_url.is_some() {
            self.replace(&mut held, None).await.map(Some)
        } else {
            Ok(None)
        }
    }

    /// Returns a token other than `refused`, which the server has rejected with this challenge.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) async fn refreshed(&self, refused: Option<&str>, challenge: Option<&str>) -> Result<String, Refusal> {
        let mut held = self.held.lock().await;
        // Another request may have been rejected, too, and has fetched it.
        if let Some(token) = &held.token
            && token.is_fresh()
            && refused != Some(token.value.as_str())
        {
            return Ok(token.value.clone());
        }
        self.replace(&mut held, challenge).await
    }

    /// Returns the current token, however old.
    pub(crate) async fn last(&self) -> Option<String> {
        self.held.lock().await.token.as_ref().map(|token| token.value.clone())
    }

    /// Returns whether the last rejection is permanent.
    pub(crate) fn is_permanently_refused(&self) -> bool {
        self.is_permanently_refused.load(Ordering::Relaxed)
    }

    /// Returns the error for a request rejected with a new token, too.
    pub(crate) fn rejected(&self, challenge: Option<&str>) -> Refusal {
        let parameter = |name: &str| challenge.and_then(|challenge| discovery::parameter(challenge, name));
        let (error, description) = (parameter("error"), parameter("error_description"));
        self.noted(Refusal::permanent(format!(
            "{} responded with 401 Unauthorized to a new token{}",
            shown(&self.server),
            self.client.because(error.as_deref(), description.as_deref())
        )))
    }

    /// Returns the error for a request rejected for insufficient scope.
    pub(crate) fn insufficient_scope(&self, scope: Option<&str>) -> Refusal {
        let needed = match scope {
            Some(scope) => format!("it requires the scope {scope}; add it to oauth.scopes"),
            None => "add the required scopes to oauth.scopes".to_owned(),
        };
        self.noted(Refusal::permanent(format!(
            "{} responded with 403 Forbidden to the token; {needed}",
            shown(&self.server)
        )))
    }

    /// Redacts secrets in the server's text.
    pub(crate) fn redact(&self, text: String) -> String {
        self.client.redactor.text(text)
    }

    async fn replace(&self, held: &mut TokenState, challenge: Option<&str>) -> Result<String, Refusal> {
        let fetched = self.fetch(held, challenge).await;
        match fetched {
            Ok(token) => {
                self.is_permanently_refused.store(false, Ordering::Relaxed);
                let value = token.value.clone();
                held.token = Some(token);
                Ok(value)
            }
            Err(refusal) => {
                // The endpoint may have moved: it is discovered again.
                *held = TokenState::default();
                Err(self.noted(refusal))
            }
        }
    }

    fn noted(&self, refusal: Refusal) -> Refusal {
        self.is_permanently_refused.store(refusal.is_final, Ordering::Relaxed);
        Refusal {
            words: self.client.redactor.text(refusal.words),
            ..refusal
        }
    }

    async fn fetch(&self, held: &mut TokenState, challenge: Option<&str>) -> Result<Token, Refusal> {
        let endpoint = match (held.endpoint.take(), &self.grant.token_url) {
            (Some(endpoint), _) => endpoint.challenged(challenge),
            (None, Some(url)) => Endpoint::named(url, &self.server)?.challenged(challenge),
            (None, None) => discovery::find(&self.client, &self.server, challenge).await?,
        };
        let endpoint = held.endpoint.insert(endpoint);
        let url = &endpoint.url;
        self.client
            .may_receive_secrets(url)
            .map_err(|words| Refusal::permanent(format!("the token endpoint {}: {words}", shown(url))))?;
        let request = self.request(endpoint)?;
        let answer = self.client.send(request, url, "the token endpoint").await?;
        if !answer.status.is_success() {
            return Err(self.client.refusal(&answer, "the token endpoint", url));
        }
        let token = granted(&answer.json, url)?;
        self.client.redactor.also(token.value.clone());
        debug!(endpoint = shown(url), "fetched a token for an MCP server");
        Ok(token)
    }

    fn request(&self, endpoint: &Endpoint) -> Result<RequestBuilder, Refusal> {
        let request = self.client.http.post(endpoint.url.clone());
        let mut request = request
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.append_pair("grant_type", "client_credentials");
        let scopes = if self.grant.scopes.is_empty() {
            endpoint.scope.clone()
        } else {
            Some(self.grant.scopes.join(" "))
        };
        if let Some(scopes) = &scopes {
            form.append_pair("scope", scopes);
        }
        form.append_pair("resource", &endpoint.resource);
        if endpoint.secret_in_body {
            form.append_pair("client_id", &self.grant.client_id);
            form.append_pair("client_secret", &self.grant.client_secret);
        } else {
            let mut basic = HeaderValue::try_from(format!("Basic {}", self.grant.basic()))
                .map_err(|_| Refusal::permanent("the client's id or secret cannot be sent in a header"))?;
            basic.set_sensitive(true);
            request = request.header(AUTHORIZATION, basic);
        }
        Ok(request.body(form.finish()))
    }
}

/// Parses the token in an endpoint's response. Errors quote nothing of the response: it may be a token.
fn granted(answer: &Value, url: &Url) -> Result<Token, Refusal> {
    let wrong = |what: &str| Refusal::permanent(format!("the token endpoint {} {what}", shown(url)));
    let value = answer["access_token"].as_str().unwrap_or_default();
    if value.is_empty() {
        return Err(wrong("returned no access_token"));
    }
    if value.len() > TOKEN_MAX_BYTES || !value.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(wrong("returned a token that cannot be sent in a header"));
    }
    if !answer["token_type"]
        .as_str()
        .is_none_or(|kind| kind.eq_ignore_ascii_case("bearer"))
    {
        return Err(wrong("returned a token that is not a bearer token"));
    }
    // Some servers send the number as text.
    let seconds = match &answer["expires_in"] {
        Value::Number(seconds) => seconds.as_f64(),
        Value::String(seconds) => seconds.trim().parse().ok(),
        _ => None,
    };
    let life = seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds.max(0.0)).ok())
        .map(|life| life.min(MAX_LIFETIME));
    Ok(Token {
        value: value.to_owned(),
        // At least half of a short lifetime is used.
        until: life.map(|life| Instant::now() + life.saturating_sub(EXPIRY_MARGIN.min(life / 2))),
    })
}

/// Formats a URL without the parts that may contain secrets.
fn shown(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    url.to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_token_is_used_until_shortly_before_it_expires() {
        let url = Url::parse("https://login.example/token?tenant=a").unwrap();
        let until = |answer: Value| {
            granted(&answer, &url)
                .unwrap()
                .until
                .map(|until| until - Instant::now())
        };
        let token =
            |expires_in: Value| json!({"access_token": "abc", "token_type": "bearer", "expires_in": expires_in});
        assert_eq!(until(token(json!(3600))), Some(Duration::from_secs(3570)));
        assert_eq!(until(token(json!("3600"))), Some(Duration::from_secs(3570)));
        assert_eq!(until(token(json!(20))), Some(Duration::from_secs(10)));
        assert_eq!(until(token(json!(-5))), Some(Duration::ZERO));
        assert_eq!(until(token(json!(1e300))), None, "none that anybody will see");
        assert_eq!(until(token(Value::Null)), None);
    }

    #[test]
    fn what_is_no_bearer_token_is_refused_without_being_repeated() {
        let url = Url::parse("https://login.example/token?key=s3cret").unwrap();
        for answer in [
            json!({}),
            json!({"access_token": ""}),
            json!({"access_token": "two words"}),
            json!({"access_token": "s3cret", "token_type": "mac"}),
            json!("s3cret"),
        ] {
            let words = granted(&answer, &url).err().unwrap().words;
            assert!(
                words.starts_with("the token endpoint https://login.example/token returned")
                    && !words.contains("s3cret"),
                "{words}"
            );
        }
    }

    #[test]
    fn id_and_secret_are_encoded_before_they_are_joined() {
        let grant = Grant {
            client_id: "a:b".to_owned(),
            client_secret: "c d%".to_owned(),
            scopes: Vec::new(),
            token_url: None,
        };
        assert_eq!(STANDARD.decode(grant.basic()).unwrap(), b"a%3Ab:c+d%25");
    }
}
