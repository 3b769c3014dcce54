//! Ends or retries a task of a DAG, unblocks or skips its successors, and publishes each. Called by the scheduler,
//! under the lock of the DAG.

use sqlx::PgConnection;

use super::pass::Pass;
use crate::execute_plan;
use rejoin_scheduling::tasks::spec::OnFailure;
use rejoin_scheduling::tasks::{self, DagTask};

/// Completes a task: with all others of the pass that end at the same time.
pub(super) fn complete(pass: &mut Pass<'_>, task: &DagTask, summary: &str) {
    pass.ends += 1;
    pass.complete(task.id, summary.to_owned());
}

/// Skips a task; its successors continue without it.
pub(super) async fn skip(
    db: &mut PgConnection,
    pass: &mut Pass<'_>,
    task: &DagTask,
    why: &str,
) -> Result<(), sqlx::Error> {
    pass.ends += 1;
    tasks::end(db, task.id, "skipped", None, Some(why)).await?;
    pass.changed(db, task.id).await?;
    tasks::unblock_dependents(db, pass.dag.workspace_id, pass.dag.id, &[task.id]).await
}

pub(super) async fn retry_or_fail(
    db: &mut PgConnection,
    pass: &mut Pass<'_>,
    task: &DagTask,
    failure: &str,
) -> Result<(), sqlx::Error> {
    if task.retry_count >= task.max_retries || pass.dag.state == "cancelled" {
        return fail(db, pass, task, failure, task.summary.as_deref()).await;
    }
    tasks::retry(db, task.id, Some(failure), true).await?;
    pass.changed(db, task.id).await
}

/// Fails a task for good: its successors are skipped, or all tasks that have not begun.
pub(super) async fn fail(
    db: &mut PgConnection,
    pass: &mut Pass<'_>,
    task: &DagTask,
    why: &str,
    summary: Option<&str>,
) -> Result<(), sqlx::Error> {
    pass.ends += 1;
    tasks::end(db, task.id, "failed", summary, Some(why)).await?;
    pass.changed(db, task.id).await?;
    let stops = pass.dag.on_failure == OnFailure::Stop.as_str() || execute_plan::stops_plan(db, pass.dag, task).await?;
    let skipped = if stops {
        tasks::pending(db, pass.dag.id).await?
    } else {
        tasks::pending_descendants(db, pass.dag.workspace_id, task.id).await?
    };
    let because = because_failed(&task.r#ref);
    for id in skipped {
        tasks::end(db, id, "skipped", None, Some(&because)).await?;
        pass.changed(db, id).await?;
    }
    Ok(())
}

/// The reason for skipping successors of this task.
pub(crate) fn because_failed(name: &str) -> String {
    format!("the task {name} failed")
}

/// Ends tasks that can never start: nothing is running and nothing is ready. A DAG has no cycle when it is created; but
/// its `blocks` relationships are in the graph, where they can be deleted. Without this such a DAG would never end.
pub(super) async fn fail_stuck_tasks(db: &mut PgConnection, pass: &mut Pass<'_>) -> Result<(), sqlx::Error> {
    for id in tasks::stuck(db, pass.dag).await? {
        let why = "it waits for a task that cannot unblock it: the relationships `blocks` of this DAG were changed, \
            or contain a cycle. Create a new DAG for the remaining tasks.";
        tasks::end(db, id, "failed", None, Some(why)).await?;
        pass.changed(db, id).await?;
        tracing::warn!(dag = %pass.dag.id, task = %id, "a task can never start; it was failed");
    }
    Ok(())
}
