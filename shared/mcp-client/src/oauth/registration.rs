//! The client that an authorization server knows, in the order of the protocol's chapter on authorization: the one of the
//! settings, a client metadata document, or a client that is registered for this consent (RFC 7591). Called by `consent`.

use rejoin_integrations::mcp::consents::Addresses;
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use serde_json::{Value, json};
use url::Url;

use super::client::OAuthClient;
use super::discovery::AuthorizationServer;
use super::{Grant, Refusal, shown};

/// Maximum length of an id or secret that an authorization server assigns, in bytes.
const VALUE_MAX_BYTES: usize = 4 * 1024;

/// A client as an authorization server knows it.
pub(super) struct Registered {
    pub(super) client_id: String,
    /// None: a public client.
    pub(super) client_secret: Option<String>,
    pub(super) secret_in_body: bool,
}

impl Registered {
    fn public(client_id: String) -> Self {
        Self {
            client_id,
            client_secret: None,
            secret_in_body: false,
        }
    }
}

/// Returns the client. `settings`: of the server, with resolved secrets.
pub(super) async fn client_for(
    client: &OAuthClient,
    settings: &Grant,
    found: &AuthorizationServer,
    addresses: &Addresses,
) -> Result<Registered, Refusal> {
    if !settings.client_id.is_empty() {
        return of_settings(settings, found);
    }
    // The authorization server reads the document: it needs a public address.
    if found.reads_documents && found.takes_public && addresses.client_url.starts_with("https://") {
        return Ok(Registered::public(addresses.client_url.clone()));
    }
    match &found.registration_endpoint {
        Some(endpoint) => register(client, endpoint, found, addresses).await,
        None => Err(Refusal::permanent(format!(
            "the authorization server {} registers no clients by itself; register one there with the redirect URL {}, and \
            set it in oauth.clientId",
            found.issuer, addresses.redirect_url
        ))),
    }
}

fn of_settings(settings: &Grant, found: &AuthorizationServer) -> Result<Registered, Refusal> {
    if settings.client_secret.is_empty() {
        return Ok(Registered::public(settings.client_id.clone()));
    }
    let secret_in_body = found.secret_in_body.ok_or_else(|| {
        Refusal::permanent(format!(
            "the authorization server {} does not accept client secrets; remove oauth.clientSecret",
            found.issuer
        ))
    })?;
    Ok(Registered {
        client_id: settings.client_id.clone(),
        client_secret: Some(settings.client_secret.clone()),
        secret_in_body,
    })
}

/// Returns how a client that is registered authenticates itself.
fn method(found: &AuthorizationServer) -> Result<&'static str, Refusal> {
    match (found.takes_public, found.secret_in_body) {
        (true, _) => Ok("none"),
        (false, Some(false)) => Ok("client_secret_basic"),
        (false, Some(true)) => Ok("client_secret_post"),
        (false, None) => Err(Refusal::permanent(format!(
            "the authorization server {} accepts neither public clients nor client secrets",
            found.issuer
        ))),
    }
}

async fn register(
    client: &OAuthClient,
    endpoint: &Url,
    found: &AuthorizationServer,
    addresses: &Addresses,
) -> Result<Registered, Refusal> {
    const WHAT: &str = "the registration endpoint";
    client
        .may_receive_secrets(endpoint)
        .map_err(|words| Refusal::permanent(format!("{WHAT} {}: {words}", shown(endpoint))))?;
    let method = method(found)?;
    let mut document = document(&addresses.redirect_url);
    document["token_endpoint_auth_method"] = json!(method);
    let request = client
        .http
        .post(endpoint.clone())
        .header(ACCEPT, "application/json")
        .header(CONTENT_TYPE, "application/json")
        .body(document.to_string());
    let answer = client.send(request, endpoint, WHAT).await?;
    if !answer.status.is_success() {
        return Err(client.refusal(&answer, WHAT, endpoint));
    }
    let registered = registered(&answer.json, method)
        .ok_or_else(|| Refusal::permanent(format!("{WHAT} {} returned no valid client_id", shown(endpoint))))?;
    if let Some(secret) = &registered.client_secret {
        client.redactor.also(secret.clone());
    }
    Ok(registered)
}

/// Returns this client's metadata, without its authentication.
fn document(redirect_url: &str) -> Value {
    // A native application by RFC 8252 is one that users are sent back to on their own machine.
    let is_local = redirect_url.starts_with("http://");
    json!({
        "client_name": "Rejoin",
        "redirect_uris": [redirect_url],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "application_type": if is_local { "native" } else { "web" },
    })
}

/// Reads the answer of a registration; `asked`: the requested authentication, which the answer may change. None: it is
/// invalid.
fn registered(answer: &Value, asked: &str) -> Option<Registered> {
    let value = |name: &str| {
        let value = answer[name].as_str().filter(|value| !value.is_empty());
        value.filter(|value| value.len() <= VALUE_MAX_BYTES).map(str::to_owned)
    };
    let method = answer["token_endpoint_auth_method"].as_str().unwrap_or(asked);
    Some(Registered {
        client_id: value("client_id")?,
        client_secret: value("client_secret").filter(|_| method != "none"),
        secret_in_body: method == "client_secret_post",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registered_client_authenticates_as_it_was_registered() {
        let of = |answer: Value, asked: &str| {
            let client = registered(&answer, asked)?;
            Some((client.client_id, client.client_secret, client.secret_in_body))
        };
        let id = || "c1".to_owned();
        assert_eq!(of(json!({"client_id": "c1"}), "none"), Some((id(), None, false)));
        let secret =
            json!({"client_id": "c1", "client_secret": "s", "token_endpoint_auth_method": "client_secret_post"});
        assert_eq!(of(secret.clone(), "none"), Some((id(), Some("s".to_owned()), true)));
        let mut public = secret;
        public["token_endpoint_auth_method"] = json!("none");
        assert_eq!(of(public, "client_secret_basic"), Some((id(), None, false)));
        assert_eq!(of(json!({"client_secret": "s"}), "none"), None);
    }

    #[test]
    fn the_kind_of_application_follows_from_the_redirect_url() {
        assert_eq!(document("https://chat.example/mcp/connect")["application_type"], "web");
        assert_eq!(
            document("http://127.0.0.1:7420/mcp/connect")["application_type"],
            "native"
        );
    }
}
