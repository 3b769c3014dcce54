//! Confines a conversation with a focus to one project of the work graph, for the general tools and those of the work
//! graph. Objects of other types are not affected.
//!
//! Invariant: nothing outside the focus is read, changed or named, and its existence is not revealed.

use std::collections::HashSet;

use uuid::Uuid;

use super::told;
use crate::graph::bounds::Bounds;
use crate::graph::objects::Object;
use crate::tools::{ToolContext, ToolError};
use crate::work::{self, Kind};

/// None: there is no focus, and the whole graph is visible.
pub(super) fn bounds(context: &ToolContext) -> Option<Bounds> {
    context.focus.as_ref().map(|focus| work::bounds(focus.project_id))
}

/// Returns which of these objects are invisible to the call.
pub(super) async fn outside(context: &ToolContext, ids: &[Uuid]) -> Result<HashSet<Uuid>, ToolError> {
    match bounds(context) {
        None => Ok(HashSet::new()),
        Some(bounds) => bounds.outside(&context.db, context.project_id, ids).await.map_err(told),
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
    match (&context.focus, Kind::of(object_type)) {
        (Some(focus), Some(kind)) => Err(ToolError::RespondToModel(format!(
            "a {kind} belongs to a project, and this conversation is about \"{}\"; create it with create_onto_{kind}",
            focus.project_name,
            kind = kind.as_str(),
        ))),
        (_, _) => Ok(()),
    }
}
