//! Tasks and their DAGs: types and SQL of `kb.task_dags` and `kb.tasks`. `commands::dispatch` schedules them.
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
    Progress, end, pending_descendants, progress, record_outcome, reopen, retry, set_state, unblock_dependents,
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

/// Returns active DAGs with ready tasks, for the sweep.
pub async fn with_ready_tasks(db: impl PgExecutor<'_>, limit: i64) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        "select d.id from kb.task_dags d
         where d.state = 'active'
           and exists (select from kb.tasks t where t.dag_id = d.id and t.state = 'pending' and t.waits_for = 0)
           and (select count(*) from kb.tasks t where t.project_id = d.project_id and t.dag_id = d.id and t.state = 'in_progress')
               < d.max_concurrency
           and not cells.is_held(d.project_id)
         order by random() limit $1",
        limit
    )
    .fetch_all(db)
    .await
}

/// Assigns a run to a task: the task's row names its current run.
///
/// Times of tasks are read from the clock under the lock of their DAG: a transaction that waited for the lock began
/// before the state it found.
pub async fn assign(
    db: &mut PgConnection,
    task: Uuid,
    run_id: Uuid,
    role: TaskRole,
    agent: &str,
    because: &str,
) -> Result<(), sqlx::Error> {
    let works = role == TaskRole::Work;
    sqlx::query!(
        "update kb.tasks
         set state = 'in_progress', run_id = $2, role = $3, started_at = coalesce(started_at, clock_timestamp()),
             assigned_agent = case when $4 then $5 else assigned_agent end,
             assigned_because = case when $4 then $6 else assigned_because end
         where id = $1",
        task,
        run_id,
        role.as_str(),
        works,
        agent,
        because
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

/// Returns the results of a task's direct predecessors: (ref, title, summary). Of its own DAG only: an edge to another
/// DAG's task reveals nothing.
pub async fn inputs(
    db: &mut PgConnection,
    workspace_id: Uuid,
    task: Uuid,
) -> Result<Vec<(String, String, Option<String>)>, sqlx::Error> {
    let rows = sqlx::query!(
        "select t.ref, t.title, t.summary
         from kb.tasks this join kb.graph_relationships r on r.target_id = this.id join kb.tasks t on t.id = r.source_id and t.dag_id = this.dag_id
         where this.id = $2 and r.project_id = $1 and r.target_id = $2 and r.type = 'blocks' and r.superseded_at is null and r.deleted_at is null
         order by t.id",
        workspace_id,
        task
    )
    .fetch_all(db)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| (row.r#ref, row.title, row.summary))
        .collect())
}
