//! Structured output: a definition or a request gives a JSON Schema, and the run's answer is JSON that matches it.
//!
//! The API checks schemas before they are stored; the worker validates answers.

use serde_json::{Value, json};

use crate::Schema;

/// Maximum size of a schema, in bytes.
pub const SCHEMA_MAX_BYTES: usize = 64 * 1024;

/// Err: why the schema can't be used for answers, for the author.
pub fn check(schema: &Value) -> Result<(), String> {
    if schema["type"] != "object" {
        return Err(
            "outputSchema must be a JSON Schema of an object: {\"type\": \"object\", \"properties\": {…}}".to_owned(),
        );
    }
    let bytes = schema.to_string().len();
    if bytes > SCHEMA_MAX_BYTES {
        return Err(format!(
            "outputSchema has {bytes} bytes; the maximum is {SCHEMA_MAX_BYTES}"
        ));
    }
    rejoin_schemas::compiled(schema)
        .map(|_| ())
        .map_err(|why| format!("outputSchema is not a valid JSON Schema: {why}"))
}

/// Returns the schema of an object with these fields. Providers in strict mode require all of them; validation requires
/// the required ones only.
pub fn object(required: &[&str], fields: Value) -> Value {
    json!({"type": "object", "required": required, "properties": fields})
}

/// Returns the schema of a string with these values.
pub fn one_of(choices: &[&str], description: &str) -> Value {
    json!({"type": "string", "enum": choices, "description": description})
}

/// Parses and validates an answer's JSON. Err: what is wrong with it, for the model.
pub fn read(schema: &Schema, answer: &str) -> Result<Value, Vec<String>> {
    let value: Value = serde_json::from_str(answer)
        .or_else(|_| serde_json::from_str(json_in(answer)))
        .map_err(|error| vec![format!("the answer is not JSON ({error})")])?;
    let validator = schema.validator().map_err(|why| vec![why.to_string()])?;
    let faults = rejoin_schemas::faults(validator, &value);
    if faults.is_empty() { Ok(value) } else { Err(faults) }
}

/// Extracts the JSON object from a model's answer, which may have text or a fence around it.
fn json_in(answer: &str) -> &str {
    match (answer.find('{'), answer.rfind('}')) {
        (Some(begin), Some(end)) if begin < end => &answer[begin..=end],
        _ => answer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn person() -> Value {
        json!({"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}, "required": ["name"]})
    }

    #[test]
    fn an_answer_is_read_with_or_without_a_fence() {
        let schema = Schema::from(person());
        let ann = json!({"name": "Ann"});
        assert_eq!(read(&schema, r#"{"name": "Ann"}"#), Ok(ann.clone()));
        assert_eq!(read(&schema, "Here:\n```json\n{\"name\": \"Ann\"}\n```"), Ok(ann));
    }

    #[test]
    fn an_object_of_ours_fits_with_what_it_must_have() {
        let verdict = one_of(&["accept", "retry"], "What becomes of it");
        let document = object(&["verdict"], json!({"verdict": verdict, "notes": {"type": "string"}}));
        assert_eq!(check(&document), Ok(()));
        let schema = Schema::from(document);
        for fit in [r#"{"verdict": "retry", "notes": ""}"#, r#"{"verdict": "retry"}"#] {
            assert!(read(&schema, fit).is_ok(), "{fit}");
        }
        for unfit in [
            r#"{"notes": ""}"#,
            r#"{"verdict": "perhaps"}"#,
            r#"{"verdict": "retry", "notes": 1}"#,
        ] {
            assert!(read(&schema, unfit).is_err(), "{unfit}");
        }
    }

    #[test]
    fn what_is_wrong_is_told() {
        let schema = Schema::from(person());
        assert!(read(&schema, "Ann").unwrap_err()[0].contains("not JSON"));
        let faults = read(&schema, r#"{"age": "old"}"#).unwrap_err();
        assert!(faults.iter().any(|fault| fault.contains("name")), "{faults:?}");
    }

    #[test]
    fn a_schema_is_of_an_object_small_and_sound() {
        assert_eq!(check(&person()), Ok(()));
        assert!(check(&json!({"type": "array"})).unwrap_err().contains("object"));
        assert!(check(&json!({"type": "object", "properties": {"a": {"type": "text"}}})).is_err());
        let large = json!({"type": "object", "description": "x".repeat(SCHEMA_MAX_BYTES)});
        assert!(check(&large).unwrap_err().contains("bytes"));
    }
}
