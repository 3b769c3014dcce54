//! Stores a step before it is acted upon, and the run's usage; and, for development, how decisions were made.

use rejoin_commands::{AskedCall, RecordStep};
use rejoin_event_log::group_commit::{LeaseLost, Unwritten};
use rejoin_event_log::stream::Seen;
use rejoin_faults::Fault;
use rejoin_model_client::{Message, ToolCall, Usage, is_language_model};
use rejoin_models::Tokens;
use rejoin_models::tokens::estimate;
use rejoin_runs::runs::Run;
use rejoin_tools::SharedTool;
use rejoin_types::events::Kind;
use rejoin_types::ids;
use serde_json::{Value, json};
use uuid::Uuid;

use super::answer::Answer;
use super::{End, ExecuteRequest, Execution, history};
use crate::publish::StreamEvent;

/// What is recorded of a step besides its calls.
#[derive(Debug)]
pub struct StepRecord {
    message_id: Uuid,
    step_number: i32,
    streamed: Vec<Unwritten>,
    injected: Vec<(&'static str, Value)>,
    assistant: Value,
    usage: Kind,
    usage_json: Value,
    tokens: u64,
    cost_usd: f64,
    steering_messages: Vec<i64>,
    publish: bool,
}

impl StepRecord {
    pub fn command<'a>(
        &'a self,
        run: &'a Run,
        attempt: i32,
        seen: &'a Seen,
        calls: &'a [AskedCall<'a>],
    ) -> RecordStep<'a> {
        RecordStep {
            run,
            attempt,
            seen,
            message_id: self.message_id,
            step_number: self.step_number,
            streamed: &self.streamed,
            injected: &self.injected,
            assistant: &self.assistant,
            calls,
            usage: self.usage.clone(),
            usage_json: &self.usage_json,
            tokens: self.tokens,
            cost_usd: self.cost_usd,
            steering_messages: &self.steering_messages,
            publish: self.publish,
        }
    }
}

impl Execution {
    /// Stores the step: the assistant's message, its calls as pending, the counters, `usage`. A step that ends the run is kept, to be stored
    /// with the end.
    pub(super) async fn record(
        &mut self,
        message: Message,
        used: Usage,
        injected: Vec<(&'static str, Value)>,
        steering_messages: Vec<i64>,
    ) -> Result<(), End> {
        let calls = match &message {
            Message::Assistant { tool_calls, .. } => tool_calls.clone(),
            Message::User { .. } | Message::ToolResult { .. } => Vec::new(),
        };
        let ids: Vec<_> = calls.iter().map(|_| ids::new()).collect();
        // Streamed events are committed before the step, or with it: `reset` then discards nothing of it.
        let streamed = if rejoin_faults::enabled(Fault::SettleBeforeEvents) {
            Vec::new()
        } else {
            match self.request.services.writer.take_back(&self.request.stream).await {
                Ok(streamed) => streamed,
                Err(LeaseLost) => return Err(End::LeaseLost),
            }
        };
        let asked: Vec<AskedCall<'_>> = calls
            .iter()
            .zip(&ids)
            .map(|(call, id)| AskedCall {
                id: *id,
                call_id: &call.id,
                tool_name: &call.name,
                input: &call.arguments,
            })
            .collect();
        let total = self.totals.usage;
        let record = StepRecord {
            message_id: ids::new(),
            step_number: self.step,
            streamed,
            injected,
            assistant: json!(message),
            usage: Kind::Usage {
                input_tokens: total.input_tokens,
                output_tokens: total.output_tokens,
                total_tokens: total.input_tokens + total.output_tokens,
                cached_tokens: total.cached_tokens,
                cache_write_tokens: total.cache_write_tokens,
                reasoning_tokens: total.reasoning_tokens,
                cost_usd: self.totals.cost_usd,
                steps: self.step,
            },
            usage_json: self.usage(),
            tokens: used.input_tokens + used.output_tokens,
            cost_usd: self.cost_usd(&used).unwrap_or_default(),
            steering_messages,
            publish: self.request.callback.is_some(),
        };
        if calls.is_empty() && self.ends_with_its_answer() {
            // A steering message is found by the end.
            self.may_have_pending = false;
            self.last_step = Some(record);
        } else {
            let ExecuteRequest {
                services,
                run,
                attempt,
                stream,
                ..
            } = &self.request;
            let recorded = services
                .execute(&record.command(run, *attempt, &stream.seen, &asked))
                .await;
            let recorded = recorded.map_err(|error| self.infrastructure(error))?;
            self.tree = recorded.tree;
            self.may_have_pending = recorded.has_pending;
        }
        self.unasked = ids.iter().copied().collect();
        self.open_calls = history::as_rows(&self.request.run, self.step, &calls, &ids);
        self.messages.push(message);
        Ok(())
    }

    /// Returns whether an answer without calls ends the run, with one statement.
    fn ends_with_its_answer(&self) -> bool {
        let run = &self.request.run;
        self.stopping.is_none() && self.output.is_none() && run.parent_run_id.is_none()
    }

    /// Returns the run's usage, as stored and sent in `done`.
    pub(super) fn usage(&self) -> Value {
        let total = self.totals.usage;
        let mut usage = json!({
            "inputTokens": total.input_tokens,
            "outputTokens": total.output_tokens,
            "totalTokens": total.input_tokens + total.output_tokens,
            "contextTokens": self.totals.context_tokens,
            "steps": self.step,
        });
        for (name, tokens) in [
            ("cachedTokens", total.cached_tokens),
            ("cacheWriteTokens", total.cache_write_tokens),
            ("reasoningTokens", total.reasoning_tokens),
        ] {
            if tokens > 0 {
                usage[name] = tokens.into();
            }
        }
        if let Some(cost_usd) = self.totals.cost_usd {
            usage["costUsd"] = cost_usd.into();
        }
        usage
    }

    /// Returns the usage of a model call as reported by its provider, or an estimate, so that budgets always count.
    /// Flows and the demo model use nothing.
    pub(super) fn used(&self, answer: &Answer) -> Usage {
        if answer.usage != Usage::default() || !is_language_model(self.request.models.name()) {
            return answer.usage;
        }
        let of_calls = |calls: &[ToolCall]| {
            calls
                .iter()
                .map(|call| estimate(&call.arguments.to_string()))
                .sum::<u64>()
        };
        let of_message = |message: &Message| match message {
            Message::User { text, .. } => estimate(text),
            Message::Assistant { text, tool_calls, .. } => estimate(text) + of_calls(tool_calls),
            Message::ToolResult { content, .. } => estimate(content),
        };
        Usage {
            input_tokens: estimate(&self.system) + self.messages.iter().map(of_message).sum::<u64>(),
            output_tokens: estimate(&answer.text) + of_calls(&answer.calls),
            ..Usage::default()
        }
    }

    /// Adds a model call to the run's usage, and ends its span.
    pub(super) fn count(&mut self, used: &Usage) {
        self.totals.usage += *used;
        let cost_usd = self.cost_usd(used);
        if let Some(cost_usd) = cost_usd {
            *self.totals.cost_usd.get_or_insert(0.0) += cost_usd;
        }
        self.spans.answered(used, cost_usd);
    }

    /// Returns the cost of one model call. None: unknown.
    fn cost_usd(&self, used: &Usage) -> Option<f64> {
        let price = self.request.models.price()?;
        Some(price.of(&Tokens::from(*used)))
    }

    /// For development: publishes how something was decided.
    pub(super) async fn note(&self, name: &str, data: Value) -> Result<(), End> {
        if !self.request.services.config.debug_agent_context {
            return Ok(());
        }
        let event = Kind::Telemetry {
            name: name.to_owned(),
            data,
        };
        self.tell(StreamEvent::Note { event }).await.map_err(|_| End::LeaseLost)
    }

    /// For development: publishes the model's input in the first step of a turn.
    pub(super) async fn note_context(&self, tools: &[SharedTool]) -> Result<(), End> {
        if !self.request.services.config.debug_agent_context || self.step != self.request.run.turn_step {
            return Ok(());
        }
        let names: Vec<&str> = tools.iter().map(|tool| tool.spec().name.as_str()).collect();
        let of = self.request.tools.len();
        self.note(
            "tool_selection",
            json!({"shown": names.len(), "of": of, "tools": names}),
        )
        .await?;
        let event = Kind::DebugContext {
            debug: json!({"system": self.system, "messages": self.messages.len(), "context": self.request.run.context}),
        };
        self.tell(StreamEvent::Note { event }).await.map_err(|_| End::LeaseLost)
    }
}
