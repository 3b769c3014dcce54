//! Messages to users about a graph tool's call: they name the entity, looked up by id, and never show the id instead.

use crate::ToolContext;
use crate::arguments::Arguments;
use rejoin_graph::objects::{self, Resolved};
use rejoin_types::events::Operation;

/// Maximum length of a name shown to users, in characters.
const MAX_NAME_CHARS: usize = 80;
/// The type shown if it is unknown.
const ENTITY: &str = "entity";

/// None: the call concerns no entity.
pub(super) async fn of(context: &ToolContext, tool: &str, arguments: &Arguments) -> Option<Operation> {
    let operation = |action: &str, entity_type: &str, name: &str| Operation {
        action: action.to_owned(),
        entity_type: entity_type.to_owned(),
        entity_name: name.chars().take(MAX_NAME_CHARS).collect(),
        status: "start".to_owned(),
        entity_id: None,
    };
    let (action, parameter) = match tool {
        "hybrid_search" | "semantic_search" | "search_entities" => {
            let mut types = arguments.texts("types");
            let only = match types.len() {
                1 => types.pop(),
                _ => arguments.text("type_name").map(str::to_owned),
            };
            return Some(operation(
                "search",
                only.as_deref().unwrap_or(ENTITY),
                arguments.text("query").unwrap_or(ENTITY),
            ));
        }
        "query_entities" => {
            let name = arguments.text("type_name")?;
            return Some(operation("list", name, name));
        }
        "create_entity" => {
            let properties = arguments.object("properties");
            let named = ["name", "title"]
                .iter()
                .find_map(|name| properties.get(*name).and_then(|name| name.as_str()));
            let entity_type = arguments.text("type")?;
            let name = named.or(arguments.text("key")).unwrap_or(entity_type);
            return Some(operation("create", entity_type, name));
        }
        "batch_create_entities" => {
            let name = format!("{} entities", arguments.objects("entities").len());
            return Some(operation("create", ENTITY, &name));
        }
        "batch_create_relationships" => {
            let name = format!("{} relationships", arguments.objects("relationships").len());
            return Some(operation("create", "relationship", &name));
        }
        "update_relationship" => return Some(operation("update", "relationship", "a relationship")),
        "delete_relationship" => return Some(operation("delete", "relationship", "a relationship")),
        "find_similar" => ("search", "entity_id"),
        "get_entity_edges" | "get_entity_history" => ("read", "entity_id"),
        "traverse_graph" => ("read", "start_entity_id"),
        "find_path" => ("read", "from_id"),
        "create_relationship" => ("update", "source_id"),
        "update_entity" | "restore_entity" => ("update", "entity_id"),
        "delete_entity" => ("delete", "entity_id"),
        // Types, tags, packs and archives: no entity.
        _ => return None,
    };
    let found = objects::resolve(&context.db, context.workspace_id, arguments.text(parameter)?).await;
    Some(match found {
        Ok(Resolved::One(object)) => Operation {
            entity_id: Some(object.id),
            ..operation(action, &object.object_type, &object.name)
        },
        Ok(Resolved::Nothing | Resolved::Several(_)) | Err(_) => operation(action, ENTITY, "an entity"),
    })
}
