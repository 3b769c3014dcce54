//! Tasks and their DAGs: types and SQL of `kb.task_dags` and `kb.tasks`. `commands::schedule_tasks` schedules them.
//!
//! - `spec`   a DAG's definition and its validation
//! - `mirror` its objects in the graph, which follow each change
//! - `sessions` agents' work on tasks, as objects of the graph
//! - `select` selects a task's agent
//! - `states` changes of states
//!
//! States of a task: pending -> in_progress -> completed | failed | skipped, and back to pending for a retry. Invariant
//! (I12): every change or start of a task holds the lock of its DAG's row.

pub mod mirror;
pub mod select;
pub mod sessions;
pub mod spec;
mod states;

pub use states::{
    Progress, complete, end, pending_descendants, progress, record_outcome, reopen, retry, set_state,
    unblock_dependents,
};

use chrono::{DateTime, Utc};
use serde_json::Value;
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

/// A query for whole rows: what precedes the columns, what follows them, then the arguments.
#[macro_export]
macro_rules! dag_query {
    ($head:literal, $tail:literal $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            $crate::tasks::Dag,
            $head + " id, project_id as workspace_id, user_id, name, state, max_concurrency, on_failure, rules, \
             selector_agent, judge_agent, triage_agent, waiting_run_id, waiting_call_id, created_at, \
             finished_at, plan_id, log_id " + $tail
            $(, $argument)*
        )
    };
}

/// A DAG as stored.
#[derive(Debug, Clone)]
pub struct Dag {
    pub id: Uuid,
    pub workspace_id: Uuid,
    pub user_id: Option<Uuid>,
    pub name: String,
    pub state: String,
    pub max_concurrency: i32,
    pub on_failure: String,
    pub rules: Value,
    pub selector_agent: Option<String>,
    pub judge_agent: Option<String>,
    pub triage_agent: Option<String>,
    pub waiting_run_id: Option<Uuid>,
    pub waiting_call_id: Option<Uuid>,
    /// The plan that it executes, and its log.
    pub plan_id: Option<Uuid>,
    pub log_id: Option<Uuid>,
    pub created_at: DateTime<Utc>,
    pub finished_at: Option<DateTime<Utc>>,
}

/// A query for whole rows: what precedes the columns, what follows them, then the arguments.
macro_rules! task_query {
    ($head:literal, $tail:literal $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            DagTask,
            $head + " id, dag_id, project_id as workspace_id, ref, title, description, state, priority, waits_for, \
             wanted_agent, assigned_agent, assigned_because, run_id, role, retry_count, max_retries, \
             failure_context, summary, created_at, started_at, finished_at " + $tail
            $(, $argument)*
        )
    };
}

/// A task as stored.
#[derive(Debug, Clone)]
pub struct DagTask {
    pub id: Uuid,
    pub dag_id: Uuid,
    pub workspace_id: Uuid,
    pub r#ref: String,
    pub title: String,
    pub description: String,
    pub state: String,
    pub priority: i16,
    pub waits_for: i32,
    pub wanted_agent: Option<String>,
    pub assigned_agent: Option<String>,
    pub assigned_because: Option<String>,
    pub run_id: Option<Uuid>,
    pub role: Option<String>,
    pub retry_count: i32,
    pub max_retries: i32,
    pub failure_context: Option<String>,
    pub summary: Option<String>,
    pub created_at: DateTime<Utc>,
    pub started_at: Option<DateTime<Utc>>,
    pub finished_at: Option<DateTime<Utc>>,
}

rejoin_types::text_enum! {
    /// A run's role for a task.
    pub enum TaskRole {
        /// Selects its agent.
        Select = "select",
        Work = "work",
        /// Judges its output.
        Judge = "judge",
        /// Decides about its failure.
        Triage = "triage",
    }
}

/// Returns the log that reports a DAG's progress: it is locked before the DAG. None: there is none.
pub async fn log_of(db: impl PgExecutor<'_>, dag_id: Uuid) -> Result<Option<Uuid>, sqlx::Error> {
    let log_id = sqlx::query_scalar!("select log_id from kb.task_dags where id = $1", dag_id)
        .fetch_optional(db)
        .await?;
    Ok(log_id.flatten())
}

/// Locks a DAG until the caller's transaction ends.
pub async fn lock(db: &mut PgConnection, dag_id: Uuid) -> Result<Option<Dag>, sqlx::Error> {
    dag_query!("select", "from kb.task_dags where id = $1 for update", dag_id)
        .fetch_optional(db)
        .await
}

/// The same for the DAG of a task.
pub async fn lock_of(db: &mut PgConnection, task: Uuid) -> Result<Option<Dag>, sqlx::Error> {
    dag_query!(
        "select",
        "from kb.task_dags where id = (select dag_id from kb.tasks where id = $1) for update",
        task
    )
    .fetch_optional(db)
    .await
}

pub async fn get_dag(db: impl PgExecutor<'_>, workspace_id: Uuid, id: Uuid) -> Result<Option<Dag>, sqlx::Error> {
    dag_query!(
        "select",
        "from kb.task_dags where id = $1 and project_id = $2",
        id,
        workspace_id
    )
    .fetch_optional(db)
    .await
}

/// Returns the DAG created by a call.
pub async fn of_call(db: impl PgExecutor<'_>, call_id: Uuid) -> Result<Option<Dag>, sqlx::Error> {
    dag_query!("select", "from kb.task_dags where waiting_call_id = $1", call_id)
        .fetch_optional(db)
        .await
}

/// Returns a page of a workspace's DAGs, newest first, after the cursor (created_at, id).
pub async fn list_dags(
    db: impl PgExecutor<'_>,
    workspace_id: Uuid,
    after: Option<(DateTime<Utc>, Uuid)>,
    limit: i64,
) -> Result<Vec<Dag>, sqlx::Error> {
    let (at, id) = after.unzip();
    dag_query!(
        "select",
        "from kb.task_dags where project_id = $1 and ($2::timestamptz is null or (created_at, id) < ($2, $3))
         order by created_at desc, id desc limit $4",
        workspace_id,
        at,
        id,
        limit
    )
    .fetch_all(db)
    .await
}

/// Counts tasks by state.
pub async fn counts(db: impl PgExecutor<'_>, dag_id: Uuid) -> Result<Vec<(String, i64)>, sqlx::Error> {
    let rows = sqlx::query!(
        r#"select state, count(*) as "n!" from kb.tasks where dag_id = $1 group by state order by state"#,
        dag_id
    )
    .fetch_all(db)
    .await?;
    Ok(rows.into_iter().map(|row| (row.state, row.n)).collect())
}

/// Returns a task, without a lock.
pub async fn get(db: impl PgExecutor<'_>, id: Uuid) -> Result<Option<DagTask>, sqlx::Error> {
    task_query!("select", "from kb.tasks where id = $1", id)
        .fetch_optional(db)
        .await
}

/// Returns these tasks, without a lock.
pub async fn get_many(db: impl PgExecutor<'_>, ids: &[Uuid]) -> Result<Vec<DagTask>, sqlx::Error> {
    task_query!("select", "from kb.tasks where id = any($1) order by id", ids)
        .fetch_all(db)
        .await
}

/// Returns all tasks of a DAG, in order of creation.
pub async fn of_dag(db: impl PgExecutor<'_>, dag_id: Uuid) -> Result<Vec<DagTask>, sqlx::Error> {
    task_query!("select", "from kb.tasks where dag_id = $1 order by id", dag_id)
        .fetch_all(db)
        .await
}

/// Returns the `blocks` edges: (before, after).
pub async fn edges(
    db: impl PgExecutor<'_>,
    workspace_id: Uuid,
    dag_id: Uuid,
) -> Result<Vec<(Uuid, Uuid)>, sqlx::Error> {
    let rows = sqlx::query!(
        "select r.source_id, r.target_id
         from kb.tasks t join kb.graph_relationships r on r.project_id = $2 and r.source_id = t.id and r.type = 'blocks'
         where t.dag_id = $1 and r.superseded_at is null and r.deleted_at is null
         order by r.source_id, r.target_id",
        dag_id,
        workspace_id
    )
    .fetch_all(db)
    .await?;
    Ok(rows.into_iter().map(|row| (row.source_id, row.target_id)).collect())
}

/// Returns the tasks that are ready, most urgent first: as many as may start, of the DAG and of its workspace.
pub async fn ready(db: &mut PgConnection, dag: &Dag) -> Result<Vec<DagTask>, sqlx::Error> {
    task_query!(
        "select",
        "from kb.tasks where dag_id = $2 and state = 'pending' and waits_for = 0 order by priority, id
         limit (select greatest(least($3 - count(*) filter (where t.dag_id = $2), kb.parallel_tasks($1) - count(*)), 0)
                from kb.tasks t where t.project_id = $1 and t.state = 'in_progress')",
        dag.workspace_id,
        dag.id,
        i64::from(dag.max_concurrency)
    )
    .fetch_all(db)
    .await
}

/// Returns waiting tasks of a DAG in which nothing is running and nothing is ready.
pub async fn stuck(db: &mut PgConnection, dag: &Dag) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        "select id from kb.tasks
         where dag_id = $2 and state = 'pending'
           and not exists (select from kb.tasks where project_id = $1 and dag_id = $2 and state = 'in_progress')
           and not exists (select from kb.tasks where dag_id = $2 and state = 'pending' and waits_for = 0)
         order by id",
        dag.workspace_id,
        dag.id
    )
    .fetch_all(db)
    .await
}

/// Returns DAGs that can proceed, for the sweep: with ready tasks, or with runs whose ends they don't know. In random
/// order, so that one that can't be changed does not keep others waiting.
pub async fn able_to_proceed(db: impl PgExecutor<'_>, limit: i64) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        r#"select id as "id!" from (
             select d.id from kb.task_dags d
             where d.state = 'active'
               and exists (select from kb.tasks t where t.dag_id = d.id and t.state = 'pending' and t.waits_for = 0)
               and (select count(*) from kb.tasks t where t.project_id = d.project_id and t.dag_id = d.id and t.state = 'in_progress')
                   < d.max_concurrency
               and not cells.is_held(d.project_id)
             union
             select t.dag_id from kb.tasks t join kb.agent_runs r on r.id = t.run_id
             where t.state = 'in_progress' and r.state in ('completed', 'failed', 'cancelled', 'paused')
               and not exists (select from kb.questions q where q.run_id = r.id and q.kind = 'task')
               and not cells.is_held(t.project_id)) able
         order by random() limit $1"#,
        limit
    )
    .fetch_all(db)
    .await
}

/// A run that begins for a task.
#[derive(Debug)]
pub struct Assignment {
    pub task_id: Uuid,
    pub run_id: Uuid,
    pub role: TaskRole,
    /// The agent or model, and why it was chosen.
    pub agent: String,
    pub because: String,
}

/// Assigns runs to tasks: a task's row names its current run.
///
/// Times of tasks are read from the clock under the lock of their DAG: a transaction that waited for the lock began
/// before the state it found.
pub async fn assign(db: &mut PgConnection, new: &[Assignment]) -> Result<(), sqlx::Error> {
    let tasks: Vec<Uuid> = new.iter().map(|new| new.task_id).collect();
    let runs: Vec<Uuid> = new.iter().map(|new| new.run_id).collect();
    let roles: Vec<&str> = new.iter().map(|new| new.role.as_str()).collect();
    let agents: Vec<&str> = new.iter().map(|new| new.agent.as_str()).collect();
    let reasons: Vec<&str> = new.iter().map(|new| new.because.as_str()).collect();
    sqlx::query!(
        "update kb.tasks t
         set state = 'in_progress', run_id = n.run_id, role = n.role, started_at = coalesce(t.started_at, clock_timestamp()),
             assigned_agent = case when n.role = 'work' then n.agent else t.assigned_agent end,
             assigned_because = case when n.role = 'work' then n.because else t.assigned_because end
         from unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[]) n(id, run_id, role, agent, because)
         where t.id = n.id",
        &tasks,
        &runs,
        &roles as _,
        &agents as _,
        &reasons as _
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Returns the tasks of a DAG that have not begun.
pub async fn pending(db: &mut PgConnection, dag_id: Uuid) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        "select id from kb.tasks where dag_id = $1 and state = 'pending' order by id",
        dag_id
    )
    .fetch_all(db)
    .await
}

/// Returns active runs of a DAG's tasks.
pub async fn live_runs(db: impl PgExecutor<'_>, dag_id: Uuid) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        r#"select r.id from kb.tasks t join kb.agent_runs r on r.id = t.run_id
           where t.dag_id = $1 and t.state = 'in_progress' and r.state in ('queued', 'running', 'waiting')"#,
        dag_id
    )
    .fetch_all(db)
    .await
}

/// The result of a task's direct predecessor.
#[derive(Debug)]
pub struct Input {
    /// The task that follows.
    pub task_id: Uuid,
    pub r#ref: String,
    pub title: String,
    pub summary: Option<String>,
}

/// Returns the results of these tasks' direct predecessors. Of their own DAG only: an edge to another DAG's task
/// reveals nothing.
///
/// By way of the edges' ends, whatever a server without statistics estimates ([`unblock_dependents`]).
pub async fn inputs(db: &mut PgConnection, workspace_id: Uuid, tasks: &[Uuid]) -> Result<Vec<Input>, sqlx::Error> {
    sqlx::query_as!(
        Input,
        "with before as materialized (
             select source_id, target_id from kb.graph_relationships
             where project_id = $1 and target_id = any($2) and (type || '') = 'blocks' and superseded_at is null and deleted_at is null)
         select this.id as task_id, t.ref, t.title, t.summary
         from before b join kb.tasks this on this.id = b.target_id join kb.tasks t on t.id = b.source_id and (t.dag_id = this.dag_id) is true
         order by this.id, t.id",
        workspace_id,
        tasks
    )
    .fetch_all(db)
    .await
}

/// How the current run of a task has ended, before the task is settled.
#[derive(Debug)]
pub struct EndedRun {
    pub task_id: Uuid,
    pub run_id: Uuid,
    /// The run's.
    pub state: String,
    /// The answer, possibly partial.
    pub summary: Option<String>,
    pub error: Option<String>,
    pub model: Option<String>,
}

/// Returns the ends of runs that their tasks don't know yet. Not of an agent that has asked a user about the task.
pub async fn ended_runs(db: &mut PgConnection, dag: &Dag) -> Result<Vec<EndedRun>, sqlx::Error> {
    sqlx::query_as!(
        EndedRun,
        "select t.id as task_id, r.id as run_id, r.state, r.summary, r.error, r.model
         from kb.tasks t join kb.agent_runs r on r.id = t.run_id
         where t.project_id = $1 and t.dag_id = $2 and t.state = 'in_progress'
           and r.state in ('completed', 'failed', 'cancelled', 'paused')
           and not exists (select from kb.questions q where q.run_id = r.id and q.kind = 'task')
         order by t.id",
        dag.workspace_id,
        dag.id
    )
    .fetch_all(db)
    .await
}

/// Returns the DAGs of these tasks.
pub async fn dags_of(db: impl PgExecutor<'_>, tasks: &[Uuid]) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar!("select distinct dag_id from kb.tasks where id = any($1)", tasks)
        .fetch_all(db)
        .await
}
