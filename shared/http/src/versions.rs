//! Versions of items in headers: `ETag` in answers, `If-Match` in changes, `If-None-Match` in reads. Called by the handlers of the knowledge
//! graph, of the work graph and of agent cards.

use axum::http::header::{IF_MATCH, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use crate::problem::Problem;

/// The response of a creation: location and version.
pub type Made<T> = (StatusCode, [(HeaderName, String); 2], axum::Json<T>);
/// The response with an item and its version.
pub type Versioned<T> = ([(HeaderName, String); 1], axum::Json<T>);

pub fn etag(version: i32) -> String {
    format!("\"{version}\"")
}

/// Returns the strong `ETag` of a representation with these bytes: their SHA-256.
pub fn content_etag(content: &[u8]) -> String {
    format!("\"{}\"", URL_SAFE_NO_PAD.encode(Sha256::digest(content)))
}

/// Returns whether a read needs no content, because its client has the representation with this `ETag`. `If-None-Match` is compared weakly,
/// as RFC 9110 requires (section 13.1.2).
pub fn has_content(headers: &HeaderMap, etag: &str) -> bool {
    let lists = headers.get_all(IF_NONE_MATCH).into_iter();
    let mut known = lists
        .filter_map(|list| list.to_str().ok())
        .flat_map(|list| list.split(','));
    known.any(|known| {
        let known = known.trim();
        known == "*" || known.strip_prefix("W/").unwrap_or(known) == etag
    })
}

/// Returns the expected version of a change, from `If-Match` or the body's `version`. None: any.
pub fn expected_version(headers: &HeaderMap, in_body: Option<i32>) -> Result<Option<i32>, Problem> {
    let Some(header) = headers.get(IF_MATCH) else {
        return Ok(in_body);
    };
    let malformed = || {
        Problem::bad_request(
            "invalid_if_match",
            "If-Match must be one version, as given by ETag, or *",
        )
    };
    let text = header.to_str().map_err(|_| malformed())?.trim();
    if text == "*" {
        return Ok(in_body);
    }
    let version: i32 = text.trim_matches('"').parse().map_err(|_| malformed())?;
    match in_body {
        Some(other) if other != version => Err(Problem::bad_request(
            "invalid_if_match",
            "If-Match and the body contain different versions",
        )),
        Some(_) | None => Ok(Some(version)),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn the_expected_version_comes_from_the_header_or_the_body() {
        let with = |text: &'static str| HeaderMap::from_iter([(IF_MATCH, HeaderValue::from_static(text))]);
        assert_eq!(expected_version(&HeaderMap::new(), Some(3)).unwrap(), Some(3));
        assert_eq!(expected_version(&with("\"3\""), None).unwrap(), Some(3));
        assert_eq!(expected_version(&with("3"), Some(3)).unwrap(), Some(3));
        assert_eq!(expected_version(&with("*"), None).unwrap(), None);
        for (headers, body) in [(with("\"3\""), Some(4)), (with("x"), None)] {
            assert_eq!(expected_version(&headers, body).unwrap_err().code, "invalid_if_match");
        }
    }

    #[test]
    fn a_client_has_the_content_whose_etag_it_names() {
        let etag = content_etag(b"content");
        assert_ne!(etag, content_etag(b"other"));
        for (header, has) in [
            (etag.clone(), true),
            (format!("\"x\", {etag}"), true),
            (format!("W/{etag}"), true),
            ("*".to_owned(), true),
            (content_etag(b"other"), false),
            (etag.trim_matches('"').to_owned(), false),
        ] {
            let headers = HeaderMap::from_iter([(IF_NONE_MATCH, HeaderValue::try_from(&header).unwrap())]);
            assert_eq!(has_content(&headers, &etag), has, "{header}");
        }
        assert!(!has_content(&HeaderMap::new(), &etag));
    }
}
