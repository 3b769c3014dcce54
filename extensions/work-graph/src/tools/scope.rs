//! Restricts a call: to its project (tenant), or with a focus, to the work project in focus. Every id that a model
//! sends is checked here.
//!
//! Invariant: of anything outside, not even the name is revealed.

use sqlx::{PgConnection, Postgres, Transaction};
use uuid::Uuid;

use super::definition::{Definition, id_parameter};
use super::failed;
use crate::{Change, Entity, Kind, entities};
use rejoin_graph::Error;
use rejoin_tools::arguments::Arguments;
use rejoin_tools::{ToolContext, ToolError};

/// Maximum length of a name shown to users, in characters.
const MAX_NAME_CHARS: usize = 80;

pub(super) async fn begin(context: &ToolContext) -> Result<Transaction<'static, Postgres>, ToolError> {
    rejoin_db::begin(&context.db)
        .await
        .map_err(|source| internal("begin a transaction", source))
}

pub(super) async fn commit(tx: Transaction<'static, Postgres>) -> Result<(), ToolError> {
    tx.commit().await.map_err(|source| internal("commit a change", source))
}

fn internal(attempted: &str, source: sqlx::Error) -> ToolError {
    ToolError::Internal {
        attempted: attempted.to_owned(),
        source: Box::new(source),
    }
}

/// The call's change record: from a chat if a run makes it, else from an MCP client.
pub(super) fn change(context: &ToolContext) -> Change {
    Change {
        actor: context.actor(),
        source: if context.run_id.is_some() { "chat" } else { "mcp" }.to_owned(),
        call: Some(context.record_id),
    }
}

pub(super) fn respond(words: impl Into<String>) -> ToolError {
    ToolError::RespondToModel(words.into())
}

/// Parses an id sent by a model.
pub(super) fn id(parameter: &str, text: &str) -> Result<Uuid, ToolError> {
    text.parse().map_err(|_| {
        respond(format!(
            "{parameter} must be an id from an earlier result; {text:?} is not an id. Find it with search_ontology"
        ))
    })
}

/// Returns the project of the call: the given one, which must be the focus if there is one; else the focus. None: all
/// projects.
pub(super) fn project(context: &ToolContext, arguments: &Arguments) -> Result<Option<Uuid>, ToolError> {
    let focus = context.focus.as_ref();
    let Some(text) = arguments.text("project_id") else {
        return Ok(focus.map(|focus| focus.project_id));
    };
    let given = id("project_id", text)?;
    match focus {
        Some(focus) if focus.project_id != given => Err(outside(context, "project", given)),
        Some(_) | None => Ok(Some(given)),
    }
}

/// The same, if a project is required; also reads it.
pub(super) async fn required_project(
    db: &mut PgConnection,
    context: &ToolContext,
    arguments: &Arguments,
) -> Result<Entity, ToolError> {
    match project(context, arguments)? {
        Some(id) => entities::get(db, context.workspace_id, Kind::Project, id)
            .await
            .map_err(failed),
        None => Err(respond(
            "project_id is missing; list_onto_projects returns the ids of projects",
        )),
    }
}

/// Returns the entity identified by a parameter.
pub(super) async fn entity(
    db: &mut PgConnection,
    context: &ToolContext,
    arguments: &Arguments,
    parameter: &str,
    kind: Option<Kind>,
) -> Result<Entity, ToolError> {
    let id = match arguments.text(parameter) {
        Some(text) => id(parameter, text)?,
        None => match &context.focus {
            // "This project" needs no id.
            Some(focus) if kind == Some(Kind::Project) => focus.project_id,
            Some(_) | None => return Err(respond(format!("{parameter} is empty; pass an id"))),
        },
    };
    by_id(db, context, id, kind).await
}

pub(super) async fn by_id(
    db: &mut PgConnection,
    context: &ToolContext,
    id: Uuid,
    kind: Option<Kind>,
) -> Result<Entity, ToolError> {
    let found = match kind {
        Some(kind) => entities::get(db, context.workspace_id, kind, id).await,
        None => entities::get_any(db, context.workspace_id, id).await,
    };
    let what = kind.map_or("entity", Kind::as_str);
    match (found, &context.focus) {
        (Ok(entity), Some(focus)) if entity.project != focus.project_id => Err(outside(context, what, id)),
        (Ok(entity), _) => Ok(entity),
        (Err(Error::NotFound { .. }), Some(_)) => Err(outside(context, what, id)),
        (Err(Error::NotFound { .. }), None) => Err(respond(format!(
            "there is no {what} {id}; find its id with search_ontology"
        ))),
        (Err(error), _) => Err(failed(error)),
    }
}

/// It is not revealed whether it exists elsewhere.
fn outside(context: &ToolContext, what: &str, id: Uuid) -> ToolError {
    let (name, project) = context.focus.as_ref().map_or(("", Uuid::nil()), |focus| {
        (focus.project_name.as_str(), focus.project_id)
    });
    respond(format!(
        "there is no {what} {id} in the project \"{name}\" (id {project}), which this conversation is about; entities \
        outside of it cannot be read or changed here"
    ))
}

/// Returns the kind's fields given by a model.
pub(super) fn fields(kind: Kind, arguments: &Arguments) -> serde_json::Map<String, serde_json::Value> {
    let given = kind.fields().into_iter().filter_map(|field| {
        let value = arguments.value(field.name).filter(|value| !value.is_null())?;
        Some((field.name.to_owned(), value.clone()))
    });
    given.collect()
}

/// Returns the name shown to users as the call's subject (never an id), with the id.
pub(super) async fn named(
    context: &ToolContext,
    definition: &Definition,
    arguments: &Arguments,
) -> (String, Option<Uuid>) {
    let parameters = [
        id_parameter(definition.kind),
        "entity_id",
        "source_id",
        "task_id",
        "document_id",
        "edge_id",
    ];
    let is_new = definition.action == "create";
    for words in ["query", "search"]
        .into_iter()
        .chain([definition.kind.name_field()].into_iter().filter(|_| is_new))
    {
        if let Some(text) = arguments.text(words) {
            return (short(text), None);
        }
    }
    if is_new && let Some(name) = arguments.object("project").get("name").and_then(|name| name.as_str()) {
        return (short(name), None);
    }
    for parameter in parameters.into_iter().filter(|_| !is_new) {
        let Some(id) = arguments.text(parameter).and_then(|text| text.parse().ok()) else {
            continue;
        };
        let Ok(mut db) = context.db.acquire().await else { break };
        let id = match parameter {
            "edge_id" => crate::links::get(&mut db, context.workspace_id, id)
                .await
                .map(|link| link.source.id),
            _ => Ok(id),
        };
        if let Ok(id) = id
            && let Ok(entity) = by_id(&mut db, context, id, None).await
        {
            return (short(&entity.object.name), Some(entity.object.id));
        }
    }
    match (&context.focus, definition.action) {
        (Some(focus), "list" | "read") if definition.action == "list" || definition.kind == Kind::Project => {
            (short(&focus.project_name), Some(focus.project_id))
        }
        (_, "list") => (definition.kind.plural().to_owned(), None),
        _ => (definition.kind.as_str().to_owned(), None),
    }
}

fn short(text: &str) -> String {
    text.chars().take(MAX_NAME_CHARS).collect()
}

/// Returns the type of the call's subject.
pub(super) fn entity_type(definition: &Definition, arguments: &Arguments) -> &'static str {
    let given = arguments.text("entity_type").and_then(|word| word.parse().ok());
    given.unwrap_or(definition.kind).as_str()
}
