//! Consoles that a user has open, as clients send them with a message.

use rejoin_http::problem::Problem;
use rejoin_runs::consoles::NewConsole;
use rejoin_runs::consoles::attached::{ATTACHED_MAX, Attached};
use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

/// The name of a console without a title.
const UNTITLED: &str = "Console";

/// A console as sent by a client; unknown fields are ignored.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConsoleEntry {
    id: Uuid,
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    content: Option<String>,
    #[serde(default)]
    version: Option<i32>,
    #[serde(default, alias = "databaseType")]
    kind: Option<String>,
    #[serde(default, alias = "dataSourceId")]
    database_id: Option<Uuid>,
    #[serde(default, alias = "databaseName")]
    database: Option<String>,
    /// Earlier chat pages put its database here.
    #[serde(default)]
    metadata: Option<Value>,
}

impl ConsoleEntry {
    fn metadata_text(&self, name: &str) -> Option<String> {
        self.metadata.as_ref()?[name].as_str().map(str::to_owned)
    }
}

/// Returns the consoles of a request to store. Entries without a valid id are context only.
pub fn attached_consoles(sent: Option<&Value>) -> Result<Vec<Attached>, Problem> {
    let invalid = |fault: String| Problem::bad_request("invalid_console", fault);
    let entries = sent.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if entries.len() > ATTACHED_MAX {
        return Err(invalid(format!("at most {ATTACHED_MAX} consoles can be attached")));
    }
    let known = entries.iter().filter_map(|entry| ConsoleEntry::deserialize(entry).ok());
    known
        .map(|entry| {
            let kind = entry.kind.clone().or_else(|| entry.metadata_text("databaseType"));
            let source = entry.metadata_text("databaseId").and_then(|id| id.parse().ok());
            let database = entry.database.clone().or_else(|| entry.metadata_text("databaseName"));
            let content = entry.content.unwrap_or_default();
            let new = NewConsole {
                title: entry
                    .title
                    .filter(|title| !title.trim().is_empty())
                    .unwrap_or_else(|| UNTITLED.to_owned()),
                content: content.clone(),
                kind,
                data_source_id: entry.database_id.or(source),
                database,
                metadata: entry.metadata.filter(Value::is_object),
                ..NewConsole::default()
            };
            new.check().map_err(invalid)?;
            Ok(Attached {
                id: entry.id,
                text: entry.version.map(|version| (content, version)),
                new,
            })
        })
        .collect()
}
