//! The tools that follow relationships from an entity.

use rejoin_graph::Direction;
use rejoin_graph::edges::{self, Edge, Edges};
use rejoin_graph::path::{self, PathQuery, PathSearch};
use rejoin_graph::traverse::{self, Walk};
use serde_json::{Value, json};
use uuid::Uuid;

use super::definition::{Definition, ENTITY, ENTITY_ID, Effect};
use super::{brief, brief_entity, entity, focus, tool_error, unknown_relationship_types};
use crate::arguments::Kind::{OptionalChoice, OptionalInteger, OptionalText, OptionalTexts, Text};
use crate::arguments::{Arguments, Parameter};
use crate::{ToolContext, ToolError};

const ONLY_RELATIONSHIPS: Parameter = Parameter::new(
    "relationship_types",
    OptionalTexts,
    "Follow only relationships of these types; null for all.",
);

pub(super) const TOOLS: &[Definition] = &[
    Definition {
        name: "get_entity_edges",
        effect: Effect::Reads,
        description: "Lists an entity's direct relationships with the connected entities and totals: incoming (other \
            entities point to it, for example what depends on it) and outgoing (it points to others).",
        parameters: &[ENTITY_ID],
        call: |context, arguments| Box::pin(get_entity_edges(context, arguments)),
    },
    Definition {
        name: "traverse_graph",
        effect: Effect::Reads,
        description: "Traverses the graph from an entity, breadth first, over several relationships.",
        parameters: &[
            Parameter::new("start_entity_id", Text, ENTITY),
            Parameter::new(
                "max_depth",
                OptionalInteger,
                "Maximum number of relationships from the start; default 2, at most 5.",
            ),
            ONLY_RELATIONSHIPS,
            Parameter::new(
                "direction",
                OptionalChoice(&Direction::TEXTS),
                "outgoing follows relationships from source to target; default both.",
            ),
            Parameter::new(
                "query_context",
                OptionalText,
                "What you look for: entities that contain these words are listed first.",
            ),
        ],
        call: |context, arguments| Box::pin(traverse_graph(context, arguments)),
    },
    Definition {
        name: "find_path",
        effect: Effect::Reads,
        description: "Finds the shortest path between two entities: how two things are connected.",
        parameters: &[
            Parameter::new("from_id", Text, ENTITY),
            Parameter::new("to_id", Text, ENTITY),
            Parameter::new(
                "max_length",
                OptionalInteger,
                "Maximum length of the path, in relationships; default 4, at most 8.",
            ),
            ONLY_RELATIONSHIPS,
            Parameter::new(
                "direction",
                OptionalChoice(&Direction::TEXTS),
                "outgoing follows each relationship from source to target; default both.",
            ),
        ],
        call: |context, arguments| Box::pin(find_path(context, arguments)),
    },
];

/// Maximum number of edges per direction in a result of `get_entity_edges`: it has no `limit`, and a hub has
/// thousands.
const MAX_EDGES: i64 = 100;

async fn get_entity_edges(context: &ToolContext, arguments: &Arguments) -> Result<Value, ToolError> {
    let object = entity(context, "entity_id", arguments.required_text("entity_id")?).await?;
    let edges = match context.focus {
        None => edges::edges(&context.db, context.workspace_id, object.id, MAX_EDGES)
            .await
            .map_err(tool_error)?,
        Some(_) => edges_inside(context, object.id).await?,
    };
    let truncated =
        edges.incoming_total > edges.incoming.len() as i64 || edges.outgoing_total > edges.outgoing.len() as i64;
    let mut result = json!({
        "entity": brief(&object),
        "incoming": edges.incoming.iter().map(edge).collect::<Vec<_>>(),
        "outgoing": edges.outgoing.iter().map(edge).collect::<Vec<_>>(),
        "incoming_total": edges.incoming_total,
        "outgoing_total": edges.outgoing_total,
        "truncated": truncated,
    });
    if truncated {
        result["note"] = json!(format!(
            "only the first {MAX_EDGES} relationships of each direction are listed, by relationship type and name; \
            the totals count all"
        ));
    }
    Ok(result)
}

/// Returns the edges to objects visible to the call. For a hub, among the first of its edges.
async fn edges_inside(context: &ToolContext, id: Uuid) -> Result<Edges, ToolError> {
    let mut edges = edges::edges(&context.db, context.workspace_id, id, edges::MAX_PAGE)
        .await
        .map_err(tool_error)?;
    let both = edges.incoming.iter().chain(&edges.outgoing);
    let ends: Vec<Uuid> = both.map(|edge| edge.connected.id).collect();
    let outside = focus::outside(context, &ends).await?;
    let sides = [
        (&mut edges.incoming, &mut edges.incoming_total),
        (&mut edges.outgoing, &mut edges.outgoing_total),
    ];
    for (side, total) in sides {
        side.retain(|edge| !outside.contains(&edge.connected.id));
        *total = i64::try_from(side.len()).unwrap_or(i64::MAX);
        side.truncate(MAX_EDGES as usize);
    }
    Ok(edges)
}

fn edge(edge: &Edge) -> Value {
    json!({
        "relationship_id": edge.relationship_id,
        "relationship_type": edge.relationship_type,
        "connected_entity": brief_entity(&edge.connected),
        "properties": edge.properties,
    })
}

fn direction(arguments: &Arguments) -> Direction {
    let direction = arguments.text("direction").and_then(|direction| direction.parse().ok());
    direction.unwrap_or_default()
}

async fn find_path(context: &ToolContext, arguments: &Arguments) -> Result<Value, ToolError> {
    let from = entity(context, "from_id", arguments.required_text("from_id")?).await?;
    let to = entity(context, "to_id", arguments.required_text("to_id")?).await?;
    let query = PathQuery {
        max_length: arguments.integer("max_length", 4, (1, i64::from(path::MAX_LENGTH))) as u32,
        relationship_types: arguments.texts("relationship_types"),
        direction: direction(arguments),
        bounds: focus::bounds(context),
    };
    let found = path::shortest(&context.db, context.workspace_id, from.id, to.id, &query)
        .await
        .map_err(tool_error)?;
    let (nodes, edges, note) = match found {
        PathSearch::Path { nodes, edges } => (nodes, edges, None),
        PathSearch::NoPath => {
            let longer = format!("there is no path of at most {} relationships", query.max_length);
            let unknown = unknown_relationship_types(context, &query.relationship_types).await?;
            (Vec::new(), Vec::new(), Some(unknown.unwrap_or(longer)))
        }
        PathSearch::LimitReached => {
            let words = "there are too many entities in between; restrict relationship_types or direction";
            (Vec::new(), Vec::new(), Some(words.to_owned()))
        }
    };
    let mut result = json!({
        "found": !nodes.is_empty(),
        "length": edges.len(),
        "nodes": nodes.iter().map(brief).collect::<Vec<_>>(),
        "edges": edges.iter().map(walked_edge).collect::<Vec<_>>(),
    });
    if let Some(note) = note {
        result["note"] = json!(note);
    }
    Ok(result)
}

fn walked_edge(edge: &traverse::Edge) -> Value {
    json!({
        "id": edge.id,
        "type": edge.relationship_type,
        "source_id": edge.source_id,
        "target_id": edge.target_id,
        "properties": edge.properties,
    })
}

async fn traverse_graph(context: &ToolContext, arguments: &Arguments) -> Result<Value, ToolError> {
    let start = entity(context, "start_entity_id", arguments.required_text("start_entity_id")?).await?;
    let walk = Walk {
        max_depth: arguments.integer("max_depth", 2, (1, i64::from(traverse::MAX_DEPTH))) as u32,
        relationship_types: arguments.texts("relationship_types"),
        direction: direction(arguments),
        prefer: arguments.text("query_context").map(str::to_owned),
        bounds: focus::bounds(context),
    };
    let walked = traverse::traverse(&context.db, context.workspace_id, start.id, &walk)
        .await
        .map_err(tool_error)?;
    let nodes: Vec<Value> = walked
        .nodes
        .iter()
        .map(|node| {
            let mut entity = brief(&node.object);
            entity["depth"] = json!(node.depth);
            entity
        })
        .collect();
    let edges: Vec<Value> = walked.edges.iter().map(walked_edge).collect();
    // There are no further pages: a truncated traversal must be narrowed.
    let mut result = json!({
        "roots": [start.id],
        "nodes": nodes,
        "edges": edges,
        "truncated": walked.truncated,
        "cursors": {"next": null, "previous": null},
    });
    if walked.truncated {
        result["note"] =
            json!("nodes or edges were omitted because of limits; restrict relationship_types, direction or max_depth");
    }
    if walked.edges.is_empty()
        && let Some(unknown) = unknown_relationship_types(context, &walk.relationship_types).await?
    {
        result["note"] = json!(unknown);
    }
    Ok(result)
}
