//! What the function of a user's program waits for: a question to the user, an agent, or a language model. Its call is suspended; this run begins
//! the steps, and stores what became of them. Then the call is handed out again.

use rejoin_commands::{DeferredWhat, EndRemoteCall, NewSpawn, NewStep, RemoteEnd, SpawnItem, SpawnWhat, StepWhat};
use rejoin_runs::model_calls::ModelCall;
use rejoin_runs::questions::{self, Question};
use rejoin_runs::remote_steps::{self, RemoteStep, STEP_MAX_BYTES, StepEnd, StepKind, StepStatus};
use rejoin_runs::runs::{self, Run, RunState};
use rejoin_runs::tool_calls::ToolCallRow;
use rejoin_tools::arguments;
use serde_json::{Value, json};

use super::deferred::Answer;
use super::{End, Execution};
use crate::coordination;

/// Maximum length of an agent's summary as the output of a step, in characters: the output of a step has at most 256 KiB.
const SUMMARY_MAX_CHARS: usize = 50_000;

impl Execution {
    /// Returns what is to be done for a suspended call.
    pub(super) async fn suspended_call(&self, call: &ToolCallRow) -> Result<Answer, End> {
        let db = &self.request.services.db.pool_sqlx;
        let failed = |error| End::database("reading the steps of a remote call", error);
        let open = remote_steps::open(db, call.id).await.map_err(failed)?;
        let mut begin = Vec::new();
        let mut ends = Vec::new();
        for step in &open {
            if step.status() == StepStatus::Requested {
                let what = self.step_to_begin(step).await.map_err(failed)?;
                begin.push(NewStep {
                    number: step.number,
                    what,
                });
            } else if let Some(end) = self.step_end(step).await.map_err(failed)? {
                ends.push(end);
            }
        }
        Ok(Answer::Awaited(if !begin.is_empty() {
            DeferredWhat::Steps(begin)
        } else if !ends.is_empty() || open.is_empty() {
            DeferredWhat::StepEnds(ends)
        } else {
            DeferredWhat::Begun
        }))
    }

    async fn step_to_begin(&self, step: &RemoteStep) -> Result<StepWhat, sqlx::Error> {
        let request = step.request.clone().unwrap_or_default();
        if step.kind() == StepKind::Question {
            let question = json!({
                "question": request["question"], "options": request["options"].as_array().cloned().unwrap_or_default(),
                "interaction_type": request["interactionType"], "placeholder": request["placeholder"],
                "max_length": request["maxLength"],
            });
            let admitted = arguments::admit_apart(coordination::ask_user().spec(), &question).await;
            return Ok(match admitted.and_then(coordination::question) {
                Ok(question) => StepWhat::Ask(question),
                Err(why) => StepWhat::Refused(why),
            });
        }
        if let Some(call) = step.model_call() {
            return Ok(self.model_call_to_begin(step, call));
        }
        if self.request.run.depth >= coordination::MAX_DEPTH {
            return Ok(StepWhat::Refused(
                "a sub-agent of a sub-agent can't start agents".to_owned(),
            ));
        }
        let wanted = json!({"agents": [{
            "agent_name": request["agent"], "task": request["task"], "timeout": request["timeoutS"], "resume_run_id": null,
        }]});
        let admitted = match arguments::admit_apart(coordination::spawn_agents().spec(), &wanted).await {
            Ok(admitted) => admitted,
            Err(why) => return Ok(StepWhat::Refused(why)),
        };
        let (db, workspace_id) = (&self.request.services.db.pool_sqlx, self.request.run.workspace_id);
        let mut items = match coordination::spawn_items(db, workspace_id, admitted).await? {
            Ok(items) => items,
            Err(why) => return Ok(StepWhat::Refused(why)),
        };
        let Some(mut item) = items.pop() else {
            return Ok(StepWhat::Refused("an agent is required".to_owned()));
        };
        if let SpawnWhat::New(new) = &mut item.what {
            new.output_schema = request.get("outputSchema").filter(|schema| schema.is_object()).cloned();
        }
        Ok(StepWhat::Spawn(item))
    }

    /// The run of a model call starts no agents, so it may be deeper in the tree than those that do.
    fn model_call_to_begin(&self, step: &RemoteStep, call: ModelCall) -> StepWhat {
        let models = &self.request.services.models;
        if let Err(error) = models.of_definition(Some(&call.choice())) {
            return StepWhat::Refused(models.explain(&error));
        }
        // What the tree of runs shows; the whole call is in the step.
        let task = call.messages.last().map(|said| said.text.clone()).unwrap_or_default();
        let new = NewSpawn {
            definition_id: None,
            timeout_s: None,
            output_schema: call.output_schema,
        };
        StepWhat::Spawn(SpawnItem {
            agent_name: step.name.clone(),
            task,
            what: SpawnWhat::New(new),
        })
    }

    /// Returns what became of a step that was begun. None: it has not ended.
    async fn step_end(&self, step: &RemoteStep) -> Result<Option<StepEnd>, sqlx::Error> {
        let db = &self.request.services.db.pool_sqlx;
        let Some(reference) = step.reference else {
            return Ok(Some(StepEnd::failed(step.number, "it was not begun".to_owned())));
        };
        if step.kind() == StepKind::Question {
            return Ok(match questions::get(db, reference).await? {
                Some(question) if question.is_pending() => None,
                Some(Question {
                    status,
                    answer: Some(answer),
                    ..
                }) if status == "answered" => Some(StepEnd::completed(step.number, json!({ "answer": answer }))),
                _ => Some(StepEnd::failed(
                    step.number,
                    "the question was not answered in time".to_owned(),
                )),
            });
        }
        Ok(match runs::get(db, reference).await? {
            Some(child) if matches!(child.state(), RunState::Queued | RunState::Running | RunState::Waiting) => None,
            Some(child) if step.model_call().is_some() => Some(answer_of(step.number, &child)),
            Some(child) => Some(StepEnd::completed(step.number, result_of(&child))),
            None => Some(StepEnd::failed(
                step.number,
                "the run of the step was removed".to_owned(),
            )),
        })
    }

    /// Ends a call of a user's program whose run does not want its result.
    pub(super) async fn cancel_remote_call(&self, call: &ToolCallRow) -> Result<(), End> {
        if !self.is_remote(call) {
            return Ok(());
        }
        let end = EndRemoteCall {
            id: call.id,
            attempt: None,
            end: RemoteEnd::Cancelled,
        };
        let ended = self.request.services.execute(&end).await;
        ended
            .map(drop)
            .map_err(|error| End::database("cancelling a remote call", error))
    }
}

/// An agent's run as the output of a step.
fn result_of(run: &Run) -> Value {
    let summary = run.summary.as_deref();
    json!({
        "runId": run.id, "agent": run.agent_name, "status": run.state, "steps": run.total_steps, "error": run.error,
        "summary": summary.map(|text| text.chars().take(SUMMARY_MAX_CHARS).collect::<String>()),
    })
}

/// The answer of a model as the output of a step.
fn answer_of(number: i32, run: &Run) -> StepEnd {
    if run.state() != RunState::Completed {
        let code = run.error_code.as_deref().unwrap_or(&run.state);
        let why = run.error.as_deref().unwrap_or("its run was cancelled");
        return StepEnd::failed(number, format!("the model has not answered ({code}): {why}"));
    }
    let text = run.summary.as_deref().unwrap_or_default();
    let output: Option<Value> = run.output_schema.as_ref().and_then(|_| serde_json::from_str(text).ok());
    let answer = json!({"runId": run.id, "model": run.model, "text": text, "output": output, "usage": run.usage});
    let bytes = answer.to_string().len();
    if bytes > STEP_MAX_BYTES {
        let why = format!(
            "the model's answer has {bytes} bytes of JSON, and a step has at most {STEP_MAX_BYTES}; ask for a shorter one. It is in the \
            history of the run {}",
            run.id
        );
        return StepEnd::failed(number, why);
    }
    StepEnd::completed(number, answer)
}
