//! Tasks: DAGs of them, retries, schedules, and the rights that are checked when work starts.

mod dags;
mod dags_and_agents;
mod graph;
mod initiator_rights;
mod passes;
mod retries;
mod schedule_refusals;
mod schedules;
