//! The ten read tools over the knowledge graph. The registry offers them; the executor calls them.
//!
//! - `specs`    names, descriptions and parameters
//! - `search`   hybrid_search, semantic_search, search_entities, find_similar
//! - `browse`   list_entity_types, schema_version, query_entities, list_relationships
//! - `walk`     get_entity_edges, traverse_graph
//!
//! Invariants: only the call's project is read; every entity in a result carries id, key, type and name, so that an answer can
//! cite it; an entity may be given by id, `Type:key`, key or name.

mod browse;
mod search;
mod specs;
mod walk;

use std::sync::Arc;

use async_trait::async_trait;
use jsonschema::Validator;
use rejoin_shared::graph::objects::{self, Object, Resolved};
use rejoin_shared::graph::relationships::Entity;
use rejoin_shared::graph::{self, schema};
use serde_json::{Value, json};

use self::specs::Name;
use super::arguments::{Arguments, schema as parameter_schema};
use super::{SharedTool, Tool, ToolContext, ToolError, ToolSpec};

/// Entities that an error suggests in the place of one that is not there.
const SUGGESTIONS: i64 = 3;

struct GraphTool {
    name: Name,
    spec: ToolSpec,
    validator: Validator,
}

/// All graph tools, each once.
pub fn tools() -> Vec<SharedTool> {
    Name::ALL
        .iter()
        .filter_map(|&name| GraphTool::new(name))
        .map(|tool| Arc::new(tool) as SharedTool)
        .collect()
}

impl GraphTool {
    /// None only if our own schema were broken, which a test rules out.
    fn new(name: Name) -> Option<GraphTool> {
        let parameters = parameter_schema(name.parameters());
        let validator = jsonschema::validator_for(&parameters)
            .inspect_err(|error| tracing::error!(tool = name.as_str(), %error, "the schema of a tool is broken"))
            .ok()?;
        let spec = ToolSpec {
            name: name.as_str().to_owned(),
            description: name.description().to_owned(),
            parameters,
            read_only: true,
            idempotent: true,
            destructive: false,
        };
        Some(GraphTool { name, spec, validator })
    }
}

#[async_trait]
impl Tool for GraphTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, context: &ToolContext, arguments: Value) -> Result<Value, ToolError> {
        let arguments = Arguments::read(self.name.parameters(), &self.validator, arguments)?;
        match self.name {
            Name::HybridSearch => search::hybrid_search(context, &arguments).await,
            Name::SemanticSearch => search::semantic_search(context, &arguments).await,
            Name::SearchEntities => search::search_entities(context, &arguments).await,
            Name::FindSimilar => search::find_similar(context, &arguments).await,
            Name::ListEntityTypes => browse::list_entity_types(context).await,
            Name::SchemaVersion => browse::schema_version(context).await,
            Name::QueryEntities => browse::query_entities(context, &arguments).await,
            Name::ListRelationships => browse::list_relationships(context, &arguments).await,
            Name::GetEntityEdges => walk::get_entity_edges(context, &arguments).await,
            Name::TraverseGraph => walk::traverse_graph(context, &arguments).await,
        }
    }
}

/// Who hears of a failed graph operation.
fn told(error: graph::Error) -> ToolError {
    match error {
        graph::Error::Database { attempted, .. } => ToolError::Internal {
            attempted: attempted.to_owned(),
            source: Box::new(error),
        },
        graph::Error::NotFound { .. }
        | graph::Error::VersionConflict { .. }
        | graph::Error::Conflict(_)
        | graph::Error::Invalid(_) => ToolError::RespondToModel(error.to_string()),
    }
}

/// The live object that a model means; else words that let it ask again.
async fn entity(context: &ToolContext, parameter: &str, reference: &str) -> Result<Object, ToolError> {
    match objects::resolve(&context.db, context.project_id, reference)
        .await
        .map_err(told)?
    {
        Resolved::One(object) => Ok(*object),
        Resolved::Several(objects) => {
            let named: Vec<String> = objects.iter().map(cited).collect();
            Err(ToolError::RespondToModel(format!(
                "several entities are called {reference}: {}; call again with one of these ids as {parameter}",
                named.join(", "),
            )))
        }
        Resolved::Nothing => {
            let scope = graph::search::Scope::default();
            let near = graph::search::search(&context.db, context.project_id, reference, &scope, SUGGESTIONS)
                .await
                .map_err(told)?;
            let named: Vec<String> = near.hits.iter().map(|hit| cited(&hit.object)).collect();
            let advice = if named.is_empty() {
                "find it with hybrid_search first".to_owned()
            } else {
                format!("near it are {}", named.join(", "))
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

/// An entity with all that it says of itself.
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

/// What is needed to cite an entity.
fn brief(object: &Object) -> Value {
    json!({"id": object.id, "key": object.key, "name": object.name, "type": object.object_type})
}

fn brief_entity(entity: &Entity) -> Value {
    json!({"id": entity.id, "key": entity.key, "name": entity.name, "type": entity.object_type})
}

/// For an empty result: which of the asked types are not there, and which are. None where all are there.
async fn unknown_types(context: &ToolContext, asked: &[String]) -> Result<Option<String>, ToolError> {
    if asked.is_empty() {
        return Ok(None);
    }
    let types = schema::types(&context.db, context.project_id).await.map_err(told)?;
    let known: Vec<&str> = types.iter().map(|counted| counted.name.as_str()).collect();
    Ok(unknown("type", asked, &known))
}

/// The same for types of relationships.
async fn unknown_relationship_types(context: &ToolContext, asked: &[String]) -> Result<Option<String>, ToolError> {
    if asked.is_empty() {
        return Ok(None);
    }
    let types = schema::relationship_types(&context.db, context.project_id)
        .await
        .map_err(told)?;
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
        "there is no {what} {}; there are: {known} (names are case-sensitive)",
        missing.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_ten_tools_and_all_are_read_only() {
        let tools = tools();
        assert_eq!(tools.len(), 10);
        for tool in tools {
            let spec = tool.spec();
            assert!(spec.read_only && spec.idempotent && !spec.destructive, "{}", spec.name);
            let properties = spec.parameters["properties"].as_object().unwrap();
            assert_eq!(
                spec.parameters["required"].as_array().unwrap().len(),
                properties.len(),
                "{}",
                spec.name
            );
        }
    }

    #[test]
    fn unknown_types_are_told_with_the_known_ones() {
        let asked = ["package".to_owned(), "Section".to_owned()];
        let told = unknown("type", &asked, &["Package", "Section"]).unwrap();
        assert_eq!(
            told,
            "there is no type package; there are: Package, Section (names are case-sensitive)"
        );
        assert_eq!(unknown("type", &asked[1..], &["Package", "Section"]), None);
    }
}
