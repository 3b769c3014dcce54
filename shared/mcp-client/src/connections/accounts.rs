//! Users' accounts at servers: the jobs that connect and disconnect them, and what a call asks that has none.
//!
//! Invariant: a user's tokens go to the server with the settings that the user has agreed to, and to the authorization
//! server that has issued them.

use rejoin_event_log::wakeup::Wake;
use rejoin_integrations::mcp::accounts;
use rejoin_integrations::mcp::consents::{self, Consent, Plan};
use rejoin_integrations::mcp::{self, Server};
use rejoin_secrets::{MasterKeys, SecretError};
use rejoin_tools::ToolError;
use rejoin_tools::input::{Connects, InputGiven};
use rejoin_types::text;
use serde_json::{Map, Value};
use tracing::{info, warn};
use url::Url;
use uuid::Uuid;

use super::Connections;
use crate::http::headers;
use crate::input;
use crate::oauth::consent::{self, Place};
use crate::oauth::{AccountNeeded, OAuthClient, UserTokens};
use crate::redact::Redactor;
use crate::secrets::{self, ResolvedSettings};
use crate::transport::OpenError;

/// Number of attempts to revoke tokens. Afterwards they expire.
const REVOKE_TRIES: usize = 3;
/// The page on which a user connects an account; `server` follows.
const PAGE: &str = "/mcp/connect?server=";
const NO_KEY: &str =
    "accounts of users are stored encrypted, but this worker has no master key (REJOIN_SECRET_KEYS_FILE)";

/// What a job about a consent reports to the user. Err: a failure of the database, after which the job is tried again.
type Done<T> = Result<Result<T, String>, sqlx::Error>;

/// Passes on a failure of the database, and makes any other one a text.
fn in_words<T>(result: Result<T, SecretError>) -> Done<T> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(SecretError::Database(error)) => Err(error),
        Err(error) => Ok(Err(error.to_string())),
    }
}

impl Connections {
    /// Returns when the user has agreed to the use of their account. 0: no account of a user is used.
    pub(super) async fn account(&self, server: &Server, user_id: Option<Uuid>) -> Result<i64, OpenError> {
        let Some(user_id) = user_id.filter(|_| server.settings.is_per_user()) else {
            return Ok(0);
        };
        let found = accounts::find(&self.db, server.id, server.revision, user_id).await;
        let found = found.map_err(|error| OpenError::Again(format!("reading the user's account failed: {error}")))?;
        let account = found.ok_or_else(|| OpenError::Account(AccountNeeded::not_connected()))?;
        Ok(account.authorized)
    }

    /// Adds the tokens of the user for whom a connection is.
    pub(super) fn for_user(
        &self,
        server: &Server,
        user_id: Option<Uuid>,
        filled: ResolvedSettings,
    ) -> Result<ResolvedSettings, String> {
        let Some(user_id) = user_id.filter(|_| server.settings.is_per_user()) else {
            return Ok(filled);
        };
        let keys = self.keys.clone().ok_or(NO_KEY)?;
        let url = url_of(&filled)?;
        let client = self.oauth(filled.redactor.clone());
        let user = UserTokens::new(client, self.db.clone(), keys, server, user_id, url);
        Ok(ResolvedSettings {
            user: Some(user),
            ..filled
        })
    }

    fn oauth(&self, redactor: Redactor) -> OAuthClient {
        OAuthClient {
            http: self.deps.http.clone(),
            hosts: self.deps.hosts.clone(),
            redactor,
        }
    }

    /// Returns what a call asks its user that needs an account first, or more rights of it. `given`: what the call was
    /// given before.
    pub(super) async fn ask(
        &self,
        server: &Server,
        user_id: Option<Uuid>,
        needed: AccountNeeded,
        arguments: Map<String, Value>,
        given: Option<&InputGiven>,
    ) -> ToolError {
        let name = &server.settings.name;
        if let Some(user_id) = user_id.filter(|_| !needed.scopes.is_empty()) {
            let internal = |source: sqlx::Error| ToolError::Internal {
                attempted: format!("reading the user's account at {name}"),
                source: source.into(),
            };
            let account = match accounts::find(&self.db, server.id, server.revision, user_id).await {
                Ok(account) => account,
                Err(error) => return internal(error),
            };
            if let Some(account) = account {
                // The user was asked for them, and the authorization server has not granted them.
                if needed
                    .scopes
                    .iter()
                    .all(|scope| account.requested_scopes.contains(scope))
                {
                    return ToolError::RespondToModel(format!(
                        "the user's account at {name} may not do this: it needs the scopes {}, which were not granted",
                        needed.scopes.join(", ")
                    ));
                }
                if let Err(error) = accounts::lacks(&self.db, account.id, &needed.scopes).await {
                    return internal(error);
                }
            }
        }
        let origin = self.limits.origin.as_deref().unwrap_or_default();
        let link = format!("{origin}{PAGE}{}", server.id);
        let message = format!(
            "connect your account there, so that its tools can act for you ({}). Open {link}\n\nThe call goes on by itself \
            when you have agreed.",
            needed.why
        );
        let connects = Connects {
            server_id: server.id,
            seen: needed.seen,
        };
        ToolError::NeedsInput(Box::new(input::account(name, arguments, given, message, connects)))
    }

    /// Finds out where the user of a consent is sent.
    ///
    /// # Errors
    /// The database's; other failures are recorded with the consent.
    pub async fn plan_consent(&self, id: Uuid) -> Result<(), sqlx::Error> {
        let Some(consent) = consents::get(&self.db, id).await? else {
            return Ok(());
        };
        if consent.plan.is_none()
            && let Err(failure) = self.try_plan(&consent).await?
        {
            self.fail(&consent, failure).await?;
        }
        self.bus.publish(Wake::tools(consent.owner.workspace_id));
        Ok(())
    }

    async fn try_plan(&self, consent: &Consent) -> Done<()> {
        let (_, filled) = match self.agreed(consent).await? {
            Ok(agreed) => agreed,
            Err(failure) => return Ok(Err(failure)),
        };
        let Some(keys) = self.keys.as_deref() else {
            return Ok(Err(NO_KEY.to_owned()));
        };
        let client = self.oauth(filled.redactor.clone());
        let known =
            accounts::known_scopes(&self.db, consent.server_id, consent.revision, consent.owner.user_id).await?;
        let place = match place(&filled) {
            Ok(place) => place,
            Err(failure) => return Ok(Err(failure)),
        };
        let (plan, secret) = match consent::plan(&client, &place, &consent.addresses, known).await {
            Ok(planned) => planned,
            Err(refusal) => return Ok(Err(client.redactor.text(refusal.words))),
        };
        in_words(consents::planned(&self.db, keys, consent, &plan, secret.as_deref()).await)
    }

    /// Exchanges the code of a consent, and lists the tools of a server that was never listed.
    ///
    /// # Errors
    /// The database's; other failures are recorded with the consent.
    pub async fn exchange_code(&self, id: Uuid) -> Result<(), sqlx::Error> {
        let Some(consent) = consents::get(&self.db, id).await? else {
            return Ok(());
        };
        let (Some(plan), Some(code)) = (&consent.plan, &consent.code) else {
            return Ok(());
        };
        let user_id = consent.owner.user_id;
        match self.try_exchange(&consent, plan, code).await? {
            Ok(server) => {
                info!(server = server.settings.name, user = %user_id, "a user has connected an account at an MCP server");
                self.bus.publish(Wake::tools(consent.owner.workspace_id));
                if server.seen_at.is_none()
                    && let Err(error) = self.test(&server, Some(user_id)).await
                {
                    // Recorded with the server, too.
                    info!(
                        server = server.settings.name,
                        error, "listing an MCP server's tools failed"
                    );
                }
            }
            Err(failure) => self.fail(&consent, failure).await?,
        }
        self.bus.publish(Wake::tools(consent.owner.workspace_id));
        Ok(())
    }

    async fn try_exchange(&self, consent: &Consent, plan: &Plan, code: &str) -> Done<Server> {
        let (server, filled) = match self.agreed(consent).await? {
            Ok(agreed) => agreed,
            Err(failure) => return Ok(Err(failure)),
        };
        let Some(keys) = self.keys.as_deref() else {
            return Ok(Err(NO_KEY.to_owned()));
        };
        let secret = match in_words(secret_of(consent, &filled, keys))? {
            Ok(secret) => secret,
            Err(failure) => return Ok(Err(failure)),
        };
        let client = self.oauth(filled.redactor.clone());
        client.redactor.also(code.to_owned());
        if let Some(secret) = &secret {
            client.redactor.also(secret.clone());
        }
        let issued = match consent::exchange(&client, consent, plan, secret, code).await {
            Ok(issued) => issued,
            Err(refusal) => return Ok(Err(client.redactor.text(refusal.words))),
        };
        let mut tx = rejoin_db::begin(&self.db).await?;
        if let Err(failure) = in_words(accounts::connect(&mut tx, keys, consent, plan, &issued).await)? {
            return Ok(Err(failure));
        }
        consents::done(&mut tx, consent.id).await?;
        tx.commit().await?;
        Ok(Ok(server))
    }

    /// Returns the server of a consent with its settings. Err: they have changed since it began.
    async fn agreed(&self, consent: &Consent) -> Done<(Server, ResolvedSettings)> {
        let server = mcp::get(&self.db, consent.owner.workspace_id, consent.server_id).await?;
        let server = server.filter(|server| server.revision == consent.revision && server.settings.is_per_user());
        let Some(server) = server else {
            return Ok(Err(
                "the settings of the MCP server have changed meanwhile; start again".to_owned(),
            ));
        };
        let filled = secrets::fill(&self.db, self.keys.as_deref(), &server).await;
        Ok(filled.map(|filled| (server, filled)))
    }

    async fn fail(&self, consent: &Consent, failure: String) -> Result<(), sqlx::Error> {
        info!(server = %consent.server_id, failure, "connecting an account at an MCP server failed");
        // A server's text may contain characters that the database can't store.
        consents::fail(&self.db, consent.id, &text::plain(failure)).await
    }

    /// Revokes the tokens of a disconnected account, and removes it.
    ///
    /// # Errors
    /// The database's. If the authorization server does not revoke them, that is logged, and they expire.
    pub async fn revoke_account(&self, id: Uuid) -> Result<(), sqlx::Error> {
        let Some(account) = accounts::disconnected(&self.db, id).await? else {
            return Ok(());
        };
        let tokens = self.keys.as_deref().map(|keys| account.tokens(keys));
        match tokens {
            Some(Ok(tokens)) => {
                let hidden = [
                    Some(tokens.access_token.clone()),
                    tokens.refresh_token.clone(),
                    tokens.client_secret.clone(),
                ];
                let client = self.oauth(Redactor::new(hidden.into_iter().flatten()));
                for attempt in 1..=REVOKE_TRIES {
                    let Err(refusal) = consent::revoke(&client, &tokens).await else {
                        break;
                    };
                    if refusal.is_final || attempt == REVOKE_TRIES {
                        let error = client.redactor.text(refusal.words);
                        warn!(account = %id, error, "revoking the tokens of an account at an MCP server failed; they expire");
                        break;
                    }
                }
            }
            Some(Err(error)) => {
                warn!(account = %id, %error, "the tokens of an account cannot be read, and are not revoked")
            }
            None => warn!(account = %id, "the tokens of an account are not revoked: this worker has no master key"),
        }
        accounts::remove(&self.db, &account).await
    }
}

/// Returns the secret of the client that a user has agreed to: of the settings, or of the client that was registered.
fn secret_of(consent: &Consent, filled: &ResolvedSettings, keys: &MasterKeys) -> Result<Option<String>, SecretError> {
    match &filled.registered {
        Some(grant) if !grant.client_id.is_empty() => {
            Ok(Some(grant.client_secret.clone()).filter(|secret| !secret.is_empty()))
        }
        Some(_) | None => consent.client_secret(keys),
    }
}

fn url_of(filled: &ResolvedSettings) -> Result<Url, String> {
    Url::parse(filled.url.as_deref().unwrap_or_default()).map_err(|error| format!("its URL is invalid: {error}"))
}

fn place(filled: &ResolvedSettings) -> Result<Place<'_>, String> {
    let headers = headers(filled.headers.clone())?;
    Ok(Place {
        url: url_of(filled)?,
        headers: headers.into_iter().collect(),
        settings: filled
            .registered
            .as_ref()
            .ok_or("the server has no accounts of users")?,
    })
}
