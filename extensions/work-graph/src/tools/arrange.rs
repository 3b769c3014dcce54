//! The tools that link, unlink, move and rearrange entities, and the one that creates a whole project.

use serde_json::{Value, json};
use uuid::Uuid;

use super::definition::{Definition, Fields, PROJECT_ID};
use super::{failed, lists, scope, views};
use crate::documents::{self, Move};
use crate::links::{self, NewLink};
use crate::projects::{self, Instantiation, Rearrange};
use crate::{Kind, pack};
use rejoin_tools::arguments::Kind::{
    Object, Objects, OptionalInteger, OptionalObject, OptionalText, OptionalTexts, Text,
};
use rejoin_tools::arguments::{Arguments, Parameter};
use rejoin_tools::{ToolContext, ToolError};

const REL: Parameter = Parameter::new(
    "rel",
    Text,
    "Link type, read from source to target: supports_goal, in_plan, depends_on, document_of, targets_milestone, \
    mitigates, fulfils, produces or references.",
);
const SOURCE_ID: Parameter = Parameter::new("source_id", Text, "The id of the source entity.");
const TARGET_ID: Parameter = Parameter::new("target_id", Text, "The id of the target entity.");
const NEW_PARENT_ID: Parameter = Parameter::new("new_parent_id", OptionalText, "The parent document; null: top level.");
const POSITION: Parameter = Parameter::new(
    "position",
    OptionalInteger,
    "Position among its siblings, from 0; null: last.",
);
const DOCUMENT_ID: Parameter = Parameter::new("document_id", Text, "The document's id.");
const EDGE_ID: Parameter = Parameter::new(
    "edge_id",
    Text,
    "The link's id, as returned by get_entity_relationships.",
);

pub(super) const TOOLS: &[Definition] = &[
    Definition {
        name: "create_onto_project",
        action: "create",
        kind: Kind::Project,
        description: "Creates a project with its initial entities and links, in one transaction, and makes it the \
            subject of the conversation. Ask the user first for information that is missing.",
        own: &[
            Parameter::new(
                "project",
                Object,
                "Fields of the project: name and, if known, description, state_key, type_key, start_at, end_at, props.",
            ),
            Parameter::new(
                "entities",
                Objects(&[
                    Parameter::new("temp_id", Text, "A temporary id that relationships refer to."),
                    Parameter::new(
                        "kind",
                        Text,
                        "task, goal, plan, document, milestone, risk, requirement, output or event.",
                    ),
                    Parameter::new("title", Text, "Name or title of the entity."),
                    Parameter::new("description", OptionalText, "Description of the entity."),
                    Parameter::new(
                        "fields",
                        OptionalObject,
                        "Further fields, as returned by get_field_info; null: none.",
                    ),
                ]),
                "Entities of the project; [] for none.",
            ),
            Parameter::new(
                "relationships",
                Objects(&[
                    REL,
                    Parameter::new("source", Text, "temp_id of the source entity."),
                    Parameter::new("target", Text, "temp_id of the target entity."),
                ]),
                "Links between these entities; [] for none. parent_of makes a document the parent of another.",
            ),
            Parameter::new(
                "context_document",
                OptionalObject,
                "A document that describes the project: title, content; null: none.",
            ),
            Parameter::new(
                "clarifications",
                OptionalTexts,
                "Questions that the user still has to answer; null: none.",
            ),
            Parameter::new(
                "meta",
                OptionalObject,
                "Other data to store in the project's props; null: none.",
            ),
        ],
        fields: Fields::None,
        call: |context, _, arguments| Box::pin(create_project(context, arguments)),
        endpoint: "POST /api/onto/projects/instantiate",
        types: "all",
        shifts: true,
    },
    Definition {
        name: "link_onto_entities",
        action: "update",
        kind: Kind::Project,
        description: "Links two entities of one project. get_field_info returns the allowed link types.",
        own: &[REL, SOURCE_ID, TARGET_ID],
        fields: Fields::None,
        call: |context, _, arguments| Box::pin(link(context, arguments)),
        endpoint: "POST /api/onto/edges/link",
        types: "all relationships",
        shifts: false,
    },
    Definition {
        name: "unlink_onto_edge",
        action: "update",
        kind: Kind::Project,
        description: "Deletes a link.",
        own: &[EDGE_ID],
        fields: Fields::None,
        call: |context, _, arguments| Box::pin(unlink(context, arguments)),
        endpoint: "POST /api/onto/edges/unlink",
        types: "all relationships",
        shifts: false,
    },
    Definition {
        name: "reorganize_onto_project_graph",
        action: "update",
        kind: Kind::Project,
        description: "Links, unlinks and moves entities of a project in one transaction. Call get_onto_project_graph \
            first.",
        own: &[
            PROJECT_ID,
            Parameter::new("unlink", OptionalTexts, "Edge ids to delete first; null: none."),
            Parameter::new(
                "link",
                Objects(&[REL, SOURCE_ID, TARGET_ID]),
                "Links to create; [] for none.",
            ),
            Parameter::new(
                "move",
                Objects(&[DOCUMENT_ID, NEW_PARENT_ID, POSITION]),
                "Documents to move, in this order; [] for none.",
            ),
        ],
        fields: Fields::None,
        call: |context, _, arguments| Box::pin(reorganize(context, arguments)),
        endpoint: "POST /api/onto/projects/reorganize",
        types: "all relationships",
        shifts: false,
    },
    Definition {
        name: "move_document",
        action: "update",
        kind: Kind::Document,
        description: "Moves a document in its project's document tree.",
        own: &[DOCUMENT_ID, NEW_PARENT_ID, POSITION],
        fields: Fields::None,
        call: |context, _, arguments| Box::pin(move_document(context, arguments)),
        endpoint: "POST /api/onto/documents/{id}/move",
        types: "document, parent_of, has_document",
        shifts: false,
    },
];

async fn create_project(context: &ToolContext, arguments: &Arguments) -> Result<Value, ToolError> {
    if let Some(focus) = &context.focus {
        return Err(scope::respond(format!(
            "this conversation is about the project \"{}\"; create a new project in a new conversation",
            focus.project_name
        )));
    }
    let mut entities = Vec::new();
    for given in arguments.objects("entities") {
        let kind = lists::kind(given.required_text("kind")?)?;
        let mut fields = given.object("fields");
        for name in ["title", "description"] {
            if let Some(text) = given.text(name) {
                fields.insert(name.to_owned(), text.into());
            }
        }
        entities.push((given.required_text("temp_id")?.to_owned(), kind, fields));
    }
    let mut links = Vec::new();
    for given in arguments.objects("relationships") {
        let end = |name| given.required_text(name).map(str::to_owned);
        links.push((end("rel")?, end("source")?, end("target")?));
    }
    let mut project = arguments.object("project");
    if arguments.has("meta") {
        let mut props = project
            .get("props")
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_default();
        props.extend(arguments.object("meta"));
        project.insert("props".to_owned(), Value::Object(props));
    }
    let new = Instantiation {
        project,
        entities,
        links,
        context_document: arguments
            .has("context_document")
            .then(|| arguments.object("context_document")),
    };
    let mut tx = scope::begin(context).await?;
    let made = projects::instantiate(&mut tx, context.workspace_id, new, &scope::change(context))
        .await
        .map_err(failed)?;
    scope::commit(tx).await?;
    let name = &made.project.object.name;
    let ids: serde_json::Map<String, Value> = made
        .ids
        .iter()
        .map(|(temp_id, id)| (temp_id.clone(), json!(id)))
        .collect();
    Ok(json!({
        "id": made.project.object.id,
        "project": views::full(&made.project),
        "ids": ids,
        "clarifications": arguments.texts("clarifications"),
        "context_shift": {
            "new_context": "project", "entity_id": made.project.object.id, "entity_name": name, "entity_type": "project",
            "message": format!("The project \"{name}\" was created; the conversation is now about it."),
        },
    }))
}

/// Returns a link whose ends the call may access.
async fn new_link(
    db: &mut sqlx::PgConnection,
    context: &ToolContext,
    arguments: &Arguments,
) -> Result<NewLink, ToolError> {
    let source = scope::entity(&mut *db, context, arguments, "source_id", None).await?;
    let target = scope::entity(db, context, arguments, "target_id", None).await?;
    Ok(NewLink {
        link_type: arguments.required_text("rel")?.to_owned(),
        source: source.object.id,
        target: target.object.id,
    })
}

async fn link(context: &ToolContext, arguments: &Arguments) -> Result<Value, ToolError> {
    let mut tx = scope::begin(context).await?;
    let new = new_link(&mut tx, context, arguments).await?;
    let made = links::link(&mut tx, context.workspace_id, &new, &scope::change(context))
        .await
        .map_err(failed)?;
    scope::commit(tx).await?;
    Ok(json!({"edge": views::link(&made)}))
}

/// Returns the id of a link that the call may remove. None: an earlier attempt of this call has removed it.
async fn old_link(db: &mut sqlx::PgConnection, context: &ToolContext, text: &str) -> Result<Option<Uuid>, ToolError> {
    let id = scope::id("edge_id", text)?;
    if scope::change(context)
        .has_written(&mut *db, context.workspace_id, id)
        .await
        .map_err(failed)?
    {
        return Ok(None);
    }
    let unknown = || {
        scope::respond(format!(
            "edge {id} not found here; get_entity_relationships returns the edges of an entity"
        ))
    };
    let link = match links::get(&mut *db, context.workspace_id, id).await {
        Ok(link) => link,
        Err(rejoin_graph::Error::NotFound { .. }) => return Err(unknown()),
        Err(error) => return Err(failed(error)),
    };
    scope::by_id(db, context, link.source.id, None)
        .await
        .map_err(|error| match error {
            ToolError::RespondToModel(_) => unknown(),
            other @ (ToolError::Internal { .. } | ToolError::NeedsInput(_)) => other,
        })?;
    Ok(Some(id))
}

async fn unlink(context: &ToolContext, arguments: &Arguments) -> Result<Value, ToolError> {
    let text = arguments.required_text("edge_id")?;
    let mut tx = scope::begin(context).await?;
    if let Some(id) = old_link(&mut tx, context, text).await? {
        links::unlink(&mut tx, context.workspace_id, id, &scope::change(context))
            .await
            .map_err(failed)?;
    }
    scope::commit(tx).await?;
    Ok(json!({"unlinked": true, "edge_id": text}))
}

/// Returns a document's target position, if the call may access it.
async fn new_place(
    db: &mut sqlx::PgConnection,
    context: &ToolContext,
    arguments: &Arguments,
) -> Result<Move, ToolError> {
    let document = scope::entity(&mut *db, context, arguments, "document_id", Some(Kind::Document)).await?;
    let parent = match arguments.text("new_parent_id") {
        Some(_) => Some(scope::entity(db, context, arguments, "new_parent_id", Some(Kind::Document)).await?),
        None => None,
    };
    Ok(Move {
        document: document.object.id,
        parent: parent.map(|parent| parent.object.id),
        position: arguments
            .has("position")
            .then(|| arguments.integer("position", 0, (0, i64::from(i32::MAX)))),
    })
}

async fn move_document(context: &ToolContext, arguments: &Arguments) -> Result<Value, ToolError> {
    let mut tx = scope::begin(context).await?;
    let to = new_place(&mut tx, context, arguments).await?;
    documents::move_to(&mut tx, context.workspace_id, to, &scope::change(context))
        .await
        .map_err(failed)?;
    let path = documents::path(&mut tx, context.workspace_id, to.document)
        .await
        .map_err(failed)?;
    scope::commit(tx).await?;
    let words: Vec<&str> = path.iter().map(|document| document.object.name.as_str()).collect();
    Ok(json!({"id": to.document, "path": words.join(" / ")}))
}

async fn reorganize(context: &ToolContext, arguments: &Arguments) -> Result<Value, ToolError> {
    let mut tx = scope::begin(context).await?;
    let project = scope::required_project(&mut tx, context, arguments).await?.object.id;
    let mut changes = Vec::new();
    let asked = arguments.texts("unlink").len() + arguments.objects("link").len() + arguments.objects("move").len();
    if asked == 0 || asked > projects::MAX_AT_ONCE {
        return Err(scope::respond(format!("pass 1 to {} changes", projects::MAX_AT_ONCE)));
    }
    for text in arguments.texts("unlink") {
        changes.extend(old_link(&mut tx, context, &text).await?.map(Rearrange::Unlink));
    }
    for given in arguments.objects("link") {
        changes.push(Rearrange::Link(new_link(&mut tx, context, &given).await?));
    }
    for given in arguments.objects("move") {
        changes.push(Rearrange::Move(new_place(&mut tx, context, &given).await?));
    }
    // Nothing remains if an earlier attempt of this call has done everything.
    if !changes.is_empty() {
        projects::reorganize(
            &mut tx,
            context.workspace_id,
            project,
            &changes,
            &scope::change(context),
        )
        .await
        .map_err(failed)?;
    }
    let graph = links::graph(&mut tx, context.workspace_id, project)
        .await
        .map_err(failed)?;
    scope::commit(tx).await?;
    let parents = graph
        .links
        .iter()
        .filter(|link| link.link_type == pack::PARENT_OF)
        .count();
    Ok(json!({
        "project": views::brief(&graph.project), "changes": asked, "entities": graph.entities.len(),
        "edges": graph.links.len(), "documents_below_others": parents,
    }))
}
