//! Idempotency keys of requests, taken by the API's `routes/chat` and `routes/trigger`.

use axum::http::HeaderMap;
use rejoin_commands::Idempotency;
use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::problem::Problem;

/// The header of the idempotency key.
const HEADER: &str = "idempotency-key";
/// Maximum length of a client's key, in characters.
const KEY_MAX_CHARS: usize = 255;

/// Returns the header's key, else the client's id of the turn, in separate namespaces; with the hash of the request.
pub fn of(headers: &HeaderMap, turn: Option<&str>, body: &impl Serialize) -> Result<Option<Idempotency>, Problem> {
    let malformed = || {
        Problem::bad_request(
            "invalid_idempotency_key",
            format!("an idempotency key must have 1 to {KEY_MAX_CHARS} characters"),
        )
    };
    let (space, key) = match (headers.get(HEADER), turn) {
        (Some(value), _) => ("header", value.to_str().map_err(|_| malformed())?),
        (None, Some(turn)) => ("turn", turn),
        (None, None) => return Ok(None),
    };
    if key.is_empty() || key.chars().count() > KEY_MAX_CHARS || key.contains('\0') {
        return Err(malformed());
    }
    Ok(Some(Idempotency {
        key: format!("{space}:{key}"),
        body_hash: body_hash(body),
    }))
}

/// Returns the SHA-256 of the body's canonical JSON, independent of the order of fields.
pub fn body_hash(body: &impl Serialize) -> Vec<u8> {
    let value = serde_json::to_value(body).expect("a request is plain data");
    let mut text = String::new();
    canonical(&value, &mut text);
    Sha256::digest(text.as_bytes()).to_vec()
}

/// Writes JSON with sorted fields.
fn canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(object) => {
            let mut fields: Vec<(&String, &Value)> = object.iter().filter(|(_, value)| !value.is_null()).collect();
            fields.sort_unstable_by_key(|(name, _)| *name);
            out.push('{');
            for (name, value) in fields {
                out.push_str(&json!(name).to_string());
                out.push(':');
                canonical(value, out);
                out.push(',');
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for item in items {
                canonical(item, out);
                out.push(',');
            }
            out.push(']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => out.push_str(&value.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn the_hash_does_not_depend_on_the_order_of_fields() {
        let a = json!({"message": "hi", "projectFocus": {"a": 1, "b": [1, {"x": 1, "y": 2}]}});
        let b = json!({"projectFocus": {"b": [1, {"y": 2, "x": 1}], "a": 1}, "message": "hi"});
        let c = json!({"projectFocus": {"b": [1, {"y": 2, "x": 3}], "a": 1}, "message": "hi"});
        assert_eq!(body_hash(&a), body_hash(&b));
        assert_ne!(body_hash(&a), body_hash(&c));
    }

    #[test]
    fn a_key_of_the_header_and_a_name_of_a_turn_never_meet() {
        let body = json!({"message": "hi"});
        let mut headers = HeaderMap::new();
        let by_turn = of(&headers, Some("k"), &body).unwrap().unwrap();
        headers.insert(HEADER, HeaderValue::from_static("k"));
        let by_header = of(&headers, None, &body).unwrap().unwrap();
        assert_eq!((by_turn.key.as_str(), by_header.key.as_str()), ("turn:k", "header:k"));
    }
}
