//! The tools that return details: one entity, a project's graph, its document tree, links, fields, and pending work.

use serde_json::{Value, json};

use super::definition::{Definition, Fields, PROJECT_ID, id_parameter};
use super::{failed, lists, scope, views};
use crate::links::Link;
use crate::{Kind, documents, entities, links, projects};
use rejoin_tools::arguments::Kind::{OptionalText, Text};
use rejoin_tools::arguments::{Arguments, Parameter};
use rejoin_tools::{ToolContext, ToolError};

/// Maximum number of an entity's links in its details.
const MAX_LINKS: usize = 50;

const ENTITY_ID: Parameter = Parameter::new("entity_id", Text, "The id of a project or of an entity of a project.");
const DOCUMENT_ID: Parameter = Parameter::new("document_id", Text, "The document's id.");

const fn details(
    name: &'static str,
    kind: Kind,
    own: &'static [Parameter],
    endpoint: &'static str,
    description: &'static str,
) -> Definition {
    Definition {
        name,
        action: "read",
        kind,
        description,
        own,
        fields: Fields::None,
        call: |context, definition, arguments| Box::pin(one(context, definition, arguments)),
        endpoint,
        types: kind.as_str(),
        shifts: false,
    }
}

pub(super) const TOOLS: &[Definition] = &[
    details(
        "get_onto_project_details",
        Kind::Project,
        &[PROJECT_ID],
        "GET /api/onto/projects/{id}",
        "Returns all fields of a project.",
    ),
    details(
        "get_onto_task_details",
        Kind::Task,
        &[Parameter::new("task_id", Text, "The task's id.")],
        "GET /api/onto/tasks/{id}",
        "Returns all fields of a task and its links.",
    ),
    details(
        "get_onto_goal_details",
        Kind::Goal,
        &[Parameter::new("goal_id", Text, "The goal's id.")],
        "GET /api/onto/goals/{id}",
        "Returns all fields of a goal and the entities that support it.",
    ),
    details(
        "get_onto_plan_details",
        Kind::Plan,
        &[Parameter::new("plan_id", Text, "The plan's id.")],
        "GET /api/onto/plans/{id}",
        "Returns all fields of a plan and the entities in it.",
    ),
    details(
        "get_onto_document_details",
        Kind::Document,
        &[DOCUMENT_ID],
        "GET /api/onto/documents/{id}",
        "Returns all fields of a document, including its text.",
    ),
    details(
        "get_onto_milestone_details",
        Kind::Milestone,
        &[Parameter::new("milestone_id", Text, "The milestone's id.")],
        "GET /api/onto/milestones/{id}",
        "Returns all fields of a milestone and the entities that target it.",
    ),
    details(
        "get_onto_risk_details",
        Kind::Risk,
        &[Parameter::new("risk_id", Text, "The risk's id.")],
        "GET /api/onto/risks/{id}",
        "Returns all fields of a risk and the entities that mitigate it.",
    ),
    details(
        "get_onto_requirement_details",
        Kind::Requirement,
        &[Parameter::new("requirement_id", Text, "The requirement's id.")],
        "GET /api/onto/requirements/{id}",
        "Returns all fields of a requirement and the entities that fulfil it.",
    ),
    Definition {
        types: "all",
        call: |context, _, arguments| Box::pin(graph(context, arguments)),
        ..details(
            "get_onto_project_graph",
            Kind::Project,
            &[PROJECT_ID],
            "GET /api/onto/projects/{id}/graph",
            "Returns a project with all its entities and links. Call it before you reorganize a project.",
        )
    },
    Definition {
        types: "document, parent_of",
        call: |context, _, arguments| Box::pin(tree(context, arguments)),
        ..details(
            "get_document_tree",
            Kind::Document,
            &[PROJECT_ID],
            "GET /api/onto/projects/{id}/documents",
            "Returns a project's document tree: titles and ids.",
        )
    },
    Definition {
        types: "document, parent_of",
        call: |context, _, arguments| Box::pin(path(context, arguments)),
        ..details(
            "get_document_path",
            Kind::Document,
            &[DOCUMENT_ID],
            "GET /api/onto/projects/{id}/documents",
            "Returns a document's path in its project's document tree, from the top level down to the document.",
        )
    },
    Definition {
        types: "all relationships",
        call: |context, _, arguments| Box::pin(relationships(context, arguments)),
        ..details(
            "get_entity_relationships",
            Kind::Project,
            &[ENTITY_ID],
            "GET /api/onto/{kind}/{id}/linked",
            "Lists the links of an entity with the edge ids that unlink_onto_edge takes.",
        )
    },
    Definition {
        types: "all",
        call: |context, _, arguments| Box::pin(linked(context, arguments)),
        ..details(
            "get_linked_entities",
            Kind::Project,
            &[
                ENTITY_ID,
                Parameter::new(
                    "type",
                    OptionalText,
                    "Only linked entities of this type, such as task; null: all.",
                ),
            ],
            "GET /api/onto/{kind}/{id}/linked",
            "Lists the entities that an entity is linked with, with the link types.",
        )
    },
    Definition {
        types: "none",
        call: |_, _, arguments| Box::pin(field_info(arguments)),
        ..details(
            "get_field_info",
            Kind::Project,
            &[
                Parameter::new(
                    "entity_type",
                    Text,
                    "project, task, goal, plan, document, milestone, risk, requirement, output or event.",
                ),
                Parameter::new("field_name", OptionalText, "Only this field; null: all."),
            ],
            "GET /openapi.json",
            "Returns the fields of an entity type with their allowed values, its states and its allowed links. Call \
            it when you are not sure.",
        )
    },
    Definition {
        types: "project, task, goal, milestone, output",
        call: |context, _, arguments| Box::pin(overview(context, arguments)),
        ..details(
            "get_buildos_overview",
            Kind::Project,
            &[PROJECT_ID],
            "GET /api/onto/overview",
            "Summarizes the user's work: unfinished projects, the most urgent open tasks, and the next due dates.",
        )
    },
];

async fn one(
    context: &ToolContext,
    definition: &'static Definition,
    arguments: &Arguments,
) -> Result<Value, ToolError> {
    let kind = definition.kind;
    let mut tx = scope::begin(context).await?;
    let entity = scope::entity(&mut tx, context, arguments, id_parameter(kind), Some(kind)).await?;
    let mut result = json!({ kind.as_str(): views::full(&entity) });
    if kind != Kind::Project {
        let links = links::at(&mut tx, context.workspace_id, entity.object.id)
            .await
            .map_err(failed)?;
        let shown: Vec<&Link> = links.iter().filter(|link| !link.is_membership()).collect();
        result["links"] = shown.iter().take(MAX_LINKS).map(|link| views::link(link)).collect();
        result["links_total"] = json!(shown.len());
    }
    Ok(result)
}

async fn graph(context: &ToolContext, arguments: &Arguments) -> Result<Value, ToolError> {
    let mut tx = scope::begin(context).await?;
    let project = scope::entity(&mut tx, context, arguments, "project_id", Some(Kind::Project)).await?;
    let graph = links::graph(&mut tx, context.workspace_id, project.object.id)
        .await
        .map_err(failed)?;
    let entities: Vec<Value> = graph.entities.iter().map(views::brief).collect();
    let links: Vec<Value> = graph.links.iter().map(views::link).collect();
    Ok(json!({"project": views::full(&graph.project), "entities": entities, "edges": links}))
}

async fn tree(context: &ToolContext, arguments: &Arguments) -> Result<Value, ToolError> {
    let mut tx = scope::begin(context).await?;
    let project = scope::entity(&mut tx, context, arguments, "project_id", Some(Kind::Project)).await?;
    let nodes = documents::tree(&mut tx, context.workspace_id, project.object.id)
        .await
        .map_err(failed)?;
    let result: Vec<Value> = nodes.iter().map(views::node).collect();
    Ok(json!({"project": views::brief(&project), "documents": result}))
}

async fn path(context: &ToolContext, arguments: &Arguments) -> Result<Value, ToolError> {
    let mut tx = scope::begin(context).await?;
    let document = scope::entity(&mut tx, context, arguments, "document_id", Some(Kind::Document)).await?;
    let path = documents::path(&mut tx, context.workspace_id, document.object.id)
        .await
        .map_err(failed)?;
    let words: Vec<&str> = path.iter().map(|document| document.object.name.as_str()).collect();
    let result: Vec<Value> = path.iter().map(views::brief).collect();
    Ok(json!({"path": result, "in_words": words.join(" / ")}))
}

async fn relationships(context: &ToolContext, arguments: &Arguments) -> Result<Value, ToolError> {
    let mut tx = scope::begin(context).await?;
    let entity = scope::entity(&mut tx, context, arguments, "entity_id", None).await?;
    let links = links::at(&mut tx, context.workspace_id, entity.object.id)
        .await
        .map_err(failed)?;
    let by = |outgoing: bool| -> Vec<Value> {
        let of_side = links
            .iter()
            .filter(|link| (link.source.id == entity.object.id) == outgoing);
        of_side.map(views::link).collect()
    };
    Ok(json!({"entity": views::brief(&entity), "outgoing": by(true), "incoming": by(false)}))
}

async fn linked(context: &ToolContext, arguments: &Arguments) -> Result<Value, ToolError> {
    let kind = arguments.text("type").map(lists::kind).transpose()?;
    let mut tx = scope::begin(context).await?;
    let entity = scope::entity(&mut tx, context, arguments, "entity_id", None).await?;
    let pairs = links::linked(&mut tx, context.workspace_id, entity.object.id, kind)
        .await
        .map_err(failed)?;
    let result: Vec<Value> = pairs
        .iter()
        .map(|(link, other)| {
            let outgoing = link.source.id == entity.object.id;
            let direction = if outgoing { "outgoing" } else { "incoming" };
            json!({"edge_id": link.id, "rel": link.link_type, "direction": direction, "entity": views::brief(other)})
        })
        .collect();
    Ok(json!({"entity": views::brief(&entity), "linked": result, "count": result.len()}))
}

async fn field_info(arguments: &Arguments) -> Result<Value, ToolError> {
    let kind = lists::kind(arguments.required_text("entity_type")?)?;
    entities::field_info(kind, arguments.text("field_name")).map_err(failed)
}

async fn overview(context: &ToolContext, arguments: &Arguments) -> Result<Value, ToolError> {
    let project = scope::project(context, arguments)?;
    let mut tx = scope::begin(context).await?;
    if let Some(project) = project {
        scope::by_id(&mut tx, context, project, Some(Kind::Project)).await?;
    }
    let overview = projects::overview(&mut tx, context.workspace_id, project)
        .await
        .map_err(failed)?;
    let result = |entities: &[crate::Entity]| entities.iter().map(views::brief).collect::<Vec<_>>();
    Ok(json!({
        "projects": result(&overview.projects), "open_tasks": result(&overview.open_tasks),
        "open_task_count": overview.open_task_count, "due": result(&overview.due),
    }))
}
