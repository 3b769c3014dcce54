//! Confines a conversation with a focus to one project of the work graph, for the general tools and those of the work
//! graph. Objects of other types are not affected.
//!
//! Invariant: nothing outside the focus is read, changed or named, and its existence is not revealed.

use std::collections::HashSet;

use uuid::Uuid;

use super::tool_error;
use crate::{ToolContext, ToolError};
use rejoin_graph::bounds::Bounds;
use rejoin_graph::objects::Object;

/// None: there is no focus, and the call sees the whole graph.
pub(super) fn bounds(context: &ToolContext) -> Option<Bounds> {
    context.bounds.clone()
}

/// Returns which of these objects are invisible to the call.
pub(super) async fn outside(context: &ToolContext, ids: &[Uuid]) -> Result<HashSet<Uuid>, ToolError> {
    match bounds(context) {
        None => Ok(HashSet::new()),
        Some(bounds) => bounds
            .outside(&context.db, context.workspace_id, ids)
            .await
            .map_err(tool_error),
    }
}

/// Returns whether an object, live or deleted, is invisible to the call.
pub(super) async fn hides(context: &ToolContext, id: Uuid) -> Result<bool, ToolError> {
    Ok(outside(context, &[id]).await?.contains(&id))
}

/// Returns the objects visible to the call.
pub(super) async fn inside(context: &ToolContext, mut objects: Vec<Object>) -> Result<Vec<Object>, ToolError> {
    let ids: Vec<Uuid> = objects.iter().map(|object| object.id).collect();
    let outside = outside(context, &ids).await?;
    objects.retain(|object| !outside.contains(&object.id));
    Ok(objects)
}

/// A project's entities are created by the tools that add them to it: otherwise, they would be out of focus.
pub(super) fn may_make(context: &ToolContext, object_type: &str) -> Result<(), ToolError> {
    match (&context.focus, &context.bounds) {
        (Some(focus), Some(bounds)) if bounds.types.contains(&object_type) => Err(ToolError::RespondToModel(format!(
            "a {object_type} belongs to a project, and this conversation is about \"{}\"; create it with create_onto_{object_type}",
            focus.project_name,
        ))),
        (_, _) => Ok(()),
    }
}
