//! The session cookie of a browser: HttpOnly, and sent to our own pages only. A cross-origin request with it is
//! refused, whatever the browser does about `SameSite`.

use axum::http::header::{COOKIE, HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderValue, Method};

pub const NAME: &str = "rejoin_session";
/// The browser's statement of a request's origin. Scripts can't set it.
const FETCH_SITE: &str = "sec-fetch-site";

/// Returns the session of the request.
pub fn shown(headers: &HeaderMap) -> Option<&str> {
    value(headers, NAME)
}

/// Returns the value of the first cookie with this name.
pub fn value<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let cookies = headers.get_all(COOKIE).into_iter();
    let mut pairs = cookies
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'));
    pairs.find_map(|pair| pair.trim().strip_prefix(name)?.strip_prefix('='))
}

/// Returns whether the request comes from our own page, or from the address bar.
pub fn is_from_here(method: &Method, headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    match text(FETCH_SITE) {
        Some("same-origin") => true,
        Some("none") => method.is_safe(),
        Some(_) => false,
        // Without TLS, browsers omit it except on this machine.
        None => match text(ORIGIN.as_str()) {
            Some(origin) => origin.split_once("://").map(|(_, host)| host) == text(HOST.as_str()),
            None => method.is_safe(),
        },
    }
}

/// Returns `Set-Cookie` for a new session. Over plain HTTP a browser rejects a `Secure` one: `Origin` shows how the
/// page was loaded.
pub fn begun(headers: &HeaderMap, secret: &str, lasts_s: i64) -> HeaderValue {
    let is_plain = headers
        .get(ORIGIN)
        .is_some_and(|origin| origin.as_bytes().starts_with(b"http://"));
    begun_over(!is_plain, secret, lasts_s)
}

/// The same, where it is known whether the page is loaded over TLS.
pub fn begun_over(is_secure: bool, secret: &str, lasts_s: i64) -> HeaderValue {
    let secure = if is_secure { "; Secure" } else { "" };
    let cookie = format!("{NAME}={secret}; Path=/; Max-Age={lasts_s}; HttpOnly; SameSite=Strict{secure}");
    HeaderValue::try_from(cookie).expect("base64 and a number")
}

/// Returns `Set-Cookie` for an ended session.
pub fn ended() -> HeaderValue {
    HeaderValue::from_static("rejoin_session=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| {
            let name = axum::http::HeaderName::from_static(name);
            (name, HeaderValue::from_static(value))
        });
        pairs.collect()
    }

    #[test]
    fn the_cookie_is_found_among_others() {
        assert_eq!(
            shown(&headers(&[("cookie", "a=1; rejoin_session=xyz; b=2")])),
            Some("xyz")
        );
        assert_eq!(shown(&headers(&[("cookie", "rejoin_session_old=xyz")])), None);
        assert_eq!(shown(&headers(&[])), None);
    }

    #[test]
    fn only_pages_of_ours_may_use_it() {
        let host = ("host", "rejoin.example:7420");
        for (method, from, expected) in [
            (Method::POST, ("sec-fetch-site", "same-origin"), true),
            (Method::POST, ("sec-fetch-site", "none"), false),
            (Method::GET, ("sec-fetch-site", "none"), true),
            (Method::GET, ("sec-fetch-site", "same-site"), false),
            (Method::GET, ("sec-fetch-site", "cross-site"), false),
            (Method::POST, ("origin", "https://rejoin.example:7420"), true),
            (Method::GET, ("origin", "https://evil.example"), false),
            (Method::POST, ("origin", "null"), false),
            (Method::GET, ("accept", "*/*"), true),
            (Method::POST, ("accept", "*/*"), false),
        ] {
            assert_eq!(
                is_from_here(&method, &headers(&[host, from])),
                expected,
                "{method} {from:?}"
            );
        }
    }
}
