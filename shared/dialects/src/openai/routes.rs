//! OpenAI's protocols under `/v1`: over the same conversations, runs and log as everything else. A response is a run, or the part of a run
//! between two waits for its client.
//!
//! - `responses`     creates, reads, cancels and deletes responses
//! - `conversations` conversations and their items
//! - `completions`   chat completions
//! - `models`        agents, listed as models
//! - `turns`         stores a request: a message, or answers to a waiting run
//! - `files`         files that come with a request
//!
//! Errors have the protocol's shape, on every path under `/v1`.

mod completions;
mod conversations;
mod files;
mod models;
mod responses;
mod turns;

use std::collections::BTreeMap;

use axum::body::{self, Body};
use axum::extract::Request;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use rejoin_chat::Routes;
use rejoin_http::problem::Problem;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::{ContentBuilder, Ref, RefOr};
use utoipa::{IntoResponses, ToSchema};

use crate::openai::errors::{self, Invalid};

/// The prefix of its paths.
const PREFIX: &str = "/v1/";
/// Maximum size of an error that is translated, in bytes.
const PROBLEM_MAX_BYTES: usize = 64 * 1024;
/// The member of a problem that names the wrong parameter.
const PARAM: &str = "param";
/// Asks clients of this protocol not to send a request again by themselves.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

pub fn routes() -> Routes {
    Routes::new()
        .merge(responses::routes())
        .merge(conversations::routes())
        .merge(completions::routes())
        .merge(models::routes())
}

/// An error
#[derive(Serialize, ToSchema)]
#[schema(as = OpenAiError)]
pub struct ErrorBody {
    pub error: ErrorDetail,
}

#[derive(Serialize, ToSchema)]
#[schema(as = OpenAiErrorDetail)]
pub struct ErrorDetail {
    /// What went wrong
    pub message: String,
    /// The kind of error
    pub r#type: String,
    /// The wrong parameter
    pub param: Option<String>,
    /// A stable error code for programs
    pub code: String,
}

/// The error responses of each of its operations, for the OpenAPI document.
pub struct Errors;

impl IntoResponses for Errors {
    fn responses() -> BTreeMap<String, RefOr<utoipa::openapi::Response>> {
        let all = [
            (
                "400",
                "The request is malformed, or asks for something that is not supported",
            ),
            ("401", "Not authenticated"),
            ("403", "The caller lacks the scope, or is not a user of this server"),
            ("404", "Not found, or not accessible to the caller"),
            ("429", "Too many requests; see Retry-After"),
            ("500", "An internal error occurred"),
            (
                "503",
                "The database is unavailable, or the server is shutting down; see Retry-After",
            ),
        ];
        let described = |description: &str| {
            let content = ContentBuilder::new()
                .schema(Some(Ref::from_schema_name("OpenAiError")))
                .build();
            let response = ResponseBuilder::new()
                .description(description)
                .content("application/json", content);
            RefOr::T(response.build())
        };
        all.iter()
            .map(|(status, description)| ((*status).to_owned(), described(description)))
            .collect()
    }
}

/// Whether the path is one of this protocol.
pub fn has(path: &str) -> bool {
    path.starts_with(PREFIX)
}

/// Whether a request for this path may wait for a whole answer before its response begins.
pub fn waits(path: &str) -> bool {
    [responses::PATH, responses::CANCEL_PATH, completions::PATH].contains(&path)
}

/// Gives errors of the paths under `/v1` the protocol's shape.
pub async fn translated(request: Request, next: Next) -> Response {
    let is_ours = has(request.uri().path());
    let response = next.run(request).await;
    let is_problem = |headers: &HeaderMap| {
        headers
            .get(CONTENT_TYPE)
            .is_some_and(|kind| kind == "application/problem+json")
    };
    if !is_ours || !is_problem(response.headers()) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let bytes = body::to_bytes(body, PROBLEM_MAX_BYTES).await.unwrap_or_default();
    let problem: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let text = |name: &str| problem[name].as_str().unwrap_or_default();
    let error = errors::body(
        parts.status.as_u16(),
        text("code"),
        text("detail"),
        problem[PARAM].as_str(),
    );
    parts.headers.remove(CONTENT_LENGTH);
    parts
        .headers
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if parts.status == StatusCode::CONFLICT {
        // Clients take a conflict for a lost race.
        parts.headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
    }
    Response::from_parts(parts, Body::from(error.to_string()))
}

fn refused(invalid: Invalid) -> Problem {
    let problem = Problem::bad_request(invalid.code, invalid.message);
    match invalid.param {
        Some(param) => problem.with(PARAM, json!(param)),
        None => problem,
    }
}

/// Reads a request that was checked to be a JSON object.
fn read<T: DeserializeOwned>(body: &Value) -> Result<T, Problem> {
    T::deserialize(body).map_err(|error| Problem::bad_request("invalid_body", error.to_string()))
}

/// A response that is one JSON document.
fn document(status: StatusCode, body: Vec<u8>) -> Response {
    let kind = [(CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    (status, kind, body).into_response()
}
