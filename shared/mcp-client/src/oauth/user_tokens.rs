//! The tokens of one user's account at an MCP server, for one connection. They are in the database, where the consent of
//! the user has put them (`consent`), and are read for each request: an account that is disconnected is not used again.
//!
//! Invariants: one worker at a time renews tokens, in a task that a cancelled call does not end, since a refresh token
//! may count once; a refusal that only the user can mend is remembered ([`UserTokens::needed`]).

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use rejoin_integrations::mcp::Server;
use rejoin_integrations::mcp::accounts::{self, Account};
use rejoin_secrets::{MasterKeys, SecretError};
use sqlx::PgPool;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};
use tracing::{debug, info};
use url::Url;
use uuid::Uuid;

use super::client::OAuthClient;
use super::token_endpoint::{self, Authentication};
use super::{Refusal, TokenSource, discovery, shown};

/// How long a worker may take to renew tokens before another one does so, in seconds: longer than its request takes.
const RENEWAL_LEASE_S: f64 = 30.0;
/// How long another worker's renewal is waited for, and the interval of looking.
const RENEWAL_LIMIT: Duration = Duration::from_secs(40);
const RENEWAL_LOOK: Duration = Duration::from_millis(100);
/// Errors of a token endpoint after which the tokens are of no use (RFC 6749, section 5.2).
const USELESS_AFTER: [&str; 3] = ["invalid_grant", "invalid_client", "unauthorized_client"];

/// Why the user must connect an account first, or agree to more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct AccountNeeded {
    /// For the user, without any secret.
    pub why: String,
    /// When the user had agreed last, in microseconds since 1970. 0: never.
    pub seen: i64,
    /// The scopes that the server requires beyond those that were granted.
    pub scopes: Vec<String>,
}

impl AccountNeeded {
    /// The user has not connected an account.
    pub(crate) fn not_connected() -> Self {
        Self {
            why: "you have not connected an account yet".to_owned(),
            seen: 0,
            scopes: Vec::new(),
        }
    }
}

/// The tokens of a user's account. Cheap to clone.
#[derive(Clone)]
pub struct UserTokens(Arc<Inner>);

struct Inner {
    client: OAuthClient,
    db: PgPool,
    keys: Arc<MasterKeys>,
    server_id: Uuid,
    /// Of the server's settings.
    revision: i32,
    user_id: Uuid,
    /// The server's URL.
    server: Url,
    held: Mutex<Option<Held>>,
    needed: std::sync::Mutex<Option<AccountNeeded>>,
    /// [`AccountNeeded::seen`].
    seen: AtomicI64,
}

/// Decrypted tokens of a version of the account.
struct Held {
    id: Uuid,
    version: i64,
    tokens: accounts::Tokens,
}

impl UserTokens {
    pub(crate) fn new(
        client: OAuthClient,
        db: PgPool,
        keys: Arc<MasterKeys>,
        server: &Server,
        user_id: Uuid,
        url: Url,
    ) -> Self {
        Self(Arc::new(Inner {
            client,
            db,
            keys,
            server_id: server.id,
            revision: server.revision,
            user_id,
            server: url,
            held: Mutex::default(),
            needed: std::sync::Mutex::default(),
            seen: AtomicI64::new(0),
        }))
    }

    /// Returns why the user must connect an account, if a request was refused for that: with a challenge in our words
    /// (`authorized`).
    pub(crate) fn needed(&self, challenge: Option<&str>) -> Option<AccountNeeded> {
        let needed = self.0.needed.lock().unwrap_or_else(PoisonError::into_inner).clone();
        needed.filter(|needed| challenge == Some(needed.why.as_str()))
    }

    /// Notes that only the user can help.
    fn needs(&self, why: String, scopes: Vec<String>) -> Refusal {
        let why = self.0.client.redactor.text(why);
        let needed = AccountNeeded {
            why: why.clone(),
            seen: self.0.seen.load(Ordering::Relaxed),
            scopes,
        };
        *self.0.needed.lock().unwrap_or_else(PoisonError::into_inner) = Some(needed);
        Refusal::permanent(why)
    }

    async fn account(&self) -> Result<Account, Refusal> {
        let inner = &self.0;
        let found = accounts::find(&inner.db, inner.server_id, inner.revision, inner.user_id).await;
        let found = found.map_err(|error| Refusal::transient(format!("reading the user's account failed: {error}")))?;
        let seen = found.as_ref().map_or(0, |account| account.authorized);
        inner.seen.store(seen, Ordering::Relaxed);
        found.ok_or_else(|| self.needs(AccountNeeded::not_connected().why, Vec::new()))
    }

    /// Decrypts the tokens of an account, or takes those that are held.
    async fn opened(&self, account: &Account) -> Result<accounts::Tokens, Refusal> {
        let mut held = self.0.held.lock().await;
        if let Some(held) = held.as_ref()
            && (held.id, held.version) == (account.id, account.version)
        {
            return Ok(held.tokens.clone());
        }
        let opened = account.tokens(&self.0.keys);
        let tokens = opened.map_err(|error: SecretError| Refusal::permanent(error.to_string()))?;
        self.hide(&tokens);
        *held = Some(Held {
            id: account.id,
            version: account.version,
            tokens: tokens.clone(),
        });
        Ok(tokens)
    }

    fn hide(&self, tokens: &accounts::Tokens) {
        let secrets = [
            Some(&tokens.access_token),
            tokens.refresh_token.as_ref(),
            tokens.client_secret.as_ref(),
        ];
        for secret in secrets.into_iter().flatten() {
            self.0.client.redactor.also(secret.clone());
        }
    }

    /// Renews an account's tokens, and returns the access token. A caller that is cancelled does not stop it.
    async fn renew(&self, account: Account) -> Result<String, Refusal> {
        let this = self.clone();
        let renewing = tokio::spawn(async move { this.renewed(account).await });
        renewing
            .await
            .unwrap_or_else(|_| Err(Refusal::transient("renewing the user's token was interrupted")))
    }

    async fn renewed(&self, mut account: Account) -> Result<String, Refusal> {
        let database = |error: sqlx::Error| Refusal::transient(format!("renewing the user's token failed: {error}"));
        let (first, began) = (account.version, Instant::now());
        loop {
            let tokens = self.opened(&account).await?;
            let Some(refresh_token) = &tokens.refresh_token else {
                return Err(self.needs("the access that you have granted has expired".to_owned(), Vec::new()));
            };
            let begun = accounts::begin_renewal(&self.0.db, &account, RENEWAL_LEASE_S).await;
            if begun.map_err(database)? {
                return self.exchange(&account, &tokens, refresh_token).await;
            }
            if began.elapsed() > RENEWAL_LIMIT {
                return Err(Refusal::transient(
                    "another worker has not renewed the user's token in time",
                ));
            }
            sleep(RENEWAL_LOOK).await;
            account = self.account().await?;
            if account.version != first && account.is_fresh {
                return Ok(self.opened(&account).await?.access_token);
            }
        }
    }

    /// Exchanges a refresh token. The renewal was begun.
    async fn exchange(
        &self,
        account: &Account,
        tokens: &accounts::Tokens,
        refresh_token: &str,
    ) -> Result<String, Refusal> {
        let inner = &self.0;
        let (url, answer) = match self.ask(tokens, refresh_token).await {
            Ok(answered) => answered,
            Err(refusal) => return Err(self.given_back(account, refusal).await),
        };
        if !answer.status.is_success() {
            let refusal = inner.client.refusal(&answer, "the token endpoint", &url);
            let error = answer.json["error"].as_str().unwrap_or_default();
            if !USELESS_AFTER.contains(&error) {
                return Err(self.given_back(account, refusal).await);
            }
            if let Err(error) = accounts::remove(&inner.db, account).await {
                return Err(Refusal::transient(format!(
                    "removing the user's account failed: {error}"
                )));
            }
            info!(server = %inner.server_id, user = %inner.user_id, "an account at an MCP server is no longer valid");
            let why = format!("the access that you have granted has ended: {}", refusal.words);
            return Err(self.needs(why, Vec::new()));
        }
        let issued = match token_endpoint::issued(&answer.json, &url) {
            Ok(issued) => issued,
            Err(refusal) => return Err(self.given_back(account, refusal).await),
        };
        let issued = accounts::Issued {
            fresh_s: issued.life.map(|life| life.as_secs_f64()),
            scopes: issued.scopes.unwrap_or_else(|| account.scopes.clone()),
            tokens: accounts::Tokens {
                access_token: issued.access_token,
                // Without another one, this one stays valid.
                refresh_token: issued.refresh_token.or_else(|| tokens.refresh_token.clone()),
                ..tokens.clone()
            },
        };
        self.hide(&issued.tokens);
        let stored = accounts::renewed(&inner.db, &inner.keys, account, &issued).await;
        match stored {
            Ok(true) => {
                debug!(endpoint = shown(&url), "renewed a user's token for an MCP server");
                Ok(issued.tokens.access_token)
            }
            // Disconnected meanwhile, or connected again.
            Ok(false) => Err(Refusal::transient("the user's account has changed meanwhile")),
            Err(error) => Err(Refusal::transient(format!("storing the user's token failed: {error}"))),
        }
    }

    /// Gives a renewal back that has failed for now.
    async fn given_back(&self, account: &Account, refusal: Refusal) -> Refusal {
        // If this fails, the lease expires.
        if let Err(error) = accounts::end_renewal(&self.0.db, account).await {
            debug!(%error, "giving back the renewal of a token failed");
        }
        Refusal {
            words: self.0.client.redactor.text(refusal.words),
            ..refusal
        }
    }

    async fn ask(
        &self,
        tokens: &accounts::Tokens,
        refresh_token: &str,
    ) -> Result<(Url, super::client::Answer), Refusal> {
        let client = &self.0.client;
        let url = Url::parse(&tokens.token_endpoint)
            .map_err(|error| Refusal::permanent(format!("the token endpoint of the user's account: {error}")))?;
        let by = Authentication {
            client_id: &tokens.client_id,
            client_secret: tokens.client_secret.as_deref(),
            secret_in_body: tokens.secret_in_body,
        };
        let fields = [
            ("grant_type", "refresh_token"),
            ("refresh_token", refresh_token),
            ("resource", tokens.resource.as_str()),
        ];
        let request = token_endpoint::request(client, &url, &by, &fields)?;
        let answer = client.send(request, &url, "the token endpoint").await?;
        Ok((url, answer))
    }
}

#[async_trait]
impl TokenSource for UserTokens {
    async fn current(&self) -> Result<Option<String>, Refusal> {
        let account = self.account().await?;
        if account.is_fresh {
            return Ok(Some(self.opened(&account).await?.access_token));
        }
        self.renew(account).await.map(Some)
    }

    async fn refreshed(&self, refused: Option<&str>, _challenge: Option<&str>) -> Result<String, Refusal> {
        let account = self.account().await?;
        let tokens = self.opened(&account).await?;
        // Another request may have been rejected, too, and has renewed it.
        if account.is_fresh && refused != Some(tokens.access_token.as_str()) {
            return Ok(tokens.access_token);
        }
        self.renew(account).await
    }

    async fn last(&self) -> Option<String> {
        let held = self.0.held.lock().await;
        held.as_ref().map(|held| held.tokens.access_token.clone())
    }

    fn rejected(&self, challenge: Option<&str>) -> Refusal {
        let words = discovery::rejection(&self.0.client, &self.0.server, challenge);
        self.needs(words, Vec::new())
    }

    fn insufficient_scope(&self, scope: Option<&str>) -> Refusal {
        let server = shown(&self.0.server);
        match scope {
            Some(scope) => {
                let scopes = scope.split_ascii_whitespace().map(str::to_owned).collect();
                self.needs(format!("{server} requires more of you: the scope {scope}"), scopes)
            }
            None => Refusal::permanent(format!(
                "{server} responded with 403 Forbidden to the user's token, and names no scope that it requires"
            )),
        }
    }

    fn redact(&self, text: String) -> String {
        self.0.client.redactor.text(text)
    }
}
