//! The tools that need nothing but the database: those of the graph and of consoles; and the names of those that the
//! step loop executes itself.

use crate::consoles::tools;
use rejoin_tools::graph;
use rejoin_tools::registry::Registry;
use rejoin_types::events::PLAN_TOOL;

pub const LIST_AVAILABLE_AGENTS: &str = "list_available_agents";
pub const SPAWN_AGENTS: &str = "spawn_agents";
pub const ASK_USER: &str = "ask_user";
pub const CREATE_TASKS: &str = "create_tasks";
/// The tools that coordinate runs.
pub const COORDINATION: [&str; 5] = [LIST_AVAILABLE_AGENTS, SPAWN_AGENTS, ASK_USER, CREATE_TASKS, PLAN_TOOL];
/// Prefix of the tools that hand a run over to another agent.
pub const HANDOFF_PREFIX: &str = "transfer_to_";

/// Returns the built-in tools.
pub fn tools() -> Registry {
    Registry::new(graph::tools()).with(tools::tools())
}
