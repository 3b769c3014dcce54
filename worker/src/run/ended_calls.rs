//! The ends of tool calls: their records, with what the model and readers get.

use rejoin_commands::{EndedCall, ToolsEnded};
use rejoin_model_client::Message;
use rejoin_runs::contexts::{Context, Shift};
use rejoin_runs::runs::Run;
use rejoin_runs::tool_calls::{CallStatus, ToolCallRow};
use rejoin_types::events::Kind;
use rejoin_types::ids;
use serde_json::{Value, json};

use super::act::Ended;
use super::{End, Execution, context_prompt};

/// Maximum size of a result sent to readers, in bytes; a longer one is replaced by a reference.
const SENT_MAX_BYTES: usize = 256 * 1024;
/// Length of its beginning in the reference, in characters.
const SENT_SHOWN_CHARS: usize = 1_000;

/// Maximum size of the results that are recorded together, in bytes of JSON. A larger one is recorded by itself.
const TOGETHER_MAX_BYTES: usize = 4 * 1024 * 1024;

/// What is recorded of an end.
struct Record<'a> {
    call: &'a ToolCallRow,
    ended: &'a Ended,
    message: Message,
    events: Vec<Kind>,
    context: Option<Context>,
    /// The size of the result, in bytes of JSON.
    bytes: usize,
    /// What readers get in place of the result.
    reference: Option<Value>,
    /// Its start is published with its end.
    begins_now: bool,
}

impl Record<'_> {
    fn command(&mut self) -> EndedCall<'_> {
        let output = self.ended.output.as_ref();
        EndedCall {
            id: self.call.id,
            message_id: ids::new(),
            call_id: &self.call.call_id,
            tool: &self.call.tool_name,
            status: self.ended.status,
            output,
            published: self.reference.as_ref().or(output),
            error: self.ended.error.as_deref(),
            duration_ms: self.ended.duration_ms,
            result_message: json!(self.message),
            announce: self.begins_now.then_some(&self.call.input),
            operation: self.ended.operation.as_ref(),
            events: std::mem::take(&mut self.events),
            context: self.context.as_ref(),
        }
    }
}

impl Execution {
    /// Stores the call's end with the message for the model.
    pub(super) async fn record_end(&mut self, call: &ToolCallRow, ended: &Ended) -> Result<(), End> {
        let record = self.record_of(call, ended).await?;
        self.store_ends(&mut [record]).await
    }

    /// Stores the ends of calls of a step, in this order: together, but one that is large or sets a context by itself.
    pub(super) async fn record_ends(&mut self, ends: &[(ToolCallRow, Ended)]) -> Result<(), End> {
        let mut records = Vec::with_capacity(ends.len());
        for (call, ended) in ends {
            records.push(self.record_of(call, ended).await?);
        }
        let mut left = &mut records[..];
        while !left.is_empty() {
            let together;
            (together, left) = left.split_at_mut(fitting(left));
            self.store_ends(together).await?;
        }
        Ok(())
    }

    async fn record_of<'a>(&self, call: &'a ToolCallRow, ended: &'a Ended) -> Result<Record<'a>, End> {
        let run = &self.request.run;
        let message = Message::ToolResult {
            call_id: call.call_id.clone(),
            tool: call.tool_name.clone(),
            attachments: self.files_of_call(call, ended.output.as_ref()).await?,
            content: ended.content(run),
            is_error: ended.error.is_some(),
        };
        let events = match (&ended.output, self.tool(&call.tool_name)) {
            (Some(output), Some(tool)) if ended.status == CallStatus::Completed => tool.events(output),
            _ => Vec::new(),
        };
        let context = events.iter().find_map(|event| match event {
            Kind::ContextShift { context_shift } => Shift::read(context_shift).map(Shift::context),
            _ => None,
        });
        let output = ended.output.as_ref().map(Value::to_string).unwrap_or_default();
        Ok(Record {
            call,
            ended,
            message,
            events,
            context,
            bytes: output.len(),
            reference: (output.len() > SENT_MAX_BYTES).then(|| reference_to(&output, run, call)),
            // A call that began in an earlier attempt was published then.
            begins_now: ended.unannounced && call.status() != CallStatus::Running,
        })
    }

    async fn store_ends(&mut self, records: &mut [Record<'_>]) -> Result<(), End> {
        let Some(step_number) = records.first().map(|record| record.call.step_number) else {
            return Ok(());
        };
        let calls: Vec<EndedCall<'_>> = records.iter_mut().map(Record::command).collect();
        let command = ToolsEnded {
            run: &self.request.run,
            attempt: self.request.attempt,
            seen: &self.request.stream.seen,
            step_number,
            calls: &calls,
            publish: self.request.callback.is_some(),
        };
        let recorded = self.request.services.execute(&command).await;
        self.may_have_pending = recorded.map_err(|error| self.infrastructure(error))?.has_pending;
        for record in records {
            let Record { call, ended, .. } = *record;
            self.spans.end_call(call, ended);
            self.messages.push(record.message.clone());
            self.calls_made += 1;
            let outcome = json!({
                "tool": call.tool_name, "status": ended.status.as_str(), "durationMs": ended.duration_ms,
            });
            self.note("tool_execution", outcome).await?;
            if let Some(context) = &record.context {
                context_prompt::set_context(&mut self.request.run, context);
            }
            if record.begins_now {
                self.tell_start(call).await?;
            }
            self.tell_end(call, ended.output.as_ref(), ended.error.as_deref())
                .await?;
        }
        Ok(())
    }
}

/// Returns how many of these, from the first one, are stored together.
fn fitting(records: &[Record<'_>]) -> usize {
    let mut bytes = 0;
    let others = records.iter().take_while(|record| {
        bytes += record.bytes;
        bytes <= TOGETHER_MAX_BYTES && record.context.is_none()
    });
    others.count().max(1)
}

/// Returns the reference sent to readers in place of a too long result.
fn reference_to(output: &str, run: &Run, call: &ToolCallRow) -> Value {
    let shown: String = output.chars().take(SENT_SHOWN_CHARS).collect();
    let whole = format!(
        "/api/projects/{}/agent-runs/{}/tool-calls/{}",
        run.workspace_id, run.id, call.id
    );
    json!({ "cut": true, "bytes": output.len(), "toolCallId": call.id, "whole": whole, "beginning": shown })
}
