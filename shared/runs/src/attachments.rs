//! Attachments of a message: consoles, databases, files (requirement D46). Databases and files are stored with the
//! message in `attachedContext.items`; consoles are separate rows, referenced by `attachedContext.consoles`. The
//! model reads databases and files after the message's text.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Maximum number of attachments of one message.
pub const MAX: usize = 20;
/// Maximum length of an attachment's id and of its title, in characters.
const NAME_MAX_CHARS: usize = 200;

/// The kind of an attachment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Console,
    Database,
    File,
}

/// An attachment of a message, as sent by clients.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Attachment {
    pub id: String,
    #[serde(rename = "type")]
    pub kind: Kind,
    pub title: String,
    #[serde(default)]
    pub content: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
}

impl Attachment {
    /// Validates it. The error is a message for the client.
    pub fn check(&self) -> Result<(), String> {
        for (name, value) in [("id", &self.id), ("title", &self.title)] {
            let is_name = !value.trim().is_empty() && value.chars().count() <= NAME_MAX_CHARS;
            if !is_name || value.contains(['\0', '\n', '`']) {
                return Err(format!(
                    "an attachment's {name} must have 1 to {NAME_MAX_CHARS} characters and no line break, backtick or \
                    NUL"
                ));
            }
        }
        if self.content.contains('\0') {
            return Err(format!(
                "the attachment {} contains a NUL character; attach only text",
                self.title
            ));
        }
        if self.metadata.as_ref().is_some_and(|metadata| !metadata.is_object()) {
            return Err(format!("metadata of the attachment {} must be an object", self.title));
        }
        Ok(())
    }

    /// Returns a text of the metadata.
    pub fn metadata_text(&self, name: &str) -> Option<&str> {
        self.metadata.as_ref()?[name].as_str()
    }

    fn to_text(&self) -> String {
        let fenced = || {
            let longest = self
                .content
                .split(|char| char != '`')
                .map(str::len)
                .max()
                .unwrap_or_default();
            let fence = "`".repeat(longest.max(2) + 1);
            format!("\n{fence}\n{}\n{fence}", self.content.trim_end_matches('\n'))
        };
        match self.kind {
            Kind::Database => {
                let kind = self
                    .metadata_text("databaseType")
                    .map(|kind| format!(", {kind}"))
                    .unwrap_or_default();
                let content = if self.content.is_empty() {
                    String::new()
                } else {
                    fenced()
                };
                format!("Database `{}` ({}{kind}) is attached.{content}", self.title, self.id)
            }
            Kind::Console | Kind::File => format!("File `{}`:{}", self.title, fenced()),
        }
    }
}

/// Returns the databases and files of a message, from its `attachedContext`.
pub fn items(attached_context: &Value) -> Vec<Attachment> {
    Vec::<Attachment>::deserialize(&attached_context["items"]).unwrap_or_default()
}

/// Returns a message's text with its databases and files, for a model.
pub fn with_items(words: &str, attached_context: &Value) -> String {
    let blocks = items(attached_context)
        .iter()
        .map(Attachment::to_text)
        .collect::<Vec<_>>();
    let pieces = std::iter::once(words.to_owned()).chain(blocks);
    pieces.collect::<Vec<_>>().join("\n\n")
}

/// Returns all attachments of a message, from its metadata, for clients: {id, type, title, content, metadata,
/// timestamp}. An uploaded file also has `fileId`, `mediaType`, `sizeBytes` and `url`, and its content is at `url`.
pub fn listed(metadata: &Value, at: DateTime<Utc>) -> Vec<Value> {
    let attached_context = &metadata["attachedContext"];
    let consoles = attached_context["consoles"].as_array().into_iter().flatten();
    let consoles = consoles.filter(|console| console["id"].is_string()).map(|console| {
        let mut metadata = console.clone();
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.retain(|name, _| !matches!(name.as_str(), "id" | "title" | "content"));
        }
        let text = |name: &str| console[name].as_str().unwrap_or_default();
        json!({"id": console["id"], "type": Kind::Console, "title": text("title"), "content": text("content"),
               "metadata": metadata, "timestamp": at})
    });
    let items = items(attached_context).into_iter().map(|item| {
        let metadata = item.metadata.unwrap_or_else(|| json!({}));
        json!({"id": item.id, "type": item.kind, "title": item.title, "content": item.content, "metadata": metadata, "timestamp": at})
    });
    let files = rejoin_files::of_metadata(metadata).into_iter().map(|file| {
        json!({"id": file.file_id, "type": Kind::File, "title": file.name, "content": "", "timestamp": at, "fileId": file.file_id,
               "mediaType": file.media_type, "sizeBytes": file.size_bytes, "url": file.path(),
               "metadata": {"sha256": file.sha256}})
    });
    consoles.chain(items).chain(files).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requirements: D46.
    #[test]
    fn a_file_stands_in_a_fence_that_it_cannot_close() {
        let context = json!({"items": [
            {"id": "f1", "type": "file", "title": "notes.md", "content": "a\n```\nb\n```\n"},
            {"id": "d1", "type": "database", "title": "shop", "metadata": {"databaseType": "mongodb"}},
        ]});
        assert_eq!(
            with_items("Look.", &context),
            "Look.\n\nFile `notes.md`:\n````\na\n```\nb\n```\n````\n\nDatabase `shop` (d1, mongodb) is attached."
        );
        assert_eq!(with_items("Look.", &Value::Null), "Look.");
    }
}
