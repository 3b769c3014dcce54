//! Calls answered by others: sub-agents (`spawn_agents`), a user (`ask_user`, and calls that need confirmation), the
//! client (`client_tools`), a user's program (`remote_tools`), and those that ask their user in the middle (`input`). They
//! begin together after all other calls of their step, and the run is suspended until all are answered. Then another
//! attempt comes here again and finds the answers.

use rejoin_commands::{DagError, Deferred, DeferredWhat, SuspendRun, Suspended, cancel_dag};
use rejoin_db::rls;
use rejoin_runs::consoles::tools::SWITCH_CONSOLE;
use rejoin_runs::forms::AwaitedInput;
use rejoin_runs::questions::{self, Question};
use rejoin_runs::run_dependencies;
use rejoin_runs::runs;
use rejoin_runs::tool_calls::{CallStatus, ToolCallRow};
use rejoin_scheduling::plans;
use rejoin_scheduling::tasks;
use rejoin_tools::input::InputGiven;
use rejoin_tools::{SharedTool, arguments};
use rejoin_types::events::PLAN_TOOL;
use serde_json::{Value, json};

use super::act::Ended;
use super::calls::repeated;
use super::limits::Verdict;
use super::{End, Execution, Interrupt};
use crate::coordination::{self, ASK_USER, CREATE_TASKS, SPAWN_AGENTS};

/// Maximum length of all summaries returned by one call, in characters: they are read as a whole, and stay below the
/// limit of a result.
const SUMMARIES_MAX_CHARS: usize = 50_000;
/// Maximum length of one of them, in characters.
const SUMMARY_MAX_CHARS: usize = 20_000;

/// Tools that are always deferred.
pub(super) const OURS: [&str; 4] = [SPAWN_AGENTS, CREATE_TASKS, ASK_USER, PLAN_TOOL];

/// The state of a deferred call.
pub(super) enum Answer {
    /// It must be answered by others first.
    Awaited(DeferredWhat),
    /// It has ended.
    Ended(Ended),
    /// It was repeated too often, and does not begin.
    Repeated,
    /// It acts now, with these arguments.
    Acts(SharedTool, Value),
    /// It acts again, with the same arguments and what its user has answered.
    Resumes(SharedTool, Value, InputGiven),
}

impl Execution {
    /// Returns whether a call is answered by others.
    pub(super) fn is_deferred(&self, call: &ToolCallRow) -> bool {
        let name = call.tool_name.as_str();
        let is_remote = self.is_remote(call);
        if AwaitedInput::of(call).is_some() {
            return true;
        }
        if self.tool(name).is_none() && !is_remote {
            return false;
        }
        let is_always = is_remote || OURS.contains(&name) || self.request.client_tools.has(name);
        match call.status() {
            CallStatus::Pending => is_always || name == SWITCH_CONSOLE || self.request.confirm.is_match(name),
            CallStatus::Running => is_always,
            CallStatus::Completed | CallStatus::Error | CallStatus::OutcomeUnknown => false,
        }
    }

    /// Answers these calls, or suspends the run until they are answered.
    pub(super) async fn answer_deferred(&mut self, calls: Vec<ToolCallRow>) -> Result<(), End> {
        let mut open = calls;
        loop {
            open.append(&mut self.input_awaited);
            if let Some(interrupt) = self.interrupted_already() {
                return Err(self.stop_deferred(&open, interrupt).await);
            }
            let mut awaited = self.look_at(std::mem::take(&mut open)).await?;
            // Calls that have just acted, and ask. All that the step waits for begins together.
            for call in std::mem::take(&mut self.input_awaited) {
                if let Some(input) = AwaitedInput::of(&call)
                    && let Answer::Awaited(what) = self.input_of(&call, input).await?
                {
                    awaited.push((call, what));
                }
            }
            if awaited.is_empty() {
                return Ok(());
            }
            if self.may_hold(&awaited) {
                open = self.hold(awaited).await?;
                continue;
            }
            self.notice_slow(&awaited);
            // This run's streamed events precede those of its sub-agents and of programs.
            if self.request.services.writer.flush(&self.request.stream).await.is_err() {
                return Err(End::LeaseLost);
            }
            if awaited
                .iter()
                .all(|(_, what)| matches!(what, DeferredWhat::Remote { .. }))
            {
                return Err(self.suspend_for_calls(awaited).await);
            }
            let deferred: Vec<Deferred<'_>> = awaited
                .iter()
                .map(|(call, what)| Deferred {
                    id: call.id,
                    call_id: &call.call_id,
                    tool: &call.tool_name,
                    input: &call.input,
                    traceparent: self.spans.traceparent(call),
                    what: what.clone(),
                })
                .collect();
            let suspend = SuspendRun {
                run: &self.request.run,
                attempt: self.request.attempt,
                calls: &deferred,
                limits: self.request.limits.spawning(),
                publish: self.request.callback.is_some(),
            };
            let suspended = self.request.services.execute(&suspend).await;
            let suspended = suspended.map_err(|error| self.infrastructure(error))?;
            if suspended != Suspended::Cancelled {
                for (call, _) in awaited.iter().filter(|(_, what)| what.begins()) {
                    self.tell_start(call).await?;
                }
            }
            match suspended {
                Suspended::Waiting(_) => {
                    self.spans.suspend();
                    return Err(End::Suspended);
                }
                Suspended::Cancelled => return Err(self.stop_awaited(awaited).await),
                Suspended::Answered(_) => {
                    // Begun, and answered immediately: none of them is asked again.
                    self.unasked.clear();
                    open = awaited
                        .into_iter()
                        .map(|(mut call, what)| {
                            if !matches!(what, DeferredWhat::Confirm(_)) {
                                call.status = CallStatus::Running.as_str().to_owned();
                            }
                            call
                        })
                        .collect();
                }
            }
        }
    }

    pub(super) async fn stop_awaited(&mut self, awaited: Vec<(ToolCallRow, DeferredWhat)>) -> End {
        let calls: Vec<ToolCallRow> = awaited.into_iter().map(|(call, _)| call).collect();
        self.stop_deferred(&calls, Interrupt::Cancelled).await
    }

    /// Records the ends of those that have ended, together. Returns those that others must answer first.
    async fn look_at(&mut self, calls: Vec<ToolCallRow>) -> Result<Vec<(ToolCallRow, DeferredWhat)>, End> {
        self.read_returned(&calls).await;
        let mut awaited = Vec::new();
        let mut ended = Vec::new();
        let looked = self.look_at_each(calls, &mut awaited, &mut ended).await;
        // An error does not keep the others from being recorded.
        self.record_ends(&ended).await?;
        looked.map(|()| awaited)
    }

    async fn look_at_each(
        &mut self,
        calls: Vec<ToolCallRow>,
        awaited: &mut Vec<(ToolCallRow, DeferredWhat)>,
        ended: &mut Vec<(ToolCallRow, Ended)>,
    ) -> Result<(), End> {
        let mut repeats = self.repeats.clone();
        for call in calls {
            let verdict = match (repeats.ask(&call.tool_name, &call.input), self.request.may_repeat_calls) {
                (_, true) => Verdict::Go,
                (verdict, false) => verdict,
            };
            let answer = self.deferred_answer(&call, verdict).await?;
            let stops = matches!(answer, Answer::Repeated) && verdict == Verdict::Stop;
            let how = match answer {
                Answer::Awaited(what) => {
                    self.spans.begin_call(&call);
                    awaited.push((call, what));
                    continue;
                }
                Answer::Repeated => Some(repeated(verdict, &call.tool_name)),
                Answer::Ended(how) => Some(how),
                Answer::Acts(tool, arguments) => {
                    // Results of earlier calls are on record before another one acts (I13).
                    self.record_ends(&std::mem::take(ended)).await?;
                    self.act(&call, tool, arguments, false).await?
                }
                Answer::Resumes(tool, arguments, given) => {
                    self.record_ends(&std::mem::take(ended)).await?;
                    self.act_with(&call, tool, arguments, given).await?
                }
            };
            let Some(how) = how else { continue };
            if self.repeats.ask(&call.tool_name, &call.input) == Verdict::Go {
                self.repeats.answered(&how.content(&self.request.run));
            }
            let tool = call.tool_name.clone();
            ended.push((call, how));
            if stops {
                self.record_ends(&std::mem::take(ended)).await?;
                return Err(self.doom_loop(&tool).await?);
            }
        }
        Ok(())
    }

    /// Ends open calls with the run: every published start also ends.
    async fn stop_deferred(&mut self, calls: &[ToolCallRow], interrupt: Interrupt) -> End {
        let begun = || calls.iter().filter(|call| call.status() == CallStatus::Running);
        if matches!(interrupt, Interrupt::Cancelled | Interrupt::Timeout) {
            for call in begun() {
                if let Err(error) = self.cancel_remote_call(call).await {
                    return error;
                }
            }
        }
        if interrupt == Interrupt::Cancelled {
            for call in begun() {
                self.abandon_input(call).await;
                if let Err(error) = self.cancel_tasks(call).await {
                    return error;
                }
                let ended = Ended::failed("the run was cancelled while it waited".to_owned(), waited_ms(call));
                if let Err(end) = self.record_end(call, &ended).await {
                    return end;
                }
            }
        }
        self.interrupted(interrupt)
    }

    /// Cancels the tasks of a call whose run is cancelled.
    async fn cancel_tasks(&self, call: &ToolCallRow) -> Result<(), End> {
        if ![CREATE_TASKS, PLAN_TOOL].contains(&call.tool_name.as_str()) {
            return Ok(());
        }
        let services = &self.request.services;
        let failed = |error| End::database("cancelling the tasks", error);
        plans::abandon(&services.db.pool_sqlx, call.id).await.map_err(failed)?;
        let Some(dag) = tasks::of_call(&services.db.pool_sqlx, call.id).await.map_err(failed)? else {
            return Ok(());
        };
        match cancel_dag(&services.db.pool_sqlx, rls::Scope::System, dag.id).await {
            Ok(wake) => services.bus.publish(wake),
            Err(DagError::Database(error)) => return Err(failed(error)),
            // It has ended.
            Err(_) => {}
        }
        Ok(())
    }

    /// `verdict`: on repetition, for a call that has not begun.
    async fn deferred_answer(&mut self, call: &ToolCallRow, verdict: Verdict) -> Result<Answer, End> {
        if let Some(awaited) = AwaitedInput::of(call) {
            return self.input_of(call, awaited).await;
        }
        if self.request.client_tools.has(&call.tool_name) {
            return self.client_call(call, verdict).await;
        }
        if self.is_remote(call) {
            return self.remote_call(call, verdict).await;
        }
        let has_begun = call.status() == CallStatus::Running;
        if has_begun && call.tool_name == SPAWN_AGENTS {
            return self.spawned(call).await;
        }
        if has_begun && call.tool_name == CREATE_TASKS {
            return self.tasks_done(call).await;
        }
        if has_begun && call.tool_name == PLAN_TOOL {
            return self.plan_under_way(call).await;
        }
        if let Some(question) = self.question_about(call).await? {
            return Ok(self.answered(call, &question).await);
        }
        if verdict != Verdict::Go {
            return Ok(Answer::Repeated);
        }
        let Some(tool) = self.tool(&call.tool_name) else {
            return Ok(Answer::Ended(Ended::refused(format!(
                "the tool {} no longer exists",
                call.tool_name
            ))));
        };
        let admitted = match arguments::admit_apart(tool.spec(), &call.input).await {
            Ok(admitted) => admitted,
            Err(fault) => return Ok(Answer::Ended(Ended::refused(fault))),
        };
        if call.tool_name == SPAWN_AGENTS {
            let services = &self.request.services;
            let items =
                coordination::spawn_items(&services.db.pool_sqlx, self.request.run.workspace_id, admitted).await;
            let items = items.map_err(|error| End::database("looking up agents", error))?;
            return Ok(match items {
                Ok(items) => Answer::Awaited(DeferredWhat::Spawn(items)),
                Err(fault) => Answer::Ended(Ended::refused(fault)),
            });
        }
        if call.tool_name == PLAN_TOOL {
            return self.plan_ahead(admitted).await;
        }
        if call.tool_name == CREATE_TASKS {
            return Ok(match coordination::new_tasks(admitted) {
                Ok(tasks) => Answer::Awaited(DeferredWhat::Tasks(Box::new(tasks))),
                Err(fault) => Answer::Ended(Ended::refused(fault)),
            });
        }
        if call.tool_name == ASK_USER {
            if let Some(most) = self.request.questions {
                let asked = questions::asked_by(&self.request.services.db.pool_sqlx, self.request.run.id).await;
                if asked.map_err(|error| End::database("counting questions", error))? >= i64::from(most) {
                    let reason = format!(
                        "you may ask at most {most} questions per turn, and have done so; continue \
                        with what you know"
                    );
                    return Ok(Answer::Ended(Ended::refused(reason)));
                }
            }
            return Ok(match coordination::question(admitted) {
                Ok(question) => Answer::Awaited(DeferredWhat::Ask(question)),
                Err(fault) => Answer::Ended(Ended::refused(fault)),
            });
        }
        let question = coordination::confirmation(&call.tool_name, &admitted);
        Ok(Answer::Awaited(DeferredWhat::Confirm(question)))
    }

    /// Returns the results of a call's sub-agents.
    async fn spawned(&self, call: &ToolCallRow) -> Result<Answer, End> {
        let db = &self.request.services.db.pool_sqlx;
        let failed = |error| End::database("reading the sub-agents", error);
        let mut connection = db.acquire().await.map_err(failed)?;
        let dependencies = run_dependencies::of_run(&mut connection, self.request.run.id)
            .await
            .map_err(failed)?;
        if dependencies.agents > 0 {
            return Ok(Answer::Awaited(DeferredWhat::Begun));
        }
        let children = runs::spawned_by(&mut *connection, call.id).await.map_err(failed)?;
        // Those that were not started are recorded with the call, in the form for the model.
        let stored = rejoin_runs::tool_calls::get(&mut *connection, self.request.run.id, call.id)
            .await
            .map_err(failed)?;
        let refused = stored.and_then(|stored| stored.output).unwrap_or_default();
        let refused = refused["refused"].as_array().cloned().unwrap_or_default();
        let share = (SUMMARIES_MAX_CHARS / (children.len() + refused.len()).max(1)).min(SUMMARY_MAX_CHARS);
        let mut results: Vec<(i64, Value)> = refused
            .into_iter()
            .map(|mut item| {
                let position = item.as_object_mut().and_then(|item| item.remove("position"));
                (
                    position.and_then(|position| position.as_i64()).unwrap_or_default(),
                    item,
                )
            })
            .collect();
        for child in children {
            let mut result = json!({
                "agent_name": child.agent_name,
                "run_id": child.id,
                "status": child.state,
                "summary": child.summary.as_deref().map(|summary| shortened(summary, share)),
                "steps": child.total_steps,
            });
            if let Some(error) = child.error {
                result["error"] = error.into();
            }
            results.push((i64::from(child.spawn_position.unwrap_or_default()), result));
        }
        results.sort_by_key(|(position, _)| *position);
        let results: Vec<Value> = results.into_iter().map(|(_, result)| result).collect();
        Ok(Answer::Ended(Ended::completed(
            json!({ "results": results }),
            waited_ms(call),
        )))
    }

    /// Returns the results of a call's tasks.
    async fn tasks_done(&self, call: &ToolCallRow) -> Result<Answer, End> {
        let db = &self.request.services.db.pool_sqlx;
        let failed = |error| End::database("reading the tasks", error);
        let Some(dag) = tasks::of_call(db, call.id).await.map_err(failed)? else {
            let stored = rejoin_runs::tool_calls::get(db, self.request.run.id, call.id)
                .await
                .map_err(failed)?;
            let why = stored.and_then(|stored| stored.output).unwrap_or_default();
            let why = why["refused"]
                .as_str()
                .unwrap_or("the tasks could not be created")
                .to_owned();
            return Ok(Answer::Ended(Ended::failed(why, waited_ms(call))));
        };
        if dag.waiting_run_id.is_some() && dag.finished_at.is_none() {
            return Ok(Answer::Awaited(DeferredWhat::Begun));
        }
        let done = tasks::of_dag(db, dag.id).await.map_err(failed)?;
        let share = (SUMMARIES_MAX_CHARS / done.len().max(1)).min(SUMMARY_MAX_CHARS);
        let done: Vec<Value> = done
            .iter()
            .map(|task| {
                let mut result = json!({
                    "id": task.r#ref, "title": task.title, "status": task.state, "agent": task.assigned_agent, "run_id": task.run_id,
                    "summary": task.summary.as_deref().map(|summary| shortened(summary, share)),
                });
                if task.state != "completed" && let Some(failure) = &task.failure_context {
                    result["error"] = shortened(failure, share).into();
                }
                result
            })
            .collect();
        let output = json!({"dag_id": dag.id, "name": dag.name, "state": dag.state, "tasks": done});
        Ok(Answer::Ended(Ended::completed(output, waited_ms(call))))
    }

    /// Returns the question about a call, if one was asked.
    pub(super) async fn question_about(&self, call: &ToolCallRow) -> Result<Option<Question>, End> {
        if self.unasked.contains(&call.id) {
            return Ok(None);
        }
        let asked = questions::of_call(&self.request.services.db.pool_sqlx, call.id).await;
        asked.map_err(|error| End::database("reading a question", error))
    }

    /// Returns the result of a question.
    pub(super) async fn answered(&self, call: &ToolCallRow, question: &Question) -> Answer {
        let answer = question.answer.clone().unwrap_or_default();
        match (question.kind.as_str(), question.status.as_str()) {
            (_, "pending") => Answer::Awaited(DeferredWhat::Begun),
            ("ask", "answered") => Answer::Ended(Ended::completed(json!({ "answer": answer }), waited_ms(call))),
            ("ask", _) => Answer::Ended(Ended::failed(
                "the question was not answered in time; continue without the answer, and say what it would have \
                changed"
                    .to_owned(),
                waited_ms(call),
            )),
            (_, "answered") => match answer["decision"].as_str() {
                Some(decision @ ("approve" | "edit")) => {
                    let input = if decision == "edit" {
                        &answer["input"]
                    } else {
                        &call.input
                    };
                    let Some(tool) = self.tool(&call.tool_name) else {
                        return Answer::Ended(Ended::refused(format!("the tool {} no longer exists", call.tool_name)));
                    };
                    match arguments::admit_apart(tool.spec(), input).await {
                        Ok(admitted) => Answer::Acts(tool, admitted),
                        Err(fault) => Answer::Ended(Ended::refused(fault)),
                    }
                }
                _ => Answer::Ended(Ended::refused(
                    "the user rejected this call; it was not executed. Do not request it again: find another way, or \
                    say why you cannot"
                        .to_owned(),
                )),
            },
            (_, _) => Answer::Ended(Ended::refused(
                "this call was not approved in time; it was not executed".to_owned(),
            )),
        }
    }
}

/// Returns how long a call has been waiting.
pub(super) fn waited_ms(call: &ToolCallRow) -> i64 {
    call.started_at
        .map(|at| {
            (chrono::DateTime::<chrono::Utc>::from(std::time::SystemTime::now()) - at)
                .num_milliseconds()
                .max(0)
        })
        .unwrap_or_default()
}

fn shortened(summary: &str, max_chars: usize) -> String {
    match summary.char_indices().nth(max_chars) {
        None => summary.to_owned(),
        Some((at, _)) => format!("{} [truncated: the full text is in the run's record]", &summary[..at]),
    }
}
