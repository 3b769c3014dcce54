//! Questions of a run as elicitations: forms that the client's user fills in. Called by `ask`.
//!
//! Until 2025-11-25 a server sends a form as a request to its client. Since 2026-07-28 it returns the forms instead of a result, and the client
//! repeats its call with the answers.

use rejoin_commands::{CloseQuestion, Closing};
use rejoin_http::problem::Problem;
use rejoin_runs::{forms, questions};
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction, ProtocolVersion};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Value, json};
use uuid::Uuid;

use super::Asked;

/// The property of a form that holds the answer.
const ANSWER: &str = "answer";
/// The decision on a call or a plan that a form can't express: it needs changed arguments.
const EDIT: &str = "edit";
/// The decision of a user who declines.
const REFUSE: &str = "refuse";

/// How a client's user can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Not at all: the caller gets the question as its result.
    None,
    /// By a request to the client.
    Request,
    /// By a result that requires input.
    Result,
}

/// Whether the client supports forms.
fn has_forms(context: &RequestContext<RoleServer>) -> bool {
    let elicitation = context.client_capabilities().and_then(|client| client.elicitation);
    // A client that names no mode supports them.
    elicitation.is_some_and(|modes| modes.form.is_some() || modes.url.is_none())
}

impl Way {
    pub fn of(context: &RequestContext<RoleServer>) -> Self {
        match context.protocol_version() {
            _ if !has_forms(context) => Self::None,
            Some(version) if version >= ProtocolVersion::V_2026_07_28 => Self::Result,
            Some(_) | None => Self::Request,
        }
    }

    /// The same of a task: its state names what is required.
    pub fn of_task(context: &RequestContext<RoleServer>) -> Self {
        if has_forms(context) { Self::Result } else { Self::None }
    }
}

/// Returns the form of a `question` event. None: no form can express the question.
pub fn form(event: &Value) -> Option<ElicitRequestParams> {
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
    let form = json!({
        "mode": "form",
        "message": message,
        "requestedSchema": {"type": "object", "properties": {ANSWER: answer}, "required": [ANSWER]},
    });
    serde_json::from_value(form).ok()
}

/// Stores what the user answered to a form. False: they did not answer.
pub async fn answer(asked: &Asked, question_id: Uuid, result: &ElicitResult) -> Result<bool, Problem> {
    let (state, caller) = (&asked.state, &asked.caller);
    let found = {
        let mut db = caller.begin(state).await?;
        questions::get_visible(&mut *db, caller.owner(), question_id).await?
    };
    let question = found.ok_or_else(|| Problem::not_found("question_not_found", "The question"))?;
    if !question.is_pending() {
        // Answered elsewhere, or by an earlier try of this call.
        return Ok(true);
    }
    let answer = match (&result.action, &result.content) {
        (ElicitationAction::Accept, Some(content)) => content[ANSWER].clone(),
        (ElicitationAction::Decline, _) if question.is_approval() => json!(REFUSE),
        (ElicitationAction::Decline, _) if question.form_field.is_some() => json!(forms::DECLINE),
        (_, _) => return Ok(false),
    };
    let command = CloseQuestion {
        id: question_id,
        closing: Closing::Answer {
            answer: &answer,
            input: None,
            user_id: Some(caller.user_id),
        },
    };
    let wake = rejoin_commands::execute_for(&state.db.pool_sqlx, caller.rls_scope(), &command).await?;
    state.bus.publish(wake);
    Ok(true)
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
        let form = serde_json::to_value(form(&event).unwrap()).unwrap();
        let answer = &form["requestedSchema"]["properties"]["answer"];
        assert_eq!(answer["oneOf"], json!([{"const": "approve", "title": "Yes"}]), "{form}");
        assert_eq!(form["message"], "Which?\n\ndelete_entity {\"id\":\"curl\"}");
        assert_eq!(form["requestedSchema"]["required"], json!(["answer"]));
    }

    #[test]
    fn texts_and_lists_are_forms_and_calls_of_clients_are_none() {
        let text = serde_json::to_value(form(&question("text", json!([]))).unwrap()).unwrap();
        assert_eq!(text["requestedSchema"]["properties"]["answer"]["type"], "string");
        let options = json!([{"label": "A", "value": "a"}]);
        let list = serde_json::to_value(form(&question("multi_select", options)).unwrap()).unwrap();
        assert_eq!(list["requestedSchema"]["properties"]["answer"]["type"], "array");
        assert_eq!(form(&question("client_tool", json!([]))), None);
    }
}
