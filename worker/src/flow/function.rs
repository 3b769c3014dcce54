//! The flow `function`: a tool of a user's program executes the turn. It gets the message and, if its schema has `history`, what was said before;
//! its result is the answer.

use rejoin_model_client::{Message, ModelError, ModelRequest, ToolCall};
use rejoin_tools::ToolSpec;
use serde_json::{Value, json};

use super::{NextAction, refused};

/// Maximum number of earlier messages that the function gets: the newest.
const HISTORY_MAX: usize = 100;

/// Returns the next action.
pub(super) fn next(tool: &str, request: &ModelRequest) -> Result<NextAction, ModelError> {
    let messages = &request.messages;
    let asked = messages
        .iter()
        .rposition(|message| matches!(message, Message::User { .. }))
        .unwrap_or_default();
    let results = || {
        messages
            .iter()
            .filter(|message| matches!(message, Message::ToolResult { .. }))
    };
    let answer = messages[asked..].iter().rev().find_map(|message| match message {
        Message::ToolResult { content, is_error, .. } => Some((content, *is_error)),
        Message::User { .. } | Message::Assistant { .. } => None,
    });
    match answer {
        Some((content, true)) => Err(refused("function_failed", content.clone())),
        Some((content, false)) => Ok(NextAction::Answer(text_of(content))),
        None if request.tools.is_empty() => Err(refused(
            "function_missing",
            format!("no program serves the tool {tool}, which executes this agent; start one that does"),
        )),
        None => {
            let mut arguments = json!({"message": said(messages.get(asked))});
            let wants_history = |spec: &ToolSpec| spec.parameters.document()["properties"]["history"].is_object();
            if request.tools.iter().any(wants_history) {
                arguments["history"] = history(&messages[..asked]).into();
            }
            Ok(NextAction::Calls(vec![ToolCall {
                id: format!("flow_{}", results().count() + 1),
                name: tool.to_owned(),
                arguments,
            }]))
        }
    }
}

/// What was said before, the oldest first.
fn history(messages: &[Message]) -> Vec<Value> {
    let said: Vec<Value> = messages
        .iter()
        .filter_map(|message| match message {
            Message::User { text, .. } => Some(json!({"role": "user", "text": text})),
            Message::Assistant { text, .. } if !text.is_empty() => Some(json!({"role": "assistant", "text": text})),
            Message::Assistant { .. } | Message::ToolResult { .. } => None,
        })
        .collect();
    said[said.len().saturating_sub(HISTORY_MAX)..].to_vec()
}

fn said(message: Option<&Message>) -> &str {
    match message {
        Some(Message::User { text, .. }) => text,
        _ => "",
    }
}

/// The answer of a result: a text as it is, anything else as JSON. Null: the function has written its answer, or has none.
fn text_of(content: &str) -> String {
    match serde_json::from_str(content) {
        Ok(Value::String(text)) => text,
        Ok(Value::Null) => String::new(),
        _ => content.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(messages: Vec<Message>) -> ModelRequest {
        let mut spec = crate::coordination::ask_user().spec().clone();
        spec.parameters = json!({"type": "object", "properties": {"message": {}, "history": {}}}).into();
        ModelRequest {
            messages,
            tools: vec![spec],
            ..ModelRequest::default()
        }
    }

    fn result(content: &str, is_error: bool) -> Message {
        Message::ToolResult {
            call_id: "c".to_owned(),
            tool: "billing".to_owned(),
            content: content.to_owned(),
            is_error,
            attachments: Vec::new(),
        }
    }

    #[test]
    fn the_function_gets_the_message_and_its_result_is_the_answer() {
        let messages = vec![
            Message::user("hello"),
            result("\"hi\"", false),
            Message::user("refund A-7"),
        ];
        let Ok(NextAction::Calls(calls)) = next("billing", &request(messages.clone())) else {
            panic!("a call");
        };
        assert_eq!((calls[0].id.as_str(), calls[0].name.as_str()), ("flow_2", "billing"));
        let expected = json!({"message": "refund A-7", "history": [{"role": "user", "text": "hello"}]});
        assert_eq!(calls[0].arguments, expected);
        for (content, text) in [
            ("\"done\"", "done"),
            ("null", ""),
            (r#"{"refunded":true}"#, r#"{"refunded":true}"#),
        ] {
            let answered = request([messages.clone(), vec![result(content, false)]].concat());
            let Ok(NextAction::Answer(answer)) = next("billing", &answered) else {
                panic!("an answer");
            };
            assert_eq!(answer, text);
        }
    }

    #[test]
    fn a_function_that_fails_or_is_missing_is_an_error() {
        let failed = request(vec![Message::user("refund"), result("Error: no", true)]);
        let missing = ModelRequest {
            messages: vec![Message::user("refund")],
            ..ModelRequest::default()
        };
        for (request, code) in [(failed, "function_failed"), (missing, "function_missing")] {
            assert_eq!(next("billing", &request).err().map(|error| error.code), Some(code));
        }
    }
}
