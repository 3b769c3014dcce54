//! Parts of messages and artifacts.

use serde_json::{Map, Value, json};

/// The media type of data.
const JSON: &str = "application/json";

pub(super) fn text_part(text: &str) -> Value {
    json!({ "text": text })
}

/// A part with structured data.
pub(super) fn data_part(data: &Value) -> Value {
    json!({"data": data, "mediaType": JSON})
}

/// A part with a file, by the address of its content at the server's origin.
pub(super) fn file_part(origin: &str, file: &Value) -> Value {
    let id = file["fileId"]
        .as_str()
        .and_then(|id| id.parse().ok())
        .unwrap_or_default();
    json!({
        "url": format!("{origin}{}", rejoin_types::file_ref::content_path(id)), "filename": file["name"], "mediaType": file["mediaType"],
    })
}

/// The fields of a `usage` event that are about use.
pub(super) fn usage(event: &Value) -> Value {
    let mut usage = Map::new();
    for name in ["inputTokens", "outputTokens", "totalTokens", "costUsd"] {
        if !event[name].is_null() {
            usage.insert(name.to_owned(), event[name].clone());
        }
    }
    Value::Object(usage)
}
