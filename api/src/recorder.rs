//! The metrics recorder of this process, and the description of each metric.

use std::sync::OnceLock;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

/// Returns this process's recorder, installed once: several servers may run in one process.
pub fn install() -> PrometheusHandle {
    static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();
    HANDLE
        .get_or_init(|| {
            let recorder = PrometheusBuilder::new().build_recorder();
            let handle = recorder.handle();
            // Another recorder is installed: ours stays empty.
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
    describe_counter!(
        "rejoin_events_by_hint_total",
        "New events of the followed logs that came with a wake-up, without a query"
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
    describe_counter!("rejoin_spans_sent_total", "Spans sent to the collector of traces");
    describe_counter!(
        "rejoin_spans_lost_total",
        "Spans that were not sent to the collector of traces"
    );
    describe_gauge!("rejoin_open_streams", "Open streams");
    // Registered at start, so that they are exported with 0.
    for name in [
        "rejoin_messages_posted_total",
        "rejoin_events_delivered_total",
        "rejoin_stream_bytes_total",
        "rejoin_tail_queries_total",
        "rejoin_events_by_hint_total",
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
