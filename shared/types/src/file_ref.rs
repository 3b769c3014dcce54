//! References to files in messages, events and tool results.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

/// A reference to a file in messages, events and tool results.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileRef {
    pub file_id: Uuid,
    pub name: String,
    pub media_type: String,
    pub size_bytes: i64,
    /// Hexadecimal.
    pub sha256: String,
}

impl FileRef {
    /// Returns the path of its content.
    pub fn path(&self) -> String {
        content_path(self.file_id)
    }
}

/// Returns the path of a file's content.
pub fn content_path(id: Uuid) -> String {
    format!("/api/files/{id}/content")
}
