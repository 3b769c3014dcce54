//! Discovers the authorization server of an MCP server, as the protocol's chapter on authorization specifies: the
//! server names its protected resource metadata (RFC 9728), which names the authorization server, whose metadata (RFC
//! 8414, or OpenID Connect) name its endpoints. Called by `client_tokens` and `consent`.
//!
//! Invariant: metadata are used only if they describe the requested server or issuer.

use serde_json::Value;
use url::Url;

use super::client::OAuthClient;
use super::{Refusal, shown};

/// Maximum number of listed scopes; a longer list is ignored.
const MAX_SCOPES: usize = 50;

/// A token endpoint, with the token's parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub(super) url: Url,
    /// The scope that the server requires.
    pub(super) scope: Option<String>,
    /// The resource of the token (RFC 8707).
    pub(super) resource: String,
    /// Whether the endpoint accepts id and secret as form fields only.
    pub(super) secret_in_body: bool,
}

impl Endpoint {
    /// Returns the endpoint named by the settings.
    pub(super) fn named(url: &str, server: &Url) -> Result<Self, Refusal> {
        let url = Url::parse(url).map_err(|error| Refusal::permanent(format!("oauth.tokenUrl: {error}")))?;
        Ok(Self {
            url,
            scope: None,
            resource: resource_of(server),
            secret_in_body: false,
        })
    }

    /// Sets the scope that the server requires now.
    pub(super) fn challenged(self, challenge: Option<&str>) -> Self {
        let scope = challenge.and_then(|challenge| parameter(challenge, "scope"));
        Self {
            scope: scope.or(self.scope),
            ..self
        }
    }
}

/// What a server and its authorization server publish.
struct Published {
    /// The resource metadata; null: none.
    resource: Value,
    issuer: String,
    /// The issuer's metadata.
    metadata: Value,
}

impl Published {
    async fn find(client: &OAuthClient, server: &Url, challenge: Option<&str>) -> Result<Self, Refusal> {
        let resource = resource_metadata(client, server, challenge).await?;
        let named = resource["authorization_servers"][0].as_str();
        // Servers of the protocol's version of March 2025 publish no resource metadata, and are their own authorization
        // servers.
        let issuer = named.map_or_else(|| server.origin().ascii_serialization(), str::to_owned);
        let metadata = issuer_metadata(client, server, &issuer).await?;
        Ok(Self {
            resource,
            issuer,
            metadata,
        })
    }

    /// Returns a required endpoint, such as `token_endpoint`.
    fn endpoint(&self, name: &str) -> Result<Url, Refusal> {
        let url = self.metadata[name].as_str().unwrap_or_default();
        let what = name.replace('_', " ");
        Url::parse(url).map_err(|error| Refusal::permanent(format!("the {what} given by {}: {error}", self.issuer)))
    }

    /// Returns the resource of tokens.
    fn resource(&self, server: &Url) -> String {
        match self.resource["resource"].as_str() {
            Some(resource) => resource.to_owned(),
            None => resource_of(server),
        }
    }

    /// Returns the scopes that the server supports. None: it lists none, or too many.
    fn scopes(&self) -> Option<String> {
        let scopes: Vec<&str> = listed(&self.resource["scopes_supported"]).collect();
        (1..=MAX_SCOPES).contains(&scopes.len()).then(|| scopes.join(" "))
    }

    /// Returns how the token endpoint takes client secrets: whether as form fields only. None: not at all.
    fn secret_in_body(&self) -> Option<bool> {
        let methods = &self.metadata["token_endpoint_auth_methods_supported"];
        let takes = |method: &str| listed(methods).any(|one| one == method);
        // Basic authentication is the default of RFC 8414.
        if methods.is_null() || takes("client_secret_basic") {
            Some(false)
        } else {
            takes("client_secret_post").then_some(true)
        }
    }

    fn lists(&self, name: &str, value: &str) -> bool {
        listed(&self.metadata[name]).any(|one| one == value)
    }
}

/// Discovers the endpoint.
pub(super) async fn find(client: &OAuthClient, server: &Url, challenge: Option<&str>) -> Result<Endpoint, Refusal> {
    let published = Published::find(client, server, challenge).await?;
    let url = published.endpoint("token_endpoint")?;
    let secret_in_body = published.secret_in_body().ok_or_else(|| {
        let methods = &published.metadata["token_endpoint_auth_methods_supported"];
        Refusal::permanent(format!(
            "the token endpoint {} does not accept client secrets, only: {}",
            shown(&url),
            listed(methods).collect::<Vec<_>>().join(", ")
        ))
    })?;
    let endpoint = Endpoint {
        url,
        scope: published.scopes(),
        resource: published.resource(server),
        secret_in_body,
    };
    Ok(endpoint.challenged(challenge))
}

/// An authorization server that users can be sent to.
#[derive(Debug)]
pub(super) struct AuthorizationServer {
    pub(super) issuer: String,
    pub(super) authorization_endpoint: Url,
    pub(super) token_endpoint: Url,
    pub(super) revocation_endpoint: Option<Url>,
    pub(super) registration_endpoint: Option<Url>,
    /// Whether it reads client metadata documents.
    pub(super) reads_documents: bool,
    /// Whether it takes clients without a secret.
    pub(super) takes_public: bool,
    /// How it takes secrets: whether as form fields only. None: not at all.
    pub(super) secret_in_body: Option<bool>,
    /// Whether its answers name it (RFC 9207).
    pub(super) names_issuer: bool,
    /// Whether a refresh token has to be asked for by the scope `offline_access`.
    pub(super) has_offline_scope: bool,
    /// The resource of the tokens (RFC 8707).
    pub(super) resource: String,
    /// The scopes that the MCP server requires, or supports.
    pub(super) scope: Option<String>,
}

/// Discovers where users of an MCP server are sent.
pub(super) async fn authorization_server(
    client: &OAuthClient,
    server: &Url,
    challenge: Option<&str>,
) -> Result<AuthorizationServer, Refusal> {
    let published = Published::find(client, server, challenge).await?;
    let issuer = &published.issuer;
    let refused = |what: String| Refusal::permanent(format!("the authorization server {issuer} {what}"));
    // A server that does not publish it may ignore the challenge: codes could be stolen.
    if !published.lists("code_challenge_methods_supported", "S256") {
        return Err(refused(
            "does not support PKCE by the method S256 (code_challenge_methods_supported)".to_owned(),
        ));
    }
    let grants = &published.metadata["grant_types_supported"];
    if !grants.is_null() && !published.lists("grant_types_supported", "authorization_code") {
        return Err(refused("does not support the grant authorization_code".to_owned()));
    }
    let authorization_endpoint = published.endpoint("authorization_endpoint")?;
    // The user's browser goes there.
    client.may_lead_users(&authorization_endpoint).map_err(|words| {
        refused(format!(
            "names an authorization endpoint to which no user is sent: {words}"
        ))
    })?;
    let token_endpoint = published.endpoint("token_endpoint")?;
    let optional = |name: &str| published.metadata[name].as_str().and_then(|url| Url::parse(url).ok());
    let scope = challenge.and_then(|challenge| parameter(challenge, "scope"));
    Ok(AuthorizationServer {
        authorization_endpoint,
        token_endpoint,
        revocation_endpoint: optional("revocation_endpoint"),
        registration_endpoint: optional("registration_endpoint"),
        reads_documents: published.metadata["client_id_metadata_document_supported"] == true,
        takes_public: published.lists("token_endpoint_auth_methods_supported", "none"),
        secret_in_body: published.secret_in_body(),
        names_issuer: published.metadata["authorization_response_iss_parameter_supported"] == true,
        has_offline_scope: published.lists("scopes_supported", "offline_access"),
        resource: published.resource(server),
        scope: scope.or_else(|| published.scopes()),
        issuer: published.issuer,
    })
}

/// Returns the error of a request that an MCP server has rejected with a new token.
pub(super) fn rejection(client: &OAuthClient, server: &Url, challenge: Option<&str>) -> String {
    let parameter = |name: &str| challenge.and_then(|challenge| parameter(challenge, name));
    let (error, description) = (parameter("error"), parameter("error_description"));
    format!(
        "{} responded with 401 Unauthorized to a new token{}",
        shown(server),
        client.because(error.as_deref(), description.as_deref())
    )
}

/// Returns the server's resource metadata; null: none.
async fn resource_metadata(client: &OAuthClient, server: &Url, challenge: Option<&str>) -> Result<Value, Refusal> {
    const WHAT: &str = "the protected resource metadata";
    let named = challenge.and_then(|challenge| parameter(challenge, "resource_metadata"));
    let (places, must_be_there) = match named {
        Some(url) => {
            let url =
                Url::parse(&url).map_err(|error| Refusal::permanent(format!("{WHAT} given by the server: {error}")))?;
            (vec![url], true)
        }
        None => (well_known(server, "oauth-protected-resource"), false),
    };
    for url in places {
        let answer = client.get(&url, WHAT).await?;
        if answer.status.is_success() && answer.json.is_object() {
            let about = &answer.json["resource"];
            return if about.as_str().is_none_or(|about| is_about(about, server)) {
                Ok(answer.json)
            } else {
                Err(Refusal::permanent(format!(
                    "{WHAT} {} is for another server: {about}",
                    shown(&url)
                )))
            };
        }
        if must_be_there || answer.status.is_server_error() {
            return Err(client.refusal(&answer, WHAT, &url));
        }
    }
    Ok(Value::Null)
}

/// Returns the issuer's metadata.
async fn issuer_metadata(client: &OAuthClient, server: &Url, issuer: &str) -> Result<Value, Refusal> {
    const WHAT: &str = "the authorization server's metadata";
    let base = Url::parse(issuer)
        .map_err(|error| Refusal::permanent(format!("the authorization server {issuer:?}: {error}")))?;
    client
        .may_receive_secrets(&base)
        .map_err(|words| Refusal::permanent(format!("the authorization server {}: {words}", shown(&base))))?;
    let mut places = well_known(&base, "oauth-authorization-server");
    let mut openid = well_known(&base, "openid-configuration");
    if base.path() != "/" {
        // If the issuer has a path, the root belongs to others; OpenID Connect puts its document after the path.
        places.truncate(1);
        openid.truncate(1);
        let mut behind = base.clone();
        behind.set_query(None);
        behind.set_path(&format!(
            "{}/.well-known/openid-configuration",
            base.path().trim_end_matches('/')
        ));
        openid.push(behind);
    }
    places.append(&mut openid);
    let mut tried = Vec::new();
    for url in places {
        let answer = client.get(&url, WHAT).await?;
        if answer.status.is_success() && answer.json["token_endpoint"].is_string() {
            let says = answer.json["issuer"].as_str().unwrap_or_default();
            return if says.trim_end_matches('/') == issuer.trim_end_matches('/') {
                Ok(answer.json)
            } else {
                Err(Refusal::permanent(format!(
                    "{WHAT} {} is for another issuer than {issuer}: {says:?}",
                    shown(&url)
                )))
            };
        }
        if answer.status.is_server_error() {
            return Err(client.refusal(&answer, WHAT, &url));
        }
        tried.push(format!("{} responded with {}", shown(&url), answer.status));
    }
    Err(Refusal::permanent(format!(
        "no token endpoint found for {}: {}; set it in oauth.tokenUrl",
        shown(server),
        tried.join(", ")
    )))
}

/// Returns the locations of documents about a URL: for its path, and for the whole host.
fn well_known(of: &Url, document: &str) -> Vec<Url> {
    let at = |path: &str| {
        let mut url = of.clone();
        url.set_query(None);
        url.set_fragment(None);
        url.set_path(&format!("/.well-known/{document}{}", path.trim_end_matches('/')));
        url
    };
    match of.path() {
        "/" => vec![at("")],
        path => vec![at(path), at("")],
    }
}

/// Returns whether metadata of this resource describe the server: same origin, and its path or one above.
fn is_about(resource: &str, server: &Url) -> bool {
    let Ok(resource) = Url::parse(resource) else {
        return false;
    };
    let above = resource.path().trim_end_matches('/');
    let rest = server.path().strip_prefix(above);
    resource.origin() == server.origin() && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns the server as a token's resource, without its query, which is private.
fn resource_of(server: &Url) -> String {
    let shown = shown(server);
    match server.path() {
        "/" => shown.trim_end_matches('/').to_owned(),
        _ => shown,
    }
}

fn listed(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// Returns a parameter of a challenge, such as `Bearer resource_metadata="https://…", scope="a b"` (RFC 9110, section
/// 11.2).
pub(super) fn parameter(challenge: &str, name: &str) -> Option<String> {
    let mut rest = challenge;
    while let Some((before, after)) = rest.split_once('=') {
        let key = before.trim_end().rsplit([' ', '\t', ',']).next().unwrap_or_default();
        let after = after.trim_start();
        let (value, behind) = match after.strip_prefix('"') {
            Some(quoted) => unquoted(quoted),
            None => {
                let end = after.find([',', ' ', '\t']).unwrap_or(after.len());
                (after[..end].to_owned(), &after[end..])
            }
        };
        if key.eq_ignore_ascii_case(name) {
            return Some(value);
        }
        rest = behind;
    }
    None
}

/// Returns a text up to its closing quote, and the rest.
fn unquoted(quoted: &str) -> (String, &str) {
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (value, &quoted[at + 1..]),
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            _ => value.push(character),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn parameters_of_challenges_are_found_however_they_are_written() {
        let challenge = r#"Basic realm="a, b=c", Bearer error="invalid_token" , scope="a \"b\"",resource_metadata = https://x/y?z=1"#;
        for (name, value) in [
            ("realm", Some("a, b=c")),
            ("error", Some("invalid_token")),
            ("SCOPE", Some("a \"b\"")),
            ("resource_metadata", Some("https://x/y?z=1")),
            ("b", None),
            ("", None),
        ] {
            assert_eq!(parameter(challenge, name).as_deref(), value, "{name}");
        }
        for broken in ["Bearer", "=", "a=\"", "a=\"\\", "é=\"ü\\é"] {
            assert_eq!(parameter(broken, "scope"), None, "{broken}");
        }
    }

    #[test]
    fn documents_are_looked_for_where_the_standards_put_them() {
        let places = |of: &str| {
            well_known(&url(of), "x")
                .into_iter()
                .map(String::from)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            places("https://a.example/mcp/?key=1"),
            ["https://a.example/.well-known/x/mcp", "https://a.example/.well-known/x"]
        );
        assert_eq!(places("https://a.example"), ["https://a.example/.well-known/x"]);
    }

    #[test]
    fn metadata_of_another_server_are_not_taken_for_this_ones() {
        let server = url("https://a.example/tools/mcp?key=1");
        for resource in [
            "https://a.example/tools/mcp",
            "https://a.example/tools/",
            "https://a.example",
            "https://a.example:443/",
        ] {
            assert!(is_about(resource, &server), "{resource}");
        }
        for resource in [
            "https://evil.example/tools/mcp",
            "http://a.example/tools/mcp",
            "https://a.example:8443/tools",
            "https://a.example/too",
            "https://a.example/tools/mcp/other",
            "tools",
        ] {
            assert!(!is_about(resource, &server), "{resource}");
        }
        assert_eq!(resource_of(&server), "https://a.example/tools/mcp");
        assert_eq!(resource_of(&url("https://a.example/?key=1")), "https://a.example");
    }
}
