//! Publishes the step loop's events to the wire: `TextDelta` -> `token`, and so on, through the process's event writer.
//!
//! Tool calls are published by the commands that record them, in the same transaction; the callback ignores them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use rejoin_event_log::EventWriter;
use rejoin_event_log::group_commit::LeaseLost;
use rejoin_event_log::stream::RunStream;
use rejoin_queue::ClaimedJob;
use rejoin_runs::runs::Run;
use rejoin_types::events::Kind;
use serde_json::Value;
use tokio::time::Instant;
use uuid::Uuid;

/// An event that a caller of the executor may observe.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamEvent {
    /// An increment of the reply.
    TextDelta { text: String },
    /// An increment of the model's reasoning.
    ReasoningDelta { text: String },
    /// A call begins: it is about to act, or others begin to answer it. Calls of every kind begin, including refused
    /// ones. A run that continues elsewhere (after a wait or a crash) reports the start of a call once.
    ToolCallStart {
        call_id: String,
        tool: String,
        input: Value,
    },
    /// A call ended; `error` if it failed. There is one end for each start.
    ToolCallEnd {
        call_id: String,
        tool: String,
        output: Option<Value>,
        error: Option<String>,
    },
    /// How something was decided, for development.
    Note { event: Kind },
    /// A limit was reached.
    Limit { limit: &'static str, message: String },
    /// The execution failed.
    Error { error: String },
}

/// Optional: without a callback, the executor runs in batch mode and publishes nothing. An error stops the run.
pub type StreamCallback = Arc<dyn Fn(StreamEvent) -> BoxFuture<'static, Result<(), LeaseLost>> + Send + Sync>;

/// An observer of all runs of its worker: the run's id, and the event.
pub type Observer = Arc<dyn Fn(Uuid, &StreamEvent) + Send + Sync>;

/// Measures from when a message's run was due to the first token of its answer, once.
pub(crate) struct FirstToken {
    waited: Duration,
    claimed_at: Instant,
    is_published: AtomicBool,
}

impl FirstToken {
    /// For the first attempt at a message.
    pub(crate) fn of(job: &ClaimedJob) -> Self {
        Self {
            waited: job.waited,
            claimed_at: job.claimed_at,
            is_published: AtomicBool::new(false),
        }
    }

    fn publish(&self) {
        if !self.is_published.swap(true, Ordering::Relaxed) {
            metrics::histogram!("rejoin_message_first_token_seconds")
                .record((self.waited + self.claimed_at.elapsed()).as_secs_f64());
        }
    }
}

/// Returns the callback that writes to the run's log, after calling the observer. Without `first_token`, that is not measured.
pub(crate) fn to_log(
    writer: EventWriter,
    stream: Arc<RunStream>,
    run: Run,
    observer: Option<Observer>,
    first_token: Option<FirstToken>,
) -> StreamCallback {
    let run = Arc::new(run);
    Arc::new(move |event| {
        let (writer, stream, run) = (writer.clone(), stream.clone(), run.clone());
        if let (Some(first_token), StreamEvent::TextDelta { .. }) = (&first_token, &event) {
            first_token.publish();
        }
        if let Some(observer) = &observer {
            observer(run.id, &event);
        }
        Box::pin(async move {
            let kind = match event {
                StreamEvent::TextDelta { text } => Kind::Token { token: text },
                StreamEvent::ReasoningDelta { text } => Kind::Reasoning { text },
                StreamEvent::Limit { limit, message } => Kind::Limit {
                    limit: limit.to_owned(),
                    message,
                },
                StreamEvent::Note { event } => event,
                // Written with the record of the call, or with the run's end.
                StreamEvent::ToolCallStart { .. } | StreamEvent::ToolCallEnd { .. } | StreamEvent::Error { .. } => {
                    return Ok(());
                }
            };
            writer.append(&stream, &run.event(kind)).await
        })
    })
}
