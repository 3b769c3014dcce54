//! Calls of `agent_create_plan`: the plan is stored and announced, approved by a user, an agent or rules if required,
//! and executed; the run is suspended until its last step ends.

use rejoin_commands::{DeferredWhat, NewSpawn, PlanAhead, Reviewer, SpawnItem, SpawnWhat};
use rejoin_runs::tool_calls::ToolCallRow;
use rejoin_runs::{agents, questions, runs};
use rejoin_scheduling::plans::{self, ExecutionMode, Plan};
use serde_json::Value;
use uuid::Uuid;

use super::act::Ended;
use super::deferred::{Answer, waited_ms};
use super::{End, Execution};
use crate::coordination::plans::{self as planning, Planner};

/// Time after which a reviewing agent must conclude, in seconds.
const REVIEW_TIMEOUT_S: i32 = 120;

impl Execution {
    /// Returns the state of a call that has begun.
    pub(super) async fn plan_under_way(&self, call: &ToolCallRow) -> Result<Answer, End> {
        let db = &self.request.services.db.pool_sqlx;
        let failed = |error| End::database("reading the plan", error);
        let Some(plan) = plans::of_call(db, call.id).await.map_err(failed)? else {
            let why = "creating the plan failed".to_owned();
            return Ok(Answer::Ended(Ended::failed(why, waited_ms(call))));
        };
        if plan.finished_at.is_some() {
            let outcome = planning::outcome(&plan);
            return Ok(Answer::Ended(Ended::completed(outcome, waited_ms(call))));
        }
        if plan.status != "pending_review" {
            return Ok(Answer::Awaited(DeferredWhat::Begun));
        }
        let review = match plan.mode() {
            ExecutionMode::AgentReview => self.agents_verdict(call, &plan).await.map_err(failed)?,
            ExecutionMode::AutoExecute | ExecutionMode::DraftOnly => {
                let question = questions::of_call(db, call.id).await.map_err(failed)?;
                question
                    .filter(|question| !question.is_pending())
                    .map(|question| planning::decided(&plan, &question.answer.unwrap_or_default()))
            }
        };
        Ok(Answer::Awaited(match review {
            Some(review) => DeferredWhat::Review(Box::new(review)),
            None => DeferredWhat::Begun,
        }))
    }

    /// None: the review is in progress.
    async fn agents_verdict(
        &self,
        call: &ToolCallRow,
        plan: &Plan,
    ) -> Result<Option<rejoin_commands::Review>, sqlx::Error> {
        let children = runs::spawned_by(&self.request.services.db.pool_sqlx, call.id).await?;
        // It was not started, or was deleted: nothing is executed unreviewed.
        let Some(child) = children.first() else {
            return Ok(Some(planning::verdict(plan.id, "nobody", "")));
        };
        Ok(child.state().has_ended().then(|| {
            let reviewer = child.agent_name.as_deref().unwrap_or_default();
            planning::verdict(plan.id, reviewer, child.summary.as_deref().unwrap_or_default())
        }))
    }

    /// Returns the state of a new call.
    pub(super) async fn plan_ahead(&self, admitted: Value) -> Result<Answer, End> {
        let services = &self.request.services;
        let failed = |error| End::database("creating a plan", error);
        let revised = match admitted["revises"].as_str().filter(|id| !id.trim().is_empty()) {
            None => None,
            Some(id) => match self.revised(id).await.map_err(failed)? {
                Ok(revised) => Some(revised),
                Err(fault) => return Ok(Answer::Ended(Ended::refused(fault))),
            },
        };
        let tools = self.request.tools.iter().map(|tool| tool.spec());
        let planner = Planner {
            run: &self.request.run,
            name: self.agent_name(),
            // Steps can neither plan nor start agents.
            tools: tools
                .filter(|spec| !super::deferred::OURS.contains(&spec.name.as_str()))
                .map(|spec| (spec.name.clone(), spec.read_only))
                .collect(),
            settings: &self.request.planning,
            revised,
        };
        let new = match planning::new_plan(admitted, &planner) {
            Ok(new) => new,
            Err(fault) => return Ok(Answer::Ended(Ended::refused(fault))),
        };
        let executor = new.metadata["executor"].as_str().unwrap_or_default().to_owned();
        let needs_one = new.steps.iter().any(|step| step.executor_required);
        let workspace_id = self.request.run.workspace_id;
        let mut new = new;
        if needs_one
            && agents::find_by_name(&services.db.pool_sqlx, workspace_id, &executor)
                .await
                .map_err(failed)?
                .is_none()
        {
            // If no executor is installed, the planner's own agent executes the steps.
            new.metadata["executor"] = new.metadata["planner"].clone();
        }
        let reviewer = match new.mode {
            ExecutionMode::AutoExecute => Reviewer::None,
            ExecutionMode::DraftOnly => Reviewer::Person(planning::question(&new)),
            ExecutionMode::AgentReview => match &self.request.planning.reviewer {
                None => Reviewer::Rules(planning::by_rules(&new)),
                Some(name) => {
                    let found = agents::find_by_name(&services.db.pool_sqlx, workspace_id, name).await;
                    match found.map_err(failed)? {
                        Some(definition) => Reviewer::Agent(SpawnItem {
                            agent_name: name.clone(),
                            task: planning::review_input(&new),
                            what: SpawnWhat::New(NewSpawn {
                                definition_id: Some(definition.id),
                                timeout_s: Some(REVIEW_TIMEOUT_S),
                                output_schema: Some(planning::verdict_schema()),
                            }),
                        }),
                        None => {
                            let reason = format!("plans are reviewed by {name}, but there is no such agent");
                            return Ok(Answer::Ended(Ended::refused(reason)));
                        }
                    }
                }
            },
        };
        Ok(Answer::Awaited(DeferredWhat::Plan(Box::new(PlanAhead {
            new,
            reviewer,
        }))))
    }

    /// Returns the plan to be replaced. The inner Err is for the model.
    async fn revised(&self, id: &str) -> Result<Result<(Uuid, Vec<plans::steps::Step>), String>, sqlx::Error> {
        let unknown = || format!("there is no ended plan {id} in this conversation");
        let Ok(plan_id) = id.trim().parse::<Uuid>() else {
            return Ok(Err(unknown()));
        };
        let run = &self.request.run;
        let plan = plans::get(&self.request.services.db.pool_sqlx, run.workspace_id, plan_id).await?;
        let ours = plan.filter(|plan| {
            plan.finished_at.is_some() && plan.conversation_id == run.conversation_id && plan.user_id == run.user_id
        });
        Ok(ours.map(|plan| (plan.id, plan.steps())).ok_or_else(unknown))
    }
}
