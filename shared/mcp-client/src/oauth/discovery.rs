//! Discovers the authorization server of an MCP server, as the protocol's chapter on authorization specifies: the
//! server names its protected resource metadata (RFC 9728), which names the authorization server, whose metadata (RFC
//! 8414, or OpenID Connect) name the token endpoint. Called by `oauth`.
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

/// Discovers the endpoint.
pub(super) async fn find(client: &OAuthClient, server: &Url, challenge: Option<&str>) -> Result<Endpoint, Refusal> {
    let resource = resource_metadata(client, server, challenge).await?;
    let named = resource["authorization_servers"][0].as_str();
    // Servers of the protocol's version of March 2025 publish no resource metadata, and are their own authorization
    // servers.
    let issuer = named.map_or_else(|| server.origin().ascii_serialization(), str::to_owned);
    let metadata = issuer_metadata(client, server, &issuer).await?;
    let endpoint = metadata["token_endpoint"].as_str().unwrap_or_default();
    let url = Url::parse(endpoint)
        .map_err(|error| Refusal::permanent(format!("the token endpoint given by {issuer}: {error}")))?;
    let methods = &metadata["token_endpoint_auth_methods_supported"];
    let takes = |method: &str| listed(methods).any(|one| one == method);
    // Basic authentication is the default of RFC 8414.
    let secret_in_body = if methods.is_null() || takes("client_secret_basic") {
        false
    } else if takes("client_secret_post") {
        true
    } else {
        return Err(Refusal::permanent(format!(
            "the token endpoint {} does not accept client secrets, only: {}",
            shown(&url),
            listed(methods).collect::<Vec<_>>().join(", ")
        )));
    };
    let scopes: Vec<&str> = listed(&resource["scopes_supported"]).collect();
    let supported = (1..=MAX_SCOPES).contains(&scopes.len()).then(|| scopes.join(" "));
    let endpoint = Endpoint {
        url,
        scope: supported,
        resource: match resource["resource"].as_str() {
            Some(resource) => resource.to_owned(),
            None => resource_of(server),
        },
        secret_in_body,
    };
    Ok(endpoint.challenged(challenge))
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
