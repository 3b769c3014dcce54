//! How the tokens of a user's account are got: the authorization code grant (RFC 6749, section 4.1) with PKCE (RFC 7636) and
//! resource indicators (RFC 8707), as the protocol's chapter on authorization has it. A worker finds out where the user is
//! sent, and exchanges the code that the user brings back. Called by `connections::accounts`.
//!
//! Invariant: a code whose exchange succeeded but whose answer was lost is refused the second time; its user starts again.

use rejoin_integrations::mcp::accounts;
use rejoin_integrations::mcp::consents::{Addresses, Consent, Plan};
use reqwest::StatusCode;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, WWW_AUTHENTICATE};
use serde_json::json;
use tokio::time::timeout;
use tracing::debug;
use url::Url;

use super::client::{ANSWER_LIMIT, OAuthClient};
use super::registration::client_for;
use super::token_endpoint::{self, Authentication};
use super::{Grant, Refusal, discovery, shown};
use crate::http::error_chain;

/// The scope that asks for a refresh token (OpenID Connect Core, section 11).
const OFFLINE: &str = "offline_access";
/// Maximum number of requested scopes.
const MAX_SCOPES: usize = 100;

/// An MCP server with accounts of users.
pub(crate) struct Place<'a> {
    pub(crate) url: Url,
    /// Headers of each request.
    pub(crate) headers: HeaderMap,
    /// Its settings.
    pub(crate) settings: &'a Grant,
}

/// Finds out where a user is sent. `known`: the scopes that the user's account has, and those that it lacks. Returns the
/// secret of the client, too.
pub(crate) async fn plan(
    client: &OAuthClient,
    place: &Place<'_>,
    addresses: &Addresses,
    known: Vec<String>,
) -> Result<(Plan, Option<String>), Refusal> {
    let challenge = challenge_of(client, place).await?;
    let found = discovery::authorization_server(client, &place.url, challenge.as_deref()).await?;
    let registered = client_for(client, place.settings, &found, addresses).await?;
    let required = if place.settings.scopes.is_empty() {
        let required = found.scope.as_deref().unwrap_or_default();
        required.split_ascii_whitespace().map(str::to_owned).collect()
    } else {
        place.settings.scopes.clone()
    };
    let offline = found.has_offline_scope.then(|| OFFLINE.to_owned());
    let mut scopes: Vec<String> = Vec::new();
    for scope in required.into_iter().chain(known).chain(offline) {
        if !scopes.contains(&scope) && scopes.len() < MAX_SCOPES {
            scopes.push(scope);
        }
    }
    let plan = Plan {
        issuer: found.issuer,
        authorization_endpoint: found.authorization_endpoint.into(),
        token_endpoint: found.token_endpoint.into(),
        revocation_endpoint: found.revocation_endpoint.map(String::from),
        client_id: registered.client_id,
        secret_in_body: registered.secret_in_body,
        resource: found.resource,
        scopes,
        needs_issuer: found.names_issuer,
    };
    Ok((plan, registered.client_secret))
}

/// Returns the challenge with which the server answers a request without a token. None: it has none.
async fn challenge_of(client: &OAuthClient, place: &Place<'_>) -> Result<Option<String>, Refusal> {
    let url = &place.url;
    client
        .hosts
        .judge(url)
        .map_err(|words| Refusal::permanent(format!("the server {}: {words}", shown(url))))?;
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    let request = client
        .http
        .post(url.clone())
        .headers(place.headers.clone())
        .header(ACCEPT, "application/json, text/event-stream")
        .header(CONTENT_TYPE, "application/json")
        .body(ping.to_string());
    let answer = timeout(ANSWER_LIMIT, request.send()).await;
    let answer = answer
        .map_err(|_| {
            let seconds = ANSWER_LIMIT.as_secs();
            Refusal::transient(format!("the server {} did not respond within {seconds} s", shown(url)))
        })?
        .map_err(|error| {
            let error = error_chain(&error.without_url());
            Refusal::transient(format!("the request to the server {} failed: {error}", shown(url)))
        })?;
    if answer.status() != StatusCode::UNAUTHORIZED {
        return Ok(None);
    }
    let challenges = answer.headers().get_all(WWW_AUTHENTICATE).iter();
    let challenges: Vec<&str> = challenges.filter_map(|value| value.to_str().ok()).collect();
    Ok((!challenges.is_empty()).then(|| challenges.join(", ")))
}

/// Exchanges a user's code.
pub(crate) async fn exchange(
    client: &OAuthClient,
    consent: &Consent,
    plan: &Plan,
    client_secret: Option<String>,
    code: &str,
) -> Result<accounts::Issued, Refusal> {
    let url = parsed(&plan.token_endpoint)?;
    let by = Authentication {
        client_id: &plan.client_id,
        client_secret: client_secret.as_deref(),
        secret_in_body: plan.secret_in_body,
    };
    let fields = [
        ("grant_type", "authorization_code"),
        ("code", code),
        ("redirect_uri", consent.addresses.redirect_url.as_str()),
        ("code_verifier", consent.verifier.as_str()),
        ("resource", plan.resource.as_str()),
    ];
    let request = token_endpoint::request(client, &url, &by, &fields)?;
    let answer = client.send(request, &url, "the token endpoint").await?;
    if !answer.status.is_success() {
        return Err(client.refusal(&answer, "the token endpoint", &url));
    }
    let issued = token_endpoint::issued(&answer.json, &url)?;
    client.redactor.also(issued.access_token.clone());
    debug!(
        endpoint = shown(&url),
        "exchanged a user's code for a token of an MCP server"
    );
    Ok(accounts::Issued {
        fresh_s: issued.life.map(|life| life.as_secs_f64()),
        scopes: issued.scopes.unwrap_or_else(|| plan.scopes.clone()),
        tokens: accounts::Tokens {
            access_token: issued.access_token,
            refresh_token: issued.refresh_token,
            client_id: plan.client_id.clone(),
            client_secret,
            secret_in_body: plan.secret_in_body,
            token_endpoint: plan.token_endpoint.clone(),
            revocation_endpoint: plan.revocation_endpoint.clone(),
            resource: plan.resource.clone(),
        },
    })
}

/// Revokes the tokens of a disconnected account (RFC 7009): the refresh token, with which the others end, or the only one.
/// Without a revocation endpoint, they expire.
pub(crate) async fn revoke(client: &OAuthClient, tokens: &accounts::Tokens) -> Result<(), Refusal> {
    let Some(endpoint) = &tokens.revocation_endpoint else {
        return Ok(());
    };
    let url = parsed(endpoint)?;
    let by = Authentication {
        client_id: &tokens.client_id,
        client_secret: tokens.client_secret.as_deref(),
        secret_in_body: tokens.secret_in_body,
    };
    let (token, hint) = match &tokens.refresh_token {
        Some(token) => (token, "refresh_token"),
        None => (&tokens.access_token, "access_token"),
    };
    let fields = [("token", token.as_str()), ("token_type_hint", hint)];
    let request = token_endpoint::request(client, &url, &by, &fields)?;
    let answer = client.send(request, &url, "the revocation endpoint").await?;
    if answer.status.is_success() {
        Ok(())
    } else {
        Err(client.refusal(&answer, "the revocation endpoint", &url))
    }
}

fn parsed(endpoint: &str) -> Result<Url, Refusal> {
    Url::parse(endpoint)
        .map_err(|error| Refusal::permanent(format!("the endpoint of the authorization server: {error}")))
}
