//! The edges of an object: its relationships from its point of view. Called by the API's graph routes and the graph
//! tools.
//!
//! Invariant: an edge is shown only while both its ends are live.

use serde::Serialize;
use serde_json::Value;
use sqlx::PgPool;
use uuid::Uuid;

use super::relationships::Entity;
use super::{Direction, Error};

/// Maximum number of edges per direction in [`edges`].
pub const MAX_PAGE: i64 = 1000;
/// Maximum number of a hub's edges that are sorted, per direction; those of the first types. For an object with half as
/// many, the total includes edges to deleted objects.
const MAX_EXAMINED: i64 = 2_000;

/// A relationship seen from one of its ends.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Edge {
    pub relationship_id: Uuid,
    pub relationship_type: String,
    pub connected: Entity,
    pub properties: Value,
    pub weight: Option<f64>,
}

/// The edges of an object, by relationship type and name, up to a limit per direction; the totals count all of them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Edges {
    pub incoming: Vec<Edge>,
    pub outgoing: Vec<Edge>,
    pub incoming_total: i64,
    pub outgoing_total: i64,
}

/// Returns the incoming and outgoing edges of a live object, at most `limit` per direction.
pub async fn edges(pool: &PgPool, workspace_id: Uuid, object_id: Uuid, limit: i64) -> Result<Edges, Error> {
    let limit = limit.clamp(1, MAX_PAGE);
    let outgoing = sqlx::query!(
        r#"select r.canonical_id as relationship_id, r.type as relationship_type, r.properties, r.weight,
               o.canonical_id as id, o.key, o.type as object_type, o.name, count(*) over () as "total!"
           from (
               select canonical_id, type, properties, weight, target_id as other
               from kb.graph_relationships
               where project_id = $1 and source_id = $2 and superseded_at is null and deleted_at is null
               order by type
               limit $4
           ) r
           join kb.graph_objects o
             on o.canonical_id = r.other and o.project_id = $1 and o.superseded_at is null and o.deleted_at is null
           order by r.type, lower(o.name), r.canonical_id
           limit $3"#,
        workspace_id,
        object_id,
        limit,
        MAX_EXAMINED,
    )
    .fetch_all(pool)
    .await
    .map_err(Error::database("read outgoing edges"))?;
    let incoming = sqlx::query!(
        r#"select r.canonical_id as relationship_id, r.type as relationship_type, r.properties, r.weight,
               o.canonical_id as id, o.key, o.type as object_type, o.name, count(*) over () as "total!"
           from (
               select canonical_id, type, properties, weight, source_id as other
               from kb.graph_relationships
               where project_id = $1 and target_id = $2 and superseded_at is null and deleted_at is null
               order by type
               limit $4
           ) r
           join kb.graph_objects o
             on o.canonical_id = r.other and o.project_id = $1 and o.superseded_at is null and o.deleted_at is null
           order by r.type, lower(o.name), r.canonical_id
           limit $3"#,
        workspace_id,
        object_id,
        limit,
        MAX_EXAMINED,
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
    let total = async |seen: Option<i64>, direction: Direction| match seen {
        // There may be more than were examined.
        Some(total) if total > MAX_EXAMINED / 2 => count(pool, workspace_id, object_id, direction)
            .await
            .map(|all| all.max(total)),
        seen => Ok(seen.unwrap_or(0)),
    };
    Ok(Edges {
        incoming_total: total(incoming.first().map(|row| row.total), Direction::Incoming).await?,
        outgoing_total: total(outgoing.first().map(|row| row.total), Direction::Outgoing).await?,
        incoming: incoming.into_iter().map(|row| edge!(row)).collect(),
        outgoing: outgoing.into_iter().map(|row| edge!(row)).collect(),
    })
}

/// Counts all live relationships on one side of an object, from an index.
async fn count(pool: &PgPool, workspace_id: Uuid, object_id: Uuid, direction: Direction) -> Result<i64, Error> {
    sqlx::query_scalar!(
        r#"select case when $3
               then (select count(*) from kb.graph_relationships
                     where project_id = $1 and source_id = $2 and superseded_at is null and deleted_at is null)
               else (select count(*) from kb.graph_relationships
                     where project_id = $1 and target_id = $2 and superseded_at is null and deleted_at is null)
           end as "count!""#,
        workspace_id,
        object_id,
        direction == Direction::Outgoing,
    )
    .fetch_one(pool)
    .await
    .map_err(Error::database("count edges"))
}
