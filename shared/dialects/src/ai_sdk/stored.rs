//! Stored messages, as UI messages.

use rejoin_types::file_ref::FileRef;
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;
use uuid::Uuid;

/// A stored message, as `useChat` takes it
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = UiStoredMessage)]
pub struct StoredMessage {
    pub id: Uuid,
    /// `user`, `assistant` or `system`
    pub role: String,
    /// Its text and its files
    #[schema(value_type = Vec<Object>)]
    pub parts: Vec<Value>,
}

impl StoredMessage {
    pub fn of(id: Uuid, role: &str, content: String, files: &[FileRef]) -> Self {
        let text = json!({ "type": "text", "text": content, "state": "done" });
        let files = files.iter().map(
            |file| json!({ "type": "file", "mediaType": file.media_type, "filename": file.name, "url": file.path() }),
        );
        Self {
            id,
            role: role.to_owned(),
            parts: std::iter::once(text).chain(files).collect(),
        }
    }
}
