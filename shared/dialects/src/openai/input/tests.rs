//! Which messages are answered, which are history, and how files are named.

use serde_json::json;

use super::*;

fn past(role: Role, text: &str) -> Past {
    Past {
        role,
        text: text.to_owned(),
    }
}

#[test]
fn the_users_last_message_is_answered_others_are_history() {
    let input = of_responses(&json!([
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hello."}]},
        {"role": "user", "content": [{"type": "input_text", "text": "One"}, {"type": "input_text", "text": "Two"}]},
    ]));
    let input = input.unwrap();
    assert_eq!(
        input.history,
        [
            past(Role::System, "Be brief."),
            past(Role::User, "Hi"),
            past(Role::Assistant, "Hello.")
        ]
    );
    assert_eq!(input.message.as_deref(), Some("One\n\nTwo"));
}

#[test]
fn answers_at_the_end_are_answers_and_earlier_ones_are_history() {
    let question = Uuid::now_v7();
    let call = json!({"type": "function_call", "call_id": ids::call(question), "name": "look", "arguments": "{}"});
    let output = json!({"type": "function_call_output", "call_id": ids::call(question), "output": "7"});
    let input = of_responses(&json!([{"role": "user", "content": "Look"}, call, output])).unwrap();
    assert_eq!(
        input.answers,
        [Answer {
            question,
            reply: Reply::Output("7".into())
        }]
    );
    assert_eq!((input.message, input.history), (None, vec![past(Role::User, "Look")]));
    let more = json!({"role": "user", "content": "And?"});
    let input = of_responses(&json!([{"role": "user", "content": "Look"}, call, output, more])).unwrap();
    assert_eq!((input.answers, input.message.as_deref()), (vec![], Some("And?")));
    assert_eq!(
        input.history[1],
        past(Role::Assistant, "Called look({}), which returned: 7")
    );
}

#[test]
fn a_file_is_an_uploaded_one_or_a_data_url() {
    let id = Uuid::now_v7();
    let input = of_responses(&json!([{"role": "user", "content": [
        {"type": "input_text", "text": "See"},
        {"type": "input_image", "image_url": "data:image/png;base64,AAAA"},
        {"type": "input_file", "file_id": id.to_string()},
    ]}]));
    let png = InputFile::Inline {
        name: "image".into(),
        media_type: "image/png".into(),
        base64: "AAAA".into(),
    };
    assert_eq!(input.unwrap().files, [png, InputFile::Uploaded(id)]);
    let refused = of_responses(&json!([{"role": "user", "content": [
        {"type": "input_image", "image_url": "https://example.com/a.png"}]}]));
    assert_eq!(refused.unwrap_err().param.as_deref(), Some("input[0].content[0]"));
}
