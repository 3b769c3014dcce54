//! Questions as forms, by which a program asks its user: a message, and the JSON Schema of the answer. Called by the MCP server.

use serde_json::{Value, json};

/// The property of a form that holds the answer.
pub const ANSWER: &str = "answer";
/// The decision on a call or a plan that a form can't express: it needs changed arguments.
const EDIT: &str = "edit";

/// Returns the form of a `question` event. None: no form can express the question.
pub fn form(event: &Value) -> Option<Value> {
    let options: Vec<Value> = event["options"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|option| option["value"] != EDIT)
        .map(|option| json!({"const": option["value"], "title": option["label"]}))
        .collect();
    let answer = match event["interactionType"].as_str()? {
        "text" => json!({"type": "string", "minLength": 1}),
        "multi_select" => json!({"type": "array", "minItems": 1, "items": {"anyOf": options}}),
        "buttons" | "select" | "confirm" => json!({"type": "string", "oneOf": options}),
        _ => return None,
    };
    let mut message = event["question"].as_str()?.to_owned();
    if let (Some(tool), Some(input)) = (event["tool"].as_str(), event.get("input")) {
        message.push_str(&format!("\n\n{tool} {input}"));
    }
    Some(json!({
        "mode": "form",
        "message": message,
        "requestedSchema": {"type": "object", "properties": {ANSWER: answer}, "required": [ANSWER]},
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(interaction_type: &str, options: Value) -> Value {
        json!({"type": "question", "question": "Which?", "interactionType": interaction_type, "options": options})
    }

    #[test]
    fn a_question_is_a_form_with_one_answer() {
        let options = json!([{"label": "Yes", "value": "approve"}, {"label": "Change", "value": "edit"}]);
        let mut event = question("confirm", options);
        (event["tool"], event["input"]) = (json!("delete_entity"), json!({"id": "curl"}));
        let form = form(&event).unwrap();
        let answer = &form["requestedSchema"]["properties"]["answer"];
        assert_eq!(answer["oneOf"], json!([{"const": "approve", "title": "Yes"}]), "{form}");
        assert_eq!(form["message"], "Which?\n\ndelete_entity {\"id\":\"curl\"}");
        assert_eq!(form["requestedSchema"]["required"], json!(["answer"]));
    }

    #[test]
    fn texts_and_lists_are_forms_and_calls_of_clients_are_none() {
        let text = form(&question("text", json!([]))).unwrap();
        assert_eq!(text["requestedSchema"]["properties"]["answer"]["type"], "string");
        let options = json!([{"label": "A", "value": "a"}]);
        let list = form(&question("multi_select", options)).unwrap();
        assert_eq!(list["requestedSchema"]["properties"]["answer"]["type"], "array");
        assert_eq!(form(&question("client_tool", json!([]))), None);
    }
}
