//! Calls that hand the run over to another agent. They come after all other calls of their step; the first permitted
//! one wins, and the executor resumes the run as that agent.

use rejoin_commands::{EndedCall, ToolsEnded, TransferRun, transfer_run};
use rejoin_model_client::Message;
use rejoin_runs::tool_calls::{self, CallStatus, ToolCallRow};
use rejoin_tools::arguments::{self, Arguments};
use rejoin_types::ids;
use serde_json::{Value, json};

use super::act::Ended;
use super::{End, Execution, Interrupt, history};
use crate::coordination::handoffs::{PREFIX, Target};

impl Execution {
    /// Returns whether a call hands the run over, and is not answered yet.
    pub(super) fn is_transfer(&self, call: &ToolCallRow) -> bool {
        let is_open = matches!(call.status(), CallStatus::Pending | CallStatus::Running);
        is_open && self.target(call).is_some()
    }

    fn target(&self, call: &ToolCallRow) -> Option<&Target> {
        let mut targets = self.request.handoffs.iter();
        targets.find(|target| target.tool.spec().name == call.tool_name)
    }

    /// Hands the run over by the first permitted one of these calls, which ends this agent's part.
    pub(super) async fn transfer(&mut self, calls: Vec<ToolCallRow>) -> Result<(), End> {
        let mut taken: Option<String> = None;
        // The others are answered before the run is handed over.
        let mut goes = None;
        for call in calls {
            if let Some(interrupt) = self.interrupted_already() {
                return Err(self.interrupted(interrupt));
            }
            let Some(target) = self.target(&call).cloned() else {
                continue;
            };
            let refusal = match (&taken, arguments::admit(target.tool.spec(), &call.input)) {
                (Some(to), _) => Err(format!(
                    "the conversation is handed over to {to}; it cannot be handed over to \
                    two agents"
                )),
                (None, Err(fault)) => Err(fault),
                (None, Ok(admitted)) => match self.refusal(&target).await? {
                    Some(refusal) => Err(refusal),
                    None => Ok(Arguments::of(admitted).text("reason").map(str::to_owned)),
                },
            };
            match refusal {
                Err(refusal) => self.record_end(&call, &Ended::refused(refusal)).await?,
                Ok(reason) => {
                    taken = Some(target.definition.name.clone());
                    goes = Some((call, target, reason));
                }
            }
        }
        match goes {
            None => Ok(()),
            Some((call, target, reason)) => self.hand_off_to(&call, &target, reason.as_deref()).await,
        }
    }

    /// Returns why the run may not be handed over, for the model.
    async fn refusal(&mut self, target: &Target) -> Result<Option<String>, End> {
        let to = target.definition.name.clone();
        let run = &self.request.run;
        if run.agent_definition_id == Some(target.definition.id) {
            return Ok(Some(format!("you are {to}")));
        }
        let db = &self.request.services.db.pool_sqlx;
        let earlier = tool_calls::outputs_of(db, run.id, PREFIX, run.turn_step).await;
        let earlier = earlier.map_err(|error| End::database("reading the run's handoffs", error))?;
        let again = transfer_run::output(self.agent_name(), &to);
        let most = self.request.services.config.handoffs;
        let why = if earlier.contains(&again) {
            format!("you have already handed over to {to} in this turn, and it was handed back")
        } else if earlier.len() >= most {
            format!("the conversation has already been handed over {most} times in this turn")
        } else {
            return Ok(None);
        };
        self.limit("handoff_loop", &why).await?;
        Ok(Some(format!(
            "{why}. Do not hand over again: answer with what you have, or say what is missing"
        )))
    }

    pub(super) fn agent_name(&self) -> &str {
        self.request.run.agent_name.as_deref().unwrap_or_default()
    }

    /// Ok: the run stays. Err: this agent's part has ended.
    async fn hand_off_to(&mut self, call: &ToolCallRow, target: &Target, reason: Option<&str>) -> Result<(), End> {
        let to = &target.definition;
        let model = match self.request.services.models.of_definition(to.model.as_ref()) {
            Ok(model) => model.name,
            Err(error) => {
                let why = format!("{} cannot take over: {}", to.name, error.message);
                return self.record_end(call, &Ended::refused(why)).await;
            }
        };
        self.spans.begin_call(call);
        let prompt = history::handoff_prompt(&self.request.services, &self.request.run, to).await;
        let prompt = prompt.map_err(|error| End::database("reading the next agent's prompt", error))?;
        let output = transfer_run::output(self.agent_name(), &to.name);
        let ended = EndedCall {
            id: call.id,
            message_id: ids::new(),
            call_id: &call.call_id,
            tool: &call.tool_name,
            status: CallStatus::Completed,
            output: Some(&output),
            published: Some(&output),
            error: None,
            duration_ms: 0,
            result_message: result_message(call, &output),
            announce: Some(&call.input),
            operation: None,
            events: Vec::new(),
            context: None,
        };
        let command = TransferRun {
            call: ToolsEnded {
                run: &self.request.run,
                attempt: self.request.attempt,
                seen: &self.request.stream.seen,
                step_number: call.step_number,
                calls: &[ended],
                publish: self.request.callback.is_some(),
            },
            from: self.agent_name(),
            to,
            model: &model,
            prompt: &prompt,
            reason,
        };
        let (went, _) = self
            .request
            .services
            .execute(&command)
            .await
            .map_err(|error| self.infrastructure(error))?;
        if !went {
            return Err(self.interrupted(Interrupt::Cancelled));
        }
        self.spans.handed_over(call);
        self.tell_start(call).await?;
        self.tell_end(call, Some(&output), None).await?;
        metrics::counter!("rejoin_handoffs_total", "from" => self.agent_name().to_owned(), "to" => to.name.clone())
            .increment(1);
        Err(End::Transferred)
    }
}

/// Returns the call's answer for the next model.
fn result_message(call: &ToolCallRow, output: &Value) -> Value {
    json!(Message::ToolResult {
        attachments: Vec::new(),
        call_id: call.call_id.clone(),
        tool: call.tool_name.clone(),
        content: output.to_string(),
        is_error: false,
    })
}
