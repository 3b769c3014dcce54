//! Tasks: DAGs of them, evaluations, retries, schedules, and the rights that are checked when work starts.

mod dags;
mod dags_and_agents;
mod evaluations;
mod graph;
mod initiator_rights;
mod passes;
mod retries;
mod schedule_refusals;
mod schedules;
