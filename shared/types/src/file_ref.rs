//! References to files, as messages, events and tool results name them.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A file as messages, events and tool results name it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileRef {
    pub file_id: Uuid,
    pub name: String,
    pub media_type: String,
    pub size_bytes: i64,
    /// In hexadecimal digits.
    pub sha256: String,
}

impl FileRef {
    /// Where its content is.
    pub fn path(&self) -> String {
        content_path(self.file_id)
    }
}

/// Where a file's content is to be had.
pub fn content_path(id: Uuid) -> String {
    format!("/api/files/{id}/content")
}
