//! From what the step loop does to what the wire says: `TextDelta` -> `token`, and so on, through the process's event writer.
//!
//! Tool calls are told of by the commands that record them, in the same transaction; the callback hears of them too, and has
//! nothing left to write.

use std::sync::Arc;

use futures::future::BoxFuture;
use rejoin_shared::events::writer::{LeaseLost, RunStream};
use rejoin_shared::events::{EventWriter, Kind};
use rejoin_shared::runs::Run;
use serde_json::Value;

/// What a caller of the executor may watch as it happens.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamEvent {
    /// An increment of the reply.
    TextDelta { text: String },
    /// An increment of the model's reasoning.
    ReasoningDelta { text: String },
    /// A call is about to act.
    ToolCallStart {
        call_id: String,
        tool: String,
        input: Value,
    },
    /// A call is over; `error` where it failed.
    ToolCallEnd {
        call_id: String,
        tool: String,
        output: Option<Value>,
        error: Option<String>,
    },
    /// How something was decided, for development.
    Note { event: Kind },
    /// A limit has struck.
    Limit { limit: &'static str, message: String },
    /// The execution failed.
    Error { error: String },
}

/// Optional: without one, the executor runs in batch and tells nobody. An error stops the run.
pub type StreamCallback = Arc<dyn Fn(StreamEvent) -> BoxFuture<'static, Result<(), LeaseLost>> + Send + Sync>;

/// The callback that writes to the run's log.
pub fn to_log(writer: EventWriter, stream: Arc<RunStream>, run: Run) -> StreamCallback {
    let run = Arc::new(run);
    Arc::new(move |event| {
        let (writer, stream, run) = (writer.clone(), stream.clone(), run.clone());
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
