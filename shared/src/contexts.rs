//! What a conversation is about: the type of its context, which chooses prompt and tools, and its focus, a project of the work graph (and
//! perhaps one thing in it) that its tools are confined to.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A project of the work graph, or one thing in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Focus {
    /// The graph object of type `project`.
    pub project_id: Uuid,
    pub project_name: String,
    /// The type of the thing, such as `task`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub focus_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub focus_entity_id: Option<Uuid>,
}
