//! The tools that need nothing but the database: those of the graph and of consoles.

use crate::tools::registry::Registry;
use crate::tools::{consoles, graph};

/// Returns the built-in tools.
pub fn tools() -> Registry {
    Registry::new(graph::tools()).with(consoles::tools())
}
