//! The tools that change the graph. Ids of created items derive from the call's record, so that a call repeated after a
//! crash finds its items and creates nothing twice.

use rejoin_graph::objects::{self, NewObject, Object, ObjectChange};
use rejoin_graph::relationships::{self, NewRelationship, Relationship, RelationshipChange};
use rejoin_types::ids;
use serde_json::{Value, json};
use sqlx::Postgres;
use sqlx::pool::PoolConnection;
use uuid::Uuid;

use super::definition::{Definition, ENTITY, ENTITY_ID, Effect};
use super::{entity, focus, full, tool_error};
use crate::arguments::Kind::{
    Objects, OptionalBoolean, OptionalNumber, OptionalObject, OptionalText, OptionalTexts, Text,
};
use crate::arguments::{Arguments, Parameter};
use crate::{ToolContext, ToolError};

/// Maximum number of items in one batch.
const MAX_BATCH: usize = 100;

const TYPE: Parameter = Parameter::new(
    "type",
    Text,
    "Entity type, as returned by list_entity_types; a new name creates a new type.",
);
const PROPERTIES: Parameter = Parameter::new("properties", OptionalObject, "Properties by name; null for none.");
const RELATIONSHIP_ID: Parameter = Parameter::new(
    "relationship_id",
    Text,
    "The relationship's id, from an earlier result.",
);

const NEW_ENTITY: &[Parameter] = &[
    TYPE,
    PROPERTIES,
    Parameter::new(
        "key",
        OptionalText,
        "Key, unique among entities of its type; null: its id.",
    ),
    Parameter::new("status", OptionalText, "Status; null for none."),
    Parameter::new("labels", OptionalTexts, "Labels; null for none."),
];

const NEW_RELATIONSHIP: &[Parameter] = &[
    Parameter::new(
        "type",
        Text,
        "Relationship type, read from source to target, as returned by list_entity_types; a new name creates a new \
        type.",
    ),
    Parameter::new("source_id", Text, ENTITY),
    Parameter::new("target_id", Text, ENTITY),
    PROPERTIES,
    Parameter::new(
        "weight",
        OptionalNumber,
        "Weight of the relationship; null if it has none.",
    ),
];

pub(super) const TOOLS: &[Definition] = &[
    Definition {
        name: "create_entity",
        effect: Effect::Writes,
        description: "Creates an entity. Search first whether it already exists.",
        parameters: NEW_ENTITY,
        call: |context, arguments| Box::pin(create_entity(context, arguments)),
    },
    Definition {
        name: "update_entity",
        effect: Effect::Writes,
        description: "Updates an entity. Properties are merged; a property set to null is removed; omitted values \
            stay unchanged.",
        parameters: &[
            ENTITY_ID,
            Parameter::new("properties", OptionalObject, "Properties to merge; null changes none."),
            Parameter::new("status", OptionalText, "New status; null leaves it unchanged."),
            Parameter::new("labels", OptionalTexts, "Labels to add; null changes none."),
            Parameter::new(
                "replace_labels",
                OptionalBoolean,
                "true: replace all its labels by these; default false.",
            ),
        ],
        call: |context, arguments| Box::pin(update_entity(context, arguments)),
    },
    Definition {
        name: "delete_entity",
        effect: Effect::Deletes,
        description: "Deletes an entity and hides its relationships. restore_entity restores it.",
        parameters: &[ENTITY_ID],
        call: |context, arguments| Box::pin(delete_entity(context, arguments)),
    },
    Definition {
        name: "restore_entity",
        effect: Effect::Writes,
        description: "Restores a deleted entity with its relationships.",
        parameters: &[Parameter::new(
            "entity_id",
            Text,
            "The deleted entity's id, from the result of the deletion.",
        )],
        call: |context, arguments| Box::pin(restore_entity(context, arguments)),
    },
    Definition {
        name: "create_relationship",
        effect: Effect::Writes,
        description: "Creates a relationship from one entity to another.",
        parameters: NEW_RELATIONSHIP,
        call: |context, arguments| Box::pin(create_relationship(context, arguments)),
    },
    Definition {
        name: "update_relationship",
        effect: Effect::Writes,
        description: "Updates a relationship. Properties are merged; a property set to null is removed; omitted \
            values stay unchanged.",
        parameters: &[
            RELATIONSHIP_ID,
            Parameter::new("properties", OptionalObject, "Properties to merge; null changes none."),
            Parameter::new("weight", OptionalNumber, "New weight; null leaves it unchanged."),
        ],
        call: |context, arguments| Box::pin(update_relationship(context, arguments)),
    },
    Definition {
        name: "delete_relationship",
        effect: Effect::Deletes,
        description: "Deletes a relationship.",
        parameters: &[RELATIONSHIP_ID],
        call: |context, arguments| Box::pin(delete_relationship(context, arguments)),
    },
    Definition {
        name: "batch_create_entities",
        effect: Effect::Writes,
        description: "Creates up to 100 entities. Each has its own result; failures do not affect the others.",
        parameters: &[Parameter::new(
            "entities",
            Objects(NEW_ENTITY),
            "The entities, at most 100.",
        )],
        call: |context, arguments| Box::pin(batch_create_entities(context, arguments)),
    },
    Definition {
        name: "batch_create_relationships",
        effect: Effect::Writes,
        description: "Creates up to 100 relationships. Each has its own result; failures do not affect the others.",
        parameters: &[Parameter::new(
            "relationships",
            Objects(NEW_RELATIONSHIP),
            "The relationships, at most 100.",
        )],
        call: |context, arguments| Box::pin(batch_create_relationships(context, arguments)),
    },
];

pub(super) async fn connection(context: &ToolContext) -> Result<PoolConnection<Postgres>, ToolError> {
    let connection = context.db.acquire().await;
    connection.map_err(|error| ToolError::Internal {
        attempted: "connecting to the database".to_owned(),
        source: Box::new(error),
    })
}

fn told_entity(object: &Object) -> Value {
    let mut entity = full(object);
    entity["version"] = json!(object.version);
    entity
}

fn told_relationship(relationship: &Relationship) -> Value {
    json!({
        "id": relationship.id,
        "type": relationship.relationship_type,
        "source_id": relationship.source_id,
        "target_id": relationship.target_id,
        "properties": relationship.properties,
        "weight": relationship.weight,
        "version": relationship.version,
    })
}

async fn create_entity(context: &ToolContext, arguments: &Arguments) -> Result<Value, ToolError> {
    let object = make_entity(context, arguments, 0).await?;
    Ok(json!({"entity": told_entity(&object)}))
}

/// Creates the `nth` entity of the call.
async fn make_entity(context: &ToolContext, arguments: &Arguments, nth: usize) -> Result<Object, ToolError> {
    focus::may_make(context, arguments.required_text("type")?)?;
    let new = NewObject {
        object_type: arguments.required_text("type")?.to_owned(),
        key: arguments.text("key").map(str::to_owned),
        status: arguments.text("status").map(str::to_owned),
        labels: arguments.texts("labels"),
        properties: arguments.object("properties"),
        schema_version: None,
    };
    let id = ids::derived(context.record_id, nth);
    let mut db = connection(context).await?;
    objects::create_once(&mut db, context.workspace_id, id, &new, context.actor())
        .await
        .map_err(tool_error)
}

async fn update_entity(context: &ToolContext, arguments: &Arguments) -> Result<Value, ToolError> {
    let object = entity(context, "entity_id", arguments.required_text("entity_id")?).await?;
    let change = ObjectChange {
        properties: arguments.object("properties"),
        status: arguments.text("status").map(str::to_owned),
        labels: arguments.has("labels").then(|| arguments.texts("labels")),
        replace_labels: arguments.flag("replace_labels"),
        ..ObjectChange::default()
    };
    let mut db = connection(context).await?;
    let updated = objects::update(&mut db, context.workspace_id, object.id, &change, context.actor())
        .await
        .map_err(tool_error)?;
    Ok(json!({"entity": told_entity(&updated), "changed": updated.version != object.version}))
}

async fn delete_entity(context: &ToolContext, arguments: &Arguments) -> Result<Value, ToolError> {
    let reference = arguments.required_text("entity_id")?;
    let mut db = connection(context).await?;
    // An earlier attempt of this call may have deleted it.
    if let Ok(id) = reference.parse::<Uuid>()
        && !focus::hides(context, id).await?
        && let Some(deleted) = deleted_by(context, id).await?
    {
        return Ok(json!({"deleted": true, "entity": told_entity(&deleted)}));
    }
    let object = entity(context, "entity_id", reference).await?;
    let deleted = objects::delete(&mut db, context.workspace_id, object.id, context.actor())
        .await
        .map_err(tool_error)?;
    Ok(json!({"deleted": true, "entity": told_entity(&deleted)}))
}

/// Returns the entity, if this run has deleted it.
async fn deleted_by(context: &ToolContext, id: Uuid) -> Result<Option<Object>, ToolError> {
    let newest = match objects::history(&context.db, context.workspace_id, id, 1).await {
        Ok(versions) => versions.into_iter().next(),
        Err(rejoin_graph::Error::NotFound { .. }) => None,
        Err(error) => return Err(tool_error(error)),
    };
    Ok(newest.filter(|object| object.deleted_at.is_some() && object.actor_id == context.actor().id))
}

async fn restore_entity(context: &ToolContext, arguments: &Arguments) -> Result<Value, ToolError> {
    let id = id(arguments, "entity_id")?;
    if focus::hides(context, id).await? {
        return Err(tool_error(rejoin_graph::Error::not_found("object", id)));
    }
    let mut db = connection(context).await?;
    let restored = objects::restore(&mut db, context.workspace_id, id, context.actor())
        .await
        .map_err(tool_error)?;
    Ok(json!({"entity": told_entity(&restored)}))
}

pub(super) fn id(arguments: &Arguments, parameter: &str) -> Result<Uuid, ToolError> {
    let text = arguments.required_text(parameter)?;
    text.parse()
        .map_err(|_| ToolError::RespondToModel(format!("{parameter} must be an id; {text} is not one")))
}

async fn create_relationship(context: &ToolContext, arguments: &Arguments) -> Result<Value, ToolError> {
    let relationship = make_relationship(context, arguments, 0).await?;
    Ok(json!({"relationship": told_relationship(&relationship)}))
}

/// Creates the `nth` relationship of the call.
async fn make_relationship(
    context: &ToolContext,
    arguments: &Arguments,
    nth: usize,
) -> Result<Relationship, ToolError> {
    let source = entity(context, "source_id", arguments.required_text("source_id")?).await?;
    let target = entity(context, "target_id", arguments.required_text("target_id")?).await?;
    let new = NewRelationship {
        relationship_type: arguments.required_text("type")?.to_owned(),
        source_id: source.id,
        target_id: target.id,
        properties: arguments.object("properties"),
        weight: arguments.number("weight"),
        valid_from: None,
        valid_to: None,
    };
    let id = ids::derived(context.record_id, nth);
    let mut db = connection(context).await?;
    relationships::create_once(&mut db, context.workspace_id, id, &new, context.actor())
        .await
        .map_err(tool_error)
}

/// Returns the relationship that a call refers to, if its ends are visible.
async fn known_relationship(context: &ToolContext, arguments: &Arguments) -> Result<Uuid, ToolError> {
    let id = id(arguments, "relationship_id")?;
    if context.focus.is_some() {
        let newest = relationships::history(&context.db, context.workspace_id, id, 1)
            .await
            .map_err(tool_error)?;
        let ends: Vec<Uuid> = newest.iter().flat_map(|one| [one.source_id, one.target_id]).collect();
        if !focus::outside(context, &ends).await?.is_empty() {
            return Err(tool_error(rejoin_graph::Error::not_found("relationship", id)));
        }
    }
    Ok(id)
}

async fn update_relationship(context: &ToolContext, arguments: &Arguments) -> Result<Value, ToolError> {
    let id = known_relationship(context, arguments).await?;
    let change = RelationshipChange {
        properties: arguments.object("properties"),
        weight: arguments.number("weight"),
        ..RelationshipChange::default()
    };
    let mut db = connection(context).await?;
    let updated = relationships::update(&mut db, context.workspace_id, id, &change, context.actor())
        .await
        .map_err(tool_error)?;
    Ok(json!({"relationship": told_relationship(&updated)}))
}

async fn delete_relationship(context: &ToolContext, arguments: &Arguments) -> Result<Value, ToolError> {
    let id = known_relationship(context, arguments).await?;
    let mut db = connection(context).await?;
    match relationships::delete(&mut db, context.workspace_id, id, context.actor()).await {
        Ok(deleted) => Ok(json!({"deleted": true, "relationship": told_relationship(&deleted)})),
        Err(error) => Err(tool_error(error)),
    }
}

async fn batch_create_entities(context: &ToolContext, arguments: &Arguments) -> Result<Value, ToolError> {
    let items = batch(arguments, "entities")?;
    let mut results = Vec::with_capacity(items.len());
    for (nth, item) in items.iter().enumerate() {
        let made = make_entity(context, item, nth).await;
        results.push(made.map(|object| json!({"entity": told_entity(&object)})));
    }
    answered(results)
}

async fn batch_create_relationships(context: &ToolContext, arguments: &Arguments) -> Result<Value, ToolError> {
    let items = batch(arguments, "relationships")?;
    let mut results = Vec::with_capacity(items.len());
    for (nth, item) in items.iter().enumerate() {
        let made = make_relationship(context, item, nth).await;
        results.push(made.map(|relationship| json!({"relationship": told_relationship(&relationship)})));
    }
    answered(results)
}

fn batch(arguments: &Arguments, parameter: &str) -> Result<Vec<Arguments>, ToolError> {
    let items = arguments.objects(parameter);
    match items.len() {
        0 => Err(ToolError::RespondToModel(format!("{parameter} is empty"))),
        1..=MAX_BATCH => Ok(items),
        more => Err(ToolError::RespondToModel(format!(
            "{more} {parameter} are too many for one call; send at most {MAX_BATCH}"
        ))),
    }
}

/// Returns the result of each item. An unreachable database fails the whole call: created items are found again.
fn answered(results: Vec<Result<Value, ToolError>>) -> Result<Value, ToolError> {
    let (mut success, total) = (0, results.len());
    let mut items = Vec::with_capacity(total);
    for (index, result) in results.into_iter().enumerate() {
        let mut item = match result {
            Ok(made) => made,
            Err(ToolError::RespondToModel(words)) => json!({ "error": words }),
            Err(other @ (ToolError::Internal { .. } | ToolError::NeedsInput(_))) => return Err(other),
        };
        let succeeded = item.get("error").is_none();
        success += usize::from(succeeded);
        item["index"] = json!(index);
        item["success"] = json!(succeeded);
        items.push(item);
    }
    Ok(json!({"success": success, "failed": total - success, "total": total, "results": items}))
}
