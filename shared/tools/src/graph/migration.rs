//! Read-only tools that preview a template pack's migration and show entities' earlier versions.

use rejoin_graph::migration;
use serde_json::{Value, json};
use uuid::Uuid;

use super::definition::{Definition, Effect};
use super::write::id;
use super::{focus, full, tool_error};
use crate::arguments::Kind::{OptionalInteger, Text};
use crate::arguments::{Arguments, Parameter};
use crate::{ToolContext, ToolError};

pub(super) const TOOLS: &[Definition] = &[
    Definition {
        name: "preview_schema_migration",
        effect: Effect::Reads,
        description: "Previews the migration from one version of a template pack to another: types added and removed, \
            and entities that would violate the new schemas. Changes nothing.",
        parameters: &[
            Parameter::new("from_version", Text, "The current pack: its id, or name@version."),
            Parameter::new("to_version", Text, "The new pack: its id, or name@version."),
            Parameter::new(
                "sample_size",
                OptionalInteger,
                "Number of entities of each changed type to check; default 10, at most 50.",
            ),
        ],
        call: |context, arguments| Box::pin(preview_schema_migration(context, arguments)),
    },
    Definition {
        name: "list_migration_archives",
        effect: Effect::Reads,
        description: "Lists entities that were written under another schema version than the current one.",
        parameters: &[Parameter::new(
            "limit",
            OptionalInteger,
            "Maximum number of results; default 20, at most 100.",
        )],
        call: |context, arguments| Box::pin(list_migration_archives(context, arguments)),
    },
    Definition {
        name: "get_migration_archive",
        effect: Effect::Reads,
        description: "Returns an entity's versions that were written under earlier schemas.",
        parameters: &[Parameter::new("object_id", Text, "The entity's id.")],
        call: |context, arguments| Box::pin(get_migration_archive(context, arguments)),
    },
];

async fn preview_schema_migration(context: &ToolContext, arguments: &Arguments) -> Result<Value, ToolError> {
    let (pool, workspace) = (&context.db, context.workspace_id);
    let from = arguments.required_text("from_version")?;
    let from = migration::find_pack(pool, workspace, from).await.map_err(tool_error)?;
    let to = arguments.required_text("to_version")?;
    let to = migration::find_pack(pool, workspace, to).await.map_err(tool_error)?;
    let sample = arguments.integer("sample_size", 10, (1, migration::MAX_SAMPLE));
    let preview = migration::preview(pool, workspace, &from, &to, focus::bounds(context).as_ref(), sample)
        .await
        .map_err(tool_error)?;
    Ok(json!(preview))
}

async fn list_migration_archives(context: &ToolContext, arguments: &Arguments) -> Result<Value, ToolError> {
    let limit = arguments.integer("limit", 20, (1, migration::MAX_PAGE));
    let mut found = migration::archives(&context.db, context.workspace_id, limit)
        .await
        .map_err(tool_error)?;
    let ids: Vec<Uuid> = found.iter().map(|archive| archive.id).collect();
    let outside = focus::outside(context, &ids).await?;
    found.retain(|archive| !outside.contains(&archive.id));
    Ok(json!({"archives": found, "total": found.len()}))
}

async fn get_migration_archive(context: &ToolContext, arguments: &Arguments) -> Result<Value, ToolError> {
    let id = id(arguments, "object_id")?;
    if focus::hides(context, id).await? {
        return Err(tool_error(rejoin_graph::Error::not_found("object", id)));
    }
    let versions = migration::archive(&context.db, context.workspace_id, id)
        .await
        .map_err(tool_error)?;
    let shown: Vec<Value> = versions
        .iter()
        .map(|version| {
            let mut entity = full(version);
            entity["version"] = json!(version.version);
            entity["schema_version"] = json!(version.schema_version);
            entity
        })
        .collect();
    Ok(json!({"versions": shown, "total": shown.len()}))
}
