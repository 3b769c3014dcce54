//! The spans of an attempt's model calls and tool calls (docs/operations/traces.md), and the metrics of the former. Called by the step loop. Without a
//! collector of traces the spans are empty. All of them end with the attempt: a call that is still awaited gets another span in the attempt that finds its result.

use std::collections::HashMap;
use std::time::Duration;

use rejoin_model_client::{Finish, Usage};
use rejoin_runs::tool_calls::{CallStatus, ToolCallRow};
use rejoin_telemetry::{Span, Telemetry, TokensUsed, TraceContext};
use uuid::Uuid;

use super::act::Ended;
use super::model_calls::ModelCall;

/// Prefix of the models that are flows over agents: asking one is no model call.
const FLOW: &str = "flow:";

/// The open spans of an attempt.
pub(super) struct Spans {
    telemetry: Telemetry,
    /// The attempt's span. None: traces are off.
    attempt: Option<TraceContext>,
    /// The current model call.
    chat: Span,
    /// The same, for metrics.
    call: Option<ModelCall>,
    /// By the id of the call's record.
    calls: HashMap<Uuid, Span>,
}

impl Spans {
    pub(super) fn of(telemetry: Telemetry, attempt: Option<TraceContext>) -> Self {
        Self {
            telemetry,
            attempt,
            chat: Span::none(),
            call: None,
            calls: HashMap::new(),
        }
    }

    /// Begins a model call.
    pub(super) fn begin_chat(&mut self, model: &str) {
        (self.chat, self.call) = if model.starts_with(FLOW) {
            (Span::none(), None)
        } else {
            (self.telemetry.chat(self.attempt, model), Some(ModelCall::begin(model)))
        };
    }

    /// The model's answer begins.
    pub(super) fn first_chunk(&mut self) {
        self.chat.first_chunk();
        if let Some(call) = &self.call {
            call.first_chunk();
        }
    }

    /// Returns the span of the current model call.
    pub(super) fn chat(&mut self) -> &mut Span {
        &mut self.chat
    }

    /// The model has stopped for this reason.
    pub(super) fn finished(&mut self, finish: Finish) {
        self.chat.finish_reason(match finish {
            Finish::Stop => "stop",
            Finish::ToolCalls => "tool_calls",
            Finish::Length => "length",
            Finish::ContentFilter => "content_filter",
        });
    }

    /// Ends a model call that was answered.
    pub(super) fn answered(&mut self, used: &Usage, cost_usd: Option<f64>) {
        if let Some(call) = self.call.take() {
            call.answered(used, cost_usd);
        }
        let mut chat = std::mem::take(&mut self.chat);
        let tokens = TokensUsed {
            input: used.input_tokens,
            output: used.output_tokens,
            cache_read: used.cached_tokens,
            cache_write: used.cache_write_tokens,
            reasoning: used.reasoning_tokens,
        };
        chat.used(&tokens, cost_usd);
        chat.end();
    }

    /// Ends a model call that failed, with the kind of the error.
    pub(super) fn chat_failed(&mut self, kind: &str) {
        if let Some(call) = self.call.take() {
            call.failed(kind);
        }
        let mut chat = std::mem::take(&mut self.chat);
        chat.error(kind);
        chat.end();
    }

    /// Begins a tool call, if this attempt has not begun it.
    pub(super) fn begin_call(&mut self, call: &ToolCallRow) {
        if self.attempt.is_some() {
            let (telemetry, attempt) = (&self.telemetry, self.attempt);
            self.calls
                .entry(call.id)
                .or_insert_with(|| telemetry.execute_tool(attempt, &call.tool_name, &call.call_id));
        }
    }

    /// Returns the `traceparent` of a tool call, for the runs that it starts.
    pub(super) fn traceparent(&self, call: &ToolCallRow) -> Option<String> {
        self.calls.get(&call.id).and_then(Span::traceparent)
    }

    /// Ends a tool call.
    pub(super) fn end_call(&mut self, call: &ToolCallRow, ended: &Ended) {
        let error = match ended.status {
            CallStatus::Completed | CallStatus::Pending | CallStatus::Running => None,
            CallStatus::Error if ended.unannounced => Some("refused"),
            CallStatus::Error => Some("tool_error"),
            CallStatus::OutcomeUnknown => Some("outcome_unknown"),
        };
        // Calls that ran beside this one may have taken longer.
        let duration = Duration::from_millis(u64::try_from(ended.duration_ms).unwrap_or_default());
        self.end(call, error, duration);
    }

    /// Ends a call that has handed the run over.
    pub(super) fn handed_over(&mut self, call: &ToolCallRow) {
        self.end(call, None, Duration::MAX);
    }

    fn end(&mut self, call: &ToolCallRow, error: Option<&str>, duration: Duration) {
        self.begin_call(call);
        if let Some(mut span) = self.calls.remove(&call.id) {
            if let Some(error) = error {
                span.error(error);
            }
            span.end_after(duration);
        }
    }

    /// The run is suspended until the open calls are answered.
    pub(super) fn suspend(&mut self) {
        for (_, mut span) in self.calls.drain() {
            span.set("rejoin.suspended", true);
            span.end();
        }
    }
}
