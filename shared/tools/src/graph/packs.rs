//! The tools over template packs: sets of graph types with property schemas.

use rejoin_graph::packs::{self, NewPack, Pack};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::definition::{Definition, Effect};
use super::tool_error;
use super::write::{connection, id};
use crate::arguments::Kind::{
    Boolean, Object, OptionalBoolean, OptionalInteger, OptionalObject, OptionalText, OptionalTexts, Text,
};
use crate::arguments::{Arguments, Parameter};
use crate::{ToolContext, ToolError};

/// Maximum page of `list_template_packs`.
const MAX_PAGES: i64 = 10_000;

const PACK_ID: Parameter = Parameter::new("pack_id", Text, "The pack's id, as returned by list_template_packs.");
const ASSIGNMENT_ID: Parameter = Parameter::new(
    "assignment_id",
    Text,
    "The installation's id, as returned by get_installed_templates.",
);

pub(super) const TOOLS: &[Definition] = &[
    Definition {
        name: "list_template_packs",
        effect: Effect::Reads,
        description: "Lists template packs (sets of graph types) with the types of each, page by page.",
        parameters: &[
            Parameter::new(
                "search",
                OptionalText,
                "Only packs whose name or description contains this text; null for all.",
            ),
            Parameter::new(
                "include_deprecated",
                OptionalBoolean,
                "Include deprecated packs; default false.",
            ),
            Parameter::new("limit", OptionalInteger, "Page size; default 20, at most 100."),
            Parameter::new("page", OptionalInteger, "Page number; default 1."),
        ],
        call: |context, arguments| Box::pin(list_template_packs(context, arguments)),
    },
    Definition {
        name: "get_template_pack",
        effect: Effect::Reads,
        description: "Returns a template pack with the schema of each of its types.",
        parameters: &[PACK_ID],
        call: |context, arguments| Box::pin(get_template_pack(context, arguments)),
    },
    Definition {
        name: "get_available_templates",
        effect: Effect::Reads,
        description: "Lists the template packs that are available but not installed.",
        parameters: &[],
        call: |context, _| Box::pin(get_available_templates(context)),
    },
    Definition {
        name: "get_installed_templates",
        effect: Effect::Reads,
        description: "Lists the installed template packs with their active types and the number of entities of these \
            types.",
        parameters: &[],
        call: |context, _| Box::pin(get_installed_templates(context)),
    },
    Definition {
        name: "assign_template_pack",
        effect: Effect::Writes,
        description: "Installs a template pack. From then on, entities and relationships are validated against the \
            schemas of its types.",
        parameters: &[
            Parameter::new(
                "template_pack_id",
                Text,
                "The pack's id, as returned by list_template_packs.",
            ),
            Parameter::new(
                "enabled_types",
                OptionalTexts,
                "Use only these of its types; null for all.",
            ),
            Parameter::new("disabled_types", OptionalTexts, "Types to exclude; null for none."),
        ],
        call: |context, arguments| Box::pin(assign_template_pack(context, arguments)),
    },
    Definition {
        name: "update_template_assignment",
        effect: Effect::Writes,
        description: "Activates or deactivates an installed template pack.",
        parameters: &[
            ASSIGNMENT_ID,
            Parameter::new("active", Boolean, "Whether its schemas are used for validation."),
        ],
        call: |context, arguments| Box::pin(update_template_assignment(context, arguments)),
    },
    Definition {
        name: "uninstall_template_pack",
        effect: Effect::Deletes,
        description: "Uninstalls a template pack. Fails while entities of its types exist.",
        parameters: &[ASSIGNMENT_ID],
        call: |context, arguments| Box::pin(uninstall_template_pack(context, arguments)),
    },
    Definition {
        name: "create_template_pack",
        effect: Effect::Writes,
        description: "Creates a template pack. A pack cannot be changed afterwards; publish changes as a new version.",
        parameters: &[
            Parameter::new("name", Text, "The pack's name."),
            Parameter::new("version", Text, "The pack's version, e.g. 1.0.0."),
            Parameter::new(
                "object_type_schemas",
                Object,
                "JSON Schema of the properties per entity type; its description describes the type.",
            ),
            Parameter::new(
                "relationship_type_schemas",
                OptionalObject,
                "Definition per relationship type: {description, from: [types], to: [types], schema}, all optional; \
                null for none.",
            ),
            Parameter::new(
                "ui_configs",
                OptionalObject,
                "Display settings per type for user interfaces; null for none.",
            ),
            Parameter::new(
                "extraction_prompts",
                OptionalObject,
                "Extraction prompt per type, used to find its entities in texts; null for none.",
            ),
            Parameter::new("description", OptionalText, "Purpose of the pack; null for none."),
            Parameter::new("author", OptionalText, "Author of the pack; null for none."),
        ],
        call: |context, arguments| Box::pin(create_template_pack(context, arguments)),
    },
    Definition {
        name: "delete_template_pack",
        effect: Effect::Deletes,
        description: "Deletes a template pack of this project that is not installed.",
        parameters: &[PACK_ID],
        call: |context, arguments| Box::pin(delete_template_pack(context, arguments)),
    },
];

async fn list_template_packs(context: &ToolContext, arguments: &Arguments) -> Result<Value, ToolError> {
    let limit = arguments.integer("limit", 20, (1, packs::MAX_PAGE));
    let page = arguments.integer("page", 1, (1, MAX_PAGES));
    let mut db = connection(context).await?;
    let search = arguments.text("search");
    let deprecated = arguments.flag("include_deprecated");
    let (found, total) = packs::list(
        &mut db,
        context.workspace_id,
        search,
        deprecated,
        limit,
        (page - 1) * limit,
    )
    .await
    .map_err(tool_error)?;
    let has_more = (page - 1) * limit + (found.len() as i64) < total;
    Ok(json!({"packs": found, "total": total, "page": page, "has_more": has_more}))
}

async fn get_template_pack(context: &ToolContext, arguments: &Arguments) -> Result<Value, ToolError> {
    let pack = packs::get(&context.db, context.workspace_id, id(arguments, "pack_id")?)
        .await
        .map_err(tool_error)?;
    Ok(json!({ "pack": shown(&pack) }))
}

/// With the names used by `create_template_pack`.
fn shown(pack: &Pack) -> Value {
    json!({
        "id": pack.id,
        "name": pack.name,
        "version": pack.version,
        "description": pack.description,
        "author": pack.author,
        "status": pack.status,
        "checksum": pack.checksum,
        "built_in": pack.workspace_id.is_none(),
        "object_type_schemas": pack.object_types,
        "relationship_type_schemas": pack.relationship_types,
        "ui_configs": pack.ui,
        "extraction_prompts": pack.prompts,
    })
}

async fn get_available_templates(context: &ToolContext) -> Result<Value, ToolError> {
    let mut db = connection(context).await?;
    let (mut found, _) = packs::list(&mut db, context.workspace_id, None, false, packs::MAX_PAGE, 0)
        .await
        .map_err(tool_error)?;
    found.retain(|pack| !pack.installed);
    Ok(json!({"templates": found, "total": found.len()}))
}

async fn get_installed_templates(context: &ToolContext) -> Result<Value, ToolError> {
    let installed = packs::installed(&context.db, context.workspace_id)
        .await
        .map_err(tool_error)?;
    Ok(json!({"templates": installed, "total": installed.len()}))
}

async fn assign_template_pack(context: &ToolContext, arguments: &Arguments) -> Result<Value, ToolError> {
    let pack: Uuid = id(arguments, "template_pack_id")?;
    let enabled = arguments.has("enabled_types").then(|| arguments.texts("enabled_types"));
    let disabled = arguments.texts("disabled_types");
    let mut db = connection(context).await?;
    let assignment = packs::assign(&mut db, context.workspace_id, pack, enabled.as_deref(), &disabled)
        .await
        .map_err(tool_error)?;
    Ok(json!({ "assignment": assignment }))
}

async fn update_template_assignment(context: &ToolContext, arguments: &Arguments) -> Result<Value, ToolError> {
    let assignment = id(arguments, "assignment_id")?;
    let mut db = connection(context).await?;
    let active = arguments.flag("active");
    let assignment = packs::set_active(&mut db, context.workspace_id, assignment, active)
        .await
        .map_err(tool_error)?;
    Ok(json!({ "assignment": assignment }))
}

async fn uninstall_template_pack(context: &ToolContext, arguments: &Arguments) -> Result<Value, ToolError> {
    let assignment = id(arguments, "assignment_id")?;
    let mut db = connection(context).await?;
    packs::uninstall(&mut db, context.workspace_id, assignment)
        .await
        .map_err(tool_error)?;
    Ok(json!({"uninstalled": true, "assignment_id": assignment}))
}

async fn create_template_pack(context: &ToolContext, arguments: &Arguments) -> Result<Value, ToolError> {
    let object = |name: &str| -> Map<String, Value> { arguments.object(name) };
    let new = NewPack {
        name: arguments.required_text("name")?.to_owned(),
        version: arguments.required_text("version")?.to_owned(),
        description: arguments.text("description").unwrap_or_default().to_owned(),
        author: arguments.text("author").unwrap_or_default().to_owned(),
        object_types: object("object_type_schemas"),
        relationship_types: object("relationship_type_schemas"),
        ui: object("ui_configs"),
        prompts: object("extraction_prompts"),
    };
    let mut db = connection(context).await?;
    let pack = packs::create(&mut db, context.workspace_id, &new)
        .await
        .map_err(tool_error)?;
    Ok(json!({ "pack": shown(&pack) }))
}

async fn delete_template_pack(context: &ToolContext, arguments: &Arguments) -> Result<Value, ToolError> {
    let pack = id(arguments, "pack_id")?;
    let mut db = connection(context).await?;
    packs::delete(&mut db, context.workspace_id, pack)
        .await
        .map_err(tool_error)?;
    Ok(json!({"deleted": true, "pack_id": pack}))
}
