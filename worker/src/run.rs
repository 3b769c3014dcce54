//! The step loop: model call, tool calls, next step, under its limits, until an answer or a stop reason.
//!
//! - `answer`   one model call, streamed
//! - `calls`    the tool calls of a step, on record before they act
//! - `act`      executes one call
//! - `transfer` calls that hand the run over to another agent
//! - `files`    files of messages, loaded for a model call
//! - `deferred` calls answered by sub-agents or users: the run is suspended
//! - `clarify`  clarifying questions before a project is created
//! - `output`   answers that fit a JSON schema
//! - `errors`   errors that end a run
//! - `planning` calls that make plans
//! - `limits`   steps, time, repeated calls
//! - `record`   stores a step; development telemetry
//! - `ranking`  similarity of tools to a message
//! - `selection` which tools are shown to the agent
//! - `surroundings` the conversation's context prompt
//! - `history`  the initial messages; rebuilding for a new attempt
//!
//! All state of the loop is stored: [`Execution::load`] rebuilds it from `kb.agent_run_messages` and
//! `kb.agent_run_tool_calls`, so that a new attempt continues after the last record.

mod act;
pub mod answer;
pub mod calls;
mod clarify;
mod deferred;
pub(crate) mod errors;
mod files;
pub mod history;
pub mod limits;
mod output;
mod planning;
pub mod ranking;
mod record;
pub mod selection;
mod surroundings;
mod transfer;

use std::sync::Arc;
use std::time::Duration;

use rejoin_shared::agents::ReasoningEffort;
use rejoin_shared::agents::settings::Planning;
use rejoin_shared::commands::{FencedError, RunError};
use rejoin_shared::events::kinds::DoneStatus;
use rejoin_shared::events::stream::RunStream;
use rejoin_shared::events::writer::LeaseLost;
use rejoin_shared::inbox;
use rejoin_shared::runs::{Run, TreeUse};
use rejoin_shared::sabotage::{self, Break};
use rejoin_shared::tool_calls::ToolCallRow;
use rejoin_shared::tools::registry::Patterns;
use serde_json::{Value, json};

use crate::coordination::handoffs::Target;
use crate::models::fallback::Candidates;
use crate::models::{Message, Usage};
use crate::publish::{StreamCallback, StreamEvent};
use crate::services::Services;
use crate::signals::Signals;
use rejoin_shared::tools::SharedTool;

use answer::AnswerError;
pub use history::LoadError;
use history::{Opening, Stored};
pub use limits::Limits;
use limits::{Repeats, StopReason};
use output::Fit;
use selection::Selection;

/// What is to be executed.
pub struct ExecuteRequest {
    pub services: Services,
    pub run: Run,
    pub attempt: i32,
    pub tools: Vec<SharedTool>,
    /// Which of them the model is shown.
    pub selection: Selection,
    /// Who is asked: the definition's model, then its fallbacks.
    pub models: Candidates,
    pub temperature: Option<f64>,
    pub max_tokens: Option<u32>,
    pub effort: Option<ReasoningEffort>,
    pub limits: Limits,
    /// Tools whose calls a person approves before they act.
    pub confirm: Arc<Patterns>,
    /// Questions that the run may ask with `ask_user`; none: any number.
    pub questions: Option<u32>,
    /// Agents that may take the run over; their tools are among `tools`.
    pub handoffs: Vec<Target>,
    /// Who does and reviews the steps of its plans.
    pub planning: Planning,
    /// Calls of tools that a turn may make; none: any number.
    pub tool_calls: Option<usize>,
    /// Whether the same call for others to answer may be made again and again: a flow's rounds are counted by the flow.
    pub may_repeat_calls: bool,
    /// What the run's tree has used so far.
    pub tree: TreeUse,
    pub signals: Signals,
    pub stream: Arc<RunStream>,
    /// None: in batch; nothing is told to anybody until the run's end.
    pub callback: Option<StreamCallback>,
}

/// How the loop ended.
#[derive(Debug)]
pub enum End {
    /// The turn is over.
    Finished {
        status: DoneStatus,
        text: String,
        error: Option<RunError>,
        usage: Option<Value>,
    },
    /// The worker is leaving; another one goes on.
    HandOver,
    LeaseLost,
    /// It waits for others; whoever ends the wait lets it go on.
    Parked,
    /// Another agent goes on with it, at once.
    Transferred,
    /// The database failed; another attempt may succeed.
    Database {
        attempted: &'static str,
        error: sqlx::Error,
    },
}

impl End {
    pub(crate) fn database(attempted: &'static str, error: sqlx::Error) -> Self {
        End::Database { attempted, error }
    }

    /// Failed before anything was done.
    pub fn failed(error: RunError) -> Self {
        End::Finished {
            status: DoneStatus::Failed,
            text: String::new(),
            error: Some(error),
            usage: None,
        }
    }
}

/// Why an await was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interrupt {
    Cancelled,
    LeaseLost,
    Drain,
    /// The hard end of the run's time.
    Timeout,
}

/// Between two tries of a read while the database is away, and for how long: as long as commands wait.
const READ_RETRY: Duration = Duration::from_millis(200);
const READ_TRIES: u32 = 3_000;

/// Tokens and calls of the run so far.
#[derive(Debug, Clone, Copy, Default)]
struct Totals {
    usage: Usage,
    /// The sum of what the steps cost, each at the price of its model on its day. None: none of them had a price.
    cost_usd: Option<f64>,
    /// What the newest model call was given.
    context_tokens: u64,
}

/// A run being executed.
pub struct Execution {
    request: ExecuteRequest,
    system: String,
    messages: Vec<Message>,
    /// Calls of the last assistant's message, as they are on record.
    open_calls: Vec<ToolCallRow>,
    step: i32,
    repeats: Repeats,
    totals: Totals,
    tree: TreeUse,
    /// Calls of tools in this turn, so far.
    calls_made: usize,
    /// The reply so far: what readers who apply resets have on their screens.
    reply: String,
    /// What the answer has to be; none: any text.
    output: Option<output::Output>,
    /// What the model is told before it is asked again for an answer that did not fit.
    repair: Option<String>,
    /// The last step has begun: tools are off, and the run pauses after it.
    stopping: Option<StopReason>,
}

/// What comes after a step.
enum Next {
    Step,
    End(End),
}

impl Execution {
    /// Rebuilds the run as it is on record.
    pub async fn load(request: ExecuteRequest) -> Result<Self, LoadError> {
        let stored = history::rebuild(&request.services.db.sql, &request.run).await?;
        Ok(Self::of(request, stored))
    }

    /// A run of which nothing but its opening is on record yet.
    pub fn begin(request: ExecuteRequest, opening: &Opening) -> Result<Self, LoadError> {
        let stored = history::begin(&request.run, opening)?;
        Ok(Self::of(request, stored))
    }

    fn of(request: ExecuteRequest, stored: Stored) -> Self {
        Self {
            system: stored.system,
            messages: stored.messages,
            open_calls: stored.open_calls,
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
            request,
        }
    }

    /// Steps until the end.
    pub async fn run(mut self) -> End {
        loop {
            let next = match self.messages.last() {
                // A step whose calls are not all answered, a stored answer, or a question: in this order a new attempt meets them.
                _ if !self.open_calls.is_empty() => self.answer_calls().await,
                Some(Message::Assistant { .. }) => match self.stopping {
                    Some(reason) => Next::End(self.paused(reason)),
                    None if self.has_mail().await => self.next_step().await,
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
                        End::Database { attempted, error } if rejoin_shared::db::is_final(&error) => {
                            let refused = errors::refused_by_database(attempted, &error);
                            self.finished(DoneStatus::Failed, Some(refused))
                        }
                        end => end,
                    };
                    if let End::Finished { error: Some(error), .. } = &end {
                        // Told for completeness' sake: the run is over, whatever the callback says.
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

    /// The run's end comes after all of its events: nothing of a turn follows its `done`.
    async fn after_its_events(&self, end: End) -> End {
        match end {
            End::Finished { .. } if sabotage::is(Break::SettleBeforeEvents) => end,
            End::Finished { .. } => match self.request.services.writer.flush(&self.request.stream).await {
                Ok(()) => end,
                Err(LeaseLost) => End::LeaseLost,
            },
            End::HandOver | End::LeaseLost | End::Parked | End::Transferred | End::Database { .. } => end,
        }
    }

    /// One model call, stored before anything of it is acted upon.
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
        let mail = match self.mail().await {
            Ok(mail) => mail,
            Err(error) => return Next::End(End::database("reading the run's pending messages", error)),
        };
        for mail in &mail {
            let message = Message::User {
                text: mail.content.clone(),
                attachments: mail.files().into_iter().map(Into::into).collect(),
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
            self.stopping = Some(reason);
            if let Err(end) = self.limit(reason.name(), &reason.explanation()).await {
                return Next::End(end);
            }
            let message = Message::user(reason.instruction());
            injected.push(("user", json!(message)));
            self.messages.push(message);
        }
        let shown = self.request.tools.iter();
        let shown = shown.filter(|tool| self.request.selection.shows(&tool.spec().name));
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
        // Calls that were not offered any more are refused as a whole: the answer is what there is of text.
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
        let mail: Vec<i64> = mail.iter().map(|mail| mail.id).collect();
        let said = Message::Assistant {
            text: answer.text,
            tool_calls: calls,
            reasoning: answer.reasoning,
        };
        if let Err(end) = self.record(said, used, &injected, &mail).await {
            return Next::End(end);
        }
        Next::Step
    }

    /// Messages to the run. A database that is away is waited for, so that the run goes on where it is.
    async fn mail(&self) -> Result<Vec<inbox::Mail>, sqlx::Error> {
        let (db, run) = (&self.request.services.db.sql, self.request.run.id);
        for _ in 1..READ_TRIES {
            match inbox::of_run(db, run).await {
                Err(error) if rejoin_shared::db::is_transient(&error) => tokio::time::sleep(READ_RETRY).await,
                done => return done,
            }
        }
        inbox::of_run(db, run).await
    }

    fn out_of_calls(&self) -> bool {
        self.request.tool_calls.is_some_and(|most| self.calls_made >= most)
    }

    /// Whether somebody has told the run something. A database that is away is asked again at the run's end.
    async fn has_mail(&self) -> bool {
        let mail = inbox::of_run(&self.request.services.db.sql, self.request.run.id).await;
        mail.is_ok_and(|mail| !mail.is_empty())
    }

    /// A limit strikes: counted, and told.
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

    fn finished(&self, status: DoneStatus, error: Option<RunError>) -> End {
        End::Finished {
            status,
            text: self.reply.clone(),
            error,
            usage: Some(self.usage()),
        }
    }

    fn paused(&self, reason: StopReason) -> End {
        let error = RunError {
            code: reason.name().to_owned(),
            message: reason.explanation(),
            retryable: true,
        };
        End::Finished {
            status: DoneStatus::Paused,
            text: self.reply.clone(),
            error: Some(error),
            usage: Some(self.usage()),
        }
    }

    fn interrupted(&self, interrupt: Interrupt) -> End {
        match interrupt {
            Interrupt::Cancelled => self.finished(DoneStatus::Cancelled, None),
            Interrupt::LeaseLost => End::LeaseLost,
            Interrupt::Drain => End::HandOver,
            Interrupt::Timeout => self.paused(StopReason::Time),
        }
    }

    fn infrastructure(&self, error: FencedError) -> End {
        match error {
            FencedError::LeaseLost => End::LeaseLost,
            FencedError::Database { attempted, source } => End::Database {
                attempted,
                error: source,
            },
        }
    }

    /// An interrupt that has come already.
    fn interrupted_already(&self) -> Option<Interrupt> {
        let signals = &self.request.signals;
        if signals.lost.is_cancelled() {
            Some(Interrupt::LeaseLost)
        } else if signals.cancel.is_cancelled() {
            Some(Interrupt::Cancelled)
        } else if signals.drain.is_cancelled() {
            Some(Interrupt::Drain)
        } else {
            None
        }
    }

    /// Resolves when the run has to let go of whatever it awaits. A drain only counts where giving up loses nothing.
    async fn interrupt(signals: &Signals, limits: &Limits, heed_drain: bool) -> Interrupt {
        tokio::select! {
            biased;
            () = signals.lost.cancelled() => Interrupt::LeaseLost,
            () = signals.cancel.cancelled() => Interrupt::Cancelled,
            () = signals.drain.cancelled(), if heed_drain => Interrupt::Drain,
            () = limits.hard_end_reached() => Interrupt::Timeout,
        }
    }
}
