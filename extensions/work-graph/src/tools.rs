//! The tools over the work graph: projects with their tasks, goals, plans, documents and so on. Offered where the pack `work` is installed;
//! the rules are those of `crate`, which the API's `/api/onto` routes use, too.
//!
//! - `definition`  the definition of a tool
//! - `scope`       restricts calls to the focus
//! - `views`       entities, links and trees in tool results
//! - `lists`       list_onto_…, search_onto_…, search_ontology, list_task_documents
//! - `details`     get_onto_…_details, graphs, trees, paths, links, get_field_info, the overview
//! - `write`       create_onto_…, update_onto_…, delete_onto_…
//! - `arrange`     link, unlink, reorganize, move, create_onto_project
//!
//! Invariants: with a focus, nothing outside of its project is read, named or written, whatever ids a model sends; a
//! call repeated after a crash has no further effect.

mod arrange;
mod definition;
mod details;
mod lists;
mod scope;
mod views;
mod write;

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use self::definition::Definition;
use rejoin_tools::arguments::Arguments;
use rejoin_tools::{SharedTool, Tool, ToolContext, ToolError, ToolSpec};
use rejoin_types::events::Kind as Event;
use rejoin_types::events::Operation;

struct WorkTool {
    definition: &'static Definition,
    spec: ToolSpec,
}

fn definitions() -> impl Iterator<Item = &'static Definition> {
    [lists::TOOLS, details::TOOLS, write::TOOLS, arrange::TOOLS]
        .into_iter()
        .flatten()
}

/// All work tools, each once.
pub fn tools() -> Vec<SharedTool> {
    let all = definitions().map(|definition| WorkTool {
        definition,
        spec: definition.spec(),
    });
    all.map(|tool| Arc::new(tool) as SharedTool).collect()
}

/// Returns the names of the tools with this parameter, for tests of the focus.
pub fn taking(parameter: &str) -> Vec<&'static str> {
    let takes = |definition: &&Definition| definition.parameters().iter().any(|one| one.name == parameter);
    definitions().filter(takes).map(|definition| definition.name).collect()
}

/// The documented facts of a tool.
#[derive(Debug, Clone, Copy)]
pub struct Mapped {
    pub name: &'static str,
    /// The equivalent endpoint.
    pub endpoint: &'static str,
    /// The types of entities and relationships that it reads and writes.
    pub types: &'static str,
    /// Whether it changes the conversation's context.
    pub shifts: bool,
}

/// The documented facts of all tools.
pub fn mapping() -> impl Iterator<Item = Mapped> {
    definitions().map(|definition| Mapped {
        name: definition.name,
        endpoint: definition.endpoint,
        types: definition.types,
        shifts: definition.shifts,
    })
}

#[async_trait]
impl Tool for WorkTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, context: &ToolContext, arguments: Value) -> Result<Value, ToolError> {
        (self.definition.call)(context, self.definition, &Arguments::of(arguments)).await
    }

    async fn operation(&self, context: &ToolContext, arguments: &Value) -> Option<Operation> {
        let arguments = Arguments::of(arguments.clone());
        let (entity_name, entity_id) = scope::named(context, self.definition, &arguments).await;
        Some(Operation {
            action: self.definition.action.to_owned(),
            entity_type: scope::entity_type(self.definition, &arguments).to_owned(),
            entity_name,
            status: "start".to_owned(),
            entity_id,
        })
    }

    fn events(&self, output: &Value) -> Vec<Event> {
        let shift = output.get("context_shift").filter(|_| self.definition.shifts);
        shift
            .map(|shift| Event::ContextShift {
                context_shift: shift.clone(),
            })
            .into_iter()
            .collect()
    }
}

/// Converts a graph error to a tool error.
fn failed(error: rejoin_graph::Error) -> ToolError {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tool_has_a_unique_name_and_describes_its_parameters() {
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
            assert_eq!(
                schema["required"].as_array().unwrap().len(),
                properties.len(),
                "{}",
                spec.name
            );
            assert!(properties.values().all(|property| property["description"].is_string()));
        }
    }
}
