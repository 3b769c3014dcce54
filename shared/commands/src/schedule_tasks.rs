//! The scheduler of task DAGs. It keeps no state in memory: one pass over a DAG settles all tasks whose runs have ended,
//! starts the tasks that became ready, and ends the DAG with its last task. A pass is one transaction that follows the
//! ends of the runs; what it writes takes a number of statements that does not depend on the number of tasks. A worker
//! passes over a DAG after each end of a task's run (those that end meanwhile share the next pass); a sweep passes over
//! DAGs whose workers died in between.
//!
//! Everything runs under the lock of the DAG's row: when two tasks finish at the same moment, a pass that finds both
//! finished starts their common successors once (invariant I12). Deciding agents (agent selection,
//! verification, failure handling) are runs of the task like the one that does its work.
//!
//! - `agent_selection` asks an agent or a model to select a task's agent
//! - `inputs` what a task's agent is given
//! - `outcomes` ends tasks, and skips or unblocks their successors
//! - `pass` one pass over a DAG: what it has read, and what it writes together
//! - `verdicts` the answers expected from deciding agents
//!
//! Lock order: a run's log (for a plan's step, the log of the run that waits for the DAG), the DAG's row, the log of
//! the run that waits for the DAG.

mod agent_selection;
mod inputs;
mod outcomes;
mod pass;
mod verdicts;

use std::fmt::Write as _;

use sqlx::PgConnection;
use uuid::Uuid;

use super::execute_plan;
use agent_selection::{AgentCache, agents_for, agents_of, ask_model, select_input, selection_ended};
use inputs::Inputs;
use outcomes::{complete, fail, fail_stuck_tasks, retry_or_fail, skip};
use pass::Start;
use rejoin_event_log::log;
use rejoin_event_log::wakeup::Wake;
use rejoin_runs::agents::AgentDefinition;
use rejoin_runs::questions::{self, AnswerOption, NewQuestion};
use rejoin_runs::run_dependencies;
use rejoin_runs::runs::{self, Run, RunState};
use rejoin_scheduling::plans::STEP_TIMEOUT_S;
use rejoin_scheduling::tasks::select::{self, Choice};
use rejoin_scheduling::tasks::{self, Dag, DagTask, EndedRun, TaskRole};
use rejoin_types::ids;
use verdicts::{Verdict, answer_schema, verdict_of};

pub(super) use outcomes::because_failed;
pub(super) use pass::Pass;

/// Maximum number of agents to choose from.
const AGENTS: i64 = 500;
/// Maximum length of an output that an agent judges, in characters.
const OUTPUT_MAX_CHARS: usize = 40_000;

/// Settles the tasks whose runs have ended, and starts all that are ready. The caller holds the DAG's lock.
pub(super) async fn proceed(db: &mut PgConnection, dag: &Dag) -> Result<Wake, sqlx::Error> {
    let mut pass = Pass::of(dag);
    settle_ended(db, &mut pass).await?;
    start_ready(db, &mut pass).await
}

/// The same for the DAG of a run that ends in this transaction.
pub(super) async fn run_ended(db: &mut PgConnection, run: &Run) -> Result<Wake, sqlx::Error> {
    match run.task_id {
        Some(task) => match tasks::lock_of(db, task).await? {
            Some(dag) => proceed(db, &dag).await,
            None => Ok(Wake::default()),
        },
        None => Ok(Wake::default()),
    }
}

/// Settles tasks whose runs have ended.
async fn settle_ended(db: &mut PgConnection, pass: &mut Pass<'_>) -> Result<(), sqlx::Error> {
    let ended = tasks::ended_runs(db, pass.dag).await?;
    if ended.is_empty() {
        return Ok(());
    }
    let ids: Vec<Uuid> = ended.iter().map(|end| end.task_id).collect();
    // Both are ordered by the task's id, and nothing else changes tasks: the DAG is locked.
    let found = tasks::get_many(&mut *db, &ids).await?;
    for (task, end) in found.iter().zip(&ended) {
        match task.role.as_deref().and_then(|role| role.parse().ok()) {
            Some(TaskRole::Select) => selection_ended(db, pass, task, end).await?,
            Some(TaskRole::Work) => {
                pass.end_session(end.run_id, state_of(end));
                work_ended(db, pass, task, end).await?;
            }
            Some(role @ (TaskRole::Judge | TaskRole::Triage)) => {
                let verdict = verdict_of(role, task, end);
                conclude(db, pass, task, verdict, end.run_id).await?;
            }
            None => {}
        }
    }
    Ok(())
}

/// Starts the tasks that are ready, and ends the pass.
async fn start_ready(db: &mut PgConnection, pass: &mut Pass<'_>) -> Result<Wake, sqlx::Error> {
    pass.write_completed(db).await?;
    let mut cache = AgentCache::of(db, pass).await?;
    let may_start = pass.dag.state == "active";
    loop {
        pass.write_started(db).await?;
        let ready = if may_start {
            tasks::ready(db, pass.dag).await?
        } else {
            Vec::new()
        };
        let inputs = Inputs::of(db, pass.dag, &ready).await?;
        let ends_before = pass.ends;
        for task in &ready {
            let agents = agents_for(db, pass, task, &mut cache).await?;
            match select::choose(pass.dag, task, &agents) {
                Choice::Agent { name, because } => {
                    let input = inputs.work(task);
                    start(db, pass, task, &agents, &name, &because, TaskRole::Work, &input).await?;
                }
                Choice::Ask { selector } => {
                    let input = select_input(task, agents.iter().filter(|agent| agent.name != selector));
                    start(db, pass, task, &agents, &selector, "", TaskRole::Select, &input).await?;
                }
                Choice::Tie {
                    among,
                    else_agent,
                    because,
                } => match cache.selector_model(db, pass).await? {
                    Some(model) => {
                        let among: Vec<&AgentDefinition> =
                            agents.iter().filter(|agent| among.contains(&agent.name)).collect();
                        ask_model(pass, task, &model, &among);
                    }
                    None => {
                        let input = inputs.work(task);
                        start(db, pass, task, &agents, &else_agent, &because, TaskRole::Work, &input).await?;
                    }
                },
                Choice::None(why) => fail(db, pass, task, &why, None).await?,
            }
        }
        // One that ended at once may have unblocked others.
        if pass.ends == ends_before {
            break;
        }
    }
    pass.write_started(db).await?;
    let mut wake = end_if_over(db, pass, may_start).await?;
    pass.publish(db).await?;
    wake.merge(pass.wake());
    Ok(wake)
}

/// Applies a user's decision about a task that an agent could not decide.
pub(super) async fn person_decided(
    db: &mut PgConnection,
    run: &Run,
    decision: Option<&str>,
) -> Result<Wake, sqlx::Error> {
    let Some(id) = run.task_id else {
        return Ok(Wake::default());
    };
    let Some(dag) = tasks::lock_of(db, id).await? else {
        return Ok(Wake::default());
    };
    // Under the lock.
    let Some(task) = tasks::get(&mut *db, id).await? else {
        return Ok(Wake::default());
    };
    let mut pass = Pass::of(&dag);
    let verdict = match decision {
        Some("accept") => Verdict::Accept,
        Some("retry") => Verdict::Retry("a person requested another try".to_owned()),
        Some("skip") => Verdict::Skip,
        Some(_) => Verdict::Fail("a person failed it".to_owned()),
        None => Verdict::Fail("the question was not answered in time".to_owned()),
    };
    conclude(db, &mut pass, &task, verdict, run.id).await?;
    settle_ended(db, &mut pass).await?;
    start_ready(db, &mut pass).await
}

/// The state of a run that has ended.
fn state_of(end: &EndedRun) -> RunState {
    end.state.parse().unwrap_or(RunState::Failed)
}

/// Its answer, possibly partial.
fn text_of(end: &EndedRun) -> &str {
    end.summary.as_deref().unwrap_or_default()
}

async fn work_ended(
    db: &mut PgConnection,
    pass: &mut Pass<'_>,
    task: &DagTask,
    end: &EndedRun,
) -> Result<(), sqlx::Error> {
    let (dag, text) = (pass.dag, text_of(end));
    if state_of(end) == RunState::Completed {
        let Some(judge) = &dag.judge_agent else {
            complete(pass, task, text);
            return Ok(());
        };
        let agents = agents_of(db, pass).await?;
        tasks::record_outcome(db, task.id, Some(text), None).await?;
        let input = format!(
            "Judge whether this output fulfils its task.\n\n# Task: {}\n{}\n\n# Output\n{}",
            task.title,
            task.description,
            shortened(text, OUTPUT_MAX_CHARS)
        );
        return start(db, pass, task, &agents, judge, "", TaskRole::Judge, &input).await;
    }
    let mut failure = match (state_of(end), &end.error) {
        (RunState::Cancelled, _) => return fail(db, pass, task, "its run was cancelled", None).await,
        (_, Some(error)) => error.clone(),
        (_, None) => "its run ended without a result".to_owned(),
    };
    if !text.is_empty() {
        let _ = write!(failure, "\nPartial output: {}", shortened(text, 2_000));
    }
    match &dag.triage_agent {
        None => retry_or_fail(db, pass, task, &failure).await,
        Some(triage) => {
            let agents = agents_of(db, pass).await?;
            tasks::record_outcome(db, task.id, None, Some(&failure)).await?;
            let input = format!(
                "A task failed. Decide how to proceed.\n\n# Task: {}\n{}\n\n# Failure\n{failure}\n\nAttempts so far: \
                {} of {}.",
                task.title,
                task.description,
                task.retry_count + 1,
                task.max_retries + 1
            );
            start(db, pass, task, &agents, triage, "", TaskRole::Triage, &input).await
        }
    }
}

async fn conclude(
    db: &mut PgConnection,
    pass: &mut Pass<'_>,
    task: &DagTask,
    verdict: Verdict,
    run_id: Uuid,
) -> Result<(), sqlx::Error> {
    match verdict {
        Verdict::Accept => {
            complete(pass, task, task.summary.as_deref().unwrap_or_default());
            Ok(())
        }
        Verdict::Retry(feedback) => retry_or_fail(db, pass, task, &feedback).await,
        Verdict::Skip => skip(db, pass, task, "it was skipped after a failure").await,
        Verdict::Fail(why) => fail(db, pass, task, &why, task.summary.as_deref()).await,
        Verdict::Escalate(why) => {
            let option = |value: &str, label: &str| AnswerOption {
                label: label.to_owned(),
                value: value.to_owned(),
                description: None,
            };
            let question = NewQuestion {
                id: ids::new(),
                kind: "task",
                question: format!("How to proceed with the task \"{}\"? {why}", task.title),
                options: vec![
                    option("accept", "Accept its output"),
                    option("retry", "Retry it"),
                    option("skip", "Skip it"),
                    option("fail", "Fail it"),
                ],
                interaction_type: "buttons".to_owned(),
                placeholder: None,
                max_length: None,
                form_field: None,
            };
            questions::insert(db, pass.dag.workspace_id, run_id, None, &question).await?;
            Ok(())
        }
    }
}

/// Ends a DAG with its last task, and resumes the run that waited for it. Fails tasks that can never start, if tasks may start.
async fn end_if_over(db: &mut PgConnection, pass: &mut Pass<'_>, may_start: bool) -> Result<Wake, sqlx::Error> {
    let mut progress = tasks::progress(db, pass.dag.id).await?;
    if may_start && progress.is_open && !progress.moves {
        fail_stuck_tasks(db, pass).await?;
        progress = tasks::progress(db, pass.dag.id).await?;
    }
    let dag = pass.dag;
    if progress.is_open || dag.finished_at.is_some() {
        return Ok(Wake::default());
    }
    let state = match (dag.state.as_str(), progress.has_failed) {
        ("cancelled", _) => "cancelled",
        (_, true) => "failed",
        (_, false) => "completed",
    };
    tasks::set_state(db, dag.id, state).await?;
    execute_plan::finish(db, dag, state).await?;
    wake_waiting(db, dag).await
}

pub(super) async fn wake_waiting(db: &mut PgConnection, dag: &Dag) -> Result<Wake, sqlx::Error> {
    let Some(waiting) = (match dag.waiting_run_id {
        Some(id) => runs::get(&mut *db, id).await?,
        None => None,
    }) else {
        return Ok(Wake::default());
    };
    log::lock(db, waiting.log_id).await?;
    run_dependencies::wake_if_met(db, waiting.id).await
}

/// Starts a run for a task, with its own log: with all others of the pass.
#[expect(clippy::too_many_arguments, reason = "the scheduler's own state, passed once")]
async fn start(
    db: &mut PgConnection,
    pass: &mut Pass<'_>,
    task: &DagTask,
    agents: &[AgentDefinition],
    agent: &str,
    because: &str,
    role: TaskRole,
    input: &str,
) -> Result<(), sqlx::Error> {
    let revoked = pass.membership(db).await?.revoked().map(|revoked| revoked.to_string());
    if let Some(revoked) = revoked {
        return fail(db, pass, task, &revoked, task.summary.as_deref()).await;
    }
    let Some(definition) = agents.iter().find(|known| known.name == agent) else {
        return fail(
            db,
            pass,
            task,
            &format!("there is no agent {agent}"),
            task.summary.as_deref(),
        )
        .await;
    };
    // A plan's step belongs to the planning run and its log; every other task has its own log.
    let placement = execute_plan::placement_of(db, pass.dag, task).await?;
    pass.start(Start {
        run_id: ids::new(),
        task: task.clone(),
        role,
        agent: agent.to_owned(),
        because: because.to_owned(),
        definition_id: Some(definition.id),
        input: input.to_owned(),
        output_schema: answer_schema(role, agent, agents),
        timeout_s: placement.is_some().then_some(STEP_TIMEOUT_S),
        placement,
    });
    Ok(())
}

fn shortened(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        None => text.to_owned(),
        Some((at, _)) => format!("{} [truncated]", &text[..at]),
    }
}
