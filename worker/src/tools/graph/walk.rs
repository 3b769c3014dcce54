//! The tools that follow relationships from an entity.

use rejoin_shared::graph::Direction;
use rejoin_shared::graph::relationships::{self, Edge};
use rejoin_shared::graph::traverse::{self, Walk};
use serde_json::{Value, json};

use super::{brief, brief_entity, entity, told, unknown_relationship_types};
use crate::tools::arguments::Arguments;
use crate::tools::{ToolContext, ToolError};

/// Edges in each direction in a result of `get_entity_edges`: it has no limit of its own, and a hub has thousands.
const MAX_EDGES: i64 = 100;

pub(super) async fn get_entity_edges(context: &ToolContext, arguments: &Arguments) -> Result<Value, ToolError> {
    let object = entity(context, "entity_id", arguments.required_text("entity_id")?).await?;
    let edges = relationships::edges(&context.db, context.project_id, object.id, MAX_EDGES)
        .await
        .map_err(told)?;
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
            "only the first {MAX_EDGES} of a direction are shown, by relationship type and name; the totals count them all"
        ));
    }
    Ok(result)
}

fn edge(edge: &Edge) -> Value {
    json!({
        "relationship_id": edge.relationship_id,
        "relationship_type": edge.relationship_type,
        "connected_entity": brief_entity(&edge.connected),
        "properties": edge.properties,
    })
}

pub(super) async fn traverse_graph(context: &ToolContext, arguments: &Arguments) -> Result<Value, ToolError> {
    let start = entity(context, "start_entity_id", arguments.required_text("start_entity_id")?).await?;
    let walk = Walk {
        max_depth: arguments.integer("max_depth", 2, (1, i64::from(traverse::MAX_DEPTH))) as u32,
        relationship_types: arguments.texts("relationship_types"),
        direction: match arguments.text("direction") {
            Some("outgoing") => Direction::Outgoing,
            Some("incoming") => Direction::Incoming,
            _ => Direction::Both,
        },
        prefer: arguments.text("query_context").map(str::to_owned),
    };
    let walked = traverse::traverse(&context.db, context.project_id, start.id, &walk)
        .await
        .map_err(told)?;
    let nodes: Vec<Value> = walked
        .nodes
        .iter()
        .map(|node| {
            let mut entity = brief(&node.object);
            entity["depth"] = json!(node.depth);
            entity
        })
        .collect();
    let edges: Vec<Value> = walked
        .edges
        .iter()
        .map(|edge| {
            json!({
                "id": edge.id,
                "type": edge.relationship_type,
                "source_id": edge.source_id,
                "target_id": edge.target_id,
                "properties": edge.properties,
            })
        })
        .collect();
    // No page follows: a walk that was cut is told to be narrowed.
    let mut result = json!({
        "roots": [start.id],
        "nodes": nodes,
        "edges": edges,
        "truncated": walked.truncated,
        "cursors": {"next": null, "previous": null},
    });
    if walked.truncated {
        result["note"] =
            json!("limits left nodes or edges out: narrow it by relationship_types, direction or max_depth");
    }
    if walked.edges.is_empty()
        && let Some(unknown) = unknown_relationship_types(context, &walk.relationship_types).await?
    {
        result["note"] = json!(unknown);
    }
    Ok(result)
}
