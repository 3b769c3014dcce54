//! The tools that need nothing but the database: those of the graph and of consoles.

use crate::consoles::tools;
use rejoin_tools::graph;
use rejoin_tools::registry::Registry;

/// Returns the built-in tools.
pub fn tools() -> Registry {
    Registry::new(graph::tools()).with(tools::tools())
}
