//! The tool calls of a step, in the order that the model asked for them. Each is on record before it acts, and its result
//! before the next one starts (invariants I7, I13). A failed call is an answer to the model, never the end of the turn.

use std::time::Instant;

use rejoin_shared::commands::{RunError, ToolEnded, ToolStarted};
use rejoin_shared::events::kinds::DoneStatus;
use rejoin_shared::sabotage::{self, Break};
use rejoin_shared::tool_calls::{CallStatus, ToolCallRow};
use rejoin_shared::wakeup::Wake;
use serde_json::{Value, json};
use tracing::{error, warn};

use super::limits::{REPEATS_STOPPED, Verdict};
use super::{End, Execution, Interrupt, Next};
use crate::models::{Message, ToolCall};
use crate::publish::StreamEvent;
use crate::tools::{SharedTool, ToolContext, ToolError, arguments};

/// Characters of a result that the model is given; the whole is stored with the call.
const RESULT_MAX_CHARS: usize = 60_000;

/// Arguments that a model may send. They go back to it with each further step, and stay in the run's records.
const ARGUMENTS_MAX_BYTES: usize = 256 * 1024;
/// What is kept of longer ones.
const ARGUMENTS_SHOWN_CHARS: usize = 1_000;

/// A call whose arguments are too long becomes one that can't be executed, and says why.
pub(super) fn bounded(mut call: ToolCall) -> ToolCall {
    let text = call.arguments.to_string();
    if text.len() > ARGUMENTS_MAX_BYTES {
        let shown: String = text.chars().take(ARGUMENTS_SHOWN_CHARS).collect();
        call.arguments = Value::String(format!(
            "{shown} [cut: the arguments had {} bytes, and may have {ARGUMENTS_MAX_BYTES}]",
            text.len()
        ));
    }
    call
}

/// How a call ended.
struct Ended {
    status: CallStatus,
    output: Option<Value>,
    error: Option<String>,
    duration_ms: i64,
    /// It never acted: nobody has told of its start.
    unannounced: bool,
}

impl Ended {
    /// It did not act.
    fn refused(error: String) -> Self {
        Self {
            status: CallStatus::Error,
            output: None,
            error: Some(error),
            duration_ms: 0,
            unannounced: true,
        }
    }

    /// Whether readers saw it begin, in an earlier attempt.
    fn announced(self, is_announced: bool) -> Self {
        Self {
            unannounced: !is_announced,
            ..self
        }
    }

    /// It may have acted, and will not be repeated.
    fn unknown() -> Self {
        Self {
            status: CallStatus::OutcomeUnknown,
            output: None,
            error: Some(
                "outcome unknown: the worker died while this call may have been acting. It was not repeated. Check \
                 whether it took effect before you call it again."
                    .to_owned(),
            ),
            duration_ms: 0,
            unannounced: false,
        }
    }

    /// What the model reads.
    fn content(&self) -> String {
        let text = match (&self.output, &self.error) {
            (_, Some(error)) => format!("Error: {error}"),
            (Some(output), None) => output.to_string(),
            (None, None) => "null".to_owned(),
        };
        match text.char_indices().nth(RESULT_MAX_CHARS) {
            None => text,
            Some((at, _)) => format!(
                "{}\n[cut: {} of {} characters are shown; narrow the call down or page through the result]",
                &text[..at],
                RESULT_MAX_CHARS,
                text.chars().count()
            ),
        }
    }
}

impl Execution {
    /// Answers all open calls; then it is the model's turn again.
    pub(super) async fn answer_calls(&mut self) -> Next {
        for call in std::mem::take(&mut self.open_calls) {
            if let Err(end) = self.answer_call(call).await {
                return Next::End(end);
            }
        }
        Next::Step
    }

    async fn answer_call(&mut self, call: ToolCallRow) -> Result<(), End> {
        match call.status() {
            CallStatus::Pending | CallStatus::Running => {}
            // Answered by an earlier attempt; the result is among the messages.
            CallStatus::Completed | CallStatus::Error | CallStatus::OutcomeUnknown => return Ok(()),
        }
        if let Some(interrupt) = self.interrupted_already() {
            if interrupt == Interrupt::Cancelled && call.status() == CallStatus::Running {
                // An earlier attempt told of its start: every call that readers saw begin also ends.
                self.record_end(&call, &Ended::unknown()).await?;
            }
            return Err(self.interrupted(interrupt));
        }
        let verdict = self.repeats.ask(&call.tool_name, &call.input);
        let tool = self
            .request
            .tools
            .iter()
            .find(|tool| tool.spec().name == call.tool_name)
            .cloned();
        let ended = match (verdict, tool) {
            (Verdict::Refuse, _) => Ended::refused(format!(
                "{} was called with these arguments again and again, with the same result; this call was not executed. \
                 Change the arguments, use another tool, or answer with what you have.",
                call.tool_name
            )),
            (Verdict::Stop, _) => {
                Ended::refused("the same call was repeated too often; the run was stopped".to_owned())
            }
            (Verdict::Go, None) => Ended::refused(self.unknown_tool(&call.tool_name)),
            (Verdict::Go, Some(tool)) => {
                let may_have_acted = call.status() == CallStatus::Running;
                // Before its arguments are looked at: the schema may have changed since it acted.
                let repeats = tool.spec().read_only || tool.spec().idempotent || sabotage::is(Break::RepeatUnknown);
                if may_have_acted && !repeats {
                    Ended::unknown()
                } else {
                    match arguments::admit(tool.spec(), &call.input) {
                        Err(fault) => Ended::refused(fault).announced(may_have_acted),
                        Ok(arguments) => self.act(&call, &tool, arguments, may_have_acted).await?,
                    }
                }
            }
        };
        if verdict == Verdict::Go {
            self.repeats.answered(&ended.content());
        }
        self.record_end(&call, &ended).await?;
        if verdict == Verdict::Stop {
            metrics::counter!("rejoin_limits_total", "limit" => "doom_loop").increment(1);
            let message = format!(
                "the run was stopped: {} identical calls of {} in a row",
                REPEATS_STOPPED, call.tool_name
            );
            let error = RunError {
                code: "doom_loop".to_owned(),
                message,
                retryable: false,
            };
            return Err(self.finished(DoneStatus::Failed, Some(error)));
        }
        Ok(())
    }

    fn unknown_tool(&self, name: &str) -> String {
        let known: Vec<&str> = self
            .request
            .tools
            .iter()
            .map(|tool| tool.spec().name.as_str())
            .collect();
        if known.is_empty() {
            format!("there is no tool {name}: this agent has no tools")
        } else {
            format!("there is no tool {name}; the tools are: {}", known.join(", "))
        }
    }

    /// Runs the call, raced against everything that may stop it.
    async fn act(
        &mut self,
        call: &ToolCallRow,
        tool: &SharedTool,
        arguments: Value,
        again: bool,
    ) -> Result<Ended, End> {
        let started = ToolStarted {
            run: &self.request.run,
            attempt: self.request.attempt,
            id: call.id,
            call_id: &call.call_id,
            tool: &call.tool_name,
            input: &call.input,
            publish: self.request.callback.is_some() && !again,
        };
        let recorded = match sabotage::is(Break::ActBeforeRecord) {
            true => Ok((true, Wake::default())),
            false => self.request.services.execute(&started).await,
        };
        let (may_act, _) = recorded.map_err(|error| self.infrastructure(error))?;
        if !may_act {
            if again {
                // Readers saw it begin.
                self.record_end(call, &Ended::unknown()).await?;
            }
            return Err(self.interrupted(Interrupt::Cancelled));
        }
        let start = StreamEvent::ToolCallStart {
            call_id: call.call_id.clone(),
            tool: call.tool_name.clone(),
            input: call.input.clone(),
        };
        self.tell(start).await.map_err(|_| End::LeaseLost)?;

        let context = ToolContext {
            db: self.request.services.db.sql.clone(),
            project_id: self.request.run.project_id,
            embedder: self.request.services.embedder.clone(),
            run_id: self.request.run.id,
            user_id: self.request.run.user_id,
            call_id: call.call_id.clone(),
            record_id: call.id,
            cancel: self.request.signals.cancel.clone(),
        };
        let repeatable = tool.spec().read_only || tool.spec().idempotent;
        let timeout_s = self.request.services.config.tool_timeout_s;
        let began = Instant::now();
        let outcome = tokio::select! {
            biased;
            interrupt = Self::interrupt(&self.request.signals, &self.request.limits, repeatable) => Err(interrupt),
            result = tokio::time::timeout(
                std::time::Duration::from_secs(timeout_s),
                tool.call(&context, arguments),
            ) => Ok(result),
        };
        let duration_ms = i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX);
        metrics::histogram!("rejoin_tool_call_seconds", "tool" => call.tool_name.clone())
            .record(began.elapsed().as_secs_f64());
        let error = match outcome {
            Ok(Ok(Ok(output))) => {
                return Ok(Ended {
                    status: CallStatus::Completed,
                    output: Some(output),
                    error: None,
                    duration_ms,
                    unannounced: false,
                });
            }
            Ok(Ok(Err(ToolError::RespondToModel(message)))) => message,
            Ok(Ok(Err(ToolError::Internal { attempted, source }))) => {
                error!(
                    tool = call.tool_name,
                    attempted,
                    error = source.to_string(),
                    "a tool failed"
                );
                format!("{attempted} failed; the cause is in the server's log. It may work later.")
            }
            Ok(Err(_)) => {
                warn!(tool = call.tool_name, timeout_s, "a tool call took too long");
                format!("{} gave no answer within {timeout_s} s", call.tool_name)
            }
            Err(interrupt @ (Interrupt::LeaseLost | Interrupt::Drain)) => return Err(self.interrupted(interrupt)),
            Err(interrupt @ (Interrupt::Cancelled | Interrupt::Timeout)) => {
                // On record as ended, so that every call that readers saw begin also ends.
                let ended = Ended {
                    status: CallStatus::Error,
                    output: None,
                    error: Some("the run was stopped while the call was running".to_owned()),
                    duration_ms,
                    unannounced: false,
                };
                self.record_end(call, &ended).await?;
                return Err(self.interrupted(interrupt));
            }
        };
        Ok(Ended {
            status: CallStatus::Error,
            output: None,
            error: Some(error),
            duration_ms,
            unannounced: false,
        })
    }

    /// Stores the call's end with the message that the model will read.
    async fn record_end(&mut self, call: &ToolCallRow, ended: &Ended) -> Result<(), End> {
        let message = Message::ToolResult {
            call_id: call.call_id.clone(),
            tool: call.tool_name.clone(),
            content: ended.content(),
            is_error: ended.error.is_some(),
        };
        let command = ToolEnded {
            run: &self.request.run,
            attempt: self.request.attempt,
            step_number: call.step_number,
            id: call.id,
            call_id: &call.call_id,
            tool: &call.tool_name,
            status: ended.status,
            output: ended.output.as_ref(),
            error: ended.error.as_deref(),
            duration_ms: ended.duration_ms,
            result_message: &json!(message),
            announce: ended.unannounced.then_some(&call.input),
            publish: self.request.callback.is_some(),
        };
        self.request
            .services
            .execute(&command)
            .await
            .map_err(|error| self.infrastructure(error))?;
        self.messages.push(message);
        let end = StreamEvent::ToolCallEnd {
            call_id: call.call_id.clone(),
            tool: call.tool_name.clone(),
            output: ended.output.clone(),
            error: ended.error.clone(),
        };
        self.tell(end).await.map_err(|_| End::LeaseLost)
    }
}
