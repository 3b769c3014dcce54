//! The tools that list and search entities.

use serde_json::{Value, json};

use super::definition::{DEFAULT_LIMIT, Definition, Fields, LIMIT, MAX_LIMIT, PROJECT_ID};
use super::{failed, scope, views};
use crate::entities::{self, Filter};
use crate::{Entity, Kind, links};
use rejoin_tools::arguments::Kind::{OptionalText, OptionalTexts, Text};
use rejoin_tools::arguments::{Arguments, Parameter};
use rejoin_tools::{ToolContext, ToolError};

const STATE_KEY: Parameter = Parameter::new(
    "state_key",
    OptionalText,
    "Only entities in this state, as returned by get_field_info; null: any.",
);
const TYPE_KEY: Parameter = Parameter::new("type_key", OptionalText, "Only entities of this type_key; null: any.");
const SEARCH: Parameter = Parameter::new("search", Text, "Words to search for in names and texts.");

const fn list(name: &'static str, kind: Kind, endpoint: &'static str, description: &'static str) -> Definition {
    Definition {
        name,
        action: "list",
        kind,
        description,
        own: &[PROJECT_ID, STATE_KEY, TYPE_KEY, LIMIT],
        fields: Fields::None,
        call: |context, definition, arguments| Box::pin(find(context, definition, arguments)),
        endpoint,
        types: kind.as_str(),
        shifts: false,
    }
}

const fn search(name: &'static str, kind: Kind, endpoint: &'static str, description: &'static str) -> Definition {
    Definition {
        action: "search",
        own: &[SEARCH, PROJECT_ID, STATE_KEY, LIMIT],
        ..list(name, kind, endpoint, description)
    }
}

pub(super) const TOOLS: &[Definition] = &[
    list(
        "list_onto_projects",
        Kind::Project,
        "GET /api/onto/projects",
        "Lists the user's projects, newest first, with ids and states.",
    ),
    list(
        "list_onto_tasks",
        Kind::Task,
        "GET /api/onto/tasks",
        "Lists tasks of one project or of all, newest first.",
    ),
    list(
        "list_onto_goals",
        Kind::Goal,
        "GET /api/onto/goals",
        "Lists goals of one project or of all, newest first.",
    ),
    list(
        "list_onto_plans",
        Kind::Plan,
        "GET /api/onto/plans",
        "Lists plans of one project or of all, newest first.",
    ),
    list(
        "list_onto_documents",
        Kind::Document,
        "GET /api/onto/documents",
        "Lists documents of one project or of all, without their text, newest first.",
    ),
    list(
        "list_onto_milestones",
        Kind::Milestone,
        "GET /api/onto/milestones",
        "Lists milestones of one project or of all, newest first.",
    ),
    list(
        "list_onto_risks",
        Kind::Risk,
        "GET /api/onto/risks",
        "Lists risks of one project or of all, newest first.",
    ),
    list(
        "list_onto_requirements",
        Kind::Requirement,
        "GET /api/onto/requirements",
        "Lists requirements of one project or of all, newest first.",
    ),
    Definition {
        name: "list_task_documents",
        action: "list",
        kind: Kind::Document,
        description: "Lists the documents about a task.",
        own: &[Parameter::new("task_id", Text, "The task's id.")],
        fields: Fields::None,
        call: |context, _, arguments| Box::pin(task_documents(context, arguments)),
        endpoint: "GET /api/onto/tasks/{id}/linked",
        types: "task, document, document_of",
        shifts: false,
    },
    search(
        "search_onto_tasks",
        Kind::Task,
        "GET /api/onto/tasks",
        "Searches tasks by words in their names and texts.",
    ),
    search(
        "search_onto_projects",
        Kind::Project,
        "GET /api/onto/projects",
        "Searches projects by words in their names and texts.",
    ),
    search(
        "search_onto_documents",
        Kind::Document,
        "GET /api/onto/documents",
        "Searches documents by words in their titles and texts.",
    ),
    Definition {
        name: "search_ontology",
        action: "search",
        kind: Kind::Project,
        description: "Searches all of the user's work by words: projects, tasks, goals, plans, documents and so on.",
        own: &[
            Parameter::new("query", Text, "Words to search for in names and texts."),
            PROJECT_ID,
            Parameter::new(
                "types",
                OptionalTexts,
                "Only these types: project, task, goal, plan, document, milestone, risk, requirement, output, event; \
                null: all.",
            ),
            LIMIT,
        ],
        fields: Fields::None,
        call: |context, _, arguments| Box::pin(search_all(context, arguments)),
        endpoint: "GET /api/onto/{kind}",
        types: "all",
        shifts: false,
    },
];

async fn find(
    context: &ToolContext,
    definition: &'static Definition,
    arguments: &Arguments,
) -> Result<Value, ToolError> {
    let words = match definition.action {
        "search" => Some(arguments.required_text("search")?),
        _ => None,
    };
    if let Some(state) = arguments.text("state_key")
        && !definition.kind.states().contains(&state)
    {
        return Err(scope::respond(format!(
            "a {} has no state {state:?}; its states are {}",
            definition.kind.as_str(),
            definition.kind.states().join(", ")
        )));
    }
    let filter = Filter {
        kinds: &[definition.kind],
        state: arguments.text("state_key"),
        type_key: arguments.text("type_key"),
        words,
        ..Filter::default()
    };
    found(context, arguments, filter, definition.kind.plural()).await
}

async fn search_all(context: &ToolContext, arguments: &Arguments) -> Result<Value, ToolError> {
    let mut kinds = Vec::new();
    for word in arguments.texts("types") {
        kinds.push(kind(&word)?);
    }
    let filter = Filter {
        kinds: &kinds,
        words: Some(arguments.required_text("query")?),
        ..Filter::default()
    };
    found(context, arguments, filter, "results").await
}

/// Parses a kind named by a model, singular or plural.
pub(super) fn kind(word: &str) -> Result<Kind, ToolError> {
    word.parse().ok().or_else(|| Kind::of_plural(word)).ok_or_else(|| {
        let words = Kind::TEXTS.join(", ");
        scope::respond(format!("there is no type {word:?}; the types are {words}"))
    })
}

async fn found(
    context: &ToolContext,
    arguments: &Arguments,
    filter: Filter<'_>,
    list: &str,
) -> Result<Value, ToolError> {
    let limit = arguments.integer("limit", DEFAULT_LIMIT, (1, MAX_LIMIT));
    let filter = Filter {
        project: scope::project(context, arguments)?,
        without_texts: true,
        ..filter
    };
    let mut tx = scope::begin(context).await?;
    if let Some(project) = filter.project {
        scope::by_id(&mut tx, context, project, Some(Kind::Project)).await?;
    }
    let mut found = entities::find(&mut tx, context.workspace_id, &filter, limit + 1)
        .await
        .map_err(failed)?;
    let has_more = found.len() as i64 > limit;
    found.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    let shown: Vec<Value> = found.iter().map(views::brief).collect();
    Ok(json!({ list: shown, "count": shown.len(), "has_more": has_more }))
}

async fn task_documents(context: &ToolContext, arguments: &Arguments) -> Result<Value, ToolError> {
    let mut tx = scope::begin(context).await?;
    let task = scope::entity(&mut tx, context, arguments, "task_id", Some(Kind::Task)).await?;
    let pairs = links::linked(&mut tx, context.workspace_id, task.object.id, Some(Kind::Document)).await;
    let documents: Vec<Entity> = pairs
        .map_err(failed)?
        .into_iter()
        .map(|(_, document)| document)
        .collect();
    let shown: Vec<Value> = documents.iter().map(views::brief).collect();
    Ok(json!({"task": views::brief(&task), "documents": shown, "count": shown.len()}))
}
