//! The shortest path between two objects. Called by the tool `find_path`.
//!
//! Bidirectional search, one statement per level, always expanding the smaller frontier: objects five steps apart meet
//! after two or three levels from either side, and a hub with thousands of neighbours is expanded last.

use std::collections::HashMap;

use serde_json::Value;
use sqlx::PgPool;
use uuid::Uuid;

use super::bounds::Bounds;
use super::objects::{self, Object};
use super::traverse::{self, Edge};
use super::{Direction, Error};

/// Maximum length of a path, in relationships.
pub const MAX_LENGTH: u32 = 8;
/// Maximum number of objects visited from both ends together.
pub const MAX_VISITED: usize = 50_000;
/// Maximum number of relationships read per level.
const MAX_EDGES: usize = 50_000;

#[derive(Debug, Clone, Default)]
pub struct PathQuery {
    /// 1 to [`MAX_LENGTH`]; clamped.
    pub max_length: u32,
    /// Empty: all.
    pub relationship_types: Vec<String>,
    /// Outgoing: every step follows a relationship from source to target; incoming: from target to source.
    pub direction: Direction,
    /// The path stays within these bounds. None: no bounds.
    pub bounds: Option<Bounds>,
}

/// The result of a path search.
#[derive(Debug, Clone, PartialEq)]
pub enum PathSearch {
    /// From the first object to the last, with the relationship of each step.
    Path { nodes: Vec<Object>, edges: Vec<Edge> },
    /// There is no path of this length.
    NoPath,
    /// No path was found before a limit was reached.
    LimitReached,
}

/// One side of the search: the reached objects, and the relationship that led to each.
struct Side {
    /// The start has no relationship.
    reached: HashMap<Uuid, Option<Edge>>,
    edge_of_known: Vec<Uuid>,
    direction: Direction,
}

impl Side {
    fn new(start: Uuid, direction: Direction) -> Self {
        Self {
            reached: HashMap::from([(start, None)]),
            edge_of_known: vec![start],
            direction,
        }
    }

    /// Returns the path back from an object to the side's start: relationships, nearest first.
    fn back(&self, from: Uuid) -> (Vec<Uuid>, Vec<Edge>) {
        let (mut at, mut nodes, mut edges) = (from, vec![from], Vec::new());
        while let Some(Some(edge)) = self.reached.get(&at) {
            at = other_end(edge, at);
            nodes.push(at);
            edges.push(edge.clone());
        }
        (nodes, edges)
    }
}

fn other_end(edge: &Edge, of: Uuid) -> Uuid {
    if edge.source_id == of {
        edge.target_id
    } else {
        edge.source_id
    }
}

/// Both ends must be live objects of the workspace.
pub async fn shortest(
    pool: &PgPool,
    workspace_id: Uuid,
    from: Uuid,
    to: Uuid,
    query: &PathQuery,
) -> Result<PathSearch, Error> {
    for id in [from, to] {
        objects::get(pool, workspace_id, id).await?;
    }
    let against = match query.direction {
        Direction::Outgoing => Direction::Incoming,
        Direction::Incoming => Direction::Outgoing,
        Direction::Both => Direction::Both,
    };
    let mut sides = [Side::new(from, query.direction), Side::new(to, against)];
    let mut met = (from == to).then_some(from);
    let mut limit_reached = false;
    for _ in 0..query.max_length.clamp(1, MAX_LENGTH) {
        if met.is_some() {
            break;
        }
        let nearer = usize::from(sides[1].edge_of_known.len() < sides[0].edge_of_known.len());
        let (mut found, cut) = level(pool, workspace_id, &sides[nearer], &query.relationship_types).await?;
        limit_reached |= cut;
        if let Some(bounds) = &query.bounds {
            let ends: Vec<Uuid> = found.iter().map(|(near, edge)| other_end(edge, *near)).collect();
            let outside = bounds.outside(pool, workspace_id, &ends).await?;
            found.retain(|(near, edge)| !outside.contains(&other_end(edge, *near)));
        }
        let (side, far) = match &mut sides {
            [first, second] if nearer == 0 => (first, &*second),
            [first, second] => (second, &*first),
        };
        let mut next = Vec::new();
        for (near, edge) in found {
            let other = other_end(&edge, near);
            if side.reached.contains_key(&other) {
                continue;
            }
            side.reached.insert(other, Some(edge));
            if far.reached.contains_key(&other) {
                met = Some(other);
                break;
            }
            next.push(other);
        }
        side.edge_of_known = next;
        let visited = sides[0].reached.len() + sides[1].reached.len();
        if met.is_none() && visited > MAX_VISITED {
            limit_reached = true;
            break;
        }
        if sides.iter().any(|side| side.edge_of_known.is_empty()) {
            break;
        }
    }
    let Some(met) = met else {
        return Ok(if limit_reached {
            PathSearch::LimitReached
        } else {
            PathSearch::NoPath
        });
    };
    let (mut ids, mut edges) = sides[0].back(met);
    ids.reverse();
    edges.reverse();
    let (rest, more) = sides[1].back(met);
    ids.extend(&rest[1..]);
    edges.extend(more);
    let mut objects = traverse::by_ids(pool, workspace_id, &ids).await?;
    let nodes: Option<Vec<Object>> = ids.iter().map(|id| objects.remove(id)).collect();
    // One of them may have been deleted during the search.
    Ok(nodes.map_or(PathSearch::NoPath, |nodes| PathSearch::Path { nodes, edges }))
}

/// Expands the side's frontier by one step: returns the edges with their origins, and whether the limit cut some off.
async fn level(
    pool: &PgPool,
    workspace_id: Uuid,
    side: &Side,
    types: &[String],
) -> Result<(Vec<(Uuid, Edge)>, bool), Error> {
    let (outgoing, incoming) = match side.direction {
        Direction::Outgoing => (true, false),
        Direction::Incoming => (false, true),
        Direction::Both => (true, true),
    };
    let rows = sqlx::query!(
        r#"select frontier.id as "near!", e.canonical_id as "id!", e.type as "relationship_type!", e.source_id as "source_id!",
               e.target_id as "target_id!", e.properties as "properties!: Value"
           from unnest($2::uuid[]) as frontier (id)
           -- Laterals: one index scan a node and an edge, even where the planner has no statistics yet.
           cross join lateral (
               (select r.*, r.target_id as other
                from kb.graph_relationships r
                where $3 and r.project_id = $1 and r.source_id = frontier.id
                  and r.superseded_at is null and r.deleted_at is null
                  and (cardinality($5::text[]) = 0 or r.type = any($5)))
               union all
               (select r.*, r.source_id
                from kb.graph_relationships r
                where $4 and r.project_id = $1 and r.target_id = frontier.id
                  and r.superseded_at is null and r.deleted_at is null
                  and (cardinality($5::text[]) = 0 or r.type = any($5)))
           ) e
           where exists (select from kb.graph_objects o
                         where o.canonical_id = e.other and o.superseded_at is null and o.project_id = $1 and o.deleted_at is null)
           limit $6"#,
        workspace_id,
        &side.edge_of_known,
        outgoing,
        incoming,
        types,
        MAX_EDGES as i64 + 1,
    )
    .fetch_all(pool)
    .await
    .map_err(Error::database("read a level of the graph"))?;
    let cut = rows.len() > MAX_EDGES;
    let found = rows.into_iter().take(MAX_EDGES).map(|row| {
        let edge = Edge {
            id: row.id,
            relationship_type: row.relationship_type,
            source_id: row.source_id,
            target_id: row.target_id,
            properties: row.properties,
        };
        (row.near, edge)
    });
    Ok((found.collect(), cut))
}
