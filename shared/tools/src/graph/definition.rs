//! The definition of a graph tool: its description for models, and its function. The families list theirs as `TOOLS`.

use futures::future::BoxFuture;
use serde_json::Value;

use crate::arguments::{Arguments, Kind, Parameter, schema};
use crate::{ToolContext, ToolError, ToolSpec};

/// The effect of a call. All calls may be repeated after a crash: ids of created items derive from the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    Reads,
    Writes,
    /// Hides something, which can be restored.
    Deletes,
}

type Call = for<'a> fn(&'a ToolContext, &'a Arguments) -> BoxFuture<'a, Result<Value, ToolError>>;

pub(super) struct Definition {
    pub(super) name: &'static str,
    pub(super) effect: Effect,
    /// For the model: what it does, and when to call it.
    pub(super) description: &'static str,
    pub(super) parameters: &'static [Parameter],
    pub(super) call: Call,
}

impl Definition {
    pub(super) fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.name.to_owned(),
            description: self.description.to_owned(),
            parameters: schema(self.parameters),
            read_only: self.effect == Effect::Reads,
            idempotent: true,
            destructive: self.effect == Effect::Deletes,
        }
    }
}

/// The accepted references to an entity.
pub(super) const ENTITY: &str =
    "The entity: its id from an earlier result, Type:key, or its key or name if that is unique.";
pub(super) const ENTITY_ID: Parameter = Parameter::new("entity_id", Kind::Text, ENTITY);
