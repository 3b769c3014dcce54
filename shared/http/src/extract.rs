//! Extractors whose rejections are problems: the body, the query, the path, and a list's page.

use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::IntoParams;

use crate::problem::Problem;
use crate::state::HttpState;

/// Distinguishes a null field of a body from an absent one.
pub fn present<'de, T, D>(deserializer: D) -> Result<Option<Option<T>>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    Option::deserialize(deserializer).map(Some)
}

/// A JSON body.
pub struct Body<T>(pub T);

impl<T, S> FromRequest<S> for Body<T>
where
    T: DeserializeOwned,
    S: AsRef<HttpState> + Send + Sync,
{
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        if !is_json(request.headers()) {
            return Err(not_json());
        }
        let bytes = Bytes::from_request(request, state)
            .await
            .map_err(|rejection| body_problem(&rejection, state.as_ref()))?;
        // Serde would also accept an array of the fields' values.
        if bytes.trim_ascii_start().first().is_some_and(|first| *first == b'[') {
            return Err(Problem::bad_request("invalid_body", "the body must be a JSON object"));
        }
        serde_json::from_slice(&bytes)
            .map(Body)
            .map_err(|error| json_problem(&error))
    }
}

/// Parses an optional JSON body that its handler has read.
pub fn json<T: DeserializeOwned>(headers: &HeaderMap, bytes: &[u8]) -> Result<T, Problem> {
    if !is_json(headers) {
        return Err(not_json());
    }
    serde_json::from_slice(bytes).map_err(|error| json_problem(&error))
}

fn not_json() -> Problem {
    Problem::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "unsupported_media_type",
        "the body must be application/json",
    )
}

fn is_json(headers: &HeaderMap) -> bool {
    let Some(kind) = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()) else {
        return false;
    };
    let essence = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"))
}

fn body_problem(rejection: &BytesRejection, state: &HttpState) -> Problem {
    if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
        let limit = state.args.max_body_bytes;
        return Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "body_too_large",
            format!("the body is larger than {limit} bytes"),
        );
    }
    Problem::bad_request("body_unreadable", "the body could not be read")
}

/// Returns the problem of a body, with the name of an unknown field.
fn json_problem(error: &serde_json::Error) -> Problem {
    let detail = error.to_string();
    let code = match error.classify() {
        serde_json::error::Category::Data if detail.starts_with("unknown field") => "unknown_field",
        serde_json::error::Category::Data => "invalid_body",
        _ => "malformed_json",
    };
    Problem::bad_request(code, detail)
}

/// The query string.
pub struct Params<T>(pub T);

impl<T, S> FromRequestParts<S> for Params<T>
where
    T: DeserializeOwned,
    S: Send + Sync,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Query::<T>::from_request_parts(parts, state).await {
            Ok(Query(params)) => Ok(Params(params)),
            Err(rejection) => Err(Problem::bad_request("invalid_query", rejection.body_text())),
        }
    }
}

/// Segments of the path. An invalid id gets 404.
pub struct Segments<T>(pub T);

impl<T, S> FromRequestParts<S> for Segments<T>
where
    T: DeserializeOwned + Send,
    S: Send + Sync,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Path::<T>::from_request_parts(parts, state).await {
            Ok(Path(segments)) => Ok(Segments(segments)),
            Err(rejection) if rejection.status().is_server_error() => Err(rejection_is_ours(rejection)),
            Err(_) => Err(Problem::not_found("not_found", "What the path names")),
        }
    }
}

fn rejection_is_ours(rejection: impl IntoResponse + std::fmt::Debug) -> Problem {
    tracing::error!(?rejection, "a route's path does not fit its handler");
    Problem::internal()
}

/// The requested number of items: far more than any page has, but as documented, no more than 31 bits.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "u32")]
pub struct Limit(i32);

impl TryFrom<u32> for Limit {
    type Error = String;

    fn try_from(limit: u32) -> Result<Self, String> {
        i32::try_from(limit)
            .map(Self)
            .map_err(|_| format!("limit must be at most {}", i32::MAX))
    }
}

impl From<Limit> for i64 {
    fn from(limit: Limit) -> i64 {
        i64::from(limit.0)
    }
}

/// Which page of a list.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct PageParams {
    /// Maximum number of items in the page
    #[param(value_type = Option<i32>, minimum = 1)]
    pub limit: Option<Limit>,
    /// `nextCursor` of the previous page
    pub cursor: Option<String>,
}

impl PageParams {
    /// Returns the number of items per page.
    pub fn limit(&self, state: &HttpState) -> Result<i64, Problem> {
        match self.limit.map(i64::from) {
            Some(0) => Err(Problem::bad_request("invalid_query", "limit must be at least 1")),
            Some(limit) => Ok(limit.min(i64::from(state.args.max_page_size))),
            None => Ok(i64::from(state.args.page_size)),
        }
    }

    /// Returns the start of the page.
    pub fn after<K: DeserializeOwned>(&self) -> Result<Option<K>, Problem> {
        let Some(cursor) = &self.cursor else { return Ok(None) };
        let malformed = || Problem::bad_request("cursor_malformed", "the cursor is invalid");
        let json = URL_SAFE_NO_PAD.decode(cursor).map_err(|_| malformed())?;
        serde_json::from_slice(&json).map(Some).map_err(|_| malformed())
    }
}

/// Builds a page from one extra item, which shows whether there is a next page.
pub fn page<Row, Item, K: Serialize>(
    mut rows: Vec<Row>,
    limit: i64,
    key: impl Fn(&Row) -> K,
    item: impl Fn(Row) -> Item,
) -> (Vec<Item>, Option<String>) {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let more = rows.len() > limit;
    rows.truncate(limit);
    let next_cursor = rows.last().filter(|_| more).map(|last| cursor(&key(last)));
    (rows.into_iter().map(item).collect(), next_cursor)
}

/// Maximum length of a search text, in characters.
pub const SEARCH_MAX_CHARS: usize = 200;

/// Checks the parameter `q` of a search. Returns it without the space around it.
pub fn search_text(q: &str) -> Result<&str, Problem> {
    let text = q.trim();
    if text.is_empty() || q.chars().count() > SEARCH_MAX_CHARS || text.contains('\0') {
        let detail = format!("q must have 1 to {SEARCH_MAX_CHARS} characters and no NUL");
        return Err(Problem::bad_request("invalid_query", detail));
    }
    Ok(text)
}

/// Encodes a cursor for clients: `PageParams::after` parses it.
pub fn cursor(key: &impl Serialize) -> String {
    let json = serde_json::to_vec(key).expect("a cursor is plain data");
    URL_SAFE_NO_PAD.encode(json)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_names_the_next_one_only_if_there_is_one() {
        let (items, next) = page(vec![1, 2, 3], 2, |n| *n, |n| n);
        let params = PageParams {
            limit: None,
            cursor: next,
        };
        assert_eq!((items, params.after::<i32>().unwrap()), (vec![1, 2], Some(2)));
        let (items, next) = page(vec![1, 2], 2, |n| *n, |n| n);
        assert_eq!((items, next), (vec![1, 2], None));
    }

    #[test]
    fn a_cursor_that_is_not_ours_is_refused() {
        let params = PageParams {
            limit: None,
            cursor: Some("%%%".into()),
        };
        assert_eq!(params.after::<i32>().unwrap_err().code, "cursor_malformed");
    }
}
