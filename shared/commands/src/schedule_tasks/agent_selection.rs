//! Selects a task's agent where rules don't suffice: asks an agent of the DAG or a model of the workspace, and applies
//! its answer. Called by the scheduler, under the lock of the DAG.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::json;
use sqlx::PgConnection;

use super::wave::Wave;
use super::{AGENTS, fail, shortened, start, work_input};
use crate::run_end::RunEnd;
use rejoin_event_log::log;
use rejoin_event_log::wakeup::Wake;
use rejoin_queue::NewJob;
use rejoin_runs::agent_assignment;
use rejoin_runs::agents::{self, AgentDefinition};
use rejoin_runs::runs::{self, NewRun, Run};
use rejoin_scheduling::tasks::select::{self, Choice};
use rejoin_scheduling::tasks::{self, DagTask, TaskRole};
use rejoin_types::events::DoneStatus;
use rejoin_types::ids;

/// Timeout of a model that selects an agent, in seconds.
const SELECT_TIMEOUT_S: i32 = 60;

/// A cache of what was read in this transaction.
pub(super) struct AgentCache {
    /// Internal agents are unavailable to work of users who may not configure agents.
    with_internal: bool,
    all: Option<Arc<[AgentDefinition]>>,
    /// Agents of tasks that name theirs, by name: there may be very many agents.
    named: HashMap<String, Arc<[AgentDefinition]>>,
    selector_model: Option<Option<String>>,
}

impl AgentCache {
    /// The model that breaks ties between agents.
    pub(super) async fn selector_model(
        &mut self,
        db: &mut PgConnection,
        wave: &mut Wave<'_>,
    ) -> Result<Option<String>, sqlx::Error> {
        if self.selector_model.is_none() {
            self.selector_model = Some(agent_assignment::selector_model(db, wave.dag.workspace_id).await?);
        }
        Ok(self.selector_model.clone().flatten())
    }

    pub(super) async fn of(db: &mut PgConnection, wave: &mut Wave<'_>) -> Result<Self, sqlx::Error> {
        // Agents see each other, whatever their visibility.
        let with_internal = wave.dag.waiting_call_id.is_some() || wave.membership(db).await?.reaches_internal_agents();
        Ok(Self {
            with_internal,
            all: None,
            named: HashMap::new(),
            selector_model: None,
        })
    }

    fn holds(&self, agent: &AgentDefinition) -> bool {
        self.with_internal || agent.is_open()
    }

    async fn read_all(
        &self,
        db: &mut PgConnection,
        wave: &mut Wave<'_>,
    ) -> Result<Arc<[AgentDefinition]>, sqlx::Error> {
        let all = agents::list(db, wave.dag.workspace_id, None, AGENTS).await?;
        Ok(all.into_iter().filter(|agent| self.holds(agent)).collect())
    }
}

/// The workspace's agents that a DAG can use.
pub(super) async fn agents_of(
    db: &mut PgConnection,
    wave: &mut Wave<'_>,
) -> Result<Arc<[AgentDefinition]>, sqlx::Error> {
    AgentCache::of(db, wave).await?.read_all(db, wave).await
}

/// The candidate agents of a task.
pub(super) async fn agents_for(
    db: &mut PgConnection,
    wave: &mut Wave<'_>,
    task: &DagTask,
    cache: &mut AgentCache,
) -> Result<Arc<[AgentDefinition]>, sqlx::Error> {
    if let Some(name) = &task.wanted_agent {
        if let Some(found) = cache.named.get(name) {
            return Ok(found.clone());
        }
        let found = agents::find_by_name(&mut *db, wave.dag.workspace_id, name).await?;
        let found: Arc<[AgentDefinition]> = found.into_iter().filter(|agent| cache.holds(agent)).collect();
        cache.named.insert(name.clone(), found.clone());
        return Ok(found);
    }
    if let Some(all) = &cache.all {
        return Ok(all.clone());
    }
    let all = cache.read_all(db, wave).await?;
    cache.all = Some(all.clone());
    Ok(all)
}

/// Applies the result of an agent or model that selected an agent.
pub(super) async fn selection_ended(
    db: &mut PgConnection,
    wave: &mut Wave<'_>,
    task: &DagTask,
    run: &Run,
    end: &RunEnd<'_>,
) -> Result<Wake, sqlx::Error> {
    let agents = agents_of(db, wave).await?;
    let name = match end.status {
        DoneStatus::Completed => select::answered(end.text, &agents),
        DoneStatus::Failed | DoneStatus::Cancelled | DoneStatus::Paused => None,
    };
    let Some(selector) = wave.dag.selector_agent.as_deref() else {
        let model = run.model.as_deref().unwrap_or("a model");
        return model_selection_ended(db, wave, task, &agents, (model, name), end).await;
    };
    match name.filter(|name| name != selector) {
        Some(name) => {
            let input = work_input(db, task).await?;
            let because = format!("selected by {selector}");
            start(db, wave, task, &agents, &name, &because, TaskRole::Work, &input).await
        }
        None => {
            let why = format!("the selector {selector} named no agent: {}", shortened(end.text, 500));
            fail(db, wave, task, &why, None).await
        }
    }
}

/// Applies a model's selection. An unusable answer is ignored; the task proceeds.
async fn model_selection_ended(
    db: &mut PgConnection,
    wave: &mut Wave<'_>,
    task: &DagTask,
    agents: &[AgentDefinition],
    (model, name): (&str, Option<String>),
    end: &RunEnd<'_>,
) -> Result<Wake, sqlx::Error> {
    if end.status == DoneStatus::Cancelled {
        return fail(db, wave, task, "its run was cancelled", None).await;
    }
    let (name, because) = match (name, select::choose(wave.dag, task, agents)) {
        (Some(name), Choice::Tie { among, .. }) if among.contains(&name) => {
            (name, format!("several match equally; selected by {model}"))
        }
        (
            _,
            Choice::Tie {
                else_agent, because, ..
            },
        ) => (else_agent, format!("{because}; {model} selected none of them")),
        // Agents were added or deleted meanwhile.
        (_, Choice::Agent { name, because }) => (name, because),
        (_, Choice::Ask { .. }) => return fail(db, wave, task, "no agent was selected", None).await,
        (_, Choice::None(why)) => return fail(db, wave, task, &why, None).await,
    };
    let input = work_input(db, task).await?;
    start(db, wave, task, agents, &name, &because, TaskRole::Work, &input).await
}

/// Asks a model to select a task's agent: a run without an agent and without tools.
pub(super) async fn ask_model(
    db: &mut PgConnection,
    wave: &mut Wave<'_>,
    task: &DagTask,
    model: &str,
    among: &[&AgentDefinition],
) -> Result<Wake, sqlx::Error> {
    let input = &select_input(task, among.iter().copied());
    let output_schema = select::answer_schema(among.iter().map(|agent| agent.name.as_str()));
    let id = ids::new();
    log::create(db, id).await?;
    let run = NewRun {
        id,
        spawned: None,
        workspace_id: wave.dag.workspace_id,
        conversation_id: None,
        user_id: wave.dag.user_id,
        agent_definition_id: None,
        agent_name: None,
        log_id: id,
        message_id: None,
        input,
        first_seq: 0,
        timeout_s: Some(SELECT_TIMEOUT_S),
        task_id: Some(task.id),
        output_schema: Some(&output_schema),
        traceparent: None,
    };
    runs::insert(db, run).await?;
    runs::set_model(&mut *db, id, model).await?;
    let job = NewJob {
        workspace_id: wave.dag.workspace_id,
        run_id: Some(id),
        priority: task.priority,
        max_attempts: rejoin_queue::RUN_MAX_ATTEMPTS,
        ..NewJob::new(rejoin_queue::KIND_RUN, json!({}))
    };
    rejoin_queue::enqueue(db, &job).await?;
    tasks::assign(db, task.id, id, TaskRole::Select, model, "").await?;
    Ok(Wake::queue(rejoin_queue::DEFAULT_QUEUE))
}

/// The input of the selecting agent or model.
pub(super) fn select_input<'a>(task: &DagTask, agents: impl Iterator<Item = &'a AgentDefinition>) -> String {
    let mut input = format!(
        "Select the agent that shall do this task.\n\n# Task: {}\n{}\n\n# Agents\n",
        task.title, task.description
    );
    for agent in agents {
        let _ = writeln!(input, "- {}: {}", agent.name, agent.description);
    }
    input
}
