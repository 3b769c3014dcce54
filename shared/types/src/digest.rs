//! Digests of JSON content, independent of the order of properties, and of text. Called wherever content is compared or
//! pinned.

use serde_json::Value;
use sha2::{Digest, Sha256};

/// Encodes bytes in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the SHA-256 of the parts' canonical JSON, independent of the order of properties.
pub fn of_json(parts: &[&Value]) -> Vec<u8> {
    let mut hasher = Sha256::new();
    for part in parts {
        hash_value(part, &mut hasher);
    }
    hasher.finalize().to_vec()
}

fn hash_value(value: &Value, hasher: &mut Sha256) {
    match value {
        Value::Object(fields) => {
            hasher.update(b"{");
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| name.as_str());
            for (name, item) in fields {
                hash_text(name, hasher);
                hash_value(item, hasher);
            }
            hasher.update(b"}");
        }
        Value::Array(items) => {
            hasher.update(b"[");
            items.iter().for_each(|item| hash_value(item, hasher));
            hasher.update(b"]");
        }
        Value::String(text) => hash_text(text, hasher),
        Value::Null => hasher.update(b"n"),
        Value::Bool(truth) => hasher.update(if *truth { b"t" } else { b"f" }),
        Value::Number(number) => {
            hasher.update(b"#");
            hash_text(&number.to_string(), hasher);
        }
    }
}

/// Length-prefixed, so that different sequences of texts never hash the same input.
fn hash_text(text: &str, hasher: &mut Sha256) {
    hasher.update(b"\"");
    hasher.update((text.len() as u64).to_be_bytes());
    hasher.update(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn equal_content_has_one_hash_whatever_the_order() {
        let one: Value = serde_json::from_str(r#"{"a": 1, "b": {"c": [1, 2], "d": null}}"#).unwrap();
        let other: Value = serde_json::from_str(r#"{"b": {"d": null, "c": [1, 2]}, "a": 1}"#).unwrap();
        assert_eq!(of_json(&[&one]), of_json(&[&other]));
    }

    #[test]
    fn texts_that_only_join_alike_have_different_hashes() {
        assert_ne!(of_json(&[&json!(["ab", "c"])]), of_json(&[&json!(["a", "bc"])]));
        assert_ne!(of_json(&[&json!("1")]), of_json(&[&json!(1)]));
        assert_ne!(of_json(&[&json!([[], 1])]), of_json(&[&json!([[1]])]));
    }
}
