//! The media type of each binding's responses, and what the protocol has for errors (decision 0064).
//!
//! - JSON-RPC: `application/json` (section 9.1 of the specification).
//! - HTTP+JSON: `application/a2a+json` (section 11.1), or `application/json` for clients that send it or ask for it, as version 1.0.0 of the
//!   specification had it. Version 1.0.1 has the same number on the wire.

use std::collections::BTreeMap;

use axum::body::{self, Body};
use axum::extract::Request;
use axum::http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use rejoin_http::problem;
use serde_json::{Map, Value};
use utoipa::IntoResponses;
use utoipa::openapi::{RefOr, Response as ApiResponse};

use super::{AGENTS, PATH};
use crate::errors::Failure;
use crate::notification::MEDIA_TYPE;

const JSON: &str = "application/json";
/// The media type of problems, before they are translated.
const PROBLEM: &str = "application/problem+json";
/// The members that every problem has.
const PROBLEM_MEMBERS: [&str; 5] = ["type", "title", "status", "detail", "code"];
/// Maximum size of an error that is translated, in bytes.
const PROBLEM_MAX_BYTES: usize = 64 * 1024;

/// The error responses of operations over HTTP+JSON, for the OpenAPI document.
pub(super) struct Refused;

impl IntoResponses for Refused {
    fn responses() -> BTreeMap<String, RefOr<ApiResponse>> {
        errors_as(&[MEDIA_TYPE, JSON])
    }
}

/// The error responses of JSON-RPC, for the OpenAPI document.
pub(super) struct RpcRefused;

impl IntoResponses for RpcRefused {
    fn responses() -> BTreeMap<String, RefOr<ApiResponse>> {
        errors_as(&[JSON])
    }
}

fn errors_as(media_types: &[&str]) -> BTreeMap<String, RefOr<ApiResponse>> {
    let mut all = problem::Refused::responses();
    for response in all.values_mut() {
        let RefOr::T(response) = response else { continue };
        let Some(content) = response.content.swap_remove(PROBLEM) else {
            continue;
        };
        for media_type in media_types {
            response.content.insert((*media_type).to_owned(), content.clone());
        }
    }
    all
}

/// The binding of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Binding {
    JsonRpc,
    HttpJson,
}

impl Binding {
    /// None: the path is not one of this protocol.
    fn of(path: &str) -> Option<Self> {
        let rest = path.strip_prefix(PATH)?;
        if !rest.is_empty() && !rest.starts_with('/') {
            return None;
        }
        let agent = path.strip_prefix(AGENTS).unwrap_or_default();
        let agent = agent.strip_suffix('/').unwrap_or(agent);
        let is_rpc = matches!(rest, "" | "/") || (!agent.is_empty() && !agent.contains('/'));
        Some(if is_rpc { Self::JsonRpc } else { Self::HttpJson })
    }

    /// The media type of the response to a request with these headers.
    fn media_type(self, headers: &HeaderMap) -> &'static str {
        match self {
            Self::JsonRpc => JSON,
            Self::HttpJson if names(headers, ACCEPT, MEDIA_TYPE) => MEDIA_TYPE,
            Self::HttpJson if names(headers, ACCEPT, JSON) || names(headers, CONTENT_TYPE, JSON) => JSON,
            Self::HttpJson => MEDIA_TYPE,
        }
    }
}

/// Returns whether a header has this media type among its own.
fn names(headers: &HeaderMap, header: HeaderName, media_type: &str) -> bool {
    let lists = headers.get_all(header).into_iter();
    let mut ranges = lists
        .filter_map(|list| list.to_str().ok())
        .flat_map(|list| list.split(','));
    ranges.any(|range| {
        let essence = range.split(';').next().unwrap_or_default().trim();
        essence.eq_ignore_ascii_case(media_type)
    })
}

/// Gives responses of these paths the media type of their binding, and adds to errors what the protocol has for them.
pub async fn translated(request: Request, next: Next) -> Response {
    let Some(binding) = Binding::of(request.uri().path()) else {
        return next.run(request).await;
    };
    let media_type = HeaderValue::from_static(binding.media_type(request.headers()));
    let mut response = next.run(request).await;
    if has_type(&response, PROBLEM) {
        return error(binding, media_type, response).await;
    }
    if has_type(&response, MEDIA_TYPE) {
        response.headers_mut().insert(CONTENT_TYPE, media_type);
    }
    response
}

fn has_type(response: &Response, media_type: &str) -> bool {
    let kind = response.headers().get(CONTENT_TYPE);
    kind.is_some_and(|kind| kind == media_type)
}

async fn error(binding: Binding, media_type: HeaderValue, response: Response) -> Response {
    let (mut parts, body) = response.into_parts();
    let bytes = body::to_bytes(body, PROBLEM_MAX_BYTES).await.unwrap_or_default();
    let mut problem: Map<String, Value> = serde_json::from_slice(&bytes).unwrap_or_default();
    let text = |name: &str| problem.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (code, message) = (text("code"), text("detail"));
    let mut metadata = problem.clone();
    metadata.retain(|name, _| !PROBLEM_MEMBERS.contains(&name.as_str()));
    let failure = failure(parts.status, &code, &message, metadata);
    let more = match binding {
        Binding::JsonRpc => failure.as_rpc(&Value::Null),
        Binding::HttpJson => failure.as_status(),
    };
    problem.extend(more.as_object().cloned().unwrap_or_default());
    parts.headers.remove(CONTENT_LENGTH);
    parts.headers.insert(CONTENT_TYPE, media_type);
    Response::from_parts(parts, Body::from(Value::Object(problem).to_string()))
}

pub(super) fn failure<'a>(
    status: StatusCode,
    code: &'a str,
    message: &'a str,
    metadata: Map<String, Value>,
) -> Failure<'a> {
    Failure {
        status: status.as_u16(),
        code,
        message,
        metadata,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_its_binding() {
        for (path, binding) in [
            ("/api/a2a", Some(Binding::JsonRpc)),
            ("/api/a2a/", Some(Binding::JsonRpc)),
            ("/api/a2a/agents/writer", Some(Binding::JsonRpc)),
            ("/api/a2a/agents/writer/", Some(Binding::JsonRpc)),
            ("/api/a2a/agents/writer/tasks", Some(Binding::HttpJson)),
            ("/api/a2a/message:send", Some(Binding::HttpJson)),
            ("/api/a2a/tasks/t", Some(Binding::HttpJson)),
            ("/api/a2ab", None),
            ("/api/chat", None),
        ] {
            assert_eq!(Binding::of(path), binding, "{path}");
        }
    }

    #[test]
    fn a_response_has_the_media_type_that_its_client_speaks() {
        let of = |binding: Binding, headers: &[(HeaderName, &'static str)]| {
            let headers = headers
                .iter()
                .map(|(name, value)| (name.clone(), HeaderValue::from_static(value)));
            binding.media_type(&HeaderMap::from_iter(headers))
        };
        assert_eq!(of(Binding::JsonRpc, &[(ACCEPT, MEDIA_TYPE)]), JSON);
        assert_eq!(of(Binding::HttpJson, &[]), MEDIA_TYPE);
        for (header, value, media_type) in [
            (ACCEPT, "*/*", MEDIA_TYPE),
            (ACCEPT, "application/json;q=1, application/a2a+json", MEDIA_TYPE),
            (ACCEPT, "text/event-stream, Application/JSON", JSON),
            (CONTENT_TYPE, "application/json; charset=utf-8", JSON),
            (CONTENT_TYPE, "application/a2a+json", MEDIA_TYPE),
        ] {
            assert_eq!(of(Binding::HttpJson, &[(header, value)]), media_type, "{value}");
        }
    }
}
