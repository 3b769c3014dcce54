//! Recorded requests and responses of each provider, kept beside the tests: changes of a request show in reviews.
//!
//! `fixtures/` has a file for each cell of the table in docs/guide/models.md.
//! `INSTA_UPDATE=always cargo test -p rejoin-tests --test services models::providers::` writes them anew.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use regex::Regex;
use rejoin_provider_stand_in::{Protocol, Recorded, Service};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// Maximum length of a text kept as a whole; of a longer one the beginning is kept, with its length and hash.
const WHOLE_MAX_CHARS: usize = 300;
const BEGINNING_CHARS: usize = 100;
const HASH_BYTES: usize = 9;

/// Compares calls with the recording of this name and protocol.
pub fn check(name: &str, calls: &[Recorded]) {
    assert!(!calls.is_empty(), "{name}: nothing was recorded");
    let ids = Regex::new("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}").expect("a pattern");
    let recording: Vec<Value> = calls
        .iter()
        .map(|call| {
            let headers: Vec<String> = call
                .headers
                .iter()
                .filter(|(name, _)| name.as_str().starts_with("anthropic-"))
                .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap_or_default()))
                .collect();
            let answered: Vec<&str> = call.response.lines().filter(|line| !line.is_empty()).collect();
            json!({
                "model": call.model,
                "headers": headers,
                "request": shortened(&call.body, &ids),
                "response": shortened(&json!(answered), &ids),
            })
        })
        .collect();
    let protocol = match (calls[0].service, calls[0].protocol) {
        (Service::Azure, Protocol::Chat) => "azure-chat-completions",
        (Service::Azure, _) => "azure-responses",
        (Service::OpenRouter, _) => "openrouter",
        (Service::Vertex, Protocol::Gemini) => "vertex-gemini",
        (Service::Vertex, _) => "vertex-claude",
        (_, Protocol::Chat) => "chat-completions",
        (_, Protocol::Responses) => "responses",
        (_, Protocol::Messages) => "messages",
        (_, Protocol::Gemini) => "gemini",
        (_, Protocol::Converse) => "bedrock",
        (_, Protocol::Ollama) => "ollama",
    };
    insta::with_settings!({snapshot_path => "fixtures", prepend_module_to_snapshot => false, omit_expression => true}, {
        insta::assert_json_snapshot!(format!("{protocol}-{name}"), recording);
    });
}

/// Replaces variable ids and long texts.
fn shortened(value: &Value, ids: &Regex) -> Value {
    match value {
        Value::String(text) => {
            let text = ids.replace_all(text, "(id)");
            let count = text.chars().count();
            if count <= WHOLE_MAX_CHARS {
                return json!(text);
            }
            let beginning: String = text.chars().take(BEGINNING_CHARS).collect();
            let hash = STANDARD.encode(&Sha256::digest(text.as_bytes())[..HASH_BYTES]);
            json!(format!("{beginning}… ({count} characters, SHA-256 {hash}…)"))
        }
        Value::Array(items) => items.iter().map(|item| shortened(item, ids)).collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| (name.clone(), shortened(value, ids)))
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}
