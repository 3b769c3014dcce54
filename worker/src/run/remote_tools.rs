//! Remote tools: functions in users' own programs. A call of one is deferred (`deferred`): it is put on record as begun, its job waits for a
//! worker of the program, and the run is suspended until the call has ended. A user's confirmation comes before.
//!
//! - `remote_steps` what the function of a call waits for

use rejoin_commands::DeferredWhat;
use rejoin_faults::Fault;
use rejoin_runs::questions;
use rejoin_runs::remote_calls::{self, RemoteCall, RemoteStatus};
use rejoin_runs::tool_calls::{CallStatus, ToolCallRow};
use rejoin_tools::{SharedTool, arguments};
use serde_json::Value;

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
    pub(super) async fn remote_call(&self, call: &ToolCallRow, verdict: Verdict) -> Result<Answer, End> {
        let db = &self.request.services.db.pool_sqlx;
        if call.status() == CallStatus::Running {
            let known = remote_calls::get(db, call.id).await;
            let known = known.map_err(|error| End::database("reading a remote call", error))?;
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
        let asked = questions::of_call(db, call.id).await;
        if let Some(question) = asked.map_err(|error| End::database("reading a question", error))? {
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
