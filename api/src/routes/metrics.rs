//! `GET /metrics`: counters of this process, for Prometheus.

use axum::extract::{MatchedPath, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use rejoin_http::authorization::{Public, routes};

use crate::state::{AppState, Routes};

pub fn routes() -> Routes {
    Routes::new().routes(routes!(show))
}

/// Get the metrics of this process
#[utoipa::path(get, path = "/metrics", tag = "operation",
    responses((status = 200, description = "Prometheus text format", body = String, content_type = "text/plain")))]
async fn show(State(state): State<AppState>, _: Public) -> Response {
    (
        [(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")],
        state.metrics.render(),
    )
        .into_response()
}

/// Counts each request by its route.
pub async fn count(request: Request, next: Next) -> Response {
    let method = request.method().as_str().to_owned();
    let route = request
        .extensions()
        .get::<MatchedPath>()
        .map_or_else(|| "none".to_owned(), |matched| matched.as_str().to_owned());
    let response = next.run(request).await;
    let status = response.status().as_u16().to_string();
    ::metrics::counter!("rejoin_http_requests_total", "method" => method, "route" => route, "status" => status)
        .increment(1);
    response
}
