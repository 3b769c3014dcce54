//! Opens spans. One handle per process, cheap to clone; [`Telemetry::off`] costs a comparison per span.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use opentelemetry::trace::{SpanContext, SpanKind, Status, TraceFlags, TraceState};
use opentelemetry::{InstrumentationScope, Key, KeyValue, SpanId, TraceId};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanExporter as _, SpanLinks};
use rejoin_types::ids;

use crate::context::{Parent, TraceContext, trace_of_run};
use crate::export::Queue;
use crate::sampler::Sampler;
use crate::settings::{Checked, TelemetryArgs, TelemetryError};
use crate::span::{Span, bounded};

/// The name of the instrumentation.
const SCOPE: &str = "rejoin";
/// Timeout of one request to the collector.
const REQUEST_LIMIT: Duration = Duration::from_secs(10);
/// Timeout of sending the last spans when a process ends.
const FLUSH_LIMIT: Duration = Duration::from_secs(5);
/// Most spans have no more attributes.
const ATTRIBUTES: usize = 16;

/// The attribute with the service's name.
const SERVICE_NAME: &str = "service.name";
/// What the SDK calls a service without a name.
const UNNAMED: &str = "unknown_service";

/// Opens spans, or none if traces are off. Cheap to clone.
#[derive(Clone, Default)]
pub struct Telemetry(Option<Arc<On>>);

struct On {
    queue: Queue,
    sampler: Sampler,
    scope: InstrumentationScope,
}

impl Telemetry {
    /// Traces are off.
    pub fn off() -> Self {
        Self::default()
    }

    /// Starts sending traces if the settings name a collector. Called in a runtime, which sends them. `service`: the name of the process's kind.
    pub fn start(args: &TelemetryArgs, service: &'static str) -> Result<Self, TelemetryError> {
        let Some(checked) = args.check()? else {
            return Ok(Self::off());
        };
        let Checked {
            endpoint,
            sampler,
            service_name,
        } = checked;
        let client = rejoin_egress::tls::http_client()
            .timeout(REQUEST_LIMIT)
            .build()
            .map_err(|error| TelemetryError::Exporter(error.to_string()))?;
        let mut exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(client)
            .with_endpoint(endpoint)
            .with_protocol(Protocol::HttpBinary)
            .build()
            .map_err(|error| TelemetryError::Exporter(error.to_string()))?;
        exporter.set_resource(&resource(service, service_name));
        Ok(Self(Some(Arc::new(On {
            queue: Queue::start(exporter),
            sampler,
            scope: InstrumentationScope::builder(SCOPE)
                .with_version(env!("CARGO_PKG_VERSION"))
                .build(),
        }))))
    }

    /// Returns whether traces are sent.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Opens a span. Its name is composed only if it is recorded.
    pub(crate) fn open(&self, parent: Parent, kind: SpanKind, name: impl FnOnce() -> String) -> Span {
        let Some(on) = &self.0 else {
            return Span::none();
        };
        let (trace_id, above) = match parent {
            Parent::Local(context) | Parent::Remote(context) => (context.trace_id, Some(context)),
            Parent::Run(root_run_id) => (trace_of_run(root_run_id), None),
            Parent::None => (TraceId::from(rand::random::<u128>().max(1)), None),
        };
        let context = TraceContext {
            trace_id,
            span_id: SpanId::from(rand::random::<u64>().max(1)),
            is_sampled: on.sampler.samples(above.map(|above| above.is_sampled), trace_id),
        };
        if !context.is_sampled {
            return Span::unrecorded(context);
        }
        // The machine's clock: it is what spans of other services have, too.
        let now = SystemTime::now();
        let data = SpanData {
            span_context: SpanContext::new(
                context.trace_id,
                context.span_id,
                TraceFlags::SAMPLED,
                false,
                TraceState::default(),
            ),
            parent_span_id: above.map_or(SpanId::INVALID, |above| above.span_id),
            parent_span_is_remote: matches!(parent, Parent::Remote(_)),
            span_kind: kind,
            name: bounded(&name()).into(),
            start_time: now,
            end_time: now,
            attributes: Vec::with_capacity(ATTRIBUTES),
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: Status::Unset,
            instrumentation_scope: on.scope.clone(),
        };
        Span::recorded(context, on.queue.clone(), data)
    }

    /// Sends what has ended so far, before the process ends. Waits for a few seconds at most.
    pub async fn flush(&self) {
        if let Some(on) = &self.0 {
            on.queue.flush(FLUSH_LIMIT).await;
        }
    }
}

/// Describes this process: its settings, then `OTEL_RESOURCE_ATTRIBUTES`, then the kind of the process.
fn resource(service: &'static str, named: Option<String>) -> Resource {
    let detected = Resource::builder().build();
    let in_attributes = detected
        .get(&Key::from_static_str(SERVICE_NAME))
        .map(|name| name.to_string())
        .filter(|name| !name.starts_with(UNNAMED));
    let name = named.or(in_attributes).unwrap_or_else(|| service.to_owned());
    Resource::builder()
        .with_service_name(name)
        .with_attributes([
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
            KeyValue::new("service.instance.id", ids::new().to_string()),
        ])
        .build()
}
