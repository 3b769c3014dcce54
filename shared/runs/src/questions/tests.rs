//! Answers to questions, and approvals of calls.

use super::*;
use crate::forms;

fn question(interaction_type: &str, options: &[&str]) -> Question {
    let options: Vec<Value> = options
        .iter()
        .map(|value| json!({"label": value, "value": value}))
        .collect();
    Question {
        id: Uuid::nil(),
        workspace_id: Uuid::nil(),
        run_id: Uuid::nil(),
        tool_call_id: None,
        kind: "ask".to_owned(),
        question: "Which?".to_owned(),
        options: json!(options),
        interaction_type: interaction_type.to_owned(),
        placeholder: None,
        max_length: Some(5),
        status: "pending".to_owned(),
        answer: None,
        answered_by: None,
        created_at: DateTime::UNIX_EPOCH,
        answered_at: None,
        form_field: None,
    }
}

#[test]
fn an_answer_is_one_that_was_offered() {
    let choice = question("buttons", &["a", "b"]);
    assert_eq!(choice.check(&json!("a"), None), Ok(json!("a")));
    assert!(choice.check(&json!("c"), None).unwrap_err().contains("a, b"));
    let many = question("multi_select", &["a", "b"]);
    assert_eq!(many.check(&json!(["b", "a"]), None), Ok(json!(["b", "a"])));
    assert!(many.check(&json!(["a", 1]), None).is_err());
    let text = question("text", &[]);
    assert!(text.check(&json!("short"), None).is_ok());
    assert!(text.check(&json!("too long"), None).is_err() && text.check(&json!(" "), None).is_err());
}

#[test]
fn a_clients_output_is_no_message_of_its_user() {
    let call = Question {
        kind: client_tools::QUESTION.to_owned(),
        ..question(client_tools::QUESTION, &[])
    };
    assert_eq!(call.meant_by("12"), None);
    assert_eq!(call.check(&json!("12"), None), Ok(json!({"output": "12"})));
    assert_eq!(call.check(&json!({"a": 1}), None), Ok(json!({"output": "{\"a\":1}"})));
    assert!(call.check(&json!("12"), Some(&json!({}))).is_err());
}

/// Requirements: E28.
#[test]
fn a_message_names_an_option_or_is_an_answer_in_words() {
    let choice = question("buttons", &["a", "b"]);
    assert_eq!(choice.meant_by(" A. "), Some(json!("a")));
    assert_eq!(choice.meant_by("neither of them"), Some(json!("neither of them")));
    assert_eq!(question("multi_select", &["a", "b"]).meant_by("b"), Some(json!(["b"])));
    assert_eq!(question("text", &[]).meant_by("in May"), Some(json!("in May")));
    let task = Question {
        kind: "task".to_owned(),
        ..question("buttons", &["accept"])
    };
    assert_eq!(task.meant_by("accept"), None, "its run is over");
}

/// Requirements: E28.
#[test]
fn an_approval_is_given_or_refused_by_its_own_word_alone() {
    for kind in ["confirm", "plan"] {
        let approval = Question {
            kind: kind.to_owned(),
            ..question("confirm", &["approve", "edit", "refuse"])
        };
        assert_eq!(approval.meant_by("Approve!"), Some(json!({"decision": "approve"})));
        assert_eq!(approval.meant_by("refuse"), Some(json!({"decision": "refuse"})));
        for other in ["yes", "ok", "approve it", "edit", "why?"] {
            assert_eq!(approval.meant_by(other), None, "{other}");
        }
    }
}

#[test]
fn a_message_fills_in_a_field_if_it_fits() {
    let field = |schema: Value| json!({"form": "f", "round": 1, "name": "n", "required": true, "schema": schema});
    let confirm = Question {
        form_field: Some(field(json!({"type": "boolean"}))),
        ..question("buttons", &["true", "false", forms::DECLINE])
    };
    assert_eq!(confirm.meant_by("True."), Some(json!("true")));
    assert_eq!(confirm.meant_by("decline_form"), Some(json!(forms::DECLINE)));
    assert_eq!(confirm.meant_by("Ada"), None, "another field may take it");
    let count = Question {
        form_field: Some(field(json!({"type": "integer"}))),
        ..question("text", &[])
    };
    assert_eq!(count.meant_by("12"), Some(json!("12")));
    assert_eq!(count.meant_by("a dozen"), None);
    assert!(count.check(&json!("123456"), None).unwrap_err().contains("1 to 5"));
    assert!(count.check(&json!("12"), Some(&json!({}))).is_err());
}

#[test]
fn a_call_is_approved_edited_or_refused() {
    let confirm = question("confirm", &[]);
    assert_eq!(
        confirm.check(&json!("approve"), None),
        Ok(json!({"decision": "approve"}))
    );
    assert!(confirm.check(&json!("edit"), None).is_err());
    assert!(confirm.check(&json!("edit"), Some(&json!({"a": 1}))).is_ok());
    assert!(confirm.check(&json!("refuse"), Some(&json!({}))).is_err());
}
