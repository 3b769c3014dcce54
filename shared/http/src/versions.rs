//! Versions of items in headers: `ETag` in answers, `If-Match` in changes. Called by the handlers of the knowledge graph and of the work
//! graph.

use axum::http::header::IF_MATCH;
use axum::http::{HeaderMap, HeaderName, StatusCode};

use crate::problem::Problem;

/// The response of a creation: location and version.
pub type Made<T> = (StatusCode, [(HeaderName, String); 2], axum::Json<T>);
/// The response with an item and its version.
pub type Versioned<T> = ([(HeaderName, String); 1], axum::Json<T>);

pub fn etag(version: i32) -> String {
    format!("\"{version}\"")
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
}
