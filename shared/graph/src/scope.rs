//! The scope of a search within a workspace's graph.

use super::bounds::{self, Bounds};

/// The scope of a search. Empty lists don't filter.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    pub types: Vec<String>,
    /// Any of these labels.
    pub labels: Vec<String>,
    /// None: no bounds.
    pub bounds: Option<Bounds>,
}

impl Scope {
    /// Returns the SQL for live objects `o` in scope; $1 workspace, $5 types, $6 labels.
    pub(super) fn live(&self) -> String {
        format!(
            "o.project_id = $1 and o.superseded_at is null and o.deleted_at is null
             and (cardinality($5::text[]) = 0 or o.type = any($5))
             and (cardinality($6::text[]) = 0 or o.labels && $6) {}",
            bounds::condition(self.bounds.as_ref())
        )
    }
}
