//! `GET /metrics`: counters of this process, for Prometheus.

use std::sync::OnceLock;

use axum::extract::{MatchedPath, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::state::AppState;

pub fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(show))
}

/// The recorder of this process, installed once: several servers may run in one process.
pub fn handle() -> PrometheusHandle {
    static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();
    HANDLE
        .get_or_init(|| {
            let recorder = PrometheusBuilder::new().build_recorder();
            let handle = recorder.handle();
            // Another recorder is there already: ours stays empty, and theirs has the numbers.
            if ::metrics::set_global_recorder(recorder).is_err() {
                tracing::debug!("another metrics recorder is installed; /metrics stays empty");
            }
            describe();
            handle
        })
        .clone()
}

fn describe() {
    use ::metrics::{describe_counter, describe_gauge};
    describe_counter!("rejoin_http_requests_total", "Responses, by method, route and status");
    describe_counter!("rejoin_messages_posted_total", "User messages stored");
    describe_counter!("rejoin_events_delivered_total", "Events sent to readers");
    describe_counter!("rejoin_stream_bytes_total", "Bytes sent to readers");
    describe_counter!(
        "rejoin_tail_queries_total",
        "Queries for new events of the followed logs"
    );
    describe_counter!("rejoin_log_reads_total", "Pages of past events read for single readers");
    describe_counter!(
        "rejoin_stalled_connections_total",
        "Connections closed because the peer stopped reading"
    );
    describe_counter!(
        "rejoin_requests_shed_total",
        "Requests rejected because the server was overloaded"
    );
    describe_counter!(
        "rejoin_slow_bodies_total",
        "Requests aborted because their body arrived too slowly"
    );
    describe_counter!(
        "rejoin_slow_heads_total",
        "Connections closed because the head of a request did not arrive"
    );
    describe_counter!(
        "rejoin_connections_refused_total",
        "Connections closed at once because there were too many, by limit"
    );
    describe_gauge!("rejoin_open_streams", "Open streams");
    // Shown from the start.
    for name in [
        "rejoin_messages_posted_total",
        "rejoin_events_delivered_total",
        "rejoin_stream_bytes_total",
        "rejoin_tail_queries_total",
        "rejoin_log_reads_total",
        "rejoin_stalled_connections_total",
        "rejoin_requests_shed_total",
        "rejoin_slow_bodies_total",
        "rejoin_slow_heads_total",
    ] {
        ::metrics::counter!(name).increment(0);
    }
    ::metrics::gauge!("rejoin_open_streams").increment(0.0);
}

/// Get the metrics of this process
#[utoipa::path(get, path = "/metrics", tag = "operation", security(()),
    responses((status = 200, description = "Prometheus text format", body = String, content_type = "text/plain")))]
async fn show(State(state): State<AppState>) -> Response {
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
