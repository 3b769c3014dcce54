//! The tools that list types, labels, entities of a type, their versions, and relationships.

use rejoin_graph::objects::{self, SortBy, SortOrder};
use rejoin_graph::relationships::{self, Connected, Filter};
use rejoin_graph::schema;
use serde_json::{Value, json};
use uuid::Uuid;

use super::definition::{Definition, ENTITY_ID, Effect};
use super::{brief_entity, entity, focus, full, tool_error, unknown_relationship_types, unknown_types};
use crate::arguments::Kind::{OptionalChoice, OptionalInteger, OptionalText, Text};
use crate::arguments::{Arguments, Parameter};
use crate::{ToolContext, ToolError};

pub(super) const TOOLS: &[Definition] = &[
    Definition {
        name: "list_entity_types",
        effect: Effect::Reads,
        description: "Lists the types of entities and of relationships in the graph, with counts.",
        parameters: &[],
        call: |context, _| Box::pin(list_entity_types(context)),
    },
    Definition {
        name: "schema_version",
        effect: Effect::Reads,
        description: "Returns the version of the graph's set of types, which changes when a type is added or removed.",
        parameters: &[],
        call: |context, _| Box::pin(schema_version(context)),
    },
    Definition {
        name: "list_tags",
        effect: Effect::Reads,
        description: "Lists the labels of entities with counts, the most frequent first.",
        parameters: &[],
        call: |context, _| Box::pin(list_tags(context)),
    },
    Definition {
        name: "query_entities",
        effect: Effect::Reads,
        description: "Lists the entities of one type, page by page, sorted.",
        parameters: &[
            Parameter::new("type_name", Text, "Entity type, as returned by list_entity_types."),
            Parameter::new(
                "limit",
                OptionalInteger,
                "Maximum number of results; default 10, at most 50.",
            ),
            Parameter::new("offset", OptionalInteger, "Number of results to skip; default 0."),
            Parameter::new(
                "sort_by",
                OptionalChoice(&SortBy::TEXTS),
                "Sort key; default created_at.",
            ),
            Parameter::new(
                "sort_order",
                OptionalChoice(&SortOrder::TEXTS),
                "Sort order; default desc.",
            ),
        ],
        call: |context, arguments| Box::pin(query_entities(context, arguments)),
    },
    Definition {
        name: "list_relationships",
        effect: Effect::Reads,
        description: "Lists relationships by type, source or target, with the entities at both ends.",
        parameters: &[
            Parameter::new("type", OptionalText, "Only relationships of this type; null for all."),
            Parameter::new(
                "source_id",
                OptionalText,
                "Only relationships from this entity: id, Type:key, key or name; null for all.",
            ),
            Parameter::new(
                "target_id",
                OptionalText,
                "Only relationships to this entity: id, Type:key, key or name; null for all.",
            ),
            Parameter::new(
                "limit",
                OptionalInteger,
                "Maximum number of results; default 50, at most 100.",
            ),
        ],
        call: |context, arguments| Box::pin(list_relationships(context, arguments)),
    },
    Definition {
        name: "get_entity_history",
        effect: Effect::Reads,
        description: "Lists an entity's versions, newest first: what changed, when, and who changed it.",
        parameters: &[
            ENTITY_ID,
            Parameter::new(
                "limit",
                OptionalInteger,
                "Maximum number of results; default 10, at most 50.",
            ),
        ],
        call: |context, arguments| Box::pin(get_entity_history(context, arguments)),
    },
];

/// How long a client may cache the schema.
const CACHE_HINT_TTL_S: u64 = schema::KEPT.as_secs();
/// Maximum number of pages searched for visible relationships.
const MAX_PAGES: usize = 20;
/// Maximum offset of `query_entities`.
const MAX_OFFSET: i64 = 1_000_000;

async fn list_entity_types(context: &ToolContext) -> Result<Value, ToolError> {
    let mut types = schema::types(&context.db, context.workspace_id)
        .await
        .map_err(tool_error)?;
    let mut relationships = schema::relationship_types(&context.db, context.workspace_id)
        .await
        .map_err(tool_error)?;
    if let Some(bounds) = focus::bounds(context) {
        let inside = schema::bound_types(&context.db, context.workspace_id, &bounds)
            .await
            .map_err(tool_error)?;
        let bound = |name: &str| bounds.types.contains(&name);
        types.retain(|counted| !bound(&counted.name) || inside.contains_key(&counted.name));
        for counted in &mut types {
            if let Some(count) = inside.get(&counted.name) {
                counted.count = *count;
            }
        }
        // Their counts include other projects of the work graph.
        relationships.retain(|counted| !bound(&counted.from_type) && !bound(&counted.to_type));
    }
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

async fn schema_version(context: &ToolContext) -> Result<Value, ToolError> {
    let version = schema::version(&context.db, context.workspace_id)
        .await
        .map_err(tool_error)?;
    Ok(json!({
        "version": version.version,
        "timestamp": version.timestamp,
        "pack_count": 0,
        "cache_hint_ttl": CACHE_HINT_TTL_S,
    }))
}

async fn list_tags(context: &ToolContext) -> Result<Value, ToolError> {
    let tags = match focus::bounds(context) {
        None => schema::labels(&context.db, context.workspace_id).await,
        Some(bounds) => schema::labels_within(&context.db, context.workspace_id, &bounds).await,
    };
    let tags = tags.map_err(tool_error)?;
    let listed: Vec<Value> = tags
        .iter()
        .map(|tag| json!({"name": tag.label, "count": tag.count}))
        .collect();
    Ok(json!({"tags": listed, "total": listed.len()}))
}

async fn get_entity_history(context: &ToolContext, arguments: &Arguments) -> Result<Value, ToolError> {
    let reference = arguments.required_text("entity_id")?;
    // An id also finds deleted entities.
    let id = match reference.parse() {
        Ok(id) => id,
        Err(_) => entity(context, "entity_id", reference).await?.id,
    };
    if focus::hides(context, id).await? {
        return Err(tool_error(rejoin_graph::Error::not_found("object", id)));
    }
    let limit = arguments.integer("limit", 10, (1, 50));
    // One more than requested shows whether there are more.
    let mut versions = objects::history(&context.db, context.workspace_id, id, limit + 1)
        .await
        .map_err(tool_error)?;
    let has_more = versions.len() as i64 > limit;
    versions.truncate(limit as usize);
    let listed: Vec<Value> = versions
        .iter()
        .map(|version| {
            let mut entity = full(version);
            entity["version"] = json!(version.version);
            entity["changed_by"] = json!(version.actor_type);
            if let Some(summary) = &version.change_summary {
                entity["change"] = json!(summary);
            }
            if let Some(at) = version.deleted_at {
                entity["deleted_at"] = json!(at);
            }
            entity
        })
        .collect();
    Ok(json!({"versions": listed, "has_more": has_more}))
}

async fn query_entities(context: &ToolContext, arguments: &Arguments) -> Result<Value, ToolError> {
    let type_name = arguments.required_text("type_name")?;
    let limit = arguments.integer("limit", 10, (1, 50));
    let offset = arguments.integer("offset", 0, (0, MAX_OFFSET));
    let sort_by: Option<SortBy> = arguments.text("sort_by").and_then(|sort_by| sort_by.parse().ok());
    let sort_order: Option<SortOrder> = arguments.text("sort_order").and_then(|order| order.parse().ok());
    let (found, total) = objects::query(
        &context.db,
        context.workspace_id,
        type_name,
        focus::bounds(context).as_ref(),
        (sort_by.unwrap_or_default(), sort_order.unwrap_or_default()),
        limit,
        offset,
    )
    .await
    .map_err(tool_error)?;
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

/// Returns the first `wanted` relationships whose ends are both visible to the call.
async fn relationships_inside(
    context: &ToolContext,
    filter: &Filter,
    wanted: i64,
) -> Result<Vec<Connected>, ToolError> {
    let page = match context.focus {
        None => wanted,
        Some(_) => relationships::MAX_PAGE,
    };
    let (mut found, mut after) = (Vec::new(), None);
    for _ in 0..MAX_PAGES {
        let mut next = relationships::list(&context.db, context.workspace_id, filter, after, page)
            .await
            .map_err(tool_error)?;
        let is_last = (next.len() as i64) < page;
        after = next.last().map(|last| last.relationship.id);
        let ends: Vec<Uuid> = next.iter().flat_map(|one| [one.source.id, one.target.id]).collect();
        let outside = focus::outside(context, &ends).await?;
        next.retain(|one| !outside.contains(&one.source.id) && !outside.contains(&one.target.id));
        found.append(&mut next);
        if is_last || found.len() as i64 >= wanted {
            break;
        }
    }
    found.truncate(wanted as usize);
    Ok(found)
}

async fn list_relationships(context: &ToolContext, arguments: &Arguments) -> Result<Value, ToolError> {
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
    // One more than requested shows whether there are more.
    let mut found = relationships_inside(context, &filter, limit + 1).await?;
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
