//! The edges of an object: its relationships, seen from there. Called by the API's graph routes and the graph tools.
//!
//! Invariant: an edge shows only while both its ends live.

use serde::Serialize;
use serde_json::Value;
use sqlx::PgPool;
use uuid::Uuid;

use super::Error;
use super::relationships::Entity;

/// Edges in one direction of [`edges`].
pub const MAX_PAGE: i64 = 1000;

/// A relationship seen from one of its ends.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Edge {
    pub relationship_id: Uuid,
    pub relationship_type: String,
    pub connected: Entity,
    pub properties: Value,
    pub weight: Option<f64>,
}

/// The edges of an object, by relationship type and name, up to a limit in each direction; the totals count them all.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Edges {
    pub incoming: Vec<Edge>,
    pub outgoing: Vec<Edge>,
    pub incoming_total: i64,
    pub outgoing_total: i64,
}

/// What arrives at a live object and what leaves it, at most `limit` in each direction.
pub async fn edges(pool: &PgPool, project_id: Uuid, object_id: Uuid, limit: i64) -> Result<Edges, Error> {
    let limit = limit.clamp(1, MAX_PAGE);
    let outgoing = sqlx::query!(
        r#"select r.canonical_id as relationship_id, r.type as relationship_type, r.properties, r.weight,
               o.canonical_id as id, o.key, o.type as object_type, o.name, count(*) over () as "total!"
           from kb.graph_relationships r
           join kb.graph_objects o
             on o.canonical_id = r.target_id and o.project_id = $1 and o.superseded_at is null and o.deleted_at is null
           where r.project_id = $1 and r.source_id = $2 and r.superseded_at is null and r.deleted_at is null
           order by r.type, lower(o.name), r.canonical_id
           limit $3"#,
        project_id,
        object_id,
        limit,
    )
    .fetch_all(pool)
    .await
    .map_err(Error::database("read outgoing edges"))?;
    let incoming = sqlx::query!(
        r#"select r.canonical_id as relationship_id, r.type as relationship_type, r.properties, r.weight,
               o.canonical_id as id, o.key, o.type as object_type, o.name, count(*) over () as "total!"
           from kb.graph_relationships r
           join kb.graph_objects o
             on o.canonical_id = r.source_id and o.project_id = $1 and o.superseded_at is null and o.deleted_at is null
           where r.project_id = $1 and r.target_id = $2 and r.superseded_at is null and r.deleted_at is null
           order by r.type, lower(o.name), r.canonical_id
           limit $3"#,
        project_id,
        object_id,
        limit,
    )
    .fetch_all(pool)
    .await
    .map_err(Error::database("read incoming edges"))?;
    macro_rules! edge {
        ($row:expr) => {
            Edge {
                relationship_id: $row.relationship_id,
                relationship_type: $row.relationship_type,
                connected: Entity {
                    id: $row.id,
                    key: $row.key,
                    object_type: $row.object_type,
                    name: $row.name,
                },
                properties: $row.properties,
                weight: $row.weight,
            }
        };
    }
    Ok(Edges {
        incoming_total: incoming.first().map_or(0, |row| row.total),
        outgoing_total: outgoing.first().map_or(0, |row| row.total),
        incoming: incoming.into_iter().map(|row| edge!(row)).collect(),
        outgoing: outgoing.into_iter().map(|row| edge!(row)).collect(),
    })
}
