//! The definition of a work tool: its description for models, its function, and its messages to users. The families
//! list theirs as `TOOLS`.

use futures::future::BoxFuture;
use serde_json::Value;

use crate::Kind;
use crate::entities::Strategy;
use crate::kinds::Holds;
use rejoin_tools::arguments::{self, Arguments, Parameter, schema};
use rejoin_tools::{ToolContext, ToolError, ToolSpec};

type Call = for<'a> fn(&'a ToolContext, &'static Definition, &'a Arguments) -> BoxFuture<'a, Result<Value, ToolError>>;

/// The fields of its kind that a tool accepts, beside its own parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fields {
    None,
    /// The name is required.
    OfNew,
    OfUpdate,
}

pub(super) struct Definition {
    pub(super) name: &'static str,
    /// `list`, `search`, `read`, `create`, `update` or `delete`.
    pub(super) action: &'static str,
    /// The kind of entity concerned.
    pub(super) kind: Kind,
    /// For the model: what it does, and when to call it.
    pub(super) description: &'static str,
    pub(super) own: &'static [Parameter],
    pub(super) fields: Fields,
    pub(super) call: Call,
    /// The equivalent route.
    pub(super) endpoint: &'static str,
    /// The graph types that it reads or writes.
    pub(super) types: &'static str,
    /// Whether it changes the conversation's context.
    pub(super) shifts: bool,
}

impl Definition {
    pub(super) fn parameters(&self) -> Vec<Parameter> {
        let mut parameters = self.own.to_vec();
        if self.fields != Fields::None {
            parameters.extend(self.kind.fields().into_iter().map(|field| Parameter {
                name: field.name,
                kind: match field.holds {
                    Holds::Text if field.name == self.kind.name_field() && self.fields == Fields::OfNew => {
                        arguments::Kind::Text
                    }
                    Holds::Text | Holds::Time => arguments::Kind::OptionalText,
                    Holds::Integer { .. } => arguments::Kind::OptionalInteger,
                    Holds::Choice(words) => arguments::Kind::OptionalChoice(words),
                    Holds::Object => arguments::Kind::OptionalObject,
                },
                description: field.description,
            }));
        }
        if self.fields == Fields::OfUpdate {
            parameters.extend_from_slice(UPDATE);
        }
        parameters
    }

    pub(super) fn spec(&self) -> ToolSpec {
        let read_only = matches!(self.action, "list" | "search" | "read");
        ToolSpec {
            name: self.name.to_owned(),
            description: self.description.to_owned(),
            parameters: schema(&self.parameters()),
            read_only,
            idempotent: true,
            destructive: self.action == "delete",
        }
    }
}

const UPDATE: &[Parameter] = &[
    Parameter::new(
        "clear",
        arguments::Kind::OptionalTexts,
        "Names of fields to clear; null: none.",
    ),
    Parameter::new(
        "update_strategy",
        arguments::Kind::OptionalChoice(&Strategy::TEXTS),
        "replace (default): given fields replace the old values; append: description and content are appended to the \
        old text; merge: props are merged.",
    ),
    Parameter::new(
        "merge_instructions",
        arguments::Kind::OptionalText,
        "Summary of the change and its reason, in one sentence; stored with the version.",
    ),
];

pub(super) const PROJECT_ID: Parameter = Parameter::new(
    "project_id",
    arguments::Kind::OptionalText,
    "The project's id; null: the conversation's project, or all projects.",
);
pub(super) const LIMIT: Parameter = Parameter::new(
    "limit",
    arguments::Kind::OptionalInteger,
    "Maximum number of results; null: 20, at most 50.",
);

/// Maximum value of `limit`.
pub(super) const MAX_LIMIT: i64 = 50;
pub(super) const DEFAULT_LIMIT: i64 = 20;

/// The parameter that identifies an entity of the kind.
pub(super) const fn id_parameter(kind: Kind) -> &'static str {
    match kind {
        Kind::Project => "project_id",
        Kind::Task => "task_id",
        Kind::Goal => "goal_id",
        Kind::Plan => "plan_id",
        Kind::Document => "document_id",
        Kind::Milestone => "milestone_id",
        Kind::Risk => "risk_id",
        Kind::Requirement => "requirement_id",
        Kind::Output => "output_id",
        Kind::Event => "event_id",
    }
}
