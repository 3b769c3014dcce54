//! The scheduler of task DAGs. It keeps no state in memory: it runs in the transaction in which a task's run ends,
//! settles the task, starts the tasks that became ready, and ends the DAG with its last task. A sweep calls the same
//! [`start_ready`] for delayed work.
//!
//! Everything runs under the lock of the DAG's row. When two tasks finish at the same moment, the later one finds the
//! other finished and starts their common successors once (invariant I12). Deciding agents (agent selection,
//! verification, failure handling) are runs of the task like the one that does its work.
//!
//! - `agent_selection` asks an agent or a model to select a task's agent
//! - `outcomes` ends tasks, and skips or unblocks their successors
//! - `verdicts` the answers expected from deciding agents
//! - `wave` one pass over a DAG, whose changes follow in the graph at its end
//!
//! Lock order: a run's log (for a plan's step, the log of the run that waits for the DAG), the DAG's row, the log of
//! the run that waits for the DAG.

mod agent_selection;
mod outcomes;
mod verdicts;
mod wave;

use std::fmt::Write as _;

use serde_json::json;
use sqlx::PgConnection;

use super::execute_plan;
use super::run_end::RunEnd;
use agent_selection::{AgentCache, agents_for, agents_of, ask_model, select_input, selection_ended};
use outcomes::{complete, fail, fail_stuck_tasks, retry_or_fail, skip};
use rejoin_event_log::log;
use rejoin_event_log::wakeup::Wake;
use rejoin_queue::NewJob;
use rejoin_runs::agents::AgentDefinition;
use rejoin_runs::questions::{self, AnswerOption, NewQuestion};
use rejoin_runs::run_dependencies;
use rejoin_runs::runs::{self, NewRun, Run, RunState, Spawned};
use rejoin_scheduling::plans::STEP_TIMEOUT_S;
use rejoin_scheduling::tasks::select::{self, Choice};
use rejoin_scheduling::tasks::sessions::NewSession;
use rejoin_scheduling::tasks::{self, Dag, DagTask, TaskRole};
use rejoin_types::events::DoneStatus;
use rejoin_types::ids;
use verdicts::{Verdict, answer_schema, verdict_of};

pub(super) use outcomes::because_failed;
pub(super) use wave::Wave;

/// Maximum number of agents to choose from.
const AGENTS: i64 = 500;
/// Maximum length of one predecessor's summary in a task's input, in characters.
const INPUT_MAX_CHARS: usize = 8_000;
/// Maximum length of all of them, in characters.
const INPUTS_MAX_CHARS: usize = 60_000;
/// Maximum length of an output that an agent judges, in characters.
const OUTPUT_MAX_CHARS: usize = 40_000;

/// Starts all tasks that are ready. The caller holds the DAG's lock.
pub(super) async fn start_ready(db: &mut PgConnection, dag: &Dag) -> Result<Wake, sqlx::Error> {
    let mut wave = Wave::of(dag);
    let wake = start_tasks(db, &mut wave).await?;
    wave.publish(db).await?;
    Ok(wake)
}

/// The same in a pass that the caller has begun.
async fn start_tasks(db: &mut PgConnection, wave: &mut Wave<'_>) -> Result<Wake, sqlx::Error> {
    let mut wake = Wake::default();
    let mut cache = AgentCache::of(db, wave).await?;
    let may_start = wave.dag.state == "active";
    loop {
        let ready = if may_start {
            tasks::ready(db, wave.dag).await?
        } else {
            Vec::new()
        };
        let ends_before = wave.ends;
        for task in ready {
            let agents = agents_for(db, wave, &task, &mut cache).await?;
            wake.merge(match select::choose(wave.dag, &task, &agents) {
                Choice::Agent { name, because } => {
                    let input = work_input(db, &task).await?;
                    start(db, wave, &task, &agents, &name, &because, TaskRole::Work, &input).await?
                }
                Choice::Ask { selector } => {
                    let input = select_input(&task, agents.iter().filter(|agent| agent.name != selector));
                    start(db, wave, &task, &agents, &selector, "", TaskRole::Select, &input).await?
                }
                Choice::Tie {
                    among,
                    else_agent,
                    because,
                } => match cache.selector_model(db, wave).await? {
                    Some(model) => {
                        let among: Vec<&AgentDefinition> =
                            agents.iter().filter(|agent| among.contains(&agent.name)).collect();
                        ask_model(db, wave, &task, &model, &among).await?
                    }
                    None => {
                        let input = work_input(db, &task).await?;
                        start(db, wave, &task, &agents, &else_agent, &because, TaskRole::Work, &input).await?
                    }
                },
                Choice::None(why) => fail(db, wave, &task, &why, None).await?,
            });
        }
        // One that ended at once may have unblocked others.
        if wave.ends == ends_before {
            break;
        }
    }
    wake.merge(end_if_over(db, wave, may_start).await?);
    Ok(wake)
}

/// Settles a task whose run has ended.
pub(super) async fn run_ended(db: &mut PgConnection, run: &Run, end: &RunEnd<'_>) -> Result<Wake, sqlx::Error> {
    let Some((dag, task)) = locked(db, run).await? else {
        return Ok(Wake::default());
    };
    if task.run_id != Some(run.id) {
        return Ok(Wake::default());
    }
    let mut wave = Wave::of(&dag);
    let mut wake = match task.role.as_deref().and_then(|role| role.parse().ok()) {
        Some(TaskRole::Select) => selection_ended(db, &mut wave, &task, run, end).await?,
        Some(TaskRole::Work) => {
            wave.end_session(run.id, RunState::from(end.status));
            work_ended(db, &mut wave, &task, end).await?
        }
        Some(role @ (TaskRole::Judge | TaskRole::Triage)) => {
            let verdict = verdict_of(role, &task, end);
            conclude(db, &mut wave, &task, verdict, run).await?
        }
        None => Wake::default(),
    };
    wake.merge(start_tasks(db, &mut wave).await?);
    wave.publish(db).await?;
    Ok(wake)
}

/// Locks the DAG of the run's task, and reads the task under the lock.
async fn locked(db: &mut PgConnection, run: &Run) -> Result<Option<(Dag, DagTask)>, sqlx::Error> {
    let Some(id) = run.task_id else { return Ok(None) };
    let Some(dag) = tasks::lock_of(db, id).await? else {
        return Ok(None);
    };
    Ok(tasks::get(&mut *db, id).await?.map(|task| (dag, task)))
}

/// Applies a user's decision about a task that an agent could not decide.
pub(super) async fn person_decided(
    db: &mut PgConnection,
    run: &Run,
    decision: Option<&str>,
) -> Result<Wake, sqlx::Error> {
    let Some((dag, task)) = locked(db, run).await? else {
        return Ok(Wake::default());
    };
    let mut wave = Wave::of(&dag);
    let verdict = match decision {
        Some("accept") => Verdict::Accept,
        Some("retry") => Verdict::Retry("a person requested another try".to_owned()),
        Some("skip") => Verdict::Skip,
        Some(_) => Verdict::Fail("a person failed it".to_owned()),
        None => Verdict::Fail("the question was not answered in time".to_owned()),
    };
    let mut wake = conclude(db, &mut wave, &task, verdict, run).await?;
    wake.merge(start_tasks(db, &mut wave).await?);
    wave.publish(db).await?;
    Ok(wake)
}

async fn work_ended(
    db: &mut PgConnection,
    wave: &mut Wave<'_>,
    task: &DagTask,
    end: &RunEnd<'_>,
) -> Result<Wake, sqlx::Error> {
    if end.status == DoneStatus::Completed {
        let dag = wave.dag;
        let Some(judge) = &dag.judge_agent else {
            return complete(db, wave, task, end.text).await;
        };
        let agents = agents_of(db, wave).await?;
        tasks::record_outcome(db, task.id, Some(end.text), None).await?;
        let input = format!(
            "Judge whether this output fulfils its task.\n\n# Task: {}\n{}\n\n# Output\n{}",
            task.title,
            task.description,
            shortened(end.text, OUTPUT_MAX_CHARS)
        );
        return start(db, wave, task, &agents, judge, "", TaskRole::Judge, &input).await;
    }
    let mut failure = match (end.status, end.error) {
        (DoneStatus::Cancelled, _) => return fail(db, wave, task, "its run was cancelled", None).await,
        (_, Some(error)) => error.message.clone(),
        (_, None) => "its run ended without a result".to_owned(),
    };
    if !end.text.is_empty() {
        let _ = write!(failure, "\nPartial output: {}", shortened(end.text, 2_000));
    }
    let dag = wave.dag;
    match &dag.triage_agent {
        None => retry_or_fail(db, wave, task, &failure).await,
        Some(triage) => {
            let agents = agents_of(db, wave).await?;
            tasks::record_outcome(db, task.id, None, Some(&failure)).await?;
            let input = format!(
                "A task failed. Decide how to proceed.\n\n# Task: {}\n{}\n\n# Failure\n{failure}\n\nAttempts so far: \
                {} of {}.",
                task.title,
                task.description,
                task.retry_count + 1,
                task.max_retries + 1
            );
            start(db, wave, task, &agents, triage, "", TaskRole::Triage, &input).await
        }
    }
}

async fn conclude(
    db: &mut PgConnection,
    wave: &mut Wave<'_>,
    task: &DagTask,
    verdict: Verdict,
    run: &Run,
) -> Result<Wake, sqlx::Error> {
    match verdict {
        Verdict::Accept => complete(db, wave, task, task.summary.as_deref().unwrap_or_default()).await,
        Verdict::Retry(feedback) => retry_or_fail(db, wave, task, &feedback).await,
        Verdict::Skip => skip(db, wave, task, "it was skipped after a failure").await,
        Verdict::Fail(why) => fail(db, wave, task, &why, task.summary.as_deref()).await,
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
            questions::insert(db, wave.dag.workspace_id, run.id, None, &question).await?;
            Ok(Wake::default())
        }
    }
}

/// Ends a DAG with its last task, and resumes the run that waited for it. Fails tasks that can never start, if tasks may start.
async fn end_if_over(db: &mut PgConnection, wave: &mut Wave<'_>, may_start: bool) -> Result<Wake, sqlx::Error> {
    let mut progress = tasks::progress(db, wave.dag.id).await?;
    if may_start && progress.is_open && !progress.moves {
        fail_stuck_tasks(db, wave).await?;
        progress = tasks::progress(db, wave.dag.id).await?;
    }
    let dag = wave.dag;
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

/// Starts a run for a task, with its own log.
#[expect(clippy::too_many_arguments, reason = "the dispatcher's own state, passed once")]
async fn start(
    db: &mut PgConnection,
    wave: &mut Wave<'_>,
    task: &DagTask,
    agents: &[AgentDefinition],
    agent: &str,
    because: &str,
    role: TaskRole,
    input: &str,
) -> Result<Wake, sqlx::Error> {
    let revoked = wave.membership(db).await?.revoked().map(|revoked| revoked.to_string());
    if let Some(revoked) = revoked {
        return fail(db, wave, task, &revoked, task.summary.as_deref()).await;
    }
    wave.publish_before(db, task.id).await?;
    let Some(definition) = agents.iter().find(|known| known.name == agent) else {
        return fail(
            db,
            wave,
            task,
            &format!("there is no agent {agent}"),
            task.summary.as_deref(),
        )
        .await;
    };
    let id = ids::new();
    // A plan's step belongs to the planning run and its log; every other task has its own log.
    let placement = execute_plan::placement_of(db, wave.dag, task).await?;
    if placement.is_none() {
        log::create(db, id).await?;
    }
    let planner = placement.as_ref().map(|placement| &placement.planner);
    let output_schema = answer_schema(role, agent, agents);
    let run = NewRun {
        id,
        spawned: planner.map(|planner| Spawned {
            parent_run_id: planner.id,
            root_run_id: planner.root_run_id,
            depth: planner.depth + 1,
            call_id: wave.dag.waiting_call_id.unwrap_or_default(),
            position: task.r#ref.parse().unwrap_or_default(),
        }),
        workspace_id: wave.dag.workspace_id,
        conversation_id: planner.and_then(|planner| planner.conversation_id),
        user_id: wave.dag.user_id,
        agent_definition_id: Some(definition.id),
        agent_name: Some(&definition.name),
        log_id: planner.map_or(id, |planner| planner.log_id),
        message_id: None,
        input,
        first_seq: planner.map_or(0, |planner| planner.first_seq),
        timeout_s: planner.map(|_| STEP_TIMEOUT_S),
        task_id: Some(task.id),
        output_schema: output_schema.as_ref(),
        traceparent: None,
    };
    runs::insert(db, run).await?;
    if let Some(placement) = &placement {
        execute_plan::set_part(db, id, &placement.part).await?;
    }
    let job = NewJob {
        workspace_id: wave.dag.workspace_id,
        run_id: Some(id),
        priority: task.priority,
        max_attempts: rejoin_queue::RUN_MAX_ATTEMPTS,
        ..NewJob::new(rejoin_queue::KIND_RUN, json!({}))
    };
    rejoin_queue::enqueue(db, &job).await?;
    tasks::assign(db, task.id, id, role, agent, because).await?;
    if role == TaskRole::Work {
        wave.changed(db, task.id).await?;
        wave.begin_session(NewSession {
            task_id: task.id,
            title: task.title.clone(),
            run_id: id,
            agent: agent.to_owned(),
        });
    }
    Ok(Wake::queue(rejoin_queue::DEFAULT_QUEUE))
}

/// The input of a task's agent.
async fn work_input(db: &mut PgConnection, task: &DagTask) -> Result<String, sqlx::Error> {
    let mut input = format!("# {}\n{}\n", task.title, task.description);
    let before = tasks::inputs(db, task.workspace_id, task.id).await?;
    if !before.is_empty() {
        let share = (INPUTS_MAX_CHARS / before.len()).min(INPUT_MAX_CHARS);
        input.push_str("\n## What came before\n");
        for (name, title, summary) in before {
            let summary = summary.unwrap_or_else(|| "(it was skipped)".to_owned());
            let _ = write!(input, "### {name}: {title}\n{}\n", shortened(&summary, share));
        }
    }
    if let Some(failure) = task.failure_context.as_deref().filter(|_| task.retry_count > 0) {
        let _ = write!(input, "\n## Previous failed attempt\n{failure}\n");
    }
    Ok(input)
}

fn shortened(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        None => text.to_owned(),
        Some((at, _)) => format!("{} [truncated]", &text[..at]),
    }
}
