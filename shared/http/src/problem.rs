//! Error responses of the API, as RFC 9457 `application/problem+json`. Handlers return them; causes are logged here,
//! once, and never sent to the caller.
//!
//! - `causes`  the problem of each error of the engine

mod causes;

use std::collections::BTreeMap;

use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::response::{IntoResponse, Response};
use rejoin_db::PgError;
use serde::Serialize;
use serde_json::{Map, Value, json};
use tracing::{error, warn};
use utoipa::ToSchema;
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::{ContentBuilder, Ref, RefOr, Response as ApiResponse};

/// Retry delay for callers while the database is unreachable, in seconds.
const RETRY_AFTER_S: u64 = 1;
/// Prefix of a problem's `type`.
const TYPE_PREFIX: &str = "urn:rejoin:problem:";

/// The format of an error, for the OpenAPI document.
#[derive(Serialize, ToSchema)]
#[schema(as = Problem)]
pub struct ProblemBody {
    /// `urn:rejoin:problem:` followed by the code
    pub r#type: String,
    /// The kind of problem, in words
    pub title: String,
    pub status: u16,
    /// What went wrong
    pub detail: String,
    /// A stable error code for programs
    pub code: String,
}

#[derive(Debug, Clone)]
pub struct Problem {
    pub status: StatusCode,
    pub code: &'static str,
    pub detail: String,
    /// Additional members.
    pub extra: Map<String, Value>,
    pub retry_after_s: Option<u64>,
}

impl Problem {
    pub fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self {
            status,
            code,
            detail: detail.into(),
            extra: Map::new(),
            retry_after_s: None,
        }
    }

    pub fn bad_request(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, detail)
    }

    pub fn conflict(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, code, detail)
    }

    pub fn unauthorized(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, code, detail)
    }

    /// `what` begins the sentence: "The run".
    pub fn not_found(code: &'static str, what: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, code, format!("{what} was not found"))
    }

    pub fn too_many(detail: impl Into<String>, retry_after_s: u64) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, "too_many_requests", detail).retry_after(retry_after_s)
    }

    pub fn draining() -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "draining",
            "the server is shutting down; reconnect",
        )
        .retry_after(RETRY_AFTER_S)
    }

    /// Refused before it takes a connection from requests in progress.
    pub fn overloaded(retry_after_s: u64) -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "overloaded",
            "the server is overloaded; retry later",
        )
        .retry_after(retry_after_s)
    }

    pub fn database_away() -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "database_unavailable",
            "the database does not respond; retry later",
        )
        .retry_after(RETRY_AFTER_S)
    }

    /// Details of the object store's failure are logged for the operator.
    pub fn files_unavailable() -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "files_unavailable",
            "the file store is unavailable; try again",
        )
        .retry_after(RETRY_AFTER_S)
    }

    /// Details of the failure are logged for the operator.
    pub fn archive_unavailable() -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "archive_unavailable",
            "these events are in the archive of old logs, which is unavailable; try again",
        )
        .retry_after(RETRY_AFTER_S)
    }

    pub fn file_damaged() -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "file_damaged",
            "the content of this file was changed where it is kept; upload it again",
        )
    }

    /// For unexpected errors. Does not reveal the cause: log it before.
    pub fn internal() -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal_error",
            "an internal error occurred",
        )
    }

    pub fn with(mut self, name: &str, value: Value) -> Self {
        self.extra.insert(name.to_owned(), value);
        self
    }

    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after_s = Some(seconds);
        self
    }

    /// Returns the members of its body.
    pub fn to_json(&self) -> Value {
        let mut body = Map::new();
        body.insert("type".into(), json!(format!("{TYPE_PREFIX}{}", self.code)));
        body.insert("title".into(), json!(self.title()));
        body.insert("status".into(), json!(self.status.as_u16()));
        body.insert("detail".into(), json!(self.detail));
        body.insert("code".into(), json!(self.code));
        body.extend(self.extra.clone());
        Value::Object(body)
    }

    /// Returns the code in words.
    fn title(&self) -> String {
        let words = self.code.replace('_', " ");
        let mut chars = words.chars();
        chars
            .next()
            .map(|first| first.to_uppercase().chain(chars).collect())
            .unwrap_or_default()
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.status, self.to_json().to_string()).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = self.retry_after_s {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static(r#"Bearer realm="rejoin""#));
        }
        response
    }
}

impl From<sqlx::Error> for Problem {
    fn from(error: sqlx::Error) -> Self {
        if rejoin_db::is_transient(&error) || matches!(error, sqlx::Error::PoolClosed) {
            warn!(%error, "the database could not serve a request");
            return Self::database_away();
        }
        let code = error.as_database_error().and_then(|error| error.code());
        match code.as_deref() {
            // Text that PostgreSQL can't store: NUL, or a lone surrogate.
            Some("22021" | "22P05" | "22P02") => {
                Self::bad_request("invalid_text", "the request contains characters that cannot be stored")
            }
            // Missing table or schema: migrations have not been applied.
            Some("42P01" | "3F000") => {
                error!(
                    error = &error as &dyn std::error::Error,
                    "the database schema is missing"
                );
                Self::database_away()
            }
            _ => {
                error!(error = &error as &dyn std::error::Error, "a statement failed");
                Self::internal()
            }
        }
    }
}

impl From<PgError> for Problem {
    fn from(error: PgError) -> Self {
        if error.is_transient() {
            warn!(%error, "the database could not serve a request");
            return Self::database_away();
        }
        error!(error = &error as &dyn std::error::Error, "a statement failed");
        Self::internal()
    }
}

fn described(description: &str) -> RefOr<ApiResponse> {
    let content = ContentBuilder::new()
        .schema(Some(Ref::from_schema_name("Problem")))
        .build();
    RefOr::T(
        ResponseBuilder::new()
            .description(description)
            .content("application/problem+json", content)
            .build(),
    )
}

fn responses_of(all: &[(&str, &str)]) -> BTreeMap<String, RefOr<ApiResponse>> {
    all.iter()
        .map(|(status, description)| ((*status).to_owned(), described(description)))
        .collect()
}

/// The error responses of every authenticated route, for the OpenAPI document.
pub struct Refused;

impl utoipa::IntoResponses for Refused {
    fn responses() -> BTreeMap<String, RefOr<ApiResponse>> {
        responses_of(&[
            ("400", "The request is malformed"),
            ("401", "Not authenticated"),
            ("403", "The caller lacks the scope, or is not a user of this server"),
            ("404", "Not found, or not accessible to the caller"),
            ("429", "Too many requests; see Retry-After"),
            ("500", "An internal error occurred"),
            (
                "503",
                "The database is unavailable, or the server is shutting down; see Retry-After",
            ),
        ])
    }
}

/// The error responses of routes with a body.
pub struct BodyRefused;

impl utoipa::IntoResponses for BodyRefused {
    fn responses() -> BTreeMap<String, RefOr<ApiResponse>> {
        responses_of(&[
            ("408", "The body arrived too slowly"),
            ("413", "The body is too large"),
            ("415", "The body is not application/json"),
        ])
    }
}
