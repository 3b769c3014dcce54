//! An open span. It ends, and is queued for the collector, when it is dropped: also if the future that holds it is.

use std::time::{Duration, SystemTime};

use opentelemetry::trace::Status;
use opentelemetry::{Array, KeyValue, StringValue, Value};
use opentelemetry_sdk::trace::SpanData;
use uuid::Uuid;

use crate::context::TraceContext;
use crate::export::Queue;

/// Maximum length of a text in a span, in characters: models may invent long names of tools.
const TEXT_MAX_CHARS: usize = 255;

/// The value of an attribute.
#[derive(Debug, Clone, Copy)]
pub enum Attribute<'a> {
    /// A text, of which the first characters are kept.
    Text(&'a str),
    /// A list of one text.
    List(&'a str),
    /// An id.
    Id(Uuid),
    /// A count.
    Count(u64),
    /// Any number.
    Number(f64),
    /// Yes or no.
    Flag(bool),
}

impl<'a> From<&'a str> for Attribute<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}

impl From<Uuid> for Attribute<'_> {
    fn from(id: Uuid) -> Self {
        Self::Id(id)
    }
}

impl From<u64> for Attribute<'_> {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<f64> for Attribute<'_> {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<bool> for Attribute<'_> {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl Attribute<'_> {
    fn value(self) -> Value {
        match self {
            Self::Text(text) => Value::from(bounded(text)),
            Self::List(text) => Value::Array(Array::String(vec![StringValue::from(bounded(text))])),
            Self::Id(id) => Value::from(id.to_string()),
            Self::Count(count) => Value::from(i64::try_from(count).unwrap_or(i64::MAX)),
            Self::Number(number) => Value::from(number),
            Self::Flag(flag) => Value::from(flag),
        }
    }
}

/// An open span, or the place of one that is not recorded.
#[derive(Default)]
pub struct Span {
    context: Option<TraceContext>,
    open: Option<Box<Open>>,
}

/// What is recorded.
struct Open {
    queue: Queue,
    data: SpanData,
    ends_at: Option<SystemTime>,
}

impl Span {
    /// No span: traces are off.
    pub fn none() -> Self {
        Self::default()
    }

    /// A span that is not recorded, by the decision of a sampler. Its children are not recorded, either.
    pub(crate) fn unrecorded(context: TraceContext) -> Self {
        Self {
            context: Some(context),
            open: None,
        }
    }

    pub(crate) fn recorded(context: TraceContext, queue: Queue, data: SpanData) -> Self {
        Self {
            context: Some(context),
            open: Some(Box::new(Open {
                queue,
                data,
                ends_at: None,
            })),
        }
    }

    /// Returns its identity, for its children. None: traces are off.
    pub fn context(&self) -> Option<TraceContext> {
        self.context
    }

    /// Returns its identity as `traceparent`. None: traces are off.
    pub fn traceparent(&self) -> Option<String> {
        self.context.map(|context| context.to_string())
    }

    /// Sets an attribute.
    pub fn set<'a>(&mut self, name: &'static str, value: impl Into<Attribute<'a>>) {
        if let Some(open) = &mut self.open {
            open.data.attributes.push(KeyValue::new(name, value.into().value()));
        }
    }

    /// Sets an attribute, if there is a value.
    pub fn set_some<'a>(&mut self, name: &'static str, value: Option<impl Into<Attribute<'a>>>) {
        if let Some(value) = value {
            self.set(name, value);
        }
    }

    /// Marks it as failed, with the kind of the error.
    pub fn error(&mut self, kind: &str) {
        self.set("error.type", kind);
        if let Some(open) = &mut self.open {
            open.data.status = Status::error("");
        }
    }

    /// Returns the time since it began. None: it is not recorded.
    pub fn elapsed(&self) -> Option<Duration> {
        let open = self.open.as_ref()?;
        // A clock that was set back gives no time.
        Some(open.data.start_time.elapsed().unwrap_or_default())
    }

    /// Ends it.
    pub fn end(self) {
        drop(self);
    }

    /// Ends it, as of this duration after its begin, or now if that is earlier.
    pub fn end_after(mut self, duration: Duration) {
        if let Some(open) = &mut self.open {
            let now = SystemTime::now();
            let ended = open.data.start_time.checked_add(duration);
            open.ends_at = Some(ended.map_or(now, |ended| ended.min(now)));
        }
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        if let Some(open) = self.open.take() {
            let Open {
                queue,
                mut data,
                ends_at,
            } = *open;
            data.end_time = ends_at.unwrap_or_else(SystemTime::now).max(data.start_time);
            queue.push(data);
        }
    }
}

/// Returns the first characters of a text.
pub(crate) fn bounded(text: &str) -> String {
    match text.char_indices().nth(TEXT_MAX_CHARS) {
        None => text.to_owned(),
        Some((at, _)) => text[..at].to_owned(),
    }
}
