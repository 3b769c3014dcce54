//! Visibility bounds: objects of some types are visible only if they belong to one object, the anchor. Called by
//! searches and traversals; the caller that builds bounds knows the types (`work`). Objects of other types are always
//! visible.

use std::collections::HashSet;

use sqlx::PgPool;
use uuid::Uuid;

use super::Error;

/// Bounds: objects of `types` are visible only if they are the anchor, or linked from it by a relationship of
/// `memberships`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounds {
    pub anchor: Uuid,
    pub types: Vec<&'static str>,
    pub memberships: Vec<&'static str>,
}

impl Bounds {
    /// Returns an SQL condition on the object `o`, beginning with `and`; the statement's first argument is the workspace.
    /// Built from an id and constants only.
    pub(super) fn condition(&self) -> String {
        let list = |words: &[&str]| {
            words
                .iter()
                .map(|word| format!("'{word}'"))
                .collect::<Vec<_>>()
                .join(", ")
        };
        format!(
            "and (o.type not in ({types}) or o.canonical_id = '{anchor}'
                  or exists (select from kb.graph_relationships m
                             where m.project_id = $1 and m.source_id = '{anchor}' and m.target_id = o.canonical_id
                               and m.type in ({memberships}) and m.superseded_at is null and m.deleted_at is null))",
            types = list(&self.types),
            memberships = list(&self.memberships),
            anchor = self.anchor,
        )
    }

    /// Returns which of these objects, live or deleted, are out of bounds.
    pub async fn outside(&self, pool: &PgPool, workspace_id: Uuid, ids: &[Uuid]) -> Result<HashSet<Uuid>, Error> {
        let outside = sqlx::query_scalar!(
            "select o.canonical_id from kb.graph_objects o
             where o.project_id = $1 and o.canonical_id = any($2) and o.superseded_at is null
               and o.type = any($3) and o.canonical_id <> $4
               and not exists (select from kb.graph_relationships m
                               where m.project_id = $1 and m.source_id = $4 and m.target_id = o.canonical_id
                                 and m.type = any($5) and m.superseded_at is null)",
            workspace_id,
            ids,
            &self.types as &[&str],
            self.anchor,
            &self.memberships as &[&str]
        );
        let found = outside.fetch_all(pool).await;
        Ok(found
            .map_err(Error::database("look what is out of bounds"))?
            .into_iter()
            .collect())
    }
}

/// Returns the condition, if there are bounds.
pub(super) fn condition(bounds: Option<&Bounds>) -> String {
    bounds.map(Bounds::condition).unwrap_or_default()
}
