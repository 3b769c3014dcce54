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

/// Returns the file whose content has this address, as a path or with an origin.
pub fn id_of_address(url: &str) -> Option<Uuid> {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    let id = path.strip_suffix("/content")?.rsplit('/').next()?.parse().ok()?;
    path.ends_with(&content_path(id)).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_known_by_its_address() {
        let id = Uuid::now_v7();
        for before in ["", "https://rejoin.example"] {
            assert_eq!(id_of_address(&format!("{before}{}", content_path(id))), Some(id));
        }
        assert_eq!(id_of_address("https://example.com/content"), None);
        assert_eq!(id_of_address(&format!("https://example.com/{id}/content")), None);
    }
}
