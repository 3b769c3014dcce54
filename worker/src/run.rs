//! The step loop: model call, tool calls, next step, under its limits, until an answer or a stop reason.
//!
//! - `answer`   one model call, streamed
//! - `calls`    the tool calls of a step, on record before they act
//! - `act`      executes one call
//! - `ended_calls` the ends of calls on record
//! - `transfer` calls that hand the run over to another agent
//! - `files`    files of messages, loaded for a model call
//! - `deferred` calls answered by sub-agents or users: the run is suspended
//! - `client_tools` calls that the run's client executes, likewise
//! - `input`    calls whose tools ask their user in the middle, likewise
//! - `remote_tools` calls that users' programs execute, likewise
//! - `clarify`  clarifying questions before a workspace is created
//! - `output`   answers that fit a JSON schema
//! - `end`      the end of the loop, and what interrupts it
//! - `errors`   errors that end a run
//! - `planning` calls that make plans
//! - `limits`   steps, time, repeated calls
//! - `record`   stores a step; development telemetry
//! - `spans`    model calls and tool calls in traces; `model_calls`: the former in metrics
//! - `ranking`  similarity of tools to a message
//! - `selection` which tools are shown to the agent
//! - `context_prompt` the conversation's context prompt
//! - `history`  the initial messages; rebuilding for a new attempt
//!
//! All state of the loop is stored: [`Execution::load`] rebuilds it from `kb.agent_run_messages` and
//! `kb.agent_run_tool_calls`, so that a new attempt continues after the last record.

mod act;
pub mod answer;
pub mod calls;
mod clarify;
pub mod client_tools;
mod context_prompt;
mod deferred;
mod end;
mod ended_calls;
pub(crate) mod errors;
mod files;
pub mod history;
mod input;
pub mod limits;
mod model_calls;
mod output;
mod planning;
pub mod ranking;
mod record;
mod remote_steps;
mod remote_tools;
pub mod selection;
mod spans;
mod transfer;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use rejoin_commands::RunError;
use rejoin_event_log::group_commit::LeaseLost;
use rejoin_event_log::stream::RunStream;
use rejoin_extension::Signals;
use rejoin_faults::Fault;
use rejoin_model_client::fallback::Candidates;
use rejoin_model_client::{Message, Usage};
use rejoin_models::choice::ReasoningEffort;
use rejoin_runs::agents::settings::Planning;
use rejoin_runs::remote_calls::RemoteCall;
use rejoin_runs::runs::{Run, TreeUse};
use rejoin_runs::steering;
use rejoin_runs::tool_calls::ToolCallRow;
use rejoin_telemetry::TraceContext;
use rejoin_tools::registry::Patterns;
use rejoin_types::events::DoneStatus;
use serde_json::json;
use uuid::Uuid;

use crate::coordination::handoffs::Target;
use crate::publish::{StreamCallback, StreamEvent};
use crate::services::Services;
use rejoin_tools::SharedTool;

use answer::AnswerError;
use client_tools::ClientTools;
pub use end::{End, Interrupt};
pub use history::LoadError;
use history::Stored;
pub use limits::Limits;
use limits::{Repeats, StopReason};
use output::Fit;
use record::StepRecord;
use selection::Selection;
use spans::Spans;

/// The run to execute, with its settings.
pub struct ExecuteRequest {
    pub services: Services,
    pub run: Run,
    pub attempt: i32,
    pub tools: Vec<SharedTool>,
    /// Which of them are shown to the model.
    pub selection: Selection,
    /// Whether a user's program executes its turns.
    pub is_function: bool,
    /// Which of them the client executes: these are always shown.
    pub client_tools: ClientTools,
    /// The models: the definition's, then its fallbacks.
    pub models: Candidates,
    pub temperature: Option<f64>,
    pub max_tokens: Option<u32>,
    pub effort: Option<ReasoningEffort>,
    pub limits: Limits,
    /// Tools whose calls need a user's approval.
    pub confirm: Arc<Patterns>,
    /// Maximum number of questions by `ask_user`; none: unlimited.
    pub questions: Option<u32>,
    /// Handoff targets; their tools are among `tools`.
    pub handoffs: Vec<Target>,
    /// The agents that execute and review the steps of its plans.
    pub planning: Planning,
    /// Maximum number of tool calls in a turn; none: unlimited.
    pub tool_calls: Option<usize>,
    /// Whether identical deferred calls may be repeated: a flow counts its own rounds.
    pub may_repeat_calls: bool,
    /// The usage of the run's tree so far.
    pub tree: TreeUse,
    pub signals: Signals,
    /// The span of the attempt. None: traces are off.
    pub trace: Option<TraceContext>,
    pub stream: Arc<RunStream>,
    /// None: batch mode; nothing is published until the run's end.
    pub callback: Option<StreamCallback>,
}

/// Retry interval of reads while the database is unreachable, and their timeout: the same as for commands.
const READ_RETRY: Duration = Duration::from_millis(200);
const READ_TRIES: u32 = 3_000;

/// Token and call counts of the run so far.
#[derive(Debug, Clone, Copy, Default)]
struct Totals {
    usage: Usage,
    /// The total cost of the steps, each at the price of its model on its day. None: none of them had a price.
    cost_usd: Option<f64>,
    /// The input tokens of the newest model call.
    context_tokens: u64,
}

/// A run in execution.
pub struct Execution {
    request: ExecuteRequest,
    system: String,
    messages: Vec<Message>,
    /// The recorded calls of the last assistant message.
    open_calls: Vec<ToolCallRow>,
    /// Calls of this step whose tools ask the user, until they are asked.
    input_awaited: Vec<ToolCallRow>,
    /// Calls that this attempt has recorded, and has not asked anyone about.
    unasked: HashSet<Uuid>,
    /// Calls of users' programs that have ended while the run was held, by id.
    returned: HashMap<Uuid, RemoteCall>,
    step: i32,
    repeats: Repeats,
    totals: Totals,
    tree: TreeUse,
    /// The number of tool calls in this turn so far.
    calls_made: usize,
    /// The reply so far, as displayed by readers that apply resets.
    reply: String,
    /// The required structured output; none: any text.
    output: Option<output::Output>,
    /// Whether steering messages may be pending: unknown, or seen when the turn began or by the last command. One that
    /// arrives later is found by the next command.
    may_have_pending: bool,
    /// The message to the model before it is asked again for a valid answer.
    repair: Option<String>,
    /// The last step has begun: tools are disabled, and the run pauses after it.
    stopping: Option<StopReason>,
    /// The step that ends the run, to be recorded with the end.
    last_step: Option<StepRecord>,
    /// The open spans of its model calls and tool calls.
    spans: Spans,
}

/// What follows a step.
enum Next {
    Step,
    End(End),
}

impl Execution {
    /// `may_have_pending`: steering messages may have arrived.
    pub fn of(request: ExecuteRequest, stored: Stored, may_have_pending: bool) -> Self {
        Self {
            system: stored.system,
            messages: stored.messages,
            open_calls: stored.open_calls,
            input_awaited: Vec::new(),
            unasked: HashSet::new(),
            returned: HashMap::new(),
            step: stored.step,
            repeats: stored.repeats,
            totals: Totals {
                usage: stored.usage,
                cost_usd: stored.cost_usd,
                context_tokens: stored.context_tokens,
            },
            tree: request.tree,
            calls_made: stored.calls_made,
            reply: stored.reply,
            stopping: stored.stopping,
            output: output::Output::of(&request.run),
            repair: None,
            may_have_pending,
            last_step: None,
            spans: Spans::of(request.services.telemetry.clone(), request.trace),
            request,
        }
    }

    /// Runs steps until the end.
    pub async fn run(mut self) -> End {
        loop {
            let next = match self.messages.last() {
                // A step with unanswered calls, a stored answer, or a question: the order in which a new attempt finds
                // them.
                _ if !self.open_calls.is_empty() => self.answer_calls().await,
                Some(Message::Assistant { .. }) => match self.stopping {
                    Some(reason) => Next::End(self.paused(reason)),
                    None if self.has_pending().await => self.next_step().await,
                    None => match self.fit() {
                        Fit::Fits => Next::End(self.finished(DoneStatus::Completed, None)),
                        Fit::Fails(error) => Next::End(self.unfit(error)),
                        Fit::Repair(words) => {
                            self.repair = Some(words);
                            self.next_step().await
                        }
                    },
                },
                Some(Message::User { .. } | Message::ToolResult { .. }) | None => self.next_step().await,
            };
            match next {
                Next::Step => {}
                Next::End(end) => {
                    let end = match end {
                        End::Database { attempted, error } if rejoin_db::is_final(&error) => {
                            let refused = errors::refused_by_database(attempted, &error);
                            self.finished(DoneStatus::Failed, Some(refused))
                        }
                        end => end,
                    };
                    let end = end.with_last_step(self.last_step.take());
                    if let End::Finished { error: Some(error), .. } = &end {
                        // Reported for completeness: the run has ended, whatever the callback returns.
                        let _ = self
                            .tell(StreamEvent::Error {
                                error: error.message.clone(),
                            })
                            .await;
                    }
                    return self.after_its_events(end).await;
                }
            }
        }
    }

    /// The run's end follows all of its events: nothing of a turn follows its `done`.
    async fn after_its_events(&self, end: End) -> End {
        match end {
            End::Finished { .. } if rejoin_faults::enabled(Fault::SettleBeforeEvents) => end,
            End::Finished { .. } => match self.request.services.writer.flush(&self.request.stream).await {
                Ok(()) => end,
                Err(LeaseLost) => End::LeaseLost,
            },
            End::Release | End::LeaseLost | End::Suspended | End::Transferred | End::Database { .. } => end,
        }
    }

    /// Makes one model call, stored before anything of it is acted upon.
    async fn next_step(&mut self) -> Next {
        if let Some(interrupt) = self.interrupted_already() {
            return Next::End(self.interrupted(interrupt));
        }
        match self.clarify().await {
            Ok(true) => return Next::Step,
            Ok(false) => {}
            Err(end) => return Next::End(end),
        }
        let mut injected = Vec::new();
        let pending = match self.pending_messages().await {
            Ok(pending) => pending,
            Err(error) => return Next::End(End::database("reading the run's pending messages", error)),
        };
        for sent in &pending {
            let message = Message::User {
                text: sent.content.clone(),
                attachments: sent.files().into_iter().map(Into::into).collect(),
            };
            injected.push(("user", json!(message)));
            self.messages.push(message);
        }
        if let Some(text) = self.repair.take() {
            let message = Message::user(text);
            injected.push(("user", json!(message)));
            self.messages.push(message);
        }
        let run = &self.request.run;
        let steps = self.step - run.turn_step;
        if self.stopping.is_none()
            && let Some(reason) = self
                .request
                .limits
                .reached(steps, run.total_steps.max(self.step), self.tree)
                .or(self.out_of_calls().then_some(StopReason::ToolCalls))
        {
            let is_model_call = run.is_model_call();
            if let Err(end) = self.limit(reason.as_str(), &reason.explanation()).await {
                return Next::End(end);
            }
            if is_model_call {
                // A summary is not what its program has asked for.
                return Next::End(self.paused(reason));
            }
            self.stopping = Some(reason);
            let message = Message::user(reason.instruction());
            injected.push(("user", json!(message)));
            self.messages.push(message);
        }
        let shown = self.request.tools.iter();
        let is_shown = |name: &str| self.request.selection.shows(name) || self.request.client_tools.has(name);
        let shown = shown.filter(|tool| is_shown(&tool.spec().name));
        let mut tools: Vec<SharedTool> = shown.cloned().collect();
        let withdrawn = match self.stopping {
            Some(_) => std::mem::take(&mut tools),
            None => Vec::new(),
        };
        if let Err(end) = self.note_context(&tools).await {
            return Next::End(end);
        }

        let mut answer = match self.ask(&tools, &withdrawn).await {
            Ok(answer) => answer,
            Err(AnswerError::Interrupted(interrupt)) => return Next::End(self.interrupted(interrupt)),
            Err(AnswerError::LeaseLost) => return Next::End(End::LeaseLost),
            Err(AnswerError::Database(error)) => {
                return Next::End(End::database("reading the files of messages", error));
            }
            Err(AnswerError::Model(error)) => {
                let error = errors::of_model(&error);
                return Next::End(self.finished(DoneStatus::Failed, Some(error)));
            }
        };
        if self.tell_output(&mut answer).await.is_err() {
            return Next::End(End::LeaseLost);
        }
        self.step += 1;
        let used = self.used(&answer);
        self.count(&used);
        self.totals.context_tokens = used.input_tokens;
        // Calls of withdrawn tools are refused as a whole: the answer is the text so far.
        let calls = if self.stopping.is_some() {
            Vec::new()
        } else {
            answer.calls.into_iter().map(calls::bounded).collect()
        };
        if answer.text.is_empty() && calls.is_empty() && self.stopping.is_none() {
            let message = "the model returned an empty answer; try again, or choose another model".to_owned();
            let error = RunError {
                code: "model_empty_answer".to_owned(),
                message,
                retryable: true,
            };
            return Next::End(self.finished(DoneStatus::Failed, Some(error)));
        }
        let taken = pending.iter().map(|sent| sent.id).collect();
        let said = Message::Assistant {
            text: answer.text,
            tool_calls: calls,
            reasoning: answer.reasoning,
        };
        if let Err(end) = self.record(said, used, injected, taken).await {
            return Next::End(end);
        }
        Next::Step
    }

    /// Returns steering messages. Waits for an unreachable database, so that the run can continue.
    async fn pending_messages(&self) -> Result<Vec<steering::PendingMessage>, sqlx::Error> {
        if !self.may_have_pending {
            return Ok(Vec::new());
        }
        let (db, run) = (&self.request.services.db.pool_sqlx, self.request.run.id);
        for _ in 1..READ_TRIES {
            match steering::pending(db, run).await {
                Err(error) if rejoin_db::is_transient(&error) => tokio::time::sleep(READ_RETRY).await,
                done => return done,
            }
        }
        steering::pending(db, run).await
    }

    fn out_of_calls(&self) -> bool {
        self.request.tool_calls.is_some_and(|most| self.calls_made >= most)
    }

    /// Returns whether there are steering messages. An unreachable database is asked again at the run's end.
    async fn has_pending(&self) -> bool {
        if !self.may_have_pending {
            return false;
        }
        let pending = steering::pending(&self.request.services.db.pool_sqlx, self.request.run.id).await;
        pending.is_ok_and(|pending| !pending.is_empty())
    }

    /// Counts and publishes a reached limit.
    async fn limit(&self, limit: &'static str, message: &str) -> Result<(), End> {
        metrics::counter!("rejoin_limits_total", "limit" => limit).increment(1);
        let event = StreamEvent::Limit {
            limit,
            message: message.to_owned(),
        };
        self.tell(event).await.map_err(|_| End::LeaseLost)
    }

    async fn tell(&self, event: StreamEvent) -> Result<(), LeaseLost> {
        match &self.request.callback {
            Some(callback) => callback(event).await,
            None => Ok(()),
        }
    }
}
