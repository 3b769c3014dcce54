//! The focus of a conversation: a project of the work graph, or one entity in it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

/// A project of the work graph, or one entity in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Focus {
    /// The graph object of type `project`.
    #[serde(alias = "project_id")]
    pub project_id: Uuid,
    #[serde(default, alias = "project_name")]
    pub project_name: String,
    /// The type of the entity, such as `task`.
    #[serde(default, alias = "focus_type", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub focus_type: Option<String>,
    #[serde(default, alias = "focus_entity_id", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub focus_entity_id: Option<Uuid>,
}
