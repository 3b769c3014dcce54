//! Fields of the API's responses, as the verbs print them.
use serde_json::Value;

/// Returns the items of a page; none: it is no page.
pub fn items(page: &Value) -> &[Value] {
    page["items"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Returns a text; empty: null, absent, or no text.
pub fn field(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}
