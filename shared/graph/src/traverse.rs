//! Breadth-first traversal from an object. Called by the tool `traverse_graph` and the API's graph routes.
//!
//! One statement per level, never one per node. Invariant: both ends of every returned edge are among the returned
//! nodes.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use sqlx::{AssertSqlSafe, PgPool};
use uuid::Uuid;

use super::bounds::Bounds;
use super::objects::{self, COLUMNS, Object};
use super::query::Query;
use super::{Direction, Error};

/// Maximum depth, in relationships from the start.
pub const MAX_DEPTH: u32 = 5;
/// Maximum number of nodes in a result, including the start.
pub const MAX_NODES: usize = 200;
/// Maximum number of edges in a result, and read per level.
pub const MAX_EDGES: usize = 1000;

/// Maximum number of edges examined per level and direction; shared by its nodes, with a minimum for each.
const EXAMINED_EDGES: usize = 4_000;
const MIN_EXAMINED_EDGES: usize = 20;

#[derive(Debug, Clone, Default)]
pub struct Walk {
    /// 1 to [`MAX_DEPTH`]; clamped.
    pub max_depth: u32,
    /// Empty: all.
    pub relationship_types: Vec<String>,
    pub direction: Direction,
    /// Words: nodes containing some of them are preferred if not all fit.
    pub prefer: Option<String>,
    /// The traversal stays within these bounds. None: no bounds.
    pub bounds: Option<Bounds>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Number of relationships from the start.
    pub depth: u32,
    pub object: Object,
}

#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub struct Edge {
    pub id: Uuid,
    #[sqlx(rename = "type")]
    pub relationship_type: String,
    pub source_id: Uuid,
    pub target_id: Uuid,
    pub properties: Value,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Walked {
    /// By depth, start first.
    pub nodes: Vec<Node>,
    pub edges: Vec<Edge>,
    /// Whether a limit cut off nodes or edges.
    pub truncated: bool,
}

pub async fn traverse(pool: &PgPool, workspace_id: Uuid, start: Uuid, walk: &Walk) -> Result<Walked, Error> {
    let root = objects::get(pool, workspace_id, start).await?;
    let prefer = walk
        .prefer
        .as_deref()
        .map(Query::parse)
        .map(|query| query.words)
        .unwrap_or_default();
    let mut depths = HashMap::from([(start, 0)]);
    let mut order = Vec::new();
    let mut edges: Vec<Edge> = Vec::new();
    let mut seen_edges = HashSet::new();
    let mut frontier = vec![start];
    let mut truncated = false;

    for depth in 1..=walk.max_depth.clamp(1, MAX_DEPTH) {
        let (mut found, cut) = level(pool, workspace_id, &frontier, walk, &prefer).await?;
        truncated |= cut;
        if let Some(bounds) = &walk.bounds {
            let ends: Vec<Uuid> = found.iter().flat_map(|edge| [edge.source_id, edge.target_id]).collect();
            let outside = bounds.outside(pool, workspace_id, &ends).await?;
            found.retain(|edge| !outside.contains(&edge.source_id) && !outside.contains(&edge.target_id));
        }
        let mut next = Vec::new();
        for edge in found.into_iter().take(MAX_EDGES) {
            for end in [edge.source_id, edge.target_id] {
                if depths.contains_key(&end) {
                    continue;
                }
                if depths.len() < MAX_NODES {
                    depths.insert(end, depth);
                    order.push(end);
                    next.push(end);
                } else {
                    truncated = true;
                }
            }
            if depths.contains_key(&edge.source_id)
                && depths.contains_key(&edge.target_id)
                && seen_edges.insert(edge.id)
            {
                if edges.len() < MAX_EDGES {
                    edges.push(edge);
                } else {
                    truncated = true;
                }
            }
        }
        frontier = next;
        if frontier.is_empty() {
            break;
        }
    }

    let mut nodes = vec![Node { depth: 0, object: root }];
    let mut objects = by_ids(pool, workspace_id, &order).await?;
    nodes.extend(order.iter().filter_map(|id| {
        objects.remove(id).map(|object| Node {
            depth: depths[id],
            object,
        })
    }));
    if nodes.len() < depths.len() {
        // Nodes deleted since their level was read: their edges must not dangle.
        let there: HashSet<Uuid> = nodes.iter().map(|node| node.object.id).collect();
        edges.retain(|edge| there.contains(&edge.source_id) && there.contains(&edge.target_id));
    }
    Ok(Walked {
        nodes,
        edges,
        truncated,
    })
}

/// Returns live edges at the frontier with live other ends, and whether there may be more: preferred objects first,
/// then by type and name.
async fn level(
    pool: &PgPool,
    workspace_id: Uuid,
    frontier: &[Uuid],
    walk: &Walk,
    prefer: &[String],
) -> Result<(Vec<Edge>, bool), Error> {
    let (outgoing, incoming) = match walk.direction {
        Direction::Outgoing => (true, false),
        Direction::Incoming => (false, true),
        Direction::Both => (true, true),
    };
    // A level of hubs has far more edges than fit; those of all nodes are considered.
    let each = (EXAMINED_EDGES / frontier.len().max(1)).clamp(MIN_EXAMINED_EDGES, MAX_EDGES + 1);
    let rows = sqlx::query!(
        r#"select e.canonical_id as "id!", e.type as "relationship_type!", e.source_id as "source_id!",
               e.target_id as "target_id!", e.properties as "properties!", e.cut as "cut!"
           from unnest($2::uuid[]) as frontier (id)
           -- Laterals: one index scan a node and an edge, even where the planner has no statistics yet.
           cross join lateral (
               select those.*, those.target_id as other, count(*) over () > $8 as cut
               from (select r.*
                     from kb.graph_relationships r
                     where $3 and r.project_id = $1 and r.source_id = frontier.id
                       and r.superseded_at is null and r.deleted_at is null
                       and (cardinality($5::text[]) = 0 or r.type = any($5))
                     limit $8 + 1) those
               union all
               select those.*, those.source_id, count(*) over () > $8
               from (select r.*
                     from kb.graph_relationships r
                     where $4 and r.project_id = $1 and r.target_id = frontier.id
                       and r.superseded_at is null and r.deleted_at is null
                       and (cardinality($5::text[]) = 0 or r.type = any($5))
                     limit $8 + 1) those
           ) e
           cross join lateral (
               select o.name,
                   (select count(*) from unnest($6::text[]) as word where o.fts @@ plainto_tsquery('simple', word)) as preferred
               from kb.graph_objects o
               where o.canonical_id = e.other and o.superseded_at is null and o.project_id = $1 and o.deleted_at is null
               limit 1
           ) o
           order by o.preferred desc, e.type, lower(o.name), e.canonical_id
           limit $7"#,
        workspace_id,
        frontier,
        outgoing,
        incoming,
        &walk.relationship_types,
        prefer,
        MAX_EDGES as i64 + 1,
        each as i64,
    )
    .fetch_all(pool)
    .await
    .map_err(Error::database("read a level of the graph"))?;
    let cut = rows.len() > MAX_EDGES || rows.iter().any(|row| row.cut);
    let edges = rows.into_iter().map(|row| Edge {
        id: row.id,
        relationship_type: row.relationship_type,
        source_id: row.source_id,
        target_id: row.target_id,
        properties: row.properties,
    });
    Ok((edges.collect(), cut))
}

pub(super) async fn by_ids(pool: &PgPool, workspace_id: Uuid, ids: &[Uuid]) -> Result<HashMap<Uuid, Object>, Error> {
    let sql = format!(
        "select {COLUMNS}
         from kb.graph_objects o
         where o.project_id = $1 and o.canonical_id = any($2) and o.superseded_at is null and o.deleted_at is null"
    );
    // Built from constants only.
    let objects = sqlx::query_as::<_, Object>(AssertSqlSafe(sql))
        .bind(workspace_id)
        .bind(ids)
        .fetch_all(pool)
        .await
        .map_err(Error::database("read the nodes of a walk"))?;
    Ok(objects.into_iter().map(|object| (object.id, object)).collect())
}
