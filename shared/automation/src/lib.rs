//! Endpoints of work that goes on without messages of a person: plans, task DAGs, schedules. The work itself is in `scheduling` and `commands`.
//!
//! - `plans`     plans that agents made, with their steps
//! - `task_dags` DAGs of tasks that agents execute
//! - `schedules` agents and task DAGs that start at set times

mod plans;
mod schedules;
mod task_dags;

use rejoin_chat::Routes;

/// All of them.
pub fn routes() -> Routes {
    Routes::new()
        .merge(task_dags::routes())
        .merge(schedules::routes())
        .merge(plans::routes())
}
