//! Serves the web app: files that `make web` has built into `web/dist`, embedded in the binary (a debug build reads
//! them from disk). The app uses the public API; nothing here queries the database.
//!
//! Any path that is no file and looks like a page returns the app. Without a built app, a page explains how to build
//! it.

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{
    ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    IF_NONE_MATCH, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use rejoin_http::authorization::Public;
use rejoin_http::problem::Problem;
use rejoin_types::digest;
use rust_embed::{EmbeddedFile, RustEmbed};

#[derive(RustEmbed)]
#[folder = "../web/dist"]
#[allow_missing = true]
struct App;

const INDEX: &str = "index.html";
/// The page of the API reference.
const REFERENCE: &str = "api-docs/index.html";
/// The path of the API reference.
pub const REFERENCE_PATH: &str = "/api/docs";
/// Files below it have content hashes in their names.
const HASHED: &str = "assets/";
/// The Content-Security-Policy: the page runs our files and connects to this server, and nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; \
     connect-src 'self'; manifest-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const WITHOUT_APP: &str = "<!doctype html><html lang=en><meta charset=utf-8><title>Rejoin</title><h1>Rejoin is \
    running</h1><p>This build does not include the web app. Run <code>make web</code> (Node.js 20 or newer) and build \
    the server again; <code>make run</code> does both.</p><p>The API is described in <a \
    href=/openapi.json>/openapi.json</a>; <code>rejoin chat</code> is a client for the terminal.</p></html>";

/// Handles requests without a route.
pub async fn serve(request: Request) -> Response {
    let path = request.uri().path().trim_start_matches('/');
    let is_read = request.method() == Method::GET || request.method() == Method::HEAD;
    if !is_read || path.starts_with("api/") || path == "api" || path.starts_with("v1/") {
        return Problem::not_found("not_found", "The path").into_response();
    }
    if !path.is_empty()
        && let Some(file) = App::get(path)
    {
        return answer(path, file, request.headers());
    }
    // The root path always serves the page; below it, only browsers request pages.
    let wants_page = path.is_empty()
        || request
            .headers()
            .get(ACCEPT)
            .and_then(|accept| accept.to_str().ok())
            .is_some_and(|accept| accept.contains("text/html"));
    if !wants_page || path.starts_with(HASHED) {
        return Problem::not_found("not_found", "The path").into_response();
    }
    page(INDEX, request.headers())
}

/// Handles `GET /api/docs`: the API reference, a page that shows `/openapi.json`. All that it loads is in the binary.
pub async fn reference(_: Public, headers: HeaderMap) -> Response {
    page(REFERENCE, &headers)
}

/// Returns a page of the built app, or the page that explains how to build it.
fn page(path: &str, asked: &HeaderMap) -> Response {
    match App::get(path) {
        Some(file) => answer(path, file, asked),
        None => guarded((
            StatusCode::OK,
            [(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"))],
            WITHOUT_APP,
        )),
    }
}

/// Returns a file, compressed if the build has compressed it and the client accepts that.
fn answer(path: &str, file: EmbeddedFile, asked: &HeaderMap) -> Response {
    let tag = format!("\"{}\"", digest::hex(&file.metadata.sha256_hash()[..16]));
    let cache = if path.starts_with(HASHED) {
        "public, max-age=31536000, immutable"
    } else {
        "no-cache"
    };
    let mut headers = HeaderMap::new();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(cache));
    headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
    if let Ok(tag) = HeaderValue::try_from(&tag) {
        headers.insert(ETAG, tag);
    }
    let header = |name: HeaderName| {
        asked
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    };
    if header(IF_NONE_MATCH).split(',').any(|known| known.trim() == tag) {
        return guarded((StatusCode::NOT_MODIFIED, headers));
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind_of(path)));
    let takes_packed = header(ACCEPT_ENCODING).split(',').any(|coding| coding.trim() == "br");
    let packed = takes_packed.then(|| App::get(&format!("{path}.br"))).flatten();
    let content = match packed {
        Some(packed) => {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("br"));
            packed.data
        }
        None => file.data,
    };
    guarded((headers, Body::from(content.into_owned())))
}

/// Adds the security headers.
fn guarded(response: impl IntoResponse) -> Response {
    let mut response = response.into_response();
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (
            HeaderName::from_static("permissions-policy"),
            "camera=(), microphone=(self), geolocation=()",
        ),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Returns a file's media type, by its name: the build creates no other types.
fn kind_of(path: &str) -> &'static str {
    match path.rsplit_once('.').map(|(_, extension)| extension) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("json" | "map") => "application/json",
        Some("webmanifest") => "application/manifest+json",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("woff2") => "font/woff2",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn get(path: &str, accept: &'static str) -> Response {
        let request = Request::builder().uri(path).header(ACCEPT, accept);
        serve(request.body(Body::empty()).unwrap()).await
    }

    #[tokio::test]
    async fn pages_are_guarded_and_unknown_paths_of_the_api_are_problems() {
        for (path, accept) in [("/", "*/*"), ("/runs/some", "text/html,*/*"), ("/c/1", "text/html")] {
            let page = get(path, accept).await;
            assert_eq!(page.status(), StatusCode::OK, "{path}");
            let policy = page.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap().to_owned();
            assert!(
                policy.contains("script-src 'self';") && !policy.contains("unsafe"),
                "{policy}"
            );
            // The service worker.
            assert!(policy.contains("worker-src 'self';"), "{policy}");
        }
        let reference = reference(Public, HeaderMap::new()).await;
        assert_eq!(reference.status(), StatusCode::OK);
        assert_eq!(reference.headers()[CONTENT_SECURITY_POLICY], POLICY);
        for (path, accept) in [
            ("/api/nothing", "text/html"),
            ("/assets/gone.js", "text/html"),
            ("/favicon.ico", "image/*"),
        ] {
            assert_eq!(get(path, accept).await.status(), StatusCode::NOT_FOUND, "{path}");
        }
    }
}
