//! Tasks: DAGs of them, retries, schedules, and the rights that are checked when work starts.

mod dags;
mod graph;
mod retries;
mod rights_at_start;
mod schedules;
