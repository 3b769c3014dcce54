//! Tasks: DAGs of them, retries, schedules, and the rights that are checked when work starts.

mod dags;
mod graph;
mod initiator_rights;
mod retries;
mod schedules;
