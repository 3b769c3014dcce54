//! Agents and their runs: definitions and products, who answers, sub-agents, handoffs, questions to people, limits, histories, and who
//! sees and controls a run.

mod agent_versions;
mod boundaries;
mod definitions;
mod discussions;
mod handoffs;
mod history;
mod human_in_the_loop;
mod limits;
mod outputs;
mod paused_runs;
mod products;
mod routing;
mod routing_reports;
mod run_history;
pub mod run_initiators;
mod run_initiators_dags;
mod run_row_security;
mod run_trees;
pub mod spawning;
mod tool_calls;
mod tree_limits;
mod triage;
mod triage_decisions;
mod visibility;
