//! Visibility bounds: objects of some types are visible only if they belong to one object, the anchor. Called by
//! searches and traversals; the caller that builds bounds knows the types (`work`). Objects of other types are always
//! visible.

use std::collections::HashSet;

use sqlx::PgPool;
use uuid::Uuid;

use super::Error;

/// Objects of `types` are there only if one of them is the anchor, or a relationship of `memberships` leads to it from the anchor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounds {
    pub anchor: Uuid,
    pub types: Vec<&'static str>,
    pub memberships: Vec<&'static str>,
}

impl Bounds {
    /// A condition on the object `o` of a statement whose first argument is the project, with `and` before it. Made of an id and of words
    /// of our own only.
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

    /// Of these objects, living and deleted ones, those that are out of bounds.
    pub async fn outside(&self, pool: &PgPool, project_id: Uuid, ids: &[Uuid]) -> Result<HashSet<Uuid>, Error> {
        let outside = sqlx::query_scalar!(
            "select o.canonical_id from kb.graph_objects o
             where o.project_id = $1 and o.canonical_id = any($2) and o.superseded_at is null
               and o.type = any($3) and o.canonical_id <> $4
               and not exists (select from kb.graph_relationships m
                               where m.project_id = $1 and m.source_id = $4 and m.target_id = o.canonical_id
                                 and m.type = any($5) and m.superseded_at is null)",
            project_id,
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

/// The condition, where there are bounds.
pub(super) fn condition(bounds: Option<&Bounds>) -> String {
    bounds.map(Bounds::condition).unwrap_or_default()
}
