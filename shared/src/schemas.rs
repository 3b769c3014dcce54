//! JSON Schemas that come from outside: compiled, and what breaks them in words. Called by whatever holds a value against one: packs
//! of the graph, arguments of tools, manifests.

use jsonschema::Validator;
use serde_json::Value;

/// Faults of one value that are told.
const TOLD_FAULTS: usize = 5;
/// Of each fault: it quotes what is wrong, which may be megabytes.
const TOLD_CHARS: usize = 500;

/// Err: what is wrong with the schema. References lead nowhere outside of it.
pub fn compiled(schema: &Value) -> Result<Validator, String> {
    jsonschema::validator_for(schema).map_err(|error| cut(&error.to_string()))
}

/// What is wrong with a value, each with where; empty if nothing is.
pub fn faults(validator: &Validator, value: &Value) -> Vec<String> {
    validator
        .iter_errors(value)
        .take(TOLD_FAULTS)
        .map(|fault| {
            let what = cut(&fault.to_string());
            // Names in it may be as long as whoever sent it likes.
            match cut(&fault.instance_path().to_string()).trim_start_matches('/') {
                "" => what,
                path => format!("{path}: {what}"),
            }
        })
        .collect()
}

/// Whether a property of this schema may be null.
pub fn allows_null(schema: &Value) -> bool {
    match &schema["type"] {
        Value::String(kind) => kind == "null",
        Value::Array(kinds) => kinds.iter().any(|kind| kind == "null"),
        _ => false,
    }
}

fn cut(text: &str) -> String {
    text.chars().take(TOLD_CHARS).collect()
}
