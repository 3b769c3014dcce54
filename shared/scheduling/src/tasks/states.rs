//! Changes of the states of DAGs and their tasks.

use sqlx::PgConnection;
use uuid::Uuid;

/// Records what is known of a task while an agent decides about it.
pub async fn record_outcome(
    db: &mut PgConnection,
    task: Uuid,
    summary: Option<&str>,
    failure: Option<&str>,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update kb.tasks set summary = coalesce($2, summary), failure_context = coalesce($3, failure_context) where id = $1",
        task,
        summary,
        failure
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Ends the task in this state.
pub async fn end(
    db: &mut PgConnection,
    task: Uuid,
    state: &str,
    summary: Option<&str>,
    failure: Option<&str>,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update kb.tasks set state = $2, summary = $3, failure_context = coalesce($4, failure_context), finished_at = clock_timestamp(), role = null
         where id = $1",
        task,
        state,
        summary,
        failure
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Completes tasks with these summaries.
pub async fn complete(db: &mut PgConnection, tasks: &[Uuid], summaries: &[String]) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update kb.tasks t set state = 'completed', summary = n.summary, finished_at = clock_timestamp(), role = null
         from unnest($1::uuid[], $2::text[]) n(id, summary)
         where t.id = n.id",
        tasks,
        summaries
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Restarts the task: because it failed (`failure`), or to select another agent.
pub async fn retry(db: &mut PgConnection, task: Uuid, failure: Option<&str>, counts: bool) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update kb.tasks
         set state = 'pending', run_id = null, role = null, retry_count = retry_count + case when $3 then 1 else 0 end,
             failure_context = coalesce($2, failure_context), assigned_agent = null, assigned_because = null
         where id = $1",
        task,
        failure,
        counts
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Makes an ended task startable again on request. Its failure stays in its next input.
pub async fn reopen(db: &mut PgConnection, task: Uuid) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update kb.tasks
         set retry_count = retry_count + case when state = 'failed' then 1 else 0 end,
             failure_context = case when state = 'failed' then failure_context end,
             state = 'pending', run_id = null, role = null, summary = null, finished_at = null, assigned_agent = null, assigned_because = null
         where id = $1",
        task
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Decrements the pending predecessors of these tasks' successors. They are of one DAG.
///
/// By way of their ids, whatever a server without statistics estimates: a comparison in parentheses (`is true`, a concatenation) is one that
/// an index can't answer, so that neither all tasks of the DAG nor all edges of this type are read.
pub async fn unblock_dependents(
    db: &mut PgConnection,
    workspace_id: Uuid,
    dag_id: Uuid,
    tasks: &[Uuid],
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "with ended as materialized (
             select target_id, count(*)::int as n from kb.graph_relationships
             where project_id = $1 and source_id = any($3) and (type || '') = 'blocks' and superseded_at is null and deleted_at is null
             group by target_id)
         update kb.tasks t set waits_for = greatest(t.waits_for - e.n, 0)
         from ended e
         where t.waits_for > 0 and (t.dag_id = $2) is true and t.id = e.target_id",
        workspace_id,
        dag_id,
        tasks
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Returns all transitive successors of this task that have not begun.
pub async fn pending_descendants(
    db: &mut PgConnection,
    workspace_id: Uuid,
    task: Uuid,
) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        r#"with recursive behind(id) as (
               select target_id from kb.graph_relationships
               where project_id = $1 and source_id = $2 and type = 'blocks' and superseded_at is null and deleted_at is null
               union
               select r.target_id from behind b join kb.graph_relationships r
                 on r.project_id = $1 and r.source_id = b.id and r.type = 'blocks' and r.superseded_at is null and r.deleted_at is null)
           select t.id as "id!" from behind b join kb.tasks t on t.id = b.id join kb.tasks this on this.id = $2 and this.dag_id = t.dag_id
           where t.state = 'pending' order by t.id"#,
        workspace_id,
        task
    )
    .fetch_all(db)
    .await
}

/// Changes a DAG's state, and records the time of its end.
pub async fn set_state(db: &mut PgConnection, dag_id: Uuid, state: &str) -> Result<(), sqlx::Error> {
    let is_over = ["completed", "failed", "cancelled"].contains(&state);
    sqlx::query!(
        "update kb.task_dags set state = $2, finished_at = case when $3 then clock_timestamp() end where id = $1",
        dag_id,
        state,
        is_over
    )
    .execute(db)
    .await?;
    Ok(())
}

/// The state of a DAG's tasks.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// A task has not ended.
    pub is_open: bool,
    /// All have ended, one of them as failed.
    pub has_failed: bool,
    /// A task is running, or could.
    pub moves: bool,
}

pub async fn progress(db: &mut PgConnection, dag_id: Uuid) -> Result<Progress, sqlx::Error> {
    sqlx::query_as!(
        Progress,
        r#"select exists (select from kb.tasks where dag_id = $1 and state in ('pending', 'in_progress')) as "is_open!",
                  -- Only if it is needed: this looks at all tasks.
                  not exists (select from kb.tasks where dag_id = $1 and state in ('pending', 'in_progress'))
                      and exists (select from kb.tasks where dag_id = $1 and state = 'failed') as "has_failed!",
                  exists (select from kb.tasks where dag_id = $1 and (state = 'in_progress' or state = 'pending' and waits_for = 0)) as "moves!""#,
        dag_id
    )
    .fetch_one(db)
    .await
}
