//! Endpoints of work that goes on without messages of a person: plans, task DAGs, schedules, and jobs that failed. The work itself is in `scheduling`,
//! `commands` and `queue`.
//!
//! - `plans`     plans that agents made, with their steps
//! - `task_dags` DAGs of tasks that agents execute
//! - `evaluations` sets of questions, and agents that are evaluated with them
//! - `schedules` agents and task DAGs that start at set times
//! - `dead_jobs` jobs that failed permanently are retried
//! - `queue_pauses` queues are paused and resumed

mod dead_jobs;
mod evaluations;
mod plans;
mod queue_pauses;
mod schedules;
mod task_dags;

use rejoin_chat::Routes;

/// All of them.
pub fn routes() -> Routes {
    Routes::new()
        .merge(task_dags::routes())
        .merge(schedules::routes())
        .merge(evaluations::routes())
        .merge(plans::routes())
        .merge(dead_jobs::routes())
        .merge(queue_pauses::routes())
}
