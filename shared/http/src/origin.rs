//! The server's public address, as seen by a caller. Handlers that return our own addresses take an [`Origin`].

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::header::HOST;
use axum::http::request::Parts;

use crate::proxies::FromTrustedProxy;
use crate::state::HttpState;

/// Scheme and host of the server for the caller: `REJOIN_PUBLIC_URL`, else as stated by a trusted proxy, else by the
/// caller.
pub struct Origin(pub String);

impl<T: AsRef<HttpState> + Send + Sync> FromRequestParts<T> for Origin {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &T) -> Result<Self, Self::Rejection> {
        if let Some(url) = &state.as_ref().args.public_url {
            return Ok(Self(url.trim_end_matches('/').to_owned()));
        }
        let is_proxied = parts.extensions.get::<FromTrustedProxy>().is_some();
        Ok(Self(from_headers(&parts.headers, is_proxied)))
    }
}

fn from_headers(headers: &HeaderMap, is_proxied: bool) -> String {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let forwarded = |name: &str| text(name).filter(|_| is_proxied);
    let first = |value: &str| value.split(',').next().unwrap_or_default().trim().to_owned();
    let scheme = match forwarded("x-forwarded-proto").map(first).as_deref() {
        Some("https") => "https",
        Some(_) | None => "http",
    };
    let host = forwarded("x-forwarded-host").or_else(|| text(HOST.as_str())).map(first);
    format!("{scheme}://{}", host.as_deref().unwrap_or("localhost"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_use_the_callers_address_or_a_trusted_proxys_word() {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, "127.0.0.1:7420".parse().unwrap());
        assert_eq!(from_headers(&headers, true), "http://127.0.0.1:7420");
        headers.insert("x-forwarded-proto", "https, http".parse().unwrap());
        headers.insert("x-forwarded-host", "chat.example".parse().unwrap());
        assert_eq!(from_headers(&headers, true), "https://chat.example");
        assert_eq!(from_headers(&headers, false), "http://127.0.0.1:7420");
    }
}
