//! Statistics of the graph: types, relationship types and labels, with counts.
//!
//! Called by the schema tools and routes; models read it to learn a workspace's vocabulary. Only live items are counted;
//! counts of large graphs may be some minutes old (`kept`).

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use serde::Serialize;
use sha2::{Digest, Sha256};
use sqlx::{AssertSqlSafe, PgExecutor, PgPool};
use uuid::Uuid;

use super::Error;
use super::bounds::{self, Bounds};
use rejoin_types::digest;

mod kept;

pub use kept::KEPT;

/// Number of objects per type sampled for property names.
const SAMPLED_OBJECTS: i64 = 20;
/// Maximum number of labels in [`labels`], most used first.
pub const MAX_LABELS_LISTED: i64 = 500;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TypeCount {
    pub name: String,
    pub count: i64,
    /// Property names, from a sample.
    pub properties: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RelationshipCount {
    #[serde(rename = "type")]
    pub relationship_type: String,
    pub from_type: String,
    pub to_type: String,
    pub count: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, sqlx::FromRow)]
pub struct LabelCount {
    pub label: String,
    pub count: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Version {
    /// Changes exactly when a type or relationship type appears or disappears.
    pub version: String,
    /// The time of the graph's last change; for an empty graph, now.
    pub timestamp: DateTime<Utc>,
}

pub async fn types(db: impl PgExecutor<'_>, workspace_id: Uuid) -> Result<Vec<TypeCount>, Error> {
    kept::kept(&kept::TYPES, workspace_id, count_types(db, workspace_id)).await
}

async fn count_types(db: impl PgExecutor<'_>, workspace_id: Uuid) -> Result<Vec<TypeCount>, Error> {
    sqlx::query_as!(
        TypeCount,
        r#"select counted.type as name, counted.count as "count!", sampled.properties as "properties!"
           from (
               select type, count(*) as count
               from kb.graph_objects
               where project_id = $1 and superseded_at is null and deleted_at is null
               group by type
           ) counted
           cross join lateral (
               select coalesce(array_agg(distinct property.name order by property.name), '{}') as properties
               from (
                   select properties
                   from kb.graph_objects
                   where project_id = $1 and type = counted.type and superseded_at is null and deleted_at is null
                   order by canonical_id
                   limit $2
               ) sample
               cross join lateral jsonb_object_keys(sample.properties) as property (name)
           ) sampled
           order by counted.count desc, counted.type"#,
        workspace_id,
        SAMPLED_OBJECTS,
    )
    .fetch_all(db)
    .await
    .map_err(Error::database("count the types of objects"))
}

pub async fn relationship_types(db: impl PgExecutor<'_>, workspace_id: Uuid) -> Result<Vec<RelationshipCount>, Error> {
    kept::kept(
        &kept::RELATIONSHIPS,
        workspace_id,
        count_relationship_types(db, workspace_id),
    )
    .await
}

async fn count_relationship_types(
    db: impl PgExecutor<'_>,
    workspace_id: Uuid,
) -> Result<Vec<RelationshipCount>, Error> {
    sqlx::query_as!(
        RelationshipCount,
        r#"select r.type as relationship_type, s.type as from_type, t.type as to_type, count(*) as "count!"
           from kb.graph_relationships r
           join kb.graph_objects s
             on s.canonical_id = r.source_id and s.project_id = $1 and s.superseded_at is null and s.deleted_at is null
           join kb.graph_objects t
             on t.canonical_id = r.target_id and t.project_id = $1 and t.superseded_at is null and t.deleted_at is null
           where r.project_id = $1 and r.superseded_at is null and r.deleted_at is null
           group by r.type, s.type, t.type
           order by 4 desc, 1, 2, 3"#,
        workspace_id,
    )
    .fetch_all(db)
    .await
    .map_err(Error::database("count the types of relationships"))
}

pub async fn labels(db: impl PgExecutor<'_>, workspace_id: Uuid) -> Result<Vec<LabelCount>, Error> {
    kept::kept(&kept::LABELS, workspace_id, count_labels(db, workspace_id)).await
}

async fn count_labels(db: impl PgExecutor<'_>, workspace_id: Uuid) -> Result<Vec<LabelCount>, Error> {
    sqlx::query_as!(
        LabelCount,
        r#"select label as "label!", count(*) as "count!"
           from kb.graph_objects, unnest(labels) as label
           where project_id = $1 and superseded_at is null and deleted_at is null
           group by label
           order by 2 desc, 1
           limit $2"#,
        workspace_id,
        MAX_LABELS_LISTED,
    )
    .fetch_all(db)
    .await
    .map_err(Error::database("count the labels"))
}

/// Returns the labels of objects within the bounds.
pub async fn labels_within(pool: &PgPool, workspace_id: Uuid, bounds: &Bounds) -> Result<Vec<LabelCount>, Error> {
    let sql = format!(
        "select label, count(*) as count
         from kb.graph_objects o, unnest(o.labels) as label
         where o.project_id = $1 and o.superseded_at is null and o.deleted_at is null {}
         group by label
         order by 2 desc, 1
         limit $2",
        bounds::condition(Some(bounds))
    );
    // Built from constants only.
    sqlx::query_as(AssertSqlSafe(sql))
        .bind(workspace_id)
        .bind(MAX_LABELS_LISTED)
        .fetch_all(pool)
        .await
        .map_err(Error::database("count the labels"))
}

/// Counts live objects within the bounds, by each type that these restrict.
pub async fn bound_types(pool: &PgPool, workspace_id: Uuid, bounds: &Bounds) -> Result<HashMap<String, i64>, Error> {
    let sql = format!(
        "select o.type, count(*)
         from kb.graph_objects o
         where o.project_id = $1 and o.superseded_at is null and o.deleted_at is null and o.type = any($2) {}
         group by o.type",
        bounds::condition(Some(bounds))
    );
    // Built from constants only.
    let counted: Vec<(String, i64)> = sqlx::query_as(AssertSqlSafe(sql))
        .bind(workspace_id)
        .bind(&bounds.types)
        .fetch_all(pool)
        .await
        .map_err(Error::database("count the types of objects"))?;
    Ok(counted.into_iter().collect())
}

pub async fn version(db: impl PgExecutor<'_>, workspace_id: Uuid) -> Result<Version, Error> {
    let row = sqlx::query!(
        r#"with objects as (
               select type, max(updated_at) as changed_at
               from kb.graph_objects
               where project_id = $1 and superseded_at is null
               group by type
               having bool_or(deleted_at is null)
           ),
           relationships as (
               select type, max(updated_at) as changed_at
               from kb.graph_relationships
               where project_id = $1 and superseded_at is null
               group by type
               having bool_or(deleted_at is null)
           )
           select
               (select coalesce(array_agg(type order by type), '{}') from objects) as "types!",
               (select coalesce(array_agg(type order by type), '{}') from relationships) as "relationship_types!",
               coalesce(greatest((select max(changed_at) from objects), (select max(changed_at) from relationships)), 'epoch')
                   as "changed_at!""#,
        workspace_id,
    )
    .fetch_one(db)
    .await
    .map_err(Error::database("read the version of the schema"))?;
    Ok(Version {
        version: type_set_hash(&row.types, &row.relationship_types),
        timestamp: row.changed_at,
    })
}

/// The first 12 hexadecimal digits of a SHA-256 over both lists.
fn type_set_hash(types: &[String], relationship_types: &[String]) -> String {
    let mut hasher = Sha256::new();
    for (prefix, names) in [("o", types), ("r", relationship_types)] {
        for name in names {
            hasher.update(prefix);
            hasher.update((name.len() as u64).to_be_bytes());
            hasher.update(name);
        }
    }
    digest::hex(&hasher.finalize()[..6])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_distinguishes_types_of_objects_and_relationships() {
        let (a, none) = (vec!["A".to_owned()], Vec::new());
        assert_ne!(type_set_hash(&a, &none), type_set_hash(&none, &a));
        assert_eq!(type_set_hash(&a, &none), type_set_hash(&a, &none));
        assert_eq!(type_set_hash(&none, &none).len(), 12);
    }
}
