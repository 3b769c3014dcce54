//! `GET /metrics`: metrics of this process and of the fleet, for Prometheus.

use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use rejoin_http::authorization::{Public, routes};
use rejoin_http::problem::Problem;

use crate::metrics_text;
use crate::state::{AppState, Routes};

pub fn routes() -> Routes {
    Routes::new().routes(routes!(show))
}

/// Get the metrics of this process
#[utoipa::path(get, path = "/metrics", tag = "operation",
    responses((status = 200, description = "Prometheus text format", body = String, content_type = "text/plain")))]
async fn show(State(state): State<AppState>, _: Public) -> Response {
    if state.config.metrics.is_some() {
        let what = "The page with the metrics (it is served at the address of --metrics)";
        return Problem::not_found("not_found", what).into_response();
    }
    metrics_text::response(&state).await
}

/// Counts each request by its route, and the time until its response begins.
pub async fn count(request: Request, next: Next) -> Response {
    let method = request.method().as_str().to_owned();
    let route = request
        .extensions()
        .get::<MatchedPath>()
        .map_or_else(|| "none".to_owned(), |matched| matched.as_str().to_owned());
    let began = Instant::now();
    let response = next.run(request).await;
    let took = began.elapsed();
    let status = response.status().as_u16().to_string();
    ::metrics::histogram!("rejoin_http_request_seconds", "method" => method.clone(), "route" => route.clone())
        .record(took.as_secs_f64());
    ::metrics::counter!("rejoin_http_requests_total", "method" => method, "route" => route, "status" => status)
        .increment(1);
    response
}
