//! Selects a task's agent where rules don't suffice: asks an agent of the DAG or a model of the workspace, and applies
//! its answer. Called by the scheduler, under the lock of the DAG.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use sqlx::PgConnection;

use super::pass::{Pass, Start};
use super::{AGENTS, Inputs, fail, shortened, start, state_of, text_of};
use rejoin_runs::agent_assignment;
use rejoin_runs::agents::{self, AgentDefinition};
use rejoin_runs::runs::RunState;
use rejoin_scheduling::tasks::select::{self, Choice};
use rejoin_scheduling::tasks::{DagTask, EndedRun, TaskRole};
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
        pass: &mut Pass<'_>,
    ) -> Result<Option<String>, sqlx::Error> {
        if self.selector_model.is_none() {
            self.selector_model = Some(agent_assignment::selector_model(db, pass.dag.workspace_id).await?);
        }
        Ok(self.selector_model.clone().flatten())
    }

    pub(super) async fn of(db: &mut PgConnection, pass: &mut Pass<'_>) -> Result<Self, sqlx::Error> {
        // Agents see each other, whatever their visibility.
        let with_internal = pass.dag.waiting_call_id.is_some() || pass.membership(db).await?.reaches_internal_agents();
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
        pass: &mut Pass<'_>,
    ) -> Result<Arc<[AgentDefinition]>, sqlx::Error> {
        let all = agents::list(db, pass.dag.workspace_id, None, AGENTS).await?;
        Ok(all.into_iter().filter(|agent| self.holds(agent)).collect())
    }
}

/// The workspace's agents that a DAG can use.
pub(super) async fn agents_of(
    db: &mut PgConnection,
    pass: &mut Pass<'_>,
) -> Result<Arc<[AgentDefinition]>, sqlx::Error> {
    AgentCache::of(db, pass).await?.read_all(db, pass).await
}

/// The candidate agents of a task.
pub(super) async fn agents_for(
    db: &mut PgConnection,
    pass: &mut Pass<'_>,
    task: &DagTask,
    cache: &mut AgentCache,
) -> Result<Arc<[AgentDefinition]>, sqlx::Error> {
    if let Some(name) = &task.wanted_agent {
        if let Some(found) = cache.named.get(name) {
            return Ok(found.clone());
        }
        let found = agents::find_by_name(&mut *db, pass.dag.workspace_id, name).await?;
        let found: Arc<[AgentDefinition]> = found.into_iter().filter(|agent| cache.holds(agent)).collect();
        cache.named.insert(name.clone(), found.clone());
        return Ok(found);
    }
    if let Some(all) = &cache.all {
        return Ok(all.clone());
    }
    let all = cache.read_all(db, pass).await?;
    cache.all = Some(all.clone());
    Ok(all)
}

/// Applies the result of an agent or model that selected an agent.
pub(super) async fn selection_ended(
    db: &mut PgConnection,
    pass: &mut Pass<'_>,
    task: &DagTask,
    end: &EndedRun,
) -> Result<(), sqlx::Error> {
    let agents = agents_of(db, pass).await?;
    let name = match state_of(end) {
        RunState::Completed => select::answered(text_of(end), &agents),
        _ => None,
    };
    let Some(selector) = pass.dag.selector_agent.as_deref() else {
        return model_selection_ended(db, pass, task, &agents, name, end).await;
    };
    match name.filter(|name| name != selector) {
        Some(name) => {
            let because = format!("selected by {selector}");
            start_work(db, pass, task, &agents, &name, &because).await
        }
        None => {
            let why = format!(
                "the selector {selector} named no agent: {}",
                shortened(text_of(end), 500)
            );
            fail(db, pass, task, &why, None).await
        }
    }
}

/// Applies a model's selection. An unusable answer is ignored; the task proceeds.
async fn model_selection_ended(
    db: &mut PgConnection,
    pass: &mut Pass<'_>,
    task: &DagTask,
    agents: &[AgentDefinition],
    name: Option<String>,
    end: &EndedRun,
) -> Result<(), sqlx::Error> {
    if state_of(end) == RunState::Cancelled {
        return fail(db, pass, task, "its run was cancelled", None).await;
    }
    let model = end.model.as_deref().unwrap_or("a model");
    let (name, because) = match (name, select::choose(pass.dag, task, agents)) {
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
        (_, Choice::Ask { .. }) => return fail(db, pass, task, "no agent was selected", None).await,
        (_, Choice::None(why)) => return fail(db, pass, task, &why, None).await,
    };
    start_work(db, pass, task, agents, &name, &because).await
}

async fn start_work(
    db: &mut PgConnection,
    pass: &mut Pass<'_>,
    task: &DagTask,
    agents: &[AgentDefinition],
    name: &str,
    because: &str,
) -> Result<(), sqlx::Error> {
    let input = Inputs::of(db, pass.dag, std::slice::from_ref(task)).await?.work(task);
    start(db, pass, task, agents, name, because, TaskRole::Work, &input).await
}

/// Asks a model to select a task's agent: a run without an agent and without tools.
pub(super) fn ask_model(pass: &mut Pass<'_>, task: &DagTask, model: &str, among: &[&AgentDefinition]) {
    pass.start(Start {
        run_id: ids::new(),
        task: task.clone(),
        role: TaskRole::Select,
        agent: model.to_owned(),
        because: String::new(),
        definition_id: None,
        input: select_input(task, among.iter().copied()),
        output_schema: Some(select::answer_schema(among.iter().map(|agent| agent.name.as_str()))),
        timeout_s: Some(SELECT_TIMEOUT_S),
        placement: None,
    });
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
