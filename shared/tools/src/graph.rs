//! The tools over the knowledge graph. The registry offers them; the executor calls them.
//!
//! - `definition`  the definition of a tool
//! - `focus`       what is visible in a conversation focused on one project of the work graph
//! - `search`      hybrid_search, semantic_search, search_entities, find_similar
//! - `browse`      list_entity_types, schema_version, list_tags, query_entities, list_relationships, get_entity_history
//! - `walk`        traversal: get_entity_edges, traverse_graph, find_path
//! - `packs`       packs of types: list, get, create, install, switch, uninstall, delete
//! - `migration`   preview_schema_migration, list_migration_archives, get_migration_archive
//! - `operations`  messages to users about a call
//! - `write`       create, update, delete and restore entities; create, update and delete relationships; batches
//!
//! Invariants: only the call's project is read and written, and with a focus, only the focused part of the work graph;
//! a call repeated after a crash has no further effect; every entity in a result carries id, key, type and name, so
//! that an answer can cite it; an entity may be referenced by id, `Type:key`, key or name.

mod browse;
mod definition;
mod focus;
mod migration;
mod operations;
mod packs;
mod search;
mod walk;
mod write;

use std::sync::Arc;

use async_trait::async_trait;
use rejoin_graph::objects::{self, Object, Resolved};
use rejoin_graph::relationships::Entity;
use rejoin_graph::schema;
use rejoin_types::events::Operation;
use serde_json::{Value, json};
use uuid::Uuid;

use self::definition::Definition;
use super::arguments::Arguments;
use super::{SharedTool, Tool, ToolContext, ToolError, ToolSpec};

/// Maximum number of suggestions for an unknown entity.
const SUGGESTIONS: i64 = 3;

struct GraphTool {
    definition: &'static Definition,
    spec: ToolSpec,
}

/// All graph tools, each once.
pub fn tools() -> Vec<SharedTool> {
    let families = [
        search::TOOLS,
        browse::TOOLS,
        walk::TOOLS,
        write::TOOLS,
        packs::TOOLS,
        migration::TOOLS,
    ];
    let all = families.into_iter().flatten().map(|definition| GraphTool {
        definition,
        spec: definition.spec(),
    });
    all.map(|tool| Arc::new(tool) as SharedTool).collect()
}

#[async_trait]
impl Tool for GraphTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, context: &ToolContext, arguments: Value) -> Result<Value, ToolError> {
        (self.definition.call)(context, &Arguments::of(arguments)).await
    }

    async fn operation(&self, context: &ToolContext, arguments: &Value) -> Option<Operation> {
        operations::of(context, self.definition.name, &Arguments::of(arguments.clone())).await
    }
}

/// Converts a graph error to a tool error.
fn tool_error(error: rejoin_graph::Error) -> ToolError {
    match error {
        rejoin_graph::Error::Database { attempted, .. } => ToolError::Internal {
            attempted: attempted.to_owned(),
            source: Box::new(error),
        },
        rejoin_graph::Error::NotFound { .. }
        | rejoin_graph::Error::VersionConflict { .. }
        | rejoin_graph::Error::Conflict(_)
        | rejoin_graph::Error::Invalid(_) => ToolError::RespondToModel(error.to_string()),
    }
}

/// Resolves a model's reference to a live object; the error lets it correct itself.
async fn entity(context: &ToolContext, parameter: &str, reference: &str) -> Result<Object, ToolError> {
    let found = objects::resolve(&context.db, context.workspace_id, reference)
        .await
        .map_err(tool_error)?;
    let found = match found {
        Resolved::One(object) => focus::inside(context, vec![*object]).await?,
        Resolved::Several(objects) => focus::inside(context, objects).await?,
        Resolved::Nothing => Vec::new(),
    };
    let found = match found.len() {
        0 => Resolved::Nothing,
        1 => Resolved::One(Box::new(found.into_iter().next().expect("it has one"))),
        _ => Resolved::Several(found),
    };
    match found {
        Resolved::One(object) => Ok(*object),
        Resolved::Several(objects) => {
            let named: Vec<String> = objects.iter().map(cited).collect();
            Err(ToolError::RespondToModel(format!(
                "several entities match {reference}: {}; call again with one of these ids as {parameter}",
                named.join(", "),
            )))
        }
        Resolved::Nothing => {
            let scope = rejoin_graph::scope::Scope {
                bounds: focus::bounds(context),
                ..rejoin_graph::scope::Scope::default()
            };
            let near = match reference.parse::<Uuid>() {
                // Similar ids are meaningless.
                Ok(_) => Vec::new(),
                Err(_) => {
                    rejoin_graph::search::search(&context.db, context.workspace_id, reference, &scope, SUGGESTIONS)
                        .await
                        .map_err(tool_error)?
                        .hits
                }
            };
            let named: Vec<String> = near.iter().map(|hit| cited(&hit.object)).collect();
            let advice = if named.is_empty() {
                "find its id with hybrid_search first".to_owned()
            } else {
                format!("similar entities: {}", named.join(", "))
            };
            Err(ToolError::RespondToModel(format!(
                "{parameter}: there is no entity {reference} in this project; {advice}"
            )))
        }
    }
}

fn cited(object: &Object) -> String {
    let name = if object.name == object.key {
        String::new()
    } else {
        format!(" \"{}\"", object.name)
    };
    format!("{}:{}{name} (id {})", object.object_type, object.key, object.id)
}

/// Returns an entity with all its properties.
fn full(object: &Object) -> Value {
    let mut entity = brief(object);
    entity["properties"] = object.properties.clone();
    entity["created_at"] = json!(object.created_at);
    entity["updated_at"] = json!(object.updated_at);
    if let Some(status) = &object.status {
        entity["status"] = json!(status);
    }
    if !object.labels.is_empty() {
        entity["labels"] = json!(object.labels);
    }
    entity
}

/// Returns what is needed to cite an entity.
fn brief(object: &Object) -> Value {
    json!({"id": object.id, "key": object.key, "name": object.name, "type": object.object_type})
}

fn brief_entity(entity: &Entity) -> Value {
    json!({"id": entity.id, "key": entity.key, "name": entity.name, "type": entity.object_type})
}

/// For an empty result: which of the requested types don't exist, and which do. None if all exist.
async fn unknown_types(context: &ToolContext, asked: &[String]) -> Result<Option<String>, ToolError> {
    if asked.is_empty() {
        return Ok(None);
    }
    let types = schema::types(&context.db, context.workspace_id)
        .await
        .map_err(tool_error)?;
    let known: Vec<&str> = types.iter().map(|counted| counted.name.as_str()).collect();
    Ok(unknown("type", asked, &known))
}

/// The same for relationship types.
async fn unknown_relationship_types(context: &ToolContext, asked: &[String]) -> Result<Option<String>, ToolError> {
    if asked.is_empty() {
        return Ok(None);
    }
    let types = schema::relationship_types(&context.db, context.workspace_id)
        .await
        .map_err(tool_error)?;
    let mut known: Vec<&str> = types.iter().map(|counted| counted.relationship_type.as_str()).collect();
    known.sort_unstable();
    known.dedup();
    Ok(unknown("relationship type", asked, &known))
}

fn unknown(what: &str, asked: &[String], known: &[&str]) -> Option<String> {
    let missing: Vec<&str> = asked
        .iter()
        .map(String::as_str)
        .filter(|name| !known.contains(name))
        .collect();
    if missing.is_empty() {
        return None;
    }
    let known = if known.is_empty() {
        "none".to_owned()
    } else {
        known.join(", ")
    };
    Some(format!(
        "there is no {what} {}; known: {known} (names are case-sensitive)",
        missing.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tool_has_a_unique_name_and_requires_all_parameters() {
        let tools = tools();
        let mut names: Vec<&str> = tools.iter().map(|tool| tool.spec().name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), tools.len());
        for tool in &tools {
            let spec = tool.spec();
            assert!(
                spec.idempotent && !(spec.read_only && spec.destructive),
                "{}",
                spec.name
            );
            let schema = spec.parameters.document();
            let properties = schema["properties"].as_object().unwrap();
            let required = schema["required"].as_array().unwrap();
            assert_eq!(required.len(), properties.len(), "{}", spec.name);
            assert!(properties.values().all(|property| property["description"].is_string()));
        }
    }

    #[test]
    fn unknown_types_are_an_error_that_lists_the_known_ones() {
        let asked = ["package".to_owned(), "Section".to_owned()];
        let told = unknown("type", &asked, &["Package", "Section"]).unwrap();
        assert_eq!(
            told,
            "there is no type package; known: Package, Section (names are case-sensitive)"
        );
        assert_eq!(unknown("type", &asked[1..], &["Package", "Section"]), None);
    }
}
