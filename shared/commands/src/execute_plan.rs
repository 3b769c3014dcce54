//! Creates, reviews and executes a plan: its steps become the tasks of a DAG, and their progress is written to the log
//! of the run that planned. All functions run under the lock of that log, within the transactions of the calling
//! commands.

use serde_json::{Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

use super::{Command as _, CreateDag, DagError};
use rejoin_event_log::log;
use rejoin_event_log::wakeup::Wake;
use rejoin_runs::runs::part::Part;
use rejoin_runs::runs::{self, Run};
use rejoin_scheduling::plans::steps::{self, RESEARCH, Step, StepStatus, StepTools};
use rejoin_scheduling::plans::{self, NewPlan, Plan};
use rejoin_scheduling::tasks::{self, Dag, DagTask};
use rejoin_types::events::{Event, Kind};
use rejoin_types::ids;

/// The verdict on a plan that waited for approval.
#[derive(Debug, Clone, PartialEq)]
pub struct Review {
    pub plan_id: Uuid,
    /// `approved`, `changes_requested` or `rejected`.
    pub verdict: &'static str,
    pub notes: Option<String>,
    /// `user`, `rules`, or an agent's name.
    pub reviewer: String,
    /// The approved steps, if they were edited, and their tools.
    pub edited: Option<(Vec<Step>, StepTools)>,
}

/// Publishes an event of the run immediately.
async fn publish(db: &mut PgConnection, run: &Run, step_number: Option<i32>, kind: Kind) -> Result<(), sqlx::Error> {
    let event = Event {
        step_number,
        ..run.event(kind)
    };
    let seq = log::append(db, run.log_id, Some(run.root_run_id), &[event]).await?;
    sqlx::query!("update kb.agent_runs set safe_seq = $2 where id = $1", run.id, seq)
        .execute(db)
        .await?;
    Ok(())
}

/// Stores a plan and publishes it.
pub(super) async fn create(
    db: &mut PgConnection,
    run: &Run,
    call_id: Uuid,
    new: &NewPlan,
    status: &str,
) -> Result<Plan, sqlx::Error> {
    let plan = plans::insert(db, run, call_id, new, status).await?;
    publish(db, run, None, Kind::PlanCreated { plan: plan.to_json() }).await?;
    Ok(plan)
}

/// The details of a plan that a reviewer needs.
pub(super) async fn ready_for_review(db: &mut PgConnection, run: &Run, plan: &Plan) -> Result<(), sqlx::Error> {
    let steps = plan.steps();
    let writing = steps.iter().filter(|step| step.kind != RESEARCH).count();
    let summary = format!(
        "{}: {} steps, {writing} of them other than research",
        plan.objective,
        steps.len()
    );
    let loose = steps
        .iter()
        .filter(|step| step.tools.is_empty() && step.executor_required);
    let recommendations: Vec<String> = loose
        .map(|step| format!("step {} has no tools, so its executor cannot act", step.step_number))
        .collect();
    let kind = Kind::PlanReadyForReview {
        plan: plan.to_json(),
        summary: Some(summary),
        recommendations: (!recommendations.is_empty()).then_some(recommendations),
    };
    publish(db, run, None, kind).await
}

/// Begins the execution of the plan.
pub(super) async fn begin(db: &mut PgConnection, run: &Run, plan: &Plan) -> Result<Wake, sqlx::Error> {
    let steps = plan.steps();
    let named = |name: &str| plan.metadata[name].as_str().unwrap_or_default().to_owned();
    let spec = steps::dag(&plan.objective, &steps, &named("executor"), &named("planner"));
    let ordered = match spec.check() {
        Ok(ordered) => ordered,
        Err(why) => return fail(db, plan, &why).await,
    };
    let dag_id = ids::new();
    plans::begin(db, plan.id, dag_id).await?;
    let state = Kind::AgentState {
        state: "executing_plan".to_owned(),
        context_type: run.about().map(|context| context.context_type.as_str().to_owned()),
        details: Some(json!({"planId": plan.id, "steps": steps.len()})),
    };
    publish(db, run, None, state).await?;
    let create = CreateDag {
        id: dag_id,
        workspace_id: run.workspace_id,
        user_id: run.user_id,
        spec: &spec,
        ordered: &ordered,
        made_by: Some((run.id, plan.call_id, true)),
        plan: Some((plan.id, run.log_id)),
    };
    match create.apply(db).await {
        Ok(wake) => Ok(wake),
        Err(DagError::Database(error)) => Err(error),
        Err(error) => fail(db, plan, &error.to_string()).await,
    }
}

/// Fails a plan that can't be executed: the answer to its call gives the reason.
async fn fail(db: &mut PgConnection, plan: &Plan, why: &str) -> Result<Wake, sqlx::Error> {
    plans::record_metadata(db, plan.id, &json!({ "notes": why })).await?;
    plans::end(db, plan.id, "failed", &plan.steps()).await?;
    Ok(Wake::default())
}

/// Executes or ends a reviewed plan.
pub(super) async fn reviewed(db: &mut PgConnection, run: &Run, review: &Review) -> Result<Wake, sqlx::Error> {
    let Some(mut plan) = plans::get(&mut *db, run.workspace_id, review.plan_id).await? else {
        return Ok(Wake::default());
    };
    if plan.status != "pending_review" {
        return Ok(Wake::default());
    }
    if let Some((steps, tools)) = &review.edited
        && let Some(edited) = plans::edit(db, &plan, plan.version, steps, tools).await?
    {
        plan = edited;
    }
    let noted = json!({"verdict": review.verdict, "notes": review.notes, "reviewer": review.reviewer});
    plans::record_metadata(db, plan.id, &noted).await?;
    let kind = Kind::PlanReview {
        plan: plan.to_json(),
        verdict: review.verdict.to_owned(),
        notes: review.notes.clone(),
        reviewer: Some(review.reviewer.clone()),
    };
    publish(db, run, None, kind).await?;
    match review.verdict {
        "approved" => begin(db, run, &plan).await,
        _ => {
            plans::end(db, plan.id, "failed", &plan.steps()).await?;
            Ok(Wake::default())
        }
    }
}

/// The plan to which a DAG's tasks belong.
struct PlanInProgress {
    plan: Plan,
    planner: Run,
}

async fn of_dag(db: &mut PgConnection, dag: &Dag) -> Result<Option<PlanInProgress>, sqlx::Error> {
    let (Some(plan_id), Some(run_id)) = (dag.plan_id, dag.waiting_run_id) else {
        return Ok(None);
    };
    let plan = plans::get(&mut *db, dag.workspace_id, plan_id).await?;
    let planner = runs::get(&mut *db, run_id).await?;
    Ok(plan
        .zip(planner)
        .filter(|(_, planner)| !planner.state().has_ended())
        .map(|(plan, planner)| PlanInProgress { plan, planner }))
}

/// The place of a step's run: below the run that planned.
pub(super) struct StepPlacement {
    pub planner: Run,
    pub part: Part,
}

/// None: the task is not a plan's step, or nothing waits for it.
pub(super) async fn placement_of(
    db: &mut PgConnection,
    dag: &Dag,
    task: &DagTask,
) -> Result<Option<StepPlacement>, sqlx::Error> {
    let Some(in_progress) = of_dag(db, dag).await? else {
        return Ok(None);
    };
    let tools = &in_progress.plan.metadata["tools"][&task.r#ref];
    Ok(Some(StepPlacement {
        part: Part::PlanStep {
            plan_id: in_progress.plan.id,
            step_number: task.r#ref.parse().unwrap_or_default(),
            tools: serde_json::from_value(tools.clone()).unwrap_or_default(),
        },
        planner: in_progress.planner,
    }))
}

/// Publishes the new state of a task that is a plan's step.
pub(super) async fn publish_step(db: &mut PgConnection, dag: &Dag, task: &DagTask) -> Result<(), sqlx::Error> {
    if dag.plan_id.is_none() || task.state == "pending" {
        return Ok(());
    }
    let Some(PlanInProgress { plan, planner }) = of_dag(db, dag).await? else {
        return Ok(());
    };
    let steps = plans::with_tasks(plan.steps(), std::slice::from_ref(task));
    let Some(step) = steps
        .into_iter()
        .find(|step| step.step_number.to_string() == task.r#ref)
    else {
        return Ok(());
    };
    let number = Some(step.step_number);
    let mut shown = json!(step);
    shown["planId"] = json!(plan.id);
    let executor = task.run_id.filter(|_| step.executor_required);
    if task.state == "in_progress" {
        shown["attempt"] = (task.retry_count + 1).into();
        publish(db, &planner, number, Kind::StepStart { step: shown }).await?;
        if let Some(executor_id) = executor {
            let about = json!({
                "planId": plan.id, "stepNumber": step.step_number, "description": step.description,
                "tools": plan.metadata["tools"][&task.r#ref], "agent": task.assigned_agent,
            });
            publish(
                db,
                &planner,
                number,
                Kind::ExecutorSpawned {
                    executor_id,
                    task: about,
                },
            )
            .await?;
        }
        // From here on readers can attribute the events of the step's run.
        let run = match task.run_id {
            Some(run_id) => runs::get(&mut *db, run_id).await?,
            None => None,
        };
        if let Some(run) = run {
            let started = Kind::SubAgent {
                status: "started".to_owned(),
                task: Some(step.description),
                summary: None,
                error: None,
                code: None,
                usage: None,
            };
            log::append(db, planner.log_id, Some(planner.root_run_id), &[run.event(started)]).await?;
        }
        return Ok(());
    }
    if let (Some(executor_id), true) = (executor, step.status != StepStatus::Skipped) {
        let result =
            json!({"success": step.status == StepStatus::Completed, "summary": step.result, "error": step.error});
        publish(db, &planner, number, Kind::ExecutorResult { executor_id, result }).await?;
    }
    publish(db, &planner, number, Kind::StepComplete { step: shown }).await
}

/// Returns whether a step that failed for good stops the plan: other steps depend on it, or it gathers information.
pub(super) async fn stops_plan(db: &mut PgConnection, dag: &Dag, task: &DagTask) -> Result<bool, sqlx::Error> {
    let Some(plan_id) = dag.plan_id else { return Ok(false) };
    let plan = plans::get(&mut *db, dag.workspace_id, plan_id).await?;
    let steps = plan.map(|plan| plan.steps()).unwrap_or_default();
    let number = task.r#ref.parse().unwrap_or_default();
    let is_research = steps
        .iter()
        .any(|step| step.step_number == number && step.kind == RESEARCH);
    Ok(is_research || steps.iter().any(|step| step.depends_on.contains(&number)))
}

/// Ends the plan with its DAG.
pub(super) async fn finish(db: &mut PgConnection, dag: &Dag, state: &str) -> Result<(), sqlx::Error> {
    let Some(plan_id) = dag.plan_id else { return Ok(()) };
    let Some(plan) = plans::get(&mut *db, dag.workspace_id, plan_id).await? else {
        return Ok(());
    };
    let steps = plans::with_tasks(plan.steps(), &tasks::of_dag(&mut *db, dag.id).await?);
    plans::end(db, plan_id, status_of(state, &steps), &steps).await?;
    Ok(())
}

/// The final status of a plan whose DAG has ended.
fn status_of(state: &str, steps: &[Step]) -> &'static str {
    let any = |status: StepStatus| steps.iter().any(|step| step.status == status);
    match state {
        "completed" => "completed",
        // No step depended on the remaining ones.
        "failed" if any(StepStatus::Completed) && !any(StepStatus::Skipped) => "completed_with_errors",
        _ => "failed",
    }
}

/// Stores a run's part in its row.
pub(super) async fn set_part(db: &mut PgConnection, run_id: Uuid, part: &Part) -> Result<(), sqlx::Error> {
    let part: Value = json!(part);
    sqlx::query!("update kb.agent_runs set part = $2 where id = $1", run_id, part)
        .execute(db)
        .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requirements: E43.
    #[test]
    fn a_plan_with_an_unneeded_failed_step_completes_with_errors() {
        let steps = |states: &[StepStatus]| -> Vec<Step> {
            let plan = json!([{"stepNumber": 1, "description": "a"}, {"stepNumber": 2, "description": "b"}]);
            let mut read = steps::read(&plan).unwrap();
            for (step, state) in read.iter_mut().zip(states) {
                step.status = *state;
            }
            read
        };
        use StepStatus::{Completed, Failed, Skipped};
        assert_eq!(status_of("completed", &steps(&[Completed, Completed])), "completed");
        assert_eq!(
            status_of("failed", &steps(&[Completed, Failed])),
            "completed_with_errors"
        );
        assert_eq!(status_of("failed", &steps(&[Failed, Skipped])), "failed");
        assert_eq!(status_of("failed", &steps(&[Failed, Failed])), "failed");
        assert_eq!(status_of("cancelled", &steps(&[Completed, Skipped])), "failed");
    }
}
