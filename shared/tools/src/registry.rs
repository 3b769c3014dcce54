//! The tool registry: tools by name. The executor resolves an agent definition's whitelist here.
//!
//! Invariants: a whitelist is never widened (an empty one grants nothing, a broken pattern grants nothing); a resolved
//! list is sorted by name, so that prompt prefixes are stable and can be cached.

use std::collections::BTreeMap;
use std::sync::Arc;

use globset::{Glob, GlobSet, GlobSetBuilder};

use super::SharedTool;

/// A tool registry. Cheap to clone; does not change once the worker runs.
#[derive(Clone, Default)]
pub struct Registry {
    tools: Arc<BTreeMap<String, SharedTool>>,
}

impl Registry {
    /// Of two tools with the same name the later one wins.
    pub fn new(tools: impl IntoIterator<Item = SharedTool>) -> Registry {
        Registry {
            tools: Arc::new(tools.into_iter().map(|tool| (tool.spec().name.clone(), tool)).collect()),
        }
    }

    /// Adds these tools; of two with the same name the added one wins.
    pub fn with(&self, more: impl IntoIterator<Item = SharedTool>) -> Registry {
        Registry::new(self.tools.values().cloned().chain(more))
    }

    pub fn get(&self, name: &str) -> Option<SharedTool> {
        self.tools.get(name).cloned()
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.keys().map(String::as_str)
    }

    /// Returns the tools matched by the whitelist, sorted by name.
    pub fn resolve(&self, whitelist: &[String]) -> Vec<SharedTool> {
        let patterns = Patterns::new(whitelist);
        self.tools
            .iter()
            .filter(|(name, _)| patterns.is_match(name))
            .map(|(_, tool)| tool.clone())
            .collect()
    }
}

/// A whitelist: names, with `*`, `?`, `[…]`, `{…,…}`.
pub struct Patterns {
    set: GlobSet,
    /// The literal prefix of each pattern, up to its first special character.
    beginnings: Vec<String>,
}

impl Patterns {
    pub fn new(whitelist: &[String]) -> Self {
        let mut set = GlobSetBuilder::new();
        let mut beginnings = Vec::new();
        for pattern in whitelist.iter().map(|pattern| pattern.trim()) {
            match Glob::new(pattern) {
                Ok(glob) => {
                    set.add(glob);
                    let special = pattern.find(['*', '?', '[', '{', '\\']).unwrap_or(pattern.len());
                    beginnings.push(pattern[..special].to_owned());
                }
                Err(error) => {
                    tracing::warn!(%pattern, %error, "a pattern of a tool whitelist is invalid and grants nothing")
                }
            }
        }
        let set = set.build().unwrap_or_else(|error| {
            tracing::warn!(%error, "a tool whitelist is too large and grants nothing");
            GlobSet::empty()
        });
        Self { set, beginnings }
    }

    pub fn is_match(&self, name: &str) -> bool {
        self.set.is_match(name)
    }

    /// Returns whether it may match a name with this prefix. (May be true although it can't.)
    pub fn may_match_beginning(&self, beginning: &str) -> bool {
        let one = |literal: &String| literal.starts_with(beginning) || beginning.starts_with(literal.as_str());
        self.beginnings.iter().any(one)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph;

    fn builtin() -> Registry {
        Registry::new(graph::tools())
    }

    fn resolved(whitelist: &[&str]) -> Vec<String> {
        let whitelist: Vec<String> = whitelist.iter().map(|&pattern| pattern.to_owned()).collect();
        builtin()
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
    fn what_a_name_may_begin_with_is_known_without_the_name() {
        let patterns = Patterns::new(&["files_*".to_owned(), "list_tags".to_owned(), "mem?ry_get".to_owned()]);
        assert!(patterns.may_match_beginning("files_") && patterns.may_match_beginning("memory_"));
        assert!(!patterns.may_match_beginning("file_") && !patterns.may_match_beginning("time_"));
        assert!(Patterns::new(&["*".to_owned()]).may_match_beginning("time_"));
    }

    #[test]
    fn names_and_globs_grant_their_matches_once_in_name_order() {
        assert_eq!(
            resolved(&["*_search", "schema_version", "hybrid_search"]),
            ["hybrid_search", "schema_version", "semantic_search"]
        );
        assert_eq!(
            resolved(&["unknown_tool", "list_{entity_types,relationships}"]),
            ["list_entity_types", "list_relationships"]
        );
        assert_eq!(resolved(&["*"]).len(), builtin().names().count());
    }
}
