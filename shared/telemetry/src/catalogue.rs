//! Every metric of Rejoin: its name, its type, the processes that have it, its labels and its help text. Read by `recorder` and `exposition`;
//! docs/operations/metrics.md says more of each.
//!
//! Names follow Prometheus' conventions: base units, and `_total` for counters. A test compares this list with the code that records, with the
//! alerts and the dashboard, and with that page.

/// The type of a metric, as Prometheus names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    /// Only grows, until the process ends.
    Counter,
    /// Any value.
    Gauge,
    /// Counts of values in buckets, with their sum.
    Histogram,
}

impl Type {
    /// Its name in the text format.
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// A kind of process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Process {
    /// `rejoin api`
    Api,
    /// `rejoin worker`
    Worker,
}

impl Process {
    /// Its name, as a label.
    pub fn name(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Worker => "worker",
        }
    }
}

/// A metric.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// The name.
    pub name: &'static str,
    /// The type.
    pub kind: Type,
    /// The processes that have it.
    pub processes: &'static [Process],
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// The help text.
    pub help: &'static str,
}

const API: &[Process] = &[Process::Api];
const WORKER: &[Process] = &[Process::Worker];
const BOTH: &[Process] = &[Process::Api, Process::Worker];

const fn metric(
    name: &'static str,
    kind: Type,
    processes: &'static [Process],
    labels: &'static [&'static str],
    help: &'static str,
) -> Metric {
    Metric {
        name,
        kind,
        processes,
        labels,
        help,
    }
}

/// Returns the metric with this name.
pub fn find(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| metric.name == name)
}

use Type::{Counter, Gauge, Histogram};

/// All metrics, by subject.
#[rustfmt::skip]
pub const METRICS: &[Metric] = &[
    // The process.
    metric("rejoin_build_info", Gauge, BOTH, &["version", "component"], "Always 1; the version and the kind of the process"),
    metric("rejoin_setting_info", Gauge, BOTH, &["setting", "value"], "Always 1; a setting that all processes of an installation need the same value of"),
    metric("rejoin_clock_seconds", Gauge, BOTH, &[], "The clock of the process since the Unix epoch in seconds"),
    metric("rejoin_draining", Gauge, BOTH, &[], "1 while the process shuts down"),
    metric("process_start_time_seconds", Gauge, BOTH, &[], "Start time of the process since the Unix epoch in seconds"),
    metric("process_cpu_seconds_total", Counter, BOTH, &[], "Total user and system CPU time spent in seconds"),
    metric("process_resident_memory_bytes", Gauge, BOTH, &[], "Resident memory size in bytes"),
    metric("process_open_fds", Gauge, BOTH, &[], "Number of open file descriptors"),
    metric("process_max_fds", Gauge, BOTH, &[], "Maximum number of open file descriptors"),
    // The database.
    metric("rejoin_database_up", Gauge, BOTH, &[], "1 if the database answered the last query of the metrics (API) or the last heartbeat (worker)"),
    metric("rejoin_database_connections", Gauge, BOTH, &["pool", "state"], "Open connections to the database, by pool and whether they are idle or in use"),
    metric("rejoin_database_connections_max", Gauge, BOTH, &["pool"], "Maximum number of connections of a pool"),
    metric("rejoin_database_waiting", Gauge, BOTH, &["pool"], "Callers that wait for a connection; of the pool `queries`, those that begin a transaction"),
    metric("rejoin_wakeups_listening", Gauge, BOTH, &[], "1 if wake-ups of other processes arrive, 0 if their connection is lost; absent without a bus"),
    metric("rejoin_oldest_transaction_seconds", Gauge, WORKER, &[], "Age of the oldest open transaction of any client, which blocks vacuum"),
    // The queue and the fleet, as the API reads them.
    metric("rejoin_queue_jobs", Gauge, API, &["queue", "state"], "Jobs of the whole fleet, by what they do or wait for"),
    metric("rejoin_queue_dead_jobs", Gauge, API, &["queue"], "Jobs that failed permanently and are kept"),
    metric("rejoin_queue_oldest_job_seconds", Gauge, API, &["queue"], "How long the oldest due job has been due"),
    metric("rejoin_queue_paused", Gauge, API, &["queue"], "1 if the queue is paused"),
    metric("rejoin_workers", Gauge, API, &["state"], "Worker processes: live, draining, or silent, without a heartbeat for 15 s"),
    metric("rejoin_workers_slots", Gauge, API, &[], "Slots of all live workers"),
    metric("rejoin_queue_read_seconds", Gauge, API, &[], "Duration of the last query for these"),
    // Several databases.
    metric("rejoin_cell_up", Gauge, API, &["cell"], "1 if the database of the cell answers; 0: its projects get 503"),
    metric("rejoin_cell_projects", Gauge, API, &["cell"], "Projects that live on the cell"),
    metric("rejoin_placements_age_seconds", Gauge, API, &[], "Age of what is known of where projects live; absent without cells"),
    // Requests and readers.
    metric("rejoin_http_requests_total", Counter, API, &["method", "route", "status"], "Responses, by method, route and status"),
    metric("rejoin_http_request_seconds", Histogram, API, &["method", "route"], "Time from a request to the head of its response"),
    metric("rejoin_messages_posted_total", Counter, API, &[], "User messages stored"),
    metric("rejoin_files_uploaded_total", Counter, API, &[], "Files stored"),
    metric("rejoin_open_streams", Gauge, API, &[], "Open streams"),
    metric("rejoin_events_delivered_total", Counter, API, &[], "Events sent to readers"),
    metric("rejoin_stream_bytes_total", Counter, API, &[], "Bytes sent to readers"),
    metric("rejoin_tail_queries_total", Counter, API, &[], "Queries for new events of the followed logs"),
    metric("rejoin_tail_query_seconds", Histogram, API, &[], "Duration of queries for new events of the followed logs"),
    metric("rejoin_events_by_hint_total", Counter, API, &[], "New events of the followed logs that came with a wake-up, without a query"),
    metric("rejoin_log_reads_total", Counter, API, &[], "Pages of past events read for single readers"),
    metric("rejoin_stalled_connections_total", Counter, API, &[], "Connections closed because the peer stopped reading"),
    metric("rejoin_slow_heads_total", Counter, API, &[], "Connections closed because the head of a request did not arrive"),
    metric("rejoin_slow_bodies_total", Counter, API, &[], "Requests aborted because their body arrived too slowly"),
    metric("rejoin_requests_shed_total", Counter, API, &[], "Requests rejected because the server was overloaded"),
    metric("rejoin_connections_refused_total", Counter, API, &["bound"], "Connections closed at once because there were too many, by limit"),
    metric("rejoin_routed_total", Counter, API, &["reason", "confidence"], "Agents chosen for new conversations, by reason and confidence"),
    metric("rejoin_routing_seconds", Histogram, API, &[], "Duration of choosing an agent for a new conversation"),
    // Jobs and runs.
    metric("rejoin_worker_slots", Gauge, WORKER, &[], "Maximum number of concurrent jobs of this worker"),
    metric("rejoin_jobs_running", Gauge, WORKER, &[], "Jobs that this worker runs"),
    metric("rejoin_jobs_claimed_total", Counter, WORKER, &["queue"], "Jobs claimed, by queue"),
    metric("rejoin_job_wait_seconds", Histogram, WORKER, &["queue"], "Time from when a job was due to its claim"),
    metric("rejoin_job_seconds", Histogram, WORKER, &["kind"], "Duration of an attempt at a job, by its kind"),
    metric("rejoin_leases_expired_total", Counter, WORKER, &[], "Jobs made available again because their worker was lost"),
    metric("rejoin_runs_total", Counter, WORKER, &["status"], "Turns of runs that ended, by status"),
    metric("rejoin_runs_resumed_total", Counter, WORKER, &[], "Runs continued after an attempt that was lost"),
    metric("rejoin_message_first_token_seconds", Histogram, WORKER, &[], "Time from when a message's run was due to the first token of its answer"),
    metric("rejoin_limits_total", Counter, WORKER, &["limit"], "Limits that runs reached, by limit"),
    metric("rejoin_handoffs_total", Counter, WORKER, &["from", "to"], "Handovers of runs between agents"),
    metric("rejoin_schedules_fired_total", Counter, WORKER, &[], "Schedules that started something"),
    metric("rejoin_schedules_failed_total", Counter, WORKER, &[], "Schedules that were due and started nothing"),
    metric("rejoin_conversations_compressed_total", Counter, WORKER, &[], "Conversations whose history was summarized"),
    // Models and tools.
    metric("rejoin_model_calls_total", Counter, WORKER, &["model", "outcome"], "Model calls that ended, by model and outcome: `ok` or the kind of error"),
    metric("rejoin_model_call_seconds", Histogram, WORKER, &["model"], "Duration of answered model calls, with retries"),
    metric("rejoin_model_first_chunk_seconds", Histogram, WORKER, &["model"], "Time to the first part of a model's answer, with retries"),
    metric("rejoin_model_tokens_total", Counter, WORKER, &["model", "kind"], "Tokens of model calls: `input`, `output`; of these `cache_read`, `cache_write`, `reasoning`"),
    metric("rejoin_model_cost_microusd_total", Counter, WORKER, &["model"], "Cost of model calls with a known price, in millionths of a dollar"),
    metric("rejoin_model_retries_total", Counter, WORKER, &[], "Repeated model calls"),
    metric("rejoin_model_fallbacks_total", Counter, WORKER, &[], "Changes to a fallback model"),
    metric("rejoin_tool_call_seconds", Histogram, WORKER, &["tool"], "Duration of tool calls, by tool"),
    metric("rejoin_tool_selection_misses_total", Counter, WORKER, &[], "Calls of tools that were not offered in that step"),
    metric("rejoin_mcp_calls_total", Counter, WORKER, &["server", "outcome"], "Calls of MCP servers' tools, by server and outcome"),
    metric("rejoin_mcp_breaker_opened_total", Counter, WORKER, &["server"], "Pauses of MCP servers after repeated failures"),
    // Events.
    metric("rejoin_events_written_total", Counter, WORKER, &[], "Events in committed flushes"),
    metric("rejoin_event_flush_seconds", Histogram, WORKER, &[], "Duration of group commits of events, with retries"),
    metric("rejoin_event_flush_retries_total", Counter, WORKER, &[], "Group commits of events that failed and were tried again"),
    metric("rejoin_archived_events_total", Counter, WORKER, &[], "Events moved from the database to the archive of old logs"),
    metric("rejoin_archived_bytes_total", Counter, WORKER, &[], "Size of the objects with these events"),
    metric("rejoin_archive_reads_total", Counter, BOTH, &[], "Objects read from the archive for readers of old logs"),
    metric("rejoin_archive_read_seconds", Histogram, BOTH, &[], "Duration of reading an object from the archive"),
    metric("rejoin_archive_failures_total", Counter, BOTH, &["operation"], "Requests to the archive that failed: read, write or delete"),
    // Extensions.
    metric("rejoin_webhook_attempts_total", Counter, WORKER, &["outcome"], "Deliveries of webhooks that were tried, by outcome"),
    metric("rejoin_embedded_objects_total", Counter, WORKER, &[], "Objects of the graph whose vector was computed"),
    metric("rejoin_embedding_batch_seconds", Histogram, WORKER, &[], "Duration of computing a batch of vectors"),
    metric("rejoin_embedding_failures_total", Counter, WORKER, &[], "Batches of vectors that could not be computed"),
    // Traces.
    metric("rejoin_spans_sent_total", Counter, BOTH, &[], "Spans sent to the collector of traces"),
    metric("rejoin_spans_lost_total", Counter, BOTH, &[], "Spans that were not sent to the collector of traces"),
];
