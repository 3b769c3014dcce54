//! Lists live relationships with both their ends. Called by the API's graph routes, the read tools and the export.
//! Invariant: both ends are live.

use serde::Serialize;
use sqlx::PgExecutor;
use uuid::Uuid;

use super::{MAX_PAGE, Relationship};
use crate::Error;

#[derive(Debug, Clone, Default)]
pub struct Filter {
    pub relationship_type: Option<String>,
    pub source_id: Option<Uuid>,
    pub target_id: Option<Uuid>,
}

/// The object at an edge's other end, with just enough to cite it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Entity {
    pub id: Uuid,
    pub key: String,
    #[serde(rename = "type")]
    pub object_type: String,
    pub name: String,
}

/// A relationship with both ends, as listed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Connected {
    pub relationship: Relationship,
    pub source: Entity,
    pub target: Entity,
}

/// Returns live relationships between live objects in order of creation, after the relationship `after`, with both
/// ends.
pub async fn list(
    db: impl PgExecutor<'_>,
    workspace_id: Uuid,
    filter: &Filter,
    after: Option<Uuid>,
    limit: i64,
) -> Result<Vec<Connected>, Error> {
    let rows = sqlx::query!(
        r#"select r.canonical_id as id, r.version, r.type as relationship_type, r.source_id, r.target_id, r.properties, r.weight,
               r.valid_from, r.valid_to, r.actor_type, r.actor_id, r.created_at, r.updated_at,
               s.key as source_key, s.type as source_type, s.name as source_name,
               t.key as target_key, t.type as target_type, t.name as target_name
           from kb.graph_relationships r
           join kb.graph_objects s
             on s.canonical_id = r.source_id and s.project_id = $1 and s.superseded_at is null and s.deleted_at is null
           join kb.graph_objects t
             on t.canonical_id = r.target_id and t.project_id = $1 and t.superseded_at is null and t.deleted_at is null
           where r.project_id = $1 and r.superseded_at is null and r.deleted_at is null
             and ($2::text is null or r.type = $2)
             and ($3::uuid is null or r.source_id = $3)
             and ($4::uuid is null or r.target_id = $4)
             and ($5::uuid is null or r.canonical_id > $5)
           order by r.canonical_id
           limit $6"#,
        workspace_id,
        filter.relationship_type,
        filter.source_id,
        filter.target_id,
        after,
        limit.clamp(1, MAX_PAGE),
    )
    .fetch_all(db)
    .await
    .map_err(Error::database("list relationships"))?;
    let connected = rows.into_iter().map(|row| Connected {
        source: Entity {
            id: row.source_id,
            key: row.source_key,
            object_type: row.source_type,
            name: row.source_name,
        },
        target: Entity {
            id: row.target_id,
            key: row.target_key,
            object_type: row.target_type,
            name: row.target_name,
        },
        relationship: Relationship {
            id: row.id,
            version: row.version,
            relationship_type: row.relationship_type,
            source_id: row.source_id,
            target_id: row.target_id,
            properties: row.properties,
            weight: row.weight,
            valid_from: row.valid_from,
            valid_to: row.valid_to,
            actor_type: row.actor_type,
            actor_id: row.actor_id,
            created_at: row.created_at,
            updated_at: row.updated_at,
            deleted_at: None,
        },
    });
    Ok(connected.collect())
}
