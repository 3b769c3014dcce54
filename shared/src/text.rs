//! Text that PostgreSQL can store. It refuses one character, NUL, in text and in JSON; models, tools and other people's data may hold it.
//!
//! The step loop cleans what a model says and what a tool returns where it receives them, so that events, records, and what the model is
//! given later agree. (Half of a surrogate pair cannot occur: Rust's strings are UTF-8.)

use serde_json::Value;

/// Stands for each NUL.
const REPLACEMENT: &str = "\u{FFFD}";

/// The text with each NUL replaced by U+FFFD.
pub fn storable(text: String) -> String {
    if text.contains('\0') {
        text.replace('\0', REPLACEMENT)
    } else {
        text
    }
}

/// The same for every string of a JSON value, keys included.
pub fn storable_json(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(storable(text)),
        Value::Array(items) => items.into_iter().map(storable_json).collect(),
        Value::Object(fields) => fields
            .into_iter()
            .map(|(key, value)| (storable(key), storable_json(value)))
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_nul_is_replaced_and_nothing_else() {
        assert_eq!(
            storable("a\0\0b\u{1}\\u0000".to_owned()),
            "a\u{FFFD}\u{FFFD}b\u{1}\\u0000"
        );
        assert_eq!(
            storable_json(json!({"a\0": ["\0", {"b": "c\0"}, 1, null, true]})),
            json!({"a\u{FFFD}": ["\u{FFFD}", {"b": "c\u{FFFD}"}, 1, null, true]})
        );
    }
}
