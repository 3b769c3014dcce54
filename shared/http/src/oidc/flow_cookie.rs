//! What a browser keeps while its user is at the identity provider, in cookies that only this server reads: `__Host-` over
//! TLS, so that no other host can set them, `HttpOnly`, and `SameSite=Lax`, because the provider sends the browser back from
//! another site.
//!
//! Invariant: state, nonce and PKCE verifier are derived from one secret of 256 bits, which never leaves the cookie; none of
//! them reveals another. A response of the provider is accepted only with the cookie of the request that it answers.

use axum::http::{HeaderMap, HeaderValue};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rejoin_identity::auth::random_secret;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::cookie;

/// Lifetime of these cookies, in seconds.
pub const LIFETIME_S: i64 = 600;
/// Maximum length of a local path, in bytes.
const MAX_PATH_BYTES: usize = 1_000;

const FLOW: &str = "rejoin_sign_in";
const INVITATION: &str = "rejoin_invitation";

/// A sign-in that has begun in a browser.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Flow {
    secret: String,
    /// The local path to which the browser returns.
    pub return_to: String,
    /// The workspace of the session. None: not chosen.
    #[serde(rename = "projectId")]
    pub workspace: Option<Uuid>,
    /// The user as whom the browser was signed in.
    #[serde(rename = "userId")]
    pub user: Option<Uuid>,
}

impl Flow {
    /// Begins a sign-in.
    pub fn begin(return_to: String, workspace: Option<Uuid>, user: Option<Uuid>) -> Self {
        Self {
            secret: random_secret(),
            return_to,
            workspace,
            user,
        }
    }

    /// Identifies the flow in the provider's response.
    pub fn state(&self) -> String {
        self.derived("state")
    }

    /// Ties the ID token to the flow.
    pub fn nonce(&self) -> String {
        self.derived("nonce")
    }

    /// Proves to the provider that the code is redeemed by the server that has asked for it (PKCE, RFC 7636).
    pub fn verifier(&self) -> String {
        self.derived("verifier")
    }

    /// What the provider is sent of the verifier before, by the method S256.
    pub fn challenge(&self) -> String {
        URL_SAFE_NO_PAD.encode(Sha256::digest(self.verifier().as_bytes()))
    }

    fn derived(&self, what: &str) -> String {
        URL_SAFE_NO_PAD.encode(Sha256::digest(format!("{what} {}", self.secret).as_bytes()))
    }

    /// Returns `Set-Cookie`.
    pub fn cookie(&self, is_secure: bool) -> HeaderValue {
        let json = serde_json::to_vec(self).expect("a flow is plain data");
        kept(FLOW, is_secure, &URL_SAFE_NO_PAD.encode(json))
    }

    /// Returns the flow that the browser keeps.
    pub fn shown(headers: &HeaderMap, is_secure: bool) -> Option<Self> {
        let json = URL_SAFE_NO_PAD.decode(shown(headers, FLOW, is_secure)?).ok()?;
        let flow: Self = serde_json::from_slice(&json).ok()?;
        // The path may have been changed in the browser.
        local_path(&flow.return_to).is_some().then_some(flow)
    }

    /// Returns `Set-Cookie` after its end.
    pub fn forgotten(is_secure: bool) -> HeaderValue {
        forgotten(FLOW, is_secure)
    }
}

/// Returns `Set-Cookie` for the token of an invitation, which is accepted when the user has signed in.
pub fn keep_invitation(token: &str, is_secure: bool) -> Option<HeaderValue> {
    let is_plain = !token.is_empty() && token.len() <= 100 && token.bytes().all(is_of_a_token);
    is_plain.then(|| kept(INVITATION, is_secure, token))
}

/// Returns the token of the invitation that the browser keeps.
pub fn invitation(headers: &HeaderMap, is_secure: bool) -> Option<&str> {
    shown(headers, INVITATION, is_secure).filter(|token| !token.is_empty())
}

/// Returns `Set-Cookie` after the invitation was accepted or refused.
pub fn forget_invitation(is_secure: bool) -> HeaderValue {
    forgotten(INVITATION, is_secure)
}

/// Returns a path that a browser may be sent to: on this server, whatever a browser makes of it.
pub fn local_path(text: &str) -> Option<&str> {
    let is_plain = text.len() <= MAX_PATH_BYTES && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    (is_plain && text.starts_with('/') && !text.starts_with("//")).then_some(text)
}

fn is_of_a_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'
}

/// The prefix lets a browser keep a cookie only if this host has set it over TLS, for all paths.
fn full(name: &str, is_secure: bool) -> String {
    let prefix = if is_secure { "__Host-" } else { "" };
    format!("{prefix}{name}")
}

fn shown<'a>(headers: &'a HeaderMap, name: &str, is_secure: bool) -> Option<&'a str> {
    cookie::value(headers, &full(name, is_secure))
}

fn kept(name: &str, is_secure: bool, value: &str) -> HeaderValue {
    set(name, is_secure, value, LIFETIME_S)
}

fn forgotten(name: &str, is_secure: bool) -> HeaderValue {
    set(name, is_secure, "", 0)
}

fn set(name: &str, is_secure: bool, value: &str, lasts_s: i64) -> HeaderValue {
    let name = full(name, is_secure);
    let secure = if is_secure { "; Secure" } else { "" };
    let cookie = format!("{name}={value}; Path=/; Max-Age={lasts_s}; HttpOnly; SameSite=Lax{secure}");
    HeaderValue::try_from(cookie).expect("base64 and a number")
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::header::COOKIE;

    fn headers(set: &HeaderValue) -> HeaderMap {
        let pair = set.to_str().expect("ASCII").split(';').next().expect("a pair");
        [(COOKIE, HeaderValue::from_str(pair).expect("ASCII"))]
            .into_iter()
            .collect()
    }

    #[test]
    fn a_flow_comes_back_as_it_was_and_only_by_its_name() {
        let flow = Flow::begin("/chat?a=1".to_owned(), Some(Uuid::from_u128(1)), None);
        let set = flow.cookie(true);
        let text = set.to_str().unwrap();
        for needed in [
            "__Host-rejoin_sign_in=",
            "; Path=/;",
            "HttpOnly",
            "SameSite=Lax",
            "; Secure",
        ] {
            assert!(text.contains(needed), "{text}");
        }
        assert!(!text.contains("Domain"), "{text}");
        assert_eq!(Flow::shown(&headers(&set), true), Some(flow.clone()));
        assert_eq!(
            Flow::shown(&headers(&set), false),
            None,
            "another host could have set it"
        );
        let secrets = [flow.state(), flow.nonce(), flow.verifier(), flow.challenge()];
        for (index, secret) in secrets.iter().enumerate() {
            assert_eq!(secret.len(), 43);
            assert!(!secrets[index + 1..].contains(secret));
        }
    }

    #[test]
    fn a_browser_returns_to_a_local_path_only() {
        for good in ["/", "/chat/1?a=b#c", "/a//b", "/%5cevil.example"] {
            assert_eq!(local_path(good), Some(good));
        }
        let long = format!("/{}", "a".repeat(MAX_PATH_BYTES));
        for bad in [
            "",
            "chat",
            "//evil.example",
            "/\\evil.example",
            "\\/evil.example",
            "https://evil.example",
            "javascript:alert(1)",
            "/\t/evil.example",
            "/a\r\nSet-Cookie: a=b",
            "/ä",
            " /",
            long.as_str(),
        ] {
            assert_eq!(local_path(bad), None, "{bad:?}");
        }
        let mut flow = Flow::begin("/".to_owned(), None, None);
        flow.return_to = "//evil.example".to_owned();
        assert_eq!(Flow::shown(&headers(&flow.cookie(false)), false), None);
    }

    #[test]
    fn an_invitation_is_kept_if_it_can_be_one() {
        let set = keep_invitation("abc_-9", false).unwrap();
        assert_eq!(invitation(&headers(&set), false), Some("abc_-9"));
        for wrong in ["", "a;b", "a b", &"a".repeat(101)] {
            assert!(keep_invitation(wrong, false).is_none(), "{wrong}");
        }
        assert_eq!(invitation(&headers(&forget_invitation(false)), false), None);
    }
}
