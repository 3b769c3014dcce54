//! The tools that an agent may be given, by name. The executor resolves an agent definition's whitelist here.
//!
//! Invariants: a whitelist is never widened (an empty one grants nothing, a broken pattern grants nothing); the order of a
//! resolved list is that of names, so that a prompt's prefix stays the same and can be cached.

use std::collections::BTreeMap;
use std::sync::Arc;

use globset::{Glob, GlobSet, GlobSetBuilder};

use super::{SharedTool, graph};

/// Cheap to clone; does not change once the worker runs.
#[derive(Clone, Default)]
pub struct Registry {
    tools: Arc<BTreeMap<String, SharedTool>>,
}

impl Registry {
    /// Of two tools with the same name the later one counts.
    pub fn new(tools: impl IntoIterator<Item = SharedTool>) -> Registry {
        Registry {
            tools: Arc::new(tools.into_iter().map(|tool| (tool.spec().name.clone(), tool)).collect()),
        }
    }

    /// All tools that need nothing but the database.
    pub fn builtin() -> Registry {
        Registry::new(graph::tools())
    }

    pub fn get(&self, name: &str) -> Option<SharedTool> {
        self.tools.get(name).cloned()
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.keys().map(String::as_str)
    }

    /// The tools whose names a pattern of the whitelist matches (`*`, `?`, `[…]`, `{…,…}`), in the order of names.
    pub fn resolve(&self, whitelist: &[String]) -> Vec<SharedTool> {
        let patterns = patterns(whitelist);
        self.tools
            .iter()
            .filter(|(name, _)| patterns.is_match(name))
            .map(|(_, tool)| tool.clone())
            .collect()
    }
}

fn patterns(whitelist: &[String]) -> GlobSet {
    let mut set = GlobSetBuilder::new();
    for pattern in whitelist {
        match Glob::new(pattern.trim()) {
            Ok(glob) => {
                set.add(glob);
            }
            Err(error) => {
                tracing::warn!(%pattern, %error, "a pattern of a tool whitelist is broken and grants nothing")
            }
        }
    }
    set.build().unwrap_or_else(|error| {
        tracing::warn!(%error, "a tool whitelist is too large and grants nothing");
        GlobSet::empty()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(whitelist: &[&str]) -> Vec<String> {
        let whitelist: Vec<String> = whitelist.iter().map(|&pattern| pattern.to_owned()).collect();
        Registry::builtin()
            .resolve(&whitelist)
            .iter()
            .map(|tool| tool.spec().name.clone())
            .collect()
    }

    #[test]
    fn an_empty_or_broken_whitelist_grants_nothing() {
        assert!(resolved(&[]).is_empty());
        assert!(resolved(&["[", ""]).is_empty());
    }

    #[test]
    fn names_and_globs_grant_what_they_match_once_in_the_order_of_names() {
        assert_eq!(
            resolved(&["*_search", "schema_version", "hybrid_search"]),
            ["hybrid_search", "schema_version", "semantic_search"]
        );
        assert_eq!(
            resolved(&["unknown_tool", "list_{entity_types,relationships}"]),
            ["list_entity_types", "list_relationships"]
        );
        assert_eq!(resolved(&["*"]).len(), Registry::builtin().names().count());
    }
}
