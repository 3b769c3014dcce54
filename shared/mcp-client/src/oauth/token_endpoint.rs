//! Requests to token endpoints, and their answers (RFC 6749, sections 3.2 and 5). Called by `client_tokens`, `user_tokens`
//! and `consent`.
//!
//! Invariant: errors quote nothing of an answer with tokens.

use std::time::Duration;

use reqwest::RequestBuilder;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use serde_json::Value;
use url::{Url, form_urlencoded};

use super::client::OAuthClient;
use super::{Refusal, basic, shown};

/// Safety margin before a token's expiry, for the time that a request takes.
const EXPIRY_MARGIN: Duration = Duration::from_secs(30);
/// Maximum size of a token, in bytes: a longer one fits into no header.
const TOKEN_MAX_BYTES: usize = 16 * 1024;
/// Maximum lifetime of a token, after which it is fetched again; avoids overflows.
const MAX_LIFETIME: Duration = Duration::from_secs(30 * 24 * 3_600);
/// Maximum number of scopes of a token; further ones are not stored.
const MAX_SCOPES: usize = 100;

/// The client of a request.
pub(super) struct Authentication<'a> {
    pub(super) client_id: &'a str,
    /// None: a public client.
    pub(super) client_secret: Option<&'a str>,
    /// Whether the endpoint accepts id and secret as form fields only.
    pub(super) secret_in_body: bool,
}

/// Builds a request with these fields. The URL is checked: it receives secrets.
pub(super) fn request(
    client: &OAuthClient,
    url: &Url,
    by: &Authentication<'_>,
    fields: &[(&str, &str)],
) -> Result<RequestBuilder, Refusal> {
    client
        .may_receive_secrets(url)
        .map_err(|words| Refusal::permanent(format!("the token endpoint {}: {words}", shown(url))))?;
    let mut request = client
        .http
        .post(url.clone())
        .header(ACCEPT, "application/json")
        .header(CONTENT_TYPE, "application/x-www-form-urlencoded");
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.extend_pairs(fields);
    match by.client_secret {
        None => {
            form.append_pair("client_id", by.client_id);
        }
        Some(secret) if by.secret_in_body => {
            form.append_pair("client_id", by.client_id);
            form.append_pair("client_secret", secret);
        }
        Some(secret) => {
            let mut basic = HeaderValue::try_from(format!("Basic {}", basic(by.client_id, secret)))
                .map_err(|_| Refusal::permanent("the client's id or secret cannot be sent in a header"))?;
            basic.set_sensitive(true);
            request = request.header(AUTHORIZATION, basic);
        }
    }
    Ok(request.body(form.finish()))
}

/// A token as an endpoint has issued it.
pub(super) struct Issued {
    pub(super) access_token: String,
    /// How long it is used. None: until the server rejects it.
    pub(super) life: Option<Duration>,
    pub(super) refresh_token: Option<String>,
    /// The granted scopes. None: those that were asked for.
    pub(super) scopes: Option<Vec<String>>,
}

/// Parses the token in an endpoint's answer.
pub(super) fn issued(answer: &Value, url: &Url) -> Result<Issued, Refusal> {
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
    let refresh_token = answer["refresh_token"].as_str().filter(|token| !token.is_empty());
    if refresh_token.is_some_and(|token| token.len() > TOKEN_MAX_BYTES) {
        return Err(wrong("returned a refresh token that is too long"));
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
    let scopes = answer["scope"].as_str().map(|scopes| {
        let scopes = scopes.split_ascii_whitespace().take(MAX_SCOPES);
        scopes.map(str::to_owned).collect()
    });
    Ok(Issued {
        access_token: value.to_owned(),
        // At least half of a short lifetime is used.
        life: life.map(|life| life.saturating_sub(EXPIRY_MARGIN.min(life / 2))),
        refresh_token: refresh_token.map(str::to_owned),
        scopes,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_token_is_used_until_shortly_before_it_expires() {
        let url = Url::parse("https://login.example/token?tenant=a").unwrap();
        let life = |expires_in: Value| {
            let answer = json!({"access_token": "abc", "token_type": "bearer", "expires_in": expires_in});
            issued(&answer, &url).unwrap().life
        };
        assert_eq!(life(json!(3600)), Some(Duration::from_secs(3570)));
        assert_eq!(life(json!("3600")), Some(Duration::from_secs(3570)));
        assert_eq!(life(json!(20)), Some(Duration::from_secs(10)));
        assert_eq!(life(json!(-5)), Some(Duration::ZERO));
        assert_eq!(life(json!(1e300)), None, "none that is ever reached");
        assert_eq!(life(Value::Null), None);
    }

    #[test]
    fn a_refresh_token_and_scopes_come_with_a_token() {
        let url = Url::parse("https://login.example/token").unwrap();
        let answer = json!({"access_token": "abc", "refresh_token": "def", "scope": "read  write"});
        let one = issued(&answer, &url).unwrap();
        assert_eq!(one.refresh_token.as_deref(), Some("def"));
        assert_eq!(one.scopes, Some(vec!["read".to_owned(), "write".to_owned()]));
        let bare = issued(&json!({"access_token": "abc", "refresh_token": ""}), &url).unwrap();
        assert_eq!((bare.refresh_token, bare.scopes), (None, None));
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
            let words = issued(&answer, &url).err().unwrap().words;
            assert!(
                words.starts_with("the token endpoint https://login.example/token returned")
                    && !words.contains("s3cret"),
                "{words}"
            );
        }
    }
}
