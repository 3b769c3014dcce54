//! Work in several steps: DAGs of tasks, plans, schedules, and the types by which agents work together.
//!
//! # Layout
//! - `tasks`       DAGs of tasks: specs, rows, their objects in the graph, which agent gets which
//! - `plans`       what agents mean to do, in steps
//! - `evaluations` questions with expected answers, and agents that are evaluated with them
//! - `schedules`   when agents and DAGs are started by the clock
//! - `coordination_schema` `deliberation`   the types by which agents work together; what they say when they settle something

pub mod coordination_schema;
pub mod deliberation;
pub mod evaluations;
pub mod plans;
pub mod schedules;
pub mod tasks;
