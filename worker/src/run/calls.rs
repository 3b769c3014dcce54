//! The tool calls of a step, in the model's order. Each is recorded before it acts, and its result before the next one
//! starts (invariants I7, I13). Read-only calls may run in parallel, but are still recorded in order. A failed call is
//! an answer to the model, never the end of the turn.

use std::time::{Duration, Instant};

use futures::StreamExt as _;
use rejoin_commands::{RunError, ToolStarted};
use rejoin_event_log::wakeup::Wake;
use rejoin_faults::Fault;
use rejoin_model_client::ToolCall;
use rejoin_runs::tool_calls::{CallStatus, ToolCallRow};
use rejoin_types::events::{DoneStatus, Operation};
use serde_json::{Value, json};

use super::act::{Doing, Ended};
use super::limits::{REPEATS_STOPPED, Verdict};
use super::{End, Execution, Interrupt, Next};
use crate::publish::StreamEvent;
use rejoin_tools::input::InputGiven;
use rejoin_tools::{SharedTool, ToolContext, arguments};

/// Maximum number of parallel calls of one step.
const SIDE_BY_SIDE: usize = 8;

/// Maximum size of a call's arguments, in bytes. They are sent back to the model with each further step, and stay in
/// the run's records.
const ARGUMENTS_MAX_BYTES: usize = 256 * 1024;
/// Length kept of longer ones, in characters.
const ARGUMENTS_SHOWN_CHARS: usize = 1_000;

/// A call whose arguments are too long is refused with the reason.
pub(super) fn bounded(mut call: ToolCall) -> ToolCall {
    let text = call.arguments.to_string();
    if text.len() > ARGUMENTS_MAX_BYTES {
        let shown: String = text.chars().take(ARGUMENTS_SHOWN_CHARS).collect();
        call.arguments = Value::String(format!(
            "{shown} [truncated: the arguments had {} bytes; the maximum is {ARGUMENTS_MAX_BYTES}]",
            text.len()
        ));
    }
    call
}

/// Returns the end of a call that was repeated too often.
pub(super) fn repeated(verdict: Verdict, tool: &str) -> Ended {
    Ended::refused(match verdict {
        Verdict::Stop => "the same call was repeated too often; the run was stopped".to_owned(),
        Verdict::Go | Verdict::Refuse => format!(
            "{tool} was called repeatedly with these arguments and the same result; this call was not executed. \
            Change the arguments, use another tool, or answer with what you have."
        ),
    })
}

impl Execution {
    /// Answers all open calls; then the model continues.
    pub(super) async fn answer_calls(&mut self) -> Next {
        let calls = std::mem::take(&mut self.open_calls);
        match self.answer_all(calls).await {
            Ok(()) => Next::Step,
            Err(end) => Next::End(end),
        }
    }

    async fn answer_all(&mut self, calls: Vec<ToolCallRow>) -> Result<(), End> {
        let answered = self.answer_each(calls).await;
        if matches!(answered, Err(End::Finished { .. })) {
            self.end_awaited().await?;
        }
        answered
    }

    /// Deferred calls come after the others: nothing else of the step is in progress while the run waits. Then the run
    /// may be handed over.
    async fn answer_each(&mut self, calls: Vec<ToolCallRow>) -> Result<(), End> {
        let (transfers, calls): (Vec<_>, Vec<_>) = calls.into_iter().partition(|call| self.is_transfer(call));
        let (deferred, calls): (Vec<_>, Vec<_>) = calls.into_iter().partition(|call| self.is_deferred(call));
        match self.side_by_side(&calls) {
            Some(tools) => self.answer_together(calls, tools).await?,
            None => self.answer_in_turn(calls).await?,
        }
        if !deferred.is_empty() || !self.input_awaited.is_empty() {
            self.answer_deferred(deferred).await?;
        }
        self.transfer(transfers).await
    }

    async fn answer_in_turn(&mut self, calls: Vec<ToolCallRow>) -> Result<(), End> {
        for call in calls {
            self.answer_call(call).await?;
        }
        Ok(())
    }

    /// Returns the tools of calls that may run in parallel: none is answered yet, all differ, and all are read-only.
    fn side_by_side(&self, calls: &[ToolCallRow]) -> Option<Vec<SharedTool>> {
        let are_alike = |(at, call): (usize, &ToolCallRow)| {
            let earlier = &calls[..at];
            earlier
                .iter()
                .any(|one| one.tool_name == call.tool_name && one.input == call.input)
        };
        if calls.len() < 2 || calls.iter().enumerate().any(are_alike) || self.interrupted_already().is_some() {
            return None;
        }
        let mut repeats = self.repeats.clone();
        calls
            .iter()
            .map(|call| {
                let is_open = matches!(call.status(), CallStatus::Pending | CallStatus::Running);
                let goes = repeats.ask(&call.tool_name, &call.input) == Verdict::Go;
                self.tool(&call.tool_name)
                    .filter(|tool| is_open && goes && tool.spec().read_only)
            })
            .collect()
    }

    async fn answer_together(&mut self, calls: Vec<ToolCallRow>, tools: Vec<SharedTool>) -> Result<(), End> {
        for call in &calls {
            self.notice_miss(&call.tool_name).await?;
        }
        let mut under_way = Vec::with_capacity(calls.len());
        for (call, tool) in calls.iter().zip(tools) {
            let again = call.status() == CallStatus::Running;
            under_way.push(match arguments::admit_apart(tool.spec(), &call.input).await {
                Err(fault) => Err(Ended::refused(fault).announced(again)),
                Ok(arguments) => {
                    let mut doing = self.doing(call, tool, arguments);
                    doing.look().await;
                    self.start(call, again, doing.operation.as_ref()).await?;
                    Ok(doing)
                }
            });
        }
        let began = Instant::now();
        let mut outcomes = futures::stream::iter(under_way)
            .map(|started| async {
                match started {
                    Ok(doing) => doing.done().await,
                    Err(refused) => Ok(Ok(refused)),
                }
            })
            .buffered(SIDE_BY_SIDE);
        let mut rest = calls.iter();
        while let Some(outcome) = outcomes.next().await {
            let Some(call) = rest.next() else { break };
            match outcome {
                Ok(acted) => {
                    let ended = match acted {
                        Ok(ended) => Some(ended),
                        Err(needed) => self.await_input(call, *needed, began).await?,
                    };
                    if let Some(ended) = ended {
                        self.repeats.ask(&call.tool_name, &call.input);
                        self.repeats.answered(&ended.content(&self.request.run));
                        self.record_end(call, &ended).await?;
                    }
                }
                Err(interrupt) => {
                    drop(outcomes);
                    for call in std::iter::once(call).chain(rest) {
                        self.stopped(call, interrupt, began).await?;
                    }
                    return Err(self.interrupted(interrupt));
                }
            }
        }
        Ok(())
    }

    /// Shows a tool from now on that the model called without having been shown it.
    async fn notice_miss(&mut self, tool: &str) -> Result<(), End> {
        if !self.request.selection.missed(tool) {
            return Ok(());
        }
        metrics::counter!("rejoin_tool_selection_misses_total").increment(1);
        self.note("tool_selection_miss", json!({ "tool": tool })).await
    }

    pub(super) fn tool(&self, name: &str) -> Option<SharedTool> {
        self.request.tools.iter().find(|tool| tool.spec().name == name).cloned()
    }

    async fn answer_call(&mut self, call: ToolCallRow) -> Result<(), End> {
        match call.status() {
            CallStatus::Pending | CallStatus::Running => {}
            // Answered by an earlier attempt; the result is among the messages.
            CallStatus::Completed | CallStatus::Error | CallStatus::OutcomeUnknown => return Ok(()),
        }
        if let Some(interrupt) = self.interrupted_already() {
            if interrupt == Interrupt::Cancelled && call.status() == CallStatus::Running {
                // An earlier attempt published its start: every published start also ends.
                self.record_end(&call, &Ended::unknown()).await?;
            }
            return Err(self.interrupted(interrupt));
        }
        let verdict = self.repeats.ask(&call.tool_name, &call.input);
        let tool = self.tool(&call.tool_name);
        if tool.is_some() {
            self.notice_miss(&call.tool_name).await?;
        }
        let is_over_limit = self.out_of_calls();
        let ended = match (verdict, tool) {
            (_, Some(_)) if is_over_limit => Ended::refused(format!(
                "this call was not executed: the turn has made {} tool calls, the maximum",
                self.calls_made
            )),
            (Verdict::Refuse | Verdict::Stop, _) => repeated(verdict, &call.tool_name),
            (Verdict::Go, None) => Ended::refused(self.unknown_tool(&call.tool_name)),
            (Verdict::Go, Some(tool)) => {
                let may_have_acted = call.status() == CallStatus::Running;
                // Before its arguments are validated: the schema may have changed since it acted.
                let repeats =
                    tool.spec().read_only || tool.spec().idempotent || rejoin_faults::enabled(Fault::RepeatUnknown);
                if may_have_acted && !repeats {
                    Ended::unknown()
                } else {
                    match arguments::admit_apart(tool.spec(), &call.input).await {
                        Err(fault) => Ended::refused(fault).announced(may_have_acted),
                        Ok(arguments) => match self.act(&call, tool, arguments, may_have_acted).await? {
                            Some(ended) => ended,
                            None => return Ok(()),
                        },
                    }
                }
            }
        };
        if verdict == Verdict::Go {
            self.repeats.answered(&ended.content(&self.request.run));
        }
        self.record_end(&call, &ended).await?;
        match verdict {
            Verdict::Go | Verdict::Refuse => Ok(()),
            Verdict::Stop => Err(self.doom_loop(&call.tool_name).await?),
        }
    }

    /// Ends a run that repeats the same call.
    pub(super) async fn doom_loop(&self, tool: &str) -> Result<End, End> {
        let message = format!("the run was stopped: {REPEATS_STOPPED} identical calls of {tool} in a row");
        self.limit("doom_loop", &message).await?;
        let error = RunError {
            code: "doom_loop".to_owned(),
            message,
            retryable: false,
        };
        Ok(self.finished(DoneStatus::Failed, Some(error)))
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
            format!("there is no tool {name}; the available tools are: {}", known.join(", "))
        }
    }

    /// Executes the call to its end. None: it waits for its user's input.
    pub(super) async fn act(
        &mut self,
        call: &ToolCallRow,
        tool: SharedTool,
        arguments: Value,
        again: bool,
    ) -> Result<Option<Ended>, End> {
        let mut doing = self.doing(call, tool, arguments);
        doing.look().await;
        self.start(call, again, doing.operation.as_ref()).await?;
        self.run_to_end(call, doing).await
    }

    /// Executes a call again with what its user has answered.
    pub(super) async fn act_with(
        &mut self,
        call: &ToolCallRow,
        tool: SharedTool,
        arguments: Value,
        given: InputGiven,
    ) -> Result<Option<Ended>, End> {
        let mut doing = self.doing(call, tool, arguments);
        doing.given = Some(given);
        doing.look().await;
        self.resume_call(call).await?;
        self.run_to_end(call, doing).await
    }

    async fn run_to_end(&mut self, call: &ToolCallRow, doing: Doing) -> Result<Option<Ended>, End> {
        let began = Instant::now();
        match doing.done().await {
            Ok(Ok(ended)) => Ok(Some(ended)),
            Ok(Err(needed)) => self.await_input(call, *needed, began).await,
            Err(interrupt) => {
                self.stopped(call, interrupt, began).await?;
                Err(self.interrupted(interrupt))
            }
        }
    }

    /// Records that the call begins to act, and publishes it.
    async fn start(&mut self, call: &ToolCallRow, again: bool, operation: Option<&Operation>) -> Result<(), End> {
        let started = ToolStarted {
            run: &self.request.run,
            attempt: self.request.attempt,
            seen: &self.request.stream.seen,
            id: call.id,
            call_id: &call.call_id,
            tool: &call.tool_name,
            input: &call.input,
            operation,
            publish: self.request.callback.is_some() && !again,
        };
        let recorded = if rejoin_faults::enabled(Fault::ActBeforeRecord) {
            Ok((true, Wake::default()))
        } else {
            self.request.services.execute(&started).await
        };
        let (may_act, _) = recorded.map_err(|error| self.infrastructure(error))?;
        if !may_act {
            if again {
                // Its start was published.
                self.record_end(call, &Ended::unknown()).await?;
            }
            return Err(self.interrupted(Interrupt::Cancelled));
        }
        self.spans.begin_call(call);
        if again { Ok(()) } else { self.tell_start(call).await }
    }

    /// Reports the start of a call to the callback.
    pub(super) async fn tell_start(&self, call: &ToolCallRow) -> Result<(), End> {
        let start = StreamEvent::ToolCallStart {
            call_id: call.call_id.clone(),
            tool: call.tool_name.clone(),
            input: call.input.clone(),
        };
        self.tell(start).await.map_err(|_| End::LeaseLost)
    }

    /// Reports the end of a call to the callback.
    pub(super) async fn tell_end(
        &self,
        call: &ToolCallRow,
        output: Option<&Value>,
        error: Option<&str>,
    ) -> Result<(), End> {
        let end = StreamEvent::ToolCallEnd {
            call_id: call.call_id.clone(),
            tool: call.tool_name.clone(),
            output: output.cloned(),
            error: error.map(str::to_owned),
        };
        self.tell(end).await.map_err(|_| End::LeaseLost)
    }

    fn doing(&self, call: &ToolCallRow, tool: SharedTool, arguments: Value) -> Doing {
        let focus = self.request.run.about().and_then(|context| context.focus);
        Doing {
            context: ToolContext {
                db: self.request.services.db.pool_sqlx.clone(),
                workspace_id: self.request.run.workspace_id,
                model: self.request.services.text_model(),
                run_id: Some(self.request.run.id),
                user_id: self.request.run.user_id,
                call_id: call.call_id.clone(),
                record_id: call.id,
                cancel: self.request.signals.cancel.clone(),
                bounds: focus.as_ref().map(|focus| rejoin_work_graph::bounds(focus.project_id)),
                focus,
            },
            tool,
            arguments,
            given: None,
            operation: None,
            signals: self.request.signals.clone(),
            limits: self.request.limits.clone(),
            limit: Duration::from_secs(self.request.services.config.tool_timeout_s),
        }
    }

    /// Ends a call that was running when the run was interrupted. Its start was published: if the run ends, so does the
    /// call.
    async fn stopped(&mut self, call: &ToolCallRow, interrupt: Interrupt, began: Instant) -> Result<(), End> {
        match interrupt {
            Interrupt::LeaseLost | Interrupt::Drain => Ok(()),
            Interrupt::Cancelled | Interrupt::Timeout => {
                let duration_ms = i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX);
                let ended = Ended::failed("the run was stopped while the call was running".to_owned(), duration_ms);
                self.record_end(call, &ended).await
            }
        }
    }
}
