//! Remote tools: functions in users' own programs. A call of one is deferred (`deferred`): it is put on record as begun, its job waits for a
//! worker of the program, and the run is held for a moment (`held_runs`), then suspended until the call has ended. A user's confirmation comes
//! before.
//!
//! - `remote_steps` what the function of a call waits for

use std::time::Duration;

use rejoin_commands::{BeginRemoteCalls, DeferredWhat};
use rejoin_faults::Fault;
use rejoin_runs::remote_calls::{self, NewRemoteCall, RemoteCall, RemoteStatus};
use rejoin_runs::tool_calls::{CallStatus, ToolCallRow};
use rejoin_tools::remote::Remote;
use rejoin_tools::{SharedTool, arguments};
use serde_json::Value;
use tokio::time::{Instant, sleep_until};
use uuid::Uuid;

use super::act::Ended;
use super::deferred::{Answer, waited_ms};
use super::limits::Verdict;
use super::{End, Execution};
use crate::coordination;

impl Execution {
    /// Returns whether a call is executed by a user's program. One that has begun stays so, whatever became of the tool.
    pub(super) fn is_remote(&self, call: &ToolCallRow) -> bool {
        let is_known = self.tool(&call.tool_name).is_some_and(|tool| tool.remote().is_some());
        let has_begun = call.status() == CallStatus::Running;
        is_known || has_begun && call.output.as_ref().is_some_and(|note| note["remote"].is_object())
    }

    /// Returns the state of a call of a remote tool. `verdict`: on repetition, for a call that has not begun.
    pub(super) async fn remote_call(&mut self, call: &ToolCallRow, verdict: Verdict) -> Result<Answer, End> {
        if call.status() == CallStatus::Running {
            let known = match self.returned.remove(&call.id) {
                Some(known) => Some(known),
                None => remote_calls::get(&self.request.services.db.pool_sqlx, call.id)
                    .await
                    .map_err(|error| End::database("reading a remote call", error))?,
            };
            return Ok(match known {
                Some(known) if known.status() == RemoteStatus::Suspended => self.suspended_call(call).await?,
                Some(known) => returned(call, known),
                None => Answer::Ended(Ended::unknown()),
            });
        }
        let Some(tool) = self.tool(&call.tool_name) else {
            let gone = format!("the tool {} no longer exists", call.tool_name);
            return Ok(Answer::Ended(Ended::refused(gone)));
        };
        if let Some(question) = self.question_about(call).await? {
            return Ok(match self.answered(call, &question).await {
                // It was approved.
                Answer::Acts(tool, input) => self.handed_over(&tool, input),
                other => other,
            });
        }
        if verdict != Verdict::Go {
            return Ok(Answer::Repeated);
        }
        let input = match arguments::admit_apart(tool.spec(), &call.input).await {
            Ok(input) => input,
            Err(fault) => return Ok(Answer::Ended(Ended::refused(fault))),
        };
        let is_asked =
            tool.remote().is_some_and(|remote| remote.confirm) || self.request.confirm.is_match(&call.tool_name);
        if is_asked {
            let question = coordination::confirmation(&call.tool_name, &input);
            return Ok(Answer::Awaited(DeferredWhat::Confirm(question)));
        }
        Ok(self.handed_over(&tool, input))
    }

    /// Returns whether these calls begin while the run keeps its slot: all are of users' programs that are quick, as far as is known. The text of
    /// an answer is for a suspended run: the program appends it to the log.
    pub(super) fn may_hold(&self, awaited: &[(ToolCallRow, DeferredWhat)]) -> bool {
        let services = &self.request.services;
        services.config.remote_hold_ms > 0
            && awaited.iter().all(|(call, what)| match what {
                DeferredWhat::Remote { remote, is_turn, .. } => {
                    !is_turn && !services.held_runs.is_slow(&self.queue_of(call, remote))
                }
                _ => false,
            })
    }

    /// Records that these calls have not ended soon.
    pub(super) fn notice_slow(&self, awaited: &[(ToolCallRow, DeferredWhat)]) {
        for (call, what) in awaited {
            let tool = self.tool(&call.tool_name);
            if let (DeferredWhat::Begun, Some(remote)) = (what, tool.as_ref().and_then(|tool| tool.remote())) {
                let services = &self.request.services;
                let slow_for = Duration::from_secs(services.config.remote_slow_s);
                services.held_runs.was_slow(self.queue_of(call, remote), slow_for);
            }
        }
    }

    fn queue_of(&self, call: &ToolCallRow, remote: &Remote) -> String {
        remote_calls::queue(
            self.request.run.workspace_id,
            &remote.queue,
            &call.tool_name,
            &remote.version,
        )
    }

    /// Begins these calls, all of users' programs. `suspends`: the run is suspended until they have ended. False: the run was cancelled, and
    /// nothing was begun.
    async fn begin_calls(&self, awaited: &[(ToolCallRow, DeferredWhat)], suspends: bool) -> Result<bool, End> {
        let run = &self.request.run;
        let fields = run.event_fields();
        let calls: Vec<NewRemoteCall<'_>> = awaited
            .iter()
            .filter_map(|(call, what)| match what {
                DeferredWhat::Remote {
                    remote,
                    input,
                    repeatable,
                    is_turn,
                } => Some(NewRemoteCall {
                    id: call.id,
                    workspace_id: run.workspace_id,
                    run_id: Some(run.id),
                    call_id: &call.call_id,
                    conversation_id: run.conversation_id,
                    tool: &call.tool_name,
                    remote,
                    input,
                    repeatable: *repeatable,
                    answers: is_turn.then_some(&*fields),
                }),
                _ => None,
            })
            .collect();
        let begin = BeginRemoteCalls {
            run,
            attempt: self.request.attempt,
            seen: &self.request.stream.seen,
            calls: &calls,
            publish: self.request.callback.is_some(),
            suspends,
        };
        let begun = self.request.services.execute(&begin).await;
        let (may_act, _) = begun.map_err(|error| self.infrastructure(error))?;
        if may_act {
            for (call, _) in awaited {
                self.tell_start(call).await?;
            }
        }
        Ok(may_act)
    }

    /// Begins these calls, all that the step waits for, and suspends the run until they have ended.
    pub(super) async fn suspend_for_calls(&mut self, awaited: Vec<(ToolCallRow, DeferredWhat)>) -> End {
        match self.begin_calls(&awaited, true).await {
            Ok(true) => {
                self.spans.suspend();
                End::Suspended
            }
            Ok(false) => self.stop_awaited(awaited).await,
            Err(end) => end,
        }
    }

    /// Begins these calls, and waits until all have ended or the run is held no longer. Returns them.
    pub(super) async fn hold(&mut self, awaited: Vec<(ToolCallRow, DeferredWhat)>) -> Result<Vec<ToolCallRow>, End> {
        let services = self.request.services.clone();
        let until = Instant::now() + Duration::from_millis(services.config.remote_hold_ms);
        let held = services.held_runs.hold(self.request.run.id);
        if !self.begin_calls(&awaited, false).await? {
            return Err(self.stop_awaited(awaited).await);
        }
        let ids: Vec<Uuid> = awaited.iter().map(|(call, _)| call.id).collect();
        let all_returned = async {
            loop {
                held.returned().await;
                match remote_calls::settled(&services.db.pool_sqlx, &ids).await {
                    Ok(Some(calls)) => return calls,
                    Ok(None) => {}
                    // An unreachable database is for the suspension, which is patient.
                    Err(_) => return Vec::new(),
                }
            }
        };
        let returned = tokio::select! {
            calls = all_returned => calls,
            () = sleep_until(until) => Vec::new(),
            // The caller finds it.
            _ = Self::interrupt(&self.request.signals, &self.request.limits, true) => Vec::new(),
        };
        self.returned.extend(returned.into_iter().map(|call| (call.id, call)));
        let begun = awaited.into_iter().map(|(mut call, _)| {
            call.status = CallStatus::Running.as_str().to_owned();
            call
        });
        Ok(begun.collect())
    }

    /// Reads together the calls among these that have begun, if there are several, and all have ended.
    pub(super) async fn read_returned(&mut self, calls: &[ToolCallRow]) {
        let begun = calls.iter().filter(|call| {
            call.status() == CallStatus::Running && !self.returned.contains_key(&call.id) && self.is_remote(call)
        });
        let ids: Vec<Uuid> = begun.map(|call| call.id).collect();
        if ids.len() < 2 {
            return;
        }
        // What is not known then is read call by call.
        if let Ok(Some(calls)) = remote_calls::settled(&self.request.services.db.pool_sqlx, &ids).await {
            self.returned.extend(calls.into_iter().map(|call| (call.id, call)));
        }
    }

    /// The call begins with these arguments, and waits for a worker.
    fn handed_over(&self, tool: &SharedTool, input: Value) -> Answer {
        let spec = tool.spec();
        match tool.remote() {
            Some(remote) => Answer::Awaited(DeferredWhat::Remote {
                remote: Box::new(remote.clone()),
                input,
                repeatable: spec.read_only || spec.idempotent || rejoin_faults::enabled(Fault::LostCallRepeated),
                // Otherwise readers get the answer at its end.
                is_turn: self.request.is_function && self.request.callback.is_some() && self.output.is_none(),
            }),
            None => Answer::Ended(Ended::refused(format!(
                "the tool {} is no longer remote; call it again",
                spec.name
            ))),
        }
    }
}

/// Returns the result of a call that has begun.
fn returned(call: &ToolCallRow, known: RemoteCall) -> Answer {
    let status = known.status();
    let error = known.error;
    Answer::Ended(match status {
        RemoteStatus::Waiting | RemoteStatus::Running | RemoteStatus::Suspended => {
            return Answer::Awaited(DeferredWhat::Begun);
        }
        RemoteStatus::Completed => Ended::completed(known.output.unwrap_or_default(), waited_ms(call)),
        RemoteStatus::Error => Ended::failed(error.unwrap_or_default(), waited_ms(call)),
        RemoteStatus::OutcomeUnknown => Ended {
            error,
            duration_ms: waited_ms(call),
            ..Ended::unknown()
        },
        RemoteStatus::Cancelled => Ended::failed("the call was cancelled".to_owned(), waited_ms(call)),
    })
}
