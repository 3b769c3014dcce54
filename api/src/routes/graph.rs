//! The knowledge graph of a project, for users and programs (agents have their tools).
//!
//! - `objects`        list, create, change, delete, restore; versions and edges
//! - `relationships`  relationships between objects
//! - `packs`          template packs and their installation
//! - `explore`        search, types, traversals
//! - `transfer`       NDJSON import and export, streamed
//!
//! Invariant: every handler checks first that the path's project is the caller's.

pub mod explore;
pub mod objects;
pub mod packs;
pub mod relationships;
pub mod transfer;

use axum::http::header::IF_MATCH;
use axum::http::{HeaderMap, HeaderName, StatusCode};
use rejoin_graph::{Actor, ActorKind};
use tracing::error;

use crate::authorization::Routes;
use crate::caller::Caller;
use crate::problem::Problem;

pub fn routes() -> Routes {
    Routes::new()
        .merge(objects::routes())
        .merge(relationships::routes())
        .merge(packs::routes())
        .merge(explore::routes())
        .merge(transfer::routes())
}

/// The response of a creation: location and version.
pub(super) type Made<T> = (StatusCode, [(HeaderName, String); 2], axum::Json<T>);
/// The response with an item and its version.
pub(super) type Versioned<T> = ([(HeaderName, String); 1], axum::Json<T>);

fn actor(caller: &Caller) -> Actor {
    Actor {
        kind: ActorKind::User,
        id: Some(caller.user_id),
    }
}

pub(super) fn etag(version: i32) -> String {
    format!("\"{version}\"")
}

/// Returns the expected version of a change, from `If-Match` or the body's `version`. None: any.
pub(super) fn expected_version(headers: &HeaderMap, in_body: Option<i32>) -> Result<Option<i32>, Problem> {
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

impl From<rejoin_graph::Error> for Problem {
    fn from(error: rejoin_graph::Error) -> Self {
        let detail = error.to_string();
        match error {
            rejoin_graph::Error::NotFound { what } => {
                let code = match what.split(' ').next() {
                    Some("relationship") => "relationship_not_found",
                    Some("template") => "pack_not_found",
                    Some(_) | None => "object_not_found",
                };
                Self::new(StatusCode::NOT_FOUND, code, detail)
            }
            rejoin_graph::Error::VersionConflict { expected, actual } => Self::conflict("version_conflict", detail)
                .with("expectedVersion", expected.into())
                .with("version", actual.into()),
            rejoin_graph::Error::Conflict(_) => Self::conflict("already_exists", detail),
            rejoin_graph::Error::Invalid(_) => Self::bad_request("invalid_graph_data", detail),
            rejoin_graph::Error::Database { attempted, source } => {
                let problem = Self::from(source);
                if problem.status == StatusCode::INTERNAL_SERVER_ERROR {
                    error!(attempted, "a graph operation failed");
                }
                problem
            }
        }
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
