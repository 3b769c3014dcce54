//! Sends a file: byte for byte, whole or a range of it, as a download.
//!
//! Invariant: a download is never rendered as a page or script of this server, whatever was uploaded.

use std::io;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_SECURITY_POLICY,
    CONTENT_TYPE, ETAG, IF_NONE_MATCH, IF_RANGE, RANGE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::{StreamExt, stream};
use rejoin_db::rls;
use rejoin_files::types::{self, Class};
use rejoin_files::{CHUNK_BYTES, File, ReadError};
use rejoin_http::caller::{Caller, Read};
use rejoin_http::extract::Segments;
use rejoin_http::problem::{Problem, ProblemBody, Refused};
use rejoin_types::digest::hex;
use uuid::Uuid;

use super::{not_found, visible};
use crate::state::ChatState;

/// The Content-Security-Policy of downloads: they can't run or load anything.
const POLICY: &str = "sandbox; default-src 'none'";
/// A client may cache a copy, and revalidates it before each use.
const CACHE: &str = "private, no-cache";

/// Download a file, byte for byte
#[utoipa::path(get, path = "/api/files/{id}/content", tag = "files",
    params(("id" = Uuid, Path, description = "The file"),
        ("Range" = Option<String>, Header, description = "One range of bytes"),
        ("If-None-Match" = Option<String>, Header, description = "The `ETag` of the version that the reader has")),
    responses((status = 200, description = "The content, as a download", body = String, content_type = "application/octet-stream"),
        (status = 206, description = "The requested range", body = String, content_type = "application/octet-stream"),
        (status = 304, description = "Not modified"),
        (status = 416, description = "The range is not satisfiable", body = ProblemBody, content_type = "application/problem+json"),
        Refused))]
pub(super) async fn content(
    State(state): State<ChatState>,
    caller: Caller<Read>,
    Segments(id): Segments<Uuid>,
    asked: HeaderMap,
) -> Result<Response, Problem> {
    let file = visible(&state, &caller, id).await?;
    sent(state, caller.rls_scope(), file, &asked).await
}

/// Sends a file, as far as the request's headers ask for it. `scope` sees the file.
pub(crate) async fn sent(
    state: ChatState,
    scope: rls::Scope,
    file: File,
    asked: &HeaderMap,
) -> Result<Response, Problem> {
    let tag = format!("\"{}\"", hex(&file.sha256));
    let text = |name: HeaderName| asked.get(name).and_then(|value| value.to_str().ok());
    let mut headers = HeaderMap::new();
    for (name, value) in [
        (CACHE_CONTROL, CACHE),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (ACCEPT_RANGES, "bytes"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    let insert = |headers: &mut HeaderMap, name: HeaderName, value: String| {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(name, value);
        }
    };
    insert(&mut headers, ETAG, tag.clone());
    if text(IF_NONE_MATCH).is_some_and(|known| known.split(',').any(|known| known.trim() == tag)) {
        return Ok((StatusCode::NOT_MODIFIED, headers).into_response());
    }
    insert(&mut headers, CONTENT_TYPE, served_as(&file.media_type));
    insert(&mut headers, CONTENT_DISPOSITION, disposition(&file.name));
    let size = u64::try_from(file.size_bytes).unwrap_or_default();
    let is_same = text(IF_RANGE).is_none_or(|known| known == tag);
    let (status, from, to) = match text(RANGE)
        .filter(|_| is_same)
        .map(|range| requested_range(range, size))
    {
        None | Some(RequestedRange::All) => (StatusCode::OK, 0, size),
        Some(RequestedRange::Part { from, to }) => {
            insert(&mut headers, CONTENT_RANGE, format!("bytes {from}-{}/{size}", to - 1));
            (StatusCode::PARTIAL_CONTENT, from, to)
        }
        Some(RequestedRange::Nothing) => {
            let detail = format!("the requested range is outside of the file, which has {size} bytes");
            return Err(Problem::new(
                StatusCode::RANGE_NOT_SATISFIABLE,
                "range_not_satisfiable",
                detail,
            ));
        }
    };
    insert(&mut headers, CONTENT_LENGTH, (to - from).to_string());
    let reader = Reader { scope, state, file, to };
    if from >= to {
        return Ok((status, headers).into_response());
    }
    // The first piece precedes the headers: an unreadable file is an error, not a truncated download.
    let first = match reader.piece(from).await {
        Ok(Some(piece)) => piece,
        Ok(None) => return Err(not_found()),
        Err(ReadError::Database(error)) => return Err(error.into()),
        Err(ReadError::ObjectStore(error)) => return Err(error.into()),
    };
    let at = from + first.len() as u64;
    let rest = stream::try_unfold((reader, at), async |(reader, at)| {
        if at >= reader.to {
            return Ok(None);
        }
        // Deleted while being read: the response is aborted, so that no client takes a part for the whole.
        let piece = reader.piece(at).await.map_err(io::Error::other)?;
        let piece = piece.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        let next = at + piece.len() as u64;
        Ok(Some((piece, (reader, next))))
    });
    let pieces = stream::iter([Ok::<_, io::Error>(first)]).chain(rest);
    Ok((status, headers, Body::from_stream(pieces)).into_response())
}

/// Reads a file up to `to`, in pieces.
struct Reader {
    state: ChatState,
    scope: rls::Scope,
    file: File,
    to: u64,
}

impl Reader {
    /// Returns the content from `at` to the end of its piece. None: the file was deleted.
    async fn piece(&self, at: u64) -> Result<Option<Bytes>, ReadError> {
        let within = usize::try_from(at % CHUNK_BYTES as u64).unwrap_or_default();
        let position = i32::try_from(at / CHUNK_BYTES as u64).unwrap_or(i32::MAX);
        let piece = if self.file.in_object_store {
            self.state.files.read_object(&self.file, position).await?
        } else {
            let mut tx = rls::begin(&self.state.db.pool_sqlx, self.scope).await?;
            rejoin_files::chunk(&mut *tx, self.file.id, position)
                .await?
                .map(Bytes::from)
        };
        let left = usize::try_from(self.to - at).unwrap_or(usize::MAX);
        Ok(piece
            .map(|piece| {
                let end = piece.len().min(within.saturating_add(left));
                piece.slice(within.min(end)..end)
            })
            .filter(|piece| !piece.is_empty()))
    }
}

/// Text is sent as plain text, whatever its subtype.
fn served_as(media_type: &str) -> String {
    match types::class_of(media_type) {
        Some(Class::Text) => "text/plain; charset=utf-8".to_owned(),
        Some(Class::Image | Class::Pdf | Class::Audio) => media_type.to_owned(),
        None => "application/octet-stream".to_owned(),
    }
}

/// RFC 6266: the name in ASCII for old clients, and in full.
fn disposition(name: &str) -> String {
    let is_plain = |char: char| char.is_ascii_graphic() && !matches!(char, '"' | '\\' | '%') || char == ' ';
    let plain: String = name
        .chars()
        .map(|char| if is_plain(char) { char } else { '_' })
        .collect();
    let mut encoded = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_') {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{encoded}")
}

/// The request of a `Range` header.
#[derive(Debug, PartialEq, Eq)]
enum RequestedRange {
    /// The whole file: several ranges, or an unsupported header.
    All,
    /// Up to `to`, exclusive.
    Part {
        from: u64,
        to: u64,
    },
    Nothing,
}

fn requested_range(range: &str, size: u64) -> RequestedRange {
    let Some((first, last)) = range
        .strip_prefix("bytes=")
        .filter(|ranges| !ranges.contains(','))
        .and_then(|range| range.trim().split_once('-'))
    else {
        return RequestedRange::All;
    };
    let (from, to) = match (first.parse::<u64>(), last.parse::<u64>()) {
        (Ok(first), Ok(last)) if first <= last => (first, last.saturating_add(1).min(size)),
        (Ok(first), Err(_)) if last.is_empty() => (first, size),
        (Err(_), Ok(last)) if first.is_empty() => (size.saturating_sub(last), size),
        _ => return RequestedRange::All,
    };
    if from >= to {
        RequestedRange::Nothing
    } else {
        RequestedRange::Part { from, to }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_range_is_understood() {
        let part = |from, to| RequestedRange::Part { from, to };
        for (range, expected) in [
            ("bytes=0-0", part(0, 1)),
            ("bytes=5-", part(5, 10)),
            ("bytes=-3", part(7, 10)),
            ("bytes=-30", part(0, 10)),
            ("bytes=8-99", part(8, 10)),
            ("bytes=10-", RequestedRange::Nothing),
            ("bytes=-0", RequestedRange::Nothing),
            ("bytes=0-1,3-4", RequestedRange::All),
            ("bytes=4-1", RequestedRange::All),
            ("lines=1-2", RequestedRange::All),
        ] {
            assert_eq!(requested_range(range, 10), expected, "{range}");
        }
    }

    #[test]
    fn a_name_can_end_no_header() {
        assert_eq!(
            disposition("a\"b é.png"),
            "attachment; filename=\"a_b _.png\"; filename*=UTF-8''a%22b%20%C3%A9.png"
        );
        assert_eq!(served_as("image/svg+xml"), "text/plain; charset=utf-8");
        assert_eq!(served_as("text/html"), "text/plain; charset=utf-8");
        assert_eq!(served_as("image/png"), "image/png");
        assert_eq!(served_as("application/octet-stream"), "application/octet-stream");
    }
}
