//! The tokens of one connection by the client credentials grant (RFC 6749, section 4.4). In memory only.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use rejoin_egress::ssrf_guard::Hosts;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tracing::debug;
use url::Url;

use super::client::OAuthClient;
use super::discovery::{self, Endpoint};
use super::token_endpoint::{self, Authentication, Issued};
use super::{Grant, Refusal, TokenSource, shown};
use crate::redact::Redactor;

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

    /// Returns whether the last rejection is permanent.
    pub(crate) fn is_permanently_refused(&self) -> bool {
        self.is_permanently_refused.load(Ordering::Relaxed)
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
        let scopes = if self.grant.scopes.is_empty() {
            endpoint.scope.clone()
        } else {
            Some(self.grant.scopes.join(" "))
        };
        let mut fields = vec![("grant_type", "client_credentials")];
        if let Some(scopes) = &scopes {
            fields.push(("scope", scopes));
        }
        fields.push(("resource", &endpoint.resource));
        let by = Authentication {
            client_id: &self.grant.client_id,
            client_secret: Some(&self.grant.client_secret),
            secret_in_body: endpoint.secret_in_body,
        };
        let request = token_endpoint::request(&self.client, url, &by, &fields)?;
        let answer = self.client.send(request, url, "the token endpoint").await?;
        if !answer.status.is_success() {
            return Err(self.client.refusal(&answer, "the token endpoint", url));
        }
        let Issued { access_token, life, .. } = token_endpoint::issued(&answer.json, url)?;
        self.client.redactor.also(access_token.clone());
        debug!(endpoint = shown(url), "fetched a token for an MCP server");
        Ok(Token {
            value: access_token,
            until: life.map(|life| Instant::now() + life),
        })
    }
}

#[async_trait]
impl TokenSource for Tokens {
    async fn current(&self) -> Result<Option<String>, Refusal> {
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

    async fn refreshed(&self, refused: Option<&str>, challenge: Option<&str>) -> Result<String, Refusal> {
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

    async fn last(&self) -> Option<String> {
        self.held.lock().await.token.as_ref().map(|token| token.value.clone())
    }

    fn rejected(&self, challenge: Option<&str>) -> Refusal {
        let words = discovery::rejection(&self.client, &self.server, challenge);
        self.noted(Refusal::permanent(words))
    }

    fn insufficient_scope(&self, scope: Option<&str>) -> Refusal {
        let needed = match scope {
            Some(scope) => format!("it requires the scope {scope}; add it to oauth.scopes"),
            None => "add the required scopes to oauth.scopes".to_owned(),
        };
        self.noted(Refusal::permanent(format!(
            "{} responded with 403 Forbidden to the token; {needed}",
            shown(&self.server)
        )))
    }

    fn redact(&self, text: String) -> String {
        self.client.redactor.text(text)
    }
}
