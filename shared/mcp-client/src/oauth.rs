//! Access tokens for a connection to an MCP server, by either of two grants. Called by `authorized`, which puts them into
//! requests.
//!
//! - `client_tokens`  client credentials (RFC 6749, section 4.4): all runs act as one client
//! - `user_tokens`    a user's account: tokens that its user has consented to, renewed when they expire
//! - `consent`        how such tokens are got: where the user is sent, and what their code is exchanged for
//! - `registration`   the client that the authorization server knows
//! - `discovery`      discovers the authorization server
//! - `token_endpoint` requests to token endpoints, and their answers
//! - `client`         requests to URLs named by others
//!
//! rmcp has an OAuth client, too: its feature `auth` needs the crate `oauth2`, and renews tokens without regard to
//! other workers ([decision 0069](../../../docs/decisions/0069-accounts-at-mcp-servers.md)).
//!
//! Invariants: all addresses are checked; the redactor knows a token before anyone can use it; one task fetches, the
//! others wait.

mod client;
mod client_tokens;
pub(crate) mod consent;
mod discovery;
mod registration;
mod token_endpoint;
mod user_tokens;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use url::{Url, form_urlencoded};

pub(crate) use client::OAuthClient;
pub(crate) use client_tokens::Tokens;
pub use user_tokens::{AccountNeeded, UserTokens};

/// The OAuth settings of a server, with resolved secrets.
pub struct Grant {
    /// The client id at the authorization server. Empty: the client registers itself.
    pub client_id: String,
    /// The client secret. Empty: a public client.
    pub client_secret: String,
    /// Empty: those that the server requires.
    pub scopes: Vec<String>,
    /// None: discovered from the server.
    pub token_url: Option<String>,
}

/// Returns the client authentication by RFC 6749, section 2.3.1.
fn basic(id: &str, secret: &str) -> String {
    let encoded = |part: &str| form_urlencoded::byte_serialize(part.as_bytes()).collect::<String>();
    STANDARD.encode(format!("{}:{}", encoded(id), encoded(secret)))
}

impl Grant {
    /// Returns the encodings in which the secret is sent.
    pub fn hidden(&self) -> Vec<String> {
        if self.client_secret.is_empty() {
            return Vec::new();
        }
        let encoded = form_urlencoded::byte_serialize(self.client_secret.as_bytes()).collect();
        let basic = basic(&self.client_id, &self.client_secret);
        vec![self.client_secret.clone(), encoded, basic]
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

/// Where the tokens of a connection come from.
#[async_trait]
pub(crate) trait TokenSource: Send + Sync {
    /// Returns a token that can be used. None: none is known until the server rejects a request.
    async fn current(&self) -> Result<Option<String>, Refusal>;
    /// Returns a token other than `refused`, which the server has rejected with this challenge.
    async fn refreshed(&self, refused: Option<&str>, challenge: Option<&str>) -> Result<String, Refusal>;
    /// Returns the current token, however old.
    async fn last(&self) -> Option<String>;
    /// Returns the error for a request rejected with a new token, too.
    fn rejected(&self, challenge: Option<&str>) -> Refusal;
    /// Returns the error for a request rejected for insufficient scope.
    fn insufficient_scope(&self, scope: Option<&str>) -> Refusal;
    /// Redacts secrets in the server's text.
    fn redact(&self, text: String) -> String;
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
    use super::*;

    #[test]
    fn id_and_secret_are_encoded_before_they_are_joined() {
        assert_eq!(STANDARD.decode(basic("a:b", "c d%")).unwrap(), b"a%3Ab:c+d%25");
    }
}
