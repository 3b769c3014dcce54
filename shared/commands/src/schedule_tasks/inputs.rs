//! What a task's agent is given: the task, the results of its predecessors, and why its last attempt failed. Called by
//! the scheduler, under the lock of the DAG.

use std::fmt::Write as _;

use sqlx::PgConnection;
use uuid::Uuid;

use super::shortened;
use rejoin_scheduling::tasks::{self, Dag, DagTask, Input};

/// Maximum length of one predecessor's summary in a task's input, in characters.
const INPUT_MAX_CHARS: usize = 8_000;
/// Maximum length of all of them, in characters.
const INPUTS_MAX_CHARS: usize = 60_000;

/// The results of the predecessors of tasks.
pub(super) struct Inputs(Vec<Input>);

impl Inputs {
    pub(super) async fn of(db: &mut PgConnection, dag: &Dag, tasks: &[DagTask]) -> Result<Self, sqlx::Error> {
        let ids: Vec<Uuid> = tasks.iter().map(|task| task.id).collect();
        if ids.is_empty() {
            return Ok(Self(Vec::new()));
        }
        tasks::inputs(db, dag.workspace_id, &ids).await.map(Self)
    }

    /// The input of a task's agent.
    pub(super) fn work(&self, task: &DagTask) -> String {
        let mut input = if task.title == task.r#ref && !task.description.is_empty() {
            // It has no title.
            format!("{}\n", task.description)
        } else {
            format!("# {}\n{}\n", task.title, task.description)
        };
        // They are ordered by the task that follows.
        let first = self.0.partition_point(|before| before.task_id < task.id);
        let length = self.0[first..].partition_point(|before| before.task_id == task.id);
        let before = &self.0[first..first + length];
        if !before.is_empty() {
            let share = (INPUTS_MAX_CHARS / before.len()).min(INPUT_MAX_CHARS);
            input.push_str("\n## What came before\n");
            for Input {
                r#ref, title, summary, ..
            } in before
            {
                let summary = summary.as_deref().unwrap_or("(it was skipped)");
                let _ = write!(input, "### {}: {title}\n{}\n", r#ref, shortened(summary, share));
            }
        }
        if let Some(failure) = task.failure_context.as_deref().filter(|_| task.retry_count > 0) {
            let _ = write!(input, "\n## Previous failed attempt\n{failure}\n");
        }
        input
    }
}
