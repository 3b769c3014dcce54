//! The tools that create, change and delete entities. Ids of created entities derive from the call's record.

use serde_json::{Value, json};

use super::definition::{Definition, Fields, PROJECT_ID, id_parameter};
use super::{failed, scope, views};
use crate::deletion;
use crate::documents::{self, Move};
use crate::entities::{self, NewEntity, Update};
use crate::links::{self, NewLink};
use crate::{Change, Entity, Kind, pack};
use rejoin_tools::arguments::Kind::{OptionalText, Text};
use rejoin_tools::arguments::{Arguments, Parameter};
use rejoin_tools::{ToolContext, ToolError};

const TASK_ID: Parameter = Parameter::new("task_id", Text, "The task's id.");
const GOAL_ID: Parameter = Parameter::new("goal_id", Text, "The goal's id.");
const PLAN_ID: Parameter = Parameter::new("plan_id", Text, "The plan's id.");
const DOCUMENT_ID: Parameter = Parameter::new("document_id", Text, "The document's id.");
const MILESTONE_ID: Parameter = Parameter::new("milestone_id", Text, "The milestone's id.");
const RISK_ID: Parameter = Parameter::new("risk_id", Text, "The risk's id.");
const REQUIREMENT_ID: Parameter = Parameter::new("requirement_id", Text, "The requirement's id.");
const PARENT_ID: Parameter = Parameter::new("parent_id", OptionalText, "The parent document; null: top level.");

/// The parameters that link a new entity immediately, with their link types.
const LINKED_WITH: &[(&str, &str)] = &[("goal_id", "supports_goal"), ("plan_id", "in_plan")];
const NEW_GOAL_ID: Parameter = Parameter::new("goal_id", OptionalText, "The goal that it supports; null: none.");
const NEW_PLAN_ID: Parameter = Parameter::new("plan_id", OptionalText, "The plan that it is part of; null: none.");

const fn create(
    name: &'static str,
    kind: Kind,
    own: &'static [Parameter],
    endpoint: &'static str,
    description: &'static str,
) -> Definition {
    Definition {
        name,
        action: "create",
        kind,
        description,
        own,
        fields: Fields::OfNew,
        call: |context, definition, arguments| Box::pin(make(context, definition, arguments)),
        endpoint,
        types: kind.as_str(),
        shifts: false,
    }
}

const fn update(
    name: &'static str,
    kind: Kind,
    own: &'static [Parameter],
    endpoint: &'static str,
    description: &'static str,
) -> Definition {
    Definition {
        action: "update",
        fields: Fields::OfUpdate,
        call: |context, definition, arguments| Box::pin(alter(context, definition, arguments)),
        ..create(name, kind, own, endpoint, description)
    }
}

const fn delete(
    name: &'static str,
    kind: Kind,
    own: &'static [Parameter],
    endpoint: &'static str,
    description: &'static str,
) -> Definition {
    Definition {
        action: "delete",
        fields: Fields::None,
        call: |context, definition, arguments| Box::pin(remove(context, definition, arguments)),
        ..create(name, kind, own, endpoint, description)
    }
}

pub(super) const TOOLS: &[Definition] = &[
    Definition {
        types: "task, has_task, supports_goal, in_plan",
        ..create(
            "create_onto_task",
            Kind::Task,
            &[PROJECT_ID, NEW_GOAL_ID, NEW_PLAN_ID],
            "POST /api/onto/tasks/create",
            "Creates a task in a project, optionally linked with a goal and a plan.",
        )
    },
    Definition {
        types: "goal, has_goal",
        ..create(
            "create_onto_goal",
            Kind::Goal,
            &[PROJECT_ID],
            "POST /api/onto/goals/create",
            "Creates a goal in a project.",
        )
    },
    Definition {
        types: "plan, has_plan, supports_goal",
        ..create(
            "create_onto_plan",
            Kind::Plan,
            &[PROJECT_ID, NEW_GOAL_ID],
            "POST /api/onto/plans/create",
            "Creates a plan in a project, optionally linked with its goal.",
        )
    },
    Definition {
        types: "document, has_document, parent_of",
        ..create(
            "create_onto_document",
            Kind::Document,
            &[PROJECT_ID, PARENT_ID],
            "POST /api/onto/documents/create",
            "Creates a document in a project, optionally below another document.",
        )
    },
    Definition {
        types: "document, has_document, document_of",
        ..create(
            "create_task_document",
            Kind::Document,
            &[TASK_ID, PARENT_ID],
            "POST /api/onto/documents/create",
            "Creates a document about a task, in the task's project.",
        )
    },
    Definition {
        types: "milestone, has_milestone",
        ..create(
            "create_onto_milestone",
            Kind::Milestone,
            &[PROJECT_ID],
            "POST /api/onto/milestones/create",
            "Creates a milestone in a project, such as {\"title\": \"Beta is out\", \"due_at\": \"2030-01-31T17:00:00Z\"}.",
        )
    },
    Definition {
        types: "risk, has_risk",
        ..create(
            "create_onto_risk",
            Kind::Risk,
            &[PROJECT_ID],
            "POST /api/onto/risks/create",
            "Creates a risk in a project, such as {\"title\": \"The supplier is late\", \"impact\": \"high\", \"probability\": \"low\"}.",
        )
    },
    Definition {
        types: "requirement, has_requirement",
        ..create(
            "create_onto_requirement",
            Kind::Requirement,
            &[PROJECT_ID],
            "POST /api/onto/requirements/create",
            "Creates a requirement in a project: a condition that its result must meet.",
        )
    },
    update(
        "update_onto_project",
        Kind::Project,
        &[PROJECT_ID],
        "PATCH /api/onto/projects/{id}",
        "Updates fields of a project. Arguments that are null stay unchanged.",
    ),
    update(
        "update_onto_task",
        Kind::Task,
        &[TASK_ID],
        "PATCH /api/onto/tasks/{id}",
        "Updates fields of a task, such as its state. Arguments that are null stay unchanged.",
    ),
    update(
        "update_onto_goal",
        Kind::Goal,
        &[GOAL_ID],
        "PATCH /api/onto/goals/{id}",
        "Updates fields of a goal. Arguments that are null stay unchanged.",
    ),
    update(
        "update_onto_plan",
        Kind::Plan,
        &[PLAN_ID],
        "PATCH /api/onto/plans/{id}",
        "Updates fields of a plan. Arguments that are null stay unchanged.",
    ),
    update(
        "update_onto_document",
        Kind::Document,
        &[DOCUMENT_ID],
        "PATCH /api/onto/documents/{id}",
        "Updates a document's title, text or other fields; update_strategy append appends to its text. Arguments that \
        are null stay unchanged.",
    ),
    update(
        "update_onto_milestone",
        Kind::Milestone,
        &[MILESTONE_ID],
        "PATCH /api/onto/milestones/{id}",
        "Updates fields of a milestone. Arguments that are null stay unchanged.",
    ),
    update(
        "update_onto_risk",
        Kind::Risk,
        &[RISK_ID],
        "PATCH /api/onto/risks/{id}",
        "Updates fields of a risk. Arguments that are null stay unchanged.",
    ),
    update(
        "update_onto_requirement",
        Kind::Requirement,
        &[REQUIREMENT_ID],
        "PATCH /api/onto/requirements/{id}",
        "Updates fields of a requirement. Arguments that are null stay unchanged.",
    ),
    delete(
        "delete_onto_task",
        Kind::Task,
        &[TASK_ID],
        "DELETE /api/onto/tasks/{id}",
        "Deletes a task with its links.",
    ),
    delete(
        "delete_onto_goal",
        Kind::Goal,
        &[GOAL_ID],
        "DELETE /api/onto/goals/{id}",
        "Deletes a goal with its links.",
    ),
    delete(
        "delete_onto_plan",
        Kind::Plan,
        &[PLAN_ID],
        "DELETE /api/onto/plans/{id}",
        "Deletes a plan with its links. Its tasks are kept.",
    ),
    delete(
        "delete_onto_document",
        Kind::Document,
        &[DOCUMENT_ID],
        "DELETE /api/onto/documents/{id}",
        "Deletes a document with its links. Its child documents move up one level.",
    ),
    delete(
        "delete_onto_milestone",
        Kind::Milestone,
        &[MILESTONE_ID],
        "DELETE /api/onto/milestones/{id}",
        "Deletes a milestone with its links.",
    ),
    delete(
        "delete_onto_risk",
        Kind::Risk,
        &[RISK_ID],
        "DELETE /api/onto/risks/{id}",
        "Deletes a risk with its links.",
    ),
    delete(
        "delete_onto_requirement",
        Kind::Requirement,
        &[REQUIREMENT_ID],
        "DELETE /api/onto/requirements/{id}",
        "Deletes a requirement with its links.",
    ),
    Definition {
        types: "all",
        ..delete(
            "delete_onto_project",
            Kind::Project,
            &[Parameter::new("project_id", Text, "The project's id.")],
            "DELETE /api/onto/projects/{id}",
            "Deletes a project with everything in it. Ask the user for confirmation first.",
        )
    },
];

async fn make(
    context: &ToolContext,
    definition: &'static Definition,
    arguments: &Arguments,
) -> Result<Value, ToolError> {
    let kind = definition.kind;
    let change = scope::change(context);
    let mut tx = scope::begin(context).await?;
    let task = if arguments.has("task_id") {
        Some(scope::entity(&mut tx, context, arguments, "task_id", Some(Kind::Task)).await?)
    } else {
        None
    };
    let project = match &task {
        Some(task) => task.project,
        None => scope::required_project(&mut tx, context, arguments).await?.object.id,
    };
    let mut others = Vec::new();
    for (parameter, link_type) in LINKED_WITH {
        if arguments.text(parameter).is_some() {
            others.push((
                *link_type,
                scope::entity(&mut tx, context, arguments, parameter, None).await?,
            ));
        }
    }
    others.extend(task.map(|task| (pack::DOCUMENT_OF, task)));
    let parent = match arguments.text("parent_id") {
        Some(_) => Some(scope::entity(&mut tx, context, arguments, "parent_id", Some(Kind::Document)).await?),
        None => None,
    };
    let new = NewEntity {
        kind,
        fields: scope::fields(kind, arguments),
    };
    let mut made = entities::create(&mut tx, context.workspace_id, project, new, &change)
        .await
        .map_err(failed)?;
    for (nth, (link_type, other)) in others.iter().enumerate() {
        let link = NewLink {
            link_type: (*link_type).to_owned(),
            source: made.object.id,
            target: other.object.id,
        };
        links::link(&mut tx, context.workspace_id, &link, &nth_of(&change, nth))
            .await
            .map_err(failed)?;
    }
    if let Some(parent) = parent {
        let to = Move {
            document: made.object.id,
            parent: Some(parent.object.id),
            position: None,
        };
        made = documents::move_to(&mut tx, context.workspace_id, to, &change)
            .await
            .map_err(failed)?;
    }
    scope::commit(tx).await?;
    Ok(answered(kind, &made))
}

/// A change of the same call, with different ids.
fn nth_of(change: &Change, nth: usize) -> Change {
    Change {
        call: change.call.map(|call| rejoin_types::ids::derived(call, LINK_IDS + nth)),
        ..change.clone()
    }
}

/// Offset of the ids of a call's own links, after those of created items.
const LINK_IDS: usize = 1_000;

fn answered(kind: Kind, entity: &Entity) -> Value {
    json!({"id": entity.object.id, kind.as_str(): views::full(entity)})
}

async fn alter(
    context: &ToolContext,
    definition: &'static Definition,
    arguments: &Arguments,
) -> Result<Value, ToolError> {
    let kind = definition.kind;
    let mut tx = scope::begin(context).await?;
    let entity = scope::entity(&mut tx, context, arguments, id_parameter(kind), Some(kind)).await?;
    let mut fields = scope::fields(kind, arguments);
    for name in arguments.texts("clear") {
        fields.entry(name).or_insert(Value::Null);
    }
    let update = Update {
        fields,
        strategy: arguments
            .text("update_strategy")
            .and_then(|strategy| strategy.parse().ok())
            .unwrap_or_default(),
        summary: arguments.text("merge_instructions").map(str::to_owned),
        expected_version: None,
    };
    let updated = entities::update(
        &mut tx,
        context.workspace_id,
        kind,
        entity.object.id,
        update,
        &scope::change(context),
    )
    .await
    .map_err(failed)?;
    scope::commit(tx).await?;
    Ok(answered(kind, &updated))
}

async fn remove(
    context: &ToolContext,
    definition: &'static Definition,
    arguments: &Arguments,
) -> Result<Value, ToolError> {
    let kind = definition.kind;
    let parameter = id_parameter(kind);
    let id = scope::id(parameter, arguments.required_text(parameter)?)?;
    let change = scope::change(context);
    let mut tx = scope::begin(context).await?;
    let deleted = json!({"deleted": true, "id": id, "type": kind.as_str()});
    // An earlier attempt of this call may have deleted it.
    if change
        .has_written(&mut tx, context.workspace_id, id)
        .await
        .map_err(failed)?
    {
        return Ok(deleted);
    }
    scope::by_id(&mut tx, context, id, Some(kind)).await?;
    deletion::delete(&mut tx, context.workspace_id, kind, id, None, &change)
        .await
        .map_err(failed)?;
    scope::commit(tx).await?;
    Ok(deleted)
}
