//! In a conversation that is about one project of the work graph, that project and what belongs to it is all of the work graph that there
//! is, for the general tools as for those of the work graph. Objects of other types are there as ever.
//!
//! Invariant: of what is outside, nothing is read, changed or named, nor is it told whether it is there.

use std::collections::HashSet;

use uuid::Uuid;

use super::told;
use crate::{ToolContext, ToolError};
use rejoin_graph::bounds::Bounds;
use rejoin_graph::objects::Object;

/// None: there is no focus, and the call sees the whole graph.
pub(super) fn bounds(context: &ToolContext) -> Option<Bounds> {
    context.bounds.clone()
}

/// Of these objects, those that are not there for the call.
pub(super) async fn outside(context: &ToolContext, ids: &[Uuid]) -> Result<HashSet<Uuid>, ToolError> {
    match bounds(context) {
        None => Ok(HashSet::new()),
        Some(bounds) => bounds.outside(&context.db, context.project_id, ids).await.map_err(told),
    }
}

/// Whether an object, living or deleted, is not there for the call.
pub(super) async fn hides(context: &ToolContext, id: Uuid) -> Result<bool, ToolError> {
    Ok(outside(context, &[id]).await?.contains(&id))
}

/// Those that are there for the call.
pub(super) async fn inside(context: &ToolContext, mut objects: Vec<Object>) -> Result<Vec<Object>, ToolError> {
    let ids: Vec<Uuid> = objects.iter().map(|object| object.id).collect();
    let outside = outside(context, &ids).await?;
    objects.retain(|object| !outside.contains(&object.id));
    Ok(objects)
}

/// What belongs to a project is made by the tools that put it there: by itself, it would be outside.
pub(super) fn may_make(context: &ToolContext, object_type: &str) -> Result<(), ToolError> {
    match (&context.focus, &context.bounds) {
        (Some(focus), Some(bounds)) if bounds.types.contains(&object_type) => Err(ToolError::RespondToModel(format!(
            "a {object_type} belongs to a project, and this conversation is about \"{}\"; create it with create_onto_{object_type}",
            focus.project_name,
        ))),
        (_, _) => Ok(()),
    }
}
