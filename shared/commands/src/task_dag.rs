//! Creates a DAG of tasks and starts the ready ones; pauses, resumes and cancels it; lets the sweep dispatch it again.

use serde_json::json;
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::schedule_tasks::Pass;
use super::{CancelRun, Command, CommandError, execute_for, execute_plan, schedule_tasks};
use rejoin_db::rls;
use rejoin_event_log::log;
use rejoin_event_log::wakeup::Wake;
use rejoin_graph::{Actor, ActorKind};
use rejoin_scheduling::dag_query;
use rejoin_scheduling::tasks::spec::{DagSpec, MAX_CONCURRENCY, Ordered, RETRIES};
use rejoin_scheduling::tasks::{self, Dag, mirror};
use rejoin_types::ids;

#[derive(Debug, thiserror::Error)]
pub enum DagError {
    #[error("there is no such DAG of tasks")]
    NotFound,
    /// It has ended, or is already in the requested state.
    #[error("the DAG is {0}")]
    Stands(String),
    #[error("the DAG has no task {0:?}")]
    NoTask(String),
    #[error("the task {name:?} is {state}; only failed tasks can be retried")]
    NotFailed { name: String, state: String },
    /// The waiting run already has its answer.
    #[error(
        "the DAG has ended, and the run that waited for it has continued; let that run make a new plan, with \
        `revises`"
    )]
    GoneOn,
    #[error("{0}")]
    Graph(rejoin_graph::Error),
    #[error("changing the DAG failed")]
    Database(#[from] sqlx::Error),
}

impl From<rejoin_graph::Error> for DagError {
    fn from(error: rejoin_graph::Error) -> Self {
        match error {
            rejoin_graph::Error::Database { source, .. } => DagError::Database(source),
            other => DagError::Graph(other),
        }
    }
}

impl CommandError for DagError {
    fn database(&self) -> Option<&sqlx::Error> {
        match self {
            DagError::Database(error) => Some(error),
            DagError::NotFound
            | DagError::Stands(_)
            | DagError::NoTask(_)
            | DagError::NotFailed { .. }
            | DagError::GoneOn
            | DagError::Graph(_) => None,
        }
    }
}

/// A new DAG.
#[derive(Debug)]
pub struct CreateDag<'a> {
    /// Its id, made by the caller.
    pub id: Uuid,
    pub workspace_id: Uuid,
    pub user_id: Option<Uuid>,
    pub spec: &'a DagSpec,
    /// From [`DagSpec::check`].
    pub ordered: &'a Ordered,
    /// The run and the call that create it, and whether the run waits for its end.
    pub made_by: Option<(Uuid, Uuid, bool)>,
    /// The plan that it executes, and its log, whose lock the caller holds.
    pub plan: Option<(Uuid, Uuid)>,
}

impl Command for CreateDag<'_> {
    type Output = Wake;
    type Error = DagError;

    async fn apply(&self, db: &mut PgConnection) -> Result<Wake, DagError> {
        let spec = self.spec;
        let dag = dag_query!(
            "insert into kb.task_dags (id, project_id, user_id, name, max_concurrency, on_failure, rules, selector_agent, judge_agent,
                                       triage_agent, waiting_run_id, waiting_call_id, plan_id, log_id)
             values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
             returning",
            "",
            self.id,
            self.workspace_id,
            self.user_id as _,
            spec.name,
            spec.max_concurrency.unwrap_or(MAX_CONCURRENCY),
            spec.on_failure.as_str(),
            json!(spec.rules),
            spec.selector_agent as _,
            spec.judge_agent as _,
            spec.triage_agent as _,
            self.made_by.and_then(|(run, _, waits)| waits.then_some(run)) as _,
            self.made_by.map(|(_, call, _)| call) as _,
            self.plan.map(|(plan, _)| plan) as _,
            self.plan.map(|(_, log)| log) as _
        )
        .fetch_one(&mut *db)
        .await?;
        // In execution order, which is also their order by id.
        let mut task_ids = vec![Uuid::nil(); spec.tasks.len()];
        for index in &self.ordered.order {
            task_ids[*index] = ids::new();
        }
        let actor = match self.made_by {
            Some((run, _, _)) => (ActorKind::Agent, Some(run)),
            None => (ActorKind::User, self.user_id),
        };
        let actor = Actor {
            kind: actor.0,
            id: actor.1,
        };
        mirror::in_bulk(db).await?;
        mirror::create(db, &dag, spec, self.ordered, &task_ids, actor).await?;
        mirror::bulk_is_over(db, self.workspace_id).await?;
        self.insert_tasks(db, &task_ids).await?;
        Ok(schedule_tasks::proceed(db, &dag).await?)
    }

    async fn happened(&self, db: &mut PgConnection, _: &Wake) -> Result<bool, sqlx::Error> {
        let known = sqlx::query_scalar!(
            r#"select exists (select from kb.task_dags where id = $1) as "there!""#,
            self.id
        );
        known.fetch_one(db).await
    }
}

impl CreateDag<'_> {
    async fn insert_tasks(&self, db: &mut PgConnection, ids: &[Uuid]) -> Result<(), sqlx::Error> {
        let specs = &self.spec.tasks;
        let refs: Vec<&str> = specs.iter().map(|task| task.id.as_str()).collect();
        let titles: Vec<&str> = specs.iter().map(|task| task.title()).collect();
        let descriptions: Vec<&str> = specs.iter().map(|task| task.description.as_str()).collect();
        let priorities: Vec<i16> = specs.iter().map(|task| task.priority.rank()).collect();
        let waits: Vec<i32> = self
            .ordered
            .after
            .iter()
            .map(|before| i32::try_from(before.len()).unwrap_or(i32::MAX))
            .collect();
        let agents: Vec<Option<&str>> = specs.iter().map(|task| task.agent.as_deref()).collect();
        let retries: Vec<i32> = specs.iter().map(|task| task.max_retries.unwrap_or(RETRIES)).collect();
        sqlx::query!(
            "insert into kb.tasks (id, dag_id, project_id, ref, title, description, priority, waits_for, wanted_agent, max_retries)
             select t.id, $1, $2, t.ref, t.title, t.description, t.priority, t.waits, t.agent, t.retries
             from unnest($3::uuid[], $4::text[], $5::text[], $6::text[], $7::smallint[], $8::int[], $9::text[], $10::int[])
                  t(id, ref, title, description, priority, waits, agent, retries)",
            self.id,
            self.workspace_id,
            ids,
            &refs as _,
            &titles as _,
            &descriptions as _,
            &priorities,
            &waits,
            &agents as _,
            &retries
        )
        .execute(db)
        .await?;
        Ok(())
    }
}

/// Cancels a DAG and the active runs of its tasks: one transaction each, since each run has its own log. A repeated
/// call continues where it stopped.
pub async fn cancel_dag(db: &PgPool, scope: rls::Scope, id: Uuid) -> Result<Wake, DagError> {
    let change = ChangeDag {
        id,
        change: DagChange::Cancel,
    };
    let mut wake = execute_for(db, scope, &change).await?;
    let runs = tasks::live_runs(&mut *rls::begin(db, scope).await?, id).await?;
    for run_id in runs {
        wake.merge(execute_for(db, scope, &CancelRun { run_id }).await?);
    }
    Ok(wake)
}

/// A change of an existing DAG.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DagChange {
    /// Starts no more tasks; running ones continue.
    Pause,
    Resume,
    /// Starts no more tasks, ever. The caller also cancels the runs returned by [`tasks::live_runs`].
    Cancel,
    /// Retries a failed task of this name, and reverts the skipping of its successors. A DAG that failed with it
    /// continues.
    Retry(String),
    /// Settles the tasks whose runs have ended, and starts all that are ready: after the end of a task's run, and by the sweep.
    Proceed,
}

#[derive(Debug)]
pub struct ChangeDag {
    pub id: Uuid,
    pub change: DagChange,
}

impl Command for ChangeDag {
    type Output = Wake;
    type Error = DagError;

    async fn apply(&self, db: &mut PgConnection) -> Result<Wake, DagError> {
        if let Some(log_id) = tasks::log_of(&mut *db, self.id).await? {
            log::lock(db, log_id).await?;
        }
        let mut dag = tasks::lock(db, self.id).await?.ok_or(DagError::NotFound)?;
        let next = match (&self.change, dag.state.as_str()) {
            (DagChange::Retry(name), "active" | "paused" | "failed") => {
                reopen(db, &mut dag, name).await?;
                return Ok(schedule_tasks::proceed(db, &dag).await?);
            }
            (DagChange::Proceed, _) => return Ok(schedule_tasks::proceed(db, &dag).await?),
            (DagChange::Pause, "active") => "paused",
            (DagChange::Resume, "paused") => "active",
            (DagChange::Cancel, "active" | "paused") => "cancelled",
            // Idempotent: it may be requested twice.
            (DagChange::Cancel, "cancelled") => return Ok(Wake::default()),
            (_, stands) => return Err(DagError::Stands(stands.to_owned())),
        };
        next.clone_into(&mut dag.state);
        tasks::set_state(db, dag.id, next).await?;
        if self.change == DagChange::Cancel {
            let mut pass = Pass::of(&dag);
            for id in tasks::pending(db, dag.id).await? {
                tasks::end(db, id, "skipped", None, Some("the DAG was cancelled")).await?;
                pass.changed(db, id).await?;
            }
            pass.publish(db).await?;
            execute_plan::finish(db, &dag, next).await?;
            return Ok(schedule_tasks::wake_waiting(db, &dag).await?);
        }
        Ok(schedule_tasks::proceed(db, &dag).await?)
    }

    async fn happened(&self, _: &mut PgConnection, _: &Wake) -> Result<bool, sqlx::Error> {
        // A repeated request finds the DAG unchanged.
        Ok(false)
    }
}

/// Makes a failed task and the tasks skipped because of it startable again.
async fn reopen(db: &mut PgConnection, dag: &mut Dag, name: &str) -> Result<(), DagError> {
    let all = tasks::of_dag(&mut *db, dag.id).await?;
    let task = all
        .iter()
        .find(|task| task.r#ref == name)
        .ok_or_else(|| DagError::NoTask(name.to_owned()))?;
    if task.state != "failed" {
        return Err(DagError::NotFailed {
            name: name.to_owned(),
            state: task.state.clone(),
        });
    }
    if dag.state == "failed" {
        if dag.waiting_run_id.is_some() {
            return Err(DagError::GoneOn);
        }
        "active".clone_into(&mut dag.state);
        dag.finished_at = None;
        tasks::set_state(db, dag.id, "active").await?;
    }
    let because = schedule_tasks::because_failed(name);
    let skipped = all
        .iter()
        .filter(|task| task.state == "skipped" && task.failure_context.as_deref() == Some(&because));
    let mut pass = Pass::of(dag);
    for task in skipped.chain([task]) {
        tasks::reopen(db, task.id).await?;
        pass.changed(db, task.id).await?;
    }
    pass.publish(db).await?;
    // Successors of another failed task stay skipped.
    for other in all
        .iter()
        .filter(|other| other.state == "failed" && other.id != task.id)
    {
        for id in tasks::pending_descendants(db, dag.workspace_id, other.id).await? {
            let because = schedule_tasks::because_failed(&other.r#ref);
            tasks::end(db, id, "skipped", None, Some(&because)).await?;
            pass.changed(db, id).await?;
        }
    }
    pass.publish(db).await?;
    Ok(())
}
