//! Text that PostgreSQL can store. It rejects NUL in text and JSON; models, tools and external data may contain it.
//!
//! The step loop cleans model and tool output on receipt, so that events, records, and later model input agree. (Lone
//! surrogates cannot occur: Rust's strings are UTF-8.)

use serde_json::Value;

/// Replaces each NUL.
const REPLACEMENT: &str = "\u{FFFD}";

/// Returns the text with each NUL replaced by U+FFFD.
pub fn storable(text: String) -> String {
    if text.contains('\0') {
        text.replace('\0', REPLACEMENT)
    } else {
        text
    }
}

/// The same for every string of a JSON value, including keys.
pub fn storable_json(value: Value) -> Value {
    each_text(value, &storable)
}

/// Returns whether any string of a JSON value, including keys, contains NUL: for users' values, which are rejected with
/// an error.
pub fn has_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(items) => items.iter().any(has_nul),
        Value::Object(fields) => fields.iter().any(|(key, value)| key.contains('\0') || has_nul(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Returns whether a character is invisible or changes how others are displayed, so that users don't see what a model
/// reads: control characters, direction marks, zero-width spaces, tags.
pub fn is_hidden(character: char) -> bool {
    let is_control = character.is_control() && !matches!(character, '\n' | '\r' | '\t');
    let hides = matches!(character,
        '\u{200B}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{FEFF}' | '\u{FFF9}'..='\u{FFFB}'
        | '\u{E0000}'..='\u{E01EF}');
    is_control || hides
}

/// Returns the text with each hidden character replaced by U+FFFD: for third-party texts that users approve and models
/// read.
pub fn plain(text: String) -> String {
    if text.contains(is_hidden) {
        text.replace(is_hidden, REPLACEMENT)
    } else {
        text
    }
}

/// The same for every string of a JSON value, including keys.
pub fn plain_json(value: Value) -> Value {
    each_text(value, &plain)
}

fn each_text(value: Value, change: &impl Fn(String) -> String) -> Value {
    match value {
        Value::String(text) => Value::String(change(text)),
        Value::Array(items) => items.into_iter().map(|item| each_text(item, change)).collect(),
        Value::Object(fields) => fields
            .into_iter()
            .map(|(key, value)| (change(key), each_text(value, change)))
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

    #[test]
    fn invisible_characters_are_replaced_and_languages_are_kept() {
        let dirty = json!({"a\u{202E}b": "x\u{200B}\u{E0041}\u{7}\u{0}y"});
        assert_eq!(
            plain_json(dirty),
            json!({"a\u{FFFD}b": "x\u{FFFD}\u{FFFD}\u{FFFD}\u{FFFD}y"})
        );
        // Line breaks, a joiner needed in Persian, a combining accent, and composed emoji.
        for text in [
            "a\n\tb\r\n",
            "می\u{200C}خواهم",
            "e\u{301}",
            "👩\u{200D}💻",
            "שלום\u{200F}",
        ] {
            assert_eq!(plain(text.to_owned()), text);
        }
    }
}
