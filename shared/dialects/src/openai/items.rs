//! Items of a response as JSON: input items, output items, and their parts.

use serde_json::{Value, json};
use uuid::Uuid;

use super::ids;

/// The label of this server's own tools.
pub(super) const SERVER_LABEL: &str = "rejoin";

/// A JSON value as a text; texts as they are.
pub(super) fn json_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The user's message of a native event or a stored conversation.
pub(super) fn user_message(message: &Value) -> Value {
    let mut content = vec![json!({"type": "input_text", "text": message["content"]})];
    for file in message["attachments"].as_array().into_iter().flatten() {
        let is_image = file["mediaType"]
            .as_str()
            .is_some_and(|kind| kind.starts_with("image/"));
        content.push(if is_image {
            json!({"type": "input_image", "file_id": file["fileId"], "detail": "auto", "image_url": null})
        } else {
            json!({"type": "input_file", "file_id": file["fileId"], "filename": file["name"]})
        });
    }
    let id = message["id"].as_str().and_then(|id| id.parse().ok()).map(ids::message);
    json!({"id": id, "type": "message", "role": "user", "status": "completed", "content": content})
}

/// A message of a conversation.
pub fn stored_message(id: Uuid, role: &str, content: &str, attachments: &Value) -> Value {
    let mut item = user_message(&json!({"id": id, "content": content, "attachments": attachments}));
    if role != "user" {
        item["role"] = json!(role);
    }
    if role == "assistant" {
        item["content"] = json!([text_part(content)]);
    }
    item
}

/// The output that a client returned.
pub(super) fn function_output(question: Uuid, output: &Value) -> Value {
    json!({
        "id": format!("fco_{}", question.simple()),
        "type": "function_call_output",
        "call_id": ids::call(question),
        "output": json_text(output),
        "status": "completed",
    })
}

pub(super) fn approval_response(question: Uuid, answer: &Value) -> Value {
    let decision = answer["decision"].as_str().or(answer.as_str()).unwrap_or_default();
    json!({
        "id": format!("mcprr_{}", question.simple()),
        "type": "mcp_approval_response",
        "approval_request_id": ids::approval(question),
        "approve": decision != "refuse",
    })
}

/// A question and its options, as words.
pub(super) fn question(event: &Value) -> String {
    let mut words = event["question"].as_str().unwrap_or_default().to_owned();
    for option in event["options"].as_array().into_iter().flatten() {
        let label = option["label"]
            .as_str()
            .or(option["value"].as_str())
            .unwrap_or_default();
        words.push_str("\n- ");
        words.push_str(label);
    }
    words
}

pub(super) fn text_part(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
}

pub(super) fn message(id: &str, status: &str, content: &[Value]) -> Value {
    json!({"id": id, "type": "message", "role": "assistant", "status": status, "content": content})
}

pub(super) fn reasoning(id: &str, status: &str, summary: &[Value]) -> Value {
    json!({"id": id, "type": "reasoning", "status": status, "summary": summary})
}

pub(super) fn summary_part(text: &str) -> Value {
    json!({"type": "summary_text", "text": text})
}

/// A page of items, as lists of the protocol have it.
pub fn list(items: Vec<Value>, has_more: bool) -> Value {
    let id = |item: Option<&Value>| item.map(|item| item["id"].clone()).unwrap_or_default();
    let (first, last) = (id(items.first()), id(items.last()));
    json!({"object": "list", "data": items, "first_id": first, "last_id": last, "has_more": has_more})
}
