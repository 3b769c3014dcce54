//! Traces and metrics of a process. Traces: spans with the names and attributes of OpenTelemetry's conventions, sent over OTLP
//! (docs/operations/traces.md). Called by the API, which opens the span of a request that starts a run, and by the worker, whose spans are those of
//! attempts, model calls and tool calls. Metrics: the list of all, and the text that Prometheus reads (docs/operations/metrics.md); they are recorded
//! with the macros of `metrics`, where they happen.
//!
//! The only crate that names OpenTelemetry's. Its SDK encodes and sends spans; which spans there are, and when they are sent, is decided here:
//! the SDK's batch processor runs in a thread, in which the HTTP client has no runtime, and its experimental one for runtimes blocks a
//! thread when it ends (docs/decisions/0062-traces.md).
//!
//! Invariants: without an endpoint nothing is allocated, sent or started. A collector that does not respond delays nothing: spans are dropped. No
//! prompt, answer, argument or result is put into a span.
//!
//! # Layout
//! - `context`     the identity of a span, as `traceparent`
//! - `sampler`     which traces are recorded
//! - `settings`    OpenTelemetry's environment variables
//! - `export`      the bounded queue of ended spans, and the task that sends them
//! - `span`        an open span
//! - `tracer`      opens spans
//! - `conventions` the spans of requests, attempts, model calls and tool calls
//! - `catalogue`   every metric
//! - `recorder`    the metrics recorder of a process
//! - `exposition`  values that are read when the metrics are asked for; `process`: those of the process
//! - `labels`      bounds the values of labels
//!
//! Imports go one way: conventions -> tracer -> settings, span -> export, sampler, context; recorder -> process -> exposition -> catalogue.

pub mod catalogue;
mod context;
mod conventions;
mod export;
pub mod exposition;
pub mod labels;
mod process;
pub mod recorder;
mod sampler;
mod settings;
mod span;
mod tracer;

pub use context::{Parent, TraceContext};
pub use conventions::{Attempt, TokensUsed};
pub use settings::{TelemetryArgs, TelemetryError};
pub use span::{Attribute, Span};
pub use tracer::Telemetry;
