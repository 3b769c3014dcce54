//! The tools that list what there is: types, entities of a type, relationships.

use rejoin_shared::graph::objects::{self, SortBy, SortOrder};
use rejoin_shared::graph::relationships::{self, Filter};
use rejoin_shared::graph::schema;
use serde_json::{Value, json};

use super::{brief_entity, entity, full, told, unknown_relationship_types, unknown_types};
use crate::tools::arguments::Arguments;
use crate::tools::{ToolContext, ToolError};

/// How long a client may keep what it knows of the schema.
const CACHE_HINT_TTL_S: u32 = 300;
/// The farthest that `query_entities` pages.
const MAX_OFFSET: i64 = 1_000_000;

pub(super) async fn list_entity_types(context: &ToolContext) -> Result<Value, ToolError> {
    let types = schema::types(&context.db, context.project_id).await.map_err(told)?;
    let relationships = schema::relationship_types(&context.db, context.project_id)
        .await
        .map_err(told)?;
    let total = types.len();
    let types: Vec<Value> = types
        .into_iter()
        .map(|counted| {
            let description = format!("Properties: {}", counted.properties.join(", "));
            json!({"name": counted.name, "description": description, "count": counted.count})
        })
        .collect();
    Ok(json!({"types": types, "relationships": relationships, "total": total}))
}

pub(super) async fn schema_version(context: &ToolContext) -> Result<Value, ToolError> {
    let version = schema::version(&context.db, context.project_id).await.map_err(told)?;
    Ok(json!({
        "version": version.version,
        "timestamp": version.timestamp,
        "pack_count": 0,
        "cache_hint_ttl": CACHE_HINT_TTL_S,
    }))
}

pub(super) async fn query_entities(context: &ToolContext, arguments: &Arguments) -> Result<Value, ToolError> {
    let type_name = arguments.required_text("type_name")?;
    let limit = arguments.integer("limit", 10, (1, 50));
    let offset = arguments.integer("offset", 0, (0, MAX_OFFSET));
    let sort_by = match arguments.text("sort_by") {
        Some("updated_at") => SortBy::UpdatedAt,
        Some("name") => SortBy::Name,
        _ => SortBy::CreatedAt,
    };
    let sort_order = if arguments.text("sort_order") == Some("asc") {
        SortOrder::Asc
    } else {
        SortOrder::Desc
    };
    let (found, total) = objects::query(
        &context.db,
        context.project_id,
        type_name,
        (sort_by, sort_order),
        limit,
        offset,
    )
    .await
    .map_err(told)?;
    let entities: Vec<Value> = found.iter().map(full).collect();
    let has_more = offset + (entities.len() as i64) < total;
    let mut result = json!({
        "entities": entities,
        "pagination": {"total": total, "limit": limit, "offset": offset, "has_more": has_more},
    });
    if total == 0
        && let Some(unknown) = unknown_types(context, &[type_name.to_owned()]).await?
    {
        result["note"] = json!(unknown);
    }
    Ok(result)
}

pub(super) async fn list_relationships(context: &ToolContext, arguments: &Arguments) -> Result<Value, ToolError> {
    let mut filter = Filter {
        relationship_type: arguments.text("type").map(str::to_owned),
        ..Filter::default()
    };
    if let Some(source) = arguments.text("source_id") {
        filter.source_id = Some(entity(context, "source_id", source).await?.id);
    }
    if let Some(target) = arguments.text("target_id") {
        filter.target_id = Some(entity(context, "target_id", target).await?.id);
    }
    let limit = arguments.integer("limit", 50, (1, 100));
    // One more than asked tells whether there are more.
    let mut found = relationships::list(&context.db, context.project_id, &filter, None, limit + 1)
        .await
        .map_err(told)?;
    let has_more = found.len() as i64 > limit;
    found.truncate(limit as usize);
    let listed: Vec<Value> = found
        .iter()
        .map(|connected| {
            let relationship = &connected.relationship;
            json!({
                "id": relationship.id,
                "type": relationship.relationship_type,
                "source_id": relationship.source_id,
                "target_id": relationship.target_id,
                "source": brief_entity(&connected.source),
                "target": brief_entity(&connected.target),
                "properties": relationship.properties,
                "weight": relationship.weight,
            })
        })
        .collect();
    let mut result = json!({"relationships": listed, "count": found.len(), "has_more": has_more});
    if found.is_empty()
        && let Some(asked) = &filter.relationship_type
        && let Some(unknown) = unknown_relationship_types(context, std::slice::from_ref(asked)).await?
    {
        result["note"] = json!(unknown);
    }
    Ok(result)
}
