//! Inputs of runs, read or refused with a code.

use super::*;

fn input(more: &Value) -> RunAgentInput {
    let mut body = json!({"threadId": "t", "runId": "r", "messages": [], "protocolVersion": "1.0"});
    for (name, value) in more.as_object().into_iter().flatten() {
        body[name] = value.clone();
    }
    serde_json::from_value(body).unwrap()
}

fn code(more: &Value) -> &'static str {
    input(more).asked().unwrap_err().code
}

#[test]
fn the_last_message_counts() {
    let user = json!({"id": "1", "role": "user", "content": "Hi"});
    let call = json!({"id": "2", "role": "assistant", "toolCalls": [{"id": "c", "type": "function"}]});
    let tool = json!({"id": "3", "role": "tool", "toolCallId": "c", "content": "21"});
    let activity = json!({"id": "4", "role": "activity", "activityType": "x", "content": {}});
    let asked = input(&json!({"messages": [user, activity]})).asked().unwrap();
    assert_eq!(asked.message.unwrap().text, "Hi");
    let asked = input(&json!({"messages": [user, call, tool]})).asked().unwrap();
    assert_eq!((asked.message, asked.results[0].call_id.as_str()), (None, "c"));
    let asked = input(&json!({"messages": [user, call, tool, user]})).asked().unwrap();
    assert_eq!((asked.message.is_some(), asked.results.len()), (true, 1));
    let resume = json!([{"interruptId": "q", "status": "resolved", "payload": "x"}]);
    let asked = input(&json!({"messages": [user], "resume": resume})).asked().unwrap();
    assert_eq!(asked.message, None);
    assert_eq!(code(&json!({"messages": [user, call]})), "nothing_to_run");
    assert_eq!(code(&json!({})), "nothing_to_run");
}

#[test]
fn bad_requests_are_refused_with_a_code() {
    let user = json!({"id": "1", "role": "user", "content": "Hi"});
    assert_eq!(code(&json!({"threadId": "", "messages": [user]})), "invalid_id");
    assert_eq!(
        code(&json!({"runId": "r".repeat(201), "messages": [user]})),
        "invalid_id"
    );
    let url = json!({"role": "user", "content": [{"type": "image", "source": {"type": "url", "value": "http://x"}}]});
    assert_eq!(code(&json!({"messages": [url]})), "unsupported_content");
    let odd = json!({"role": "user", "content": [{"type": "hologram"}]});
    assert_eq!(code(&json!({"messages": [odd]})), "unsupported_content");
    let tool = json!({"role": "tool", "content": "x"});
    assert_eq!(code(&json!({"messages": [tool]})), "invalid_tool_message");
    let big = json!({"messages": [user], "state": {"a": "x".repeat(INSTRUCTIONS_MAX_BYTES)}});
    assert_eq!(input(&big).instructions().unwrap_err().code, "context_too_large");
}

#[test]
fn parts_are_text_and_uploaded_files() {
    let content = json!([
        {"type": "text", "text": "What is this?"},
        {"type": "image", "source": {"type": "file", "value": "id"}},
    ]);
    let asked = input(&json!({"messages": [{"role": "user", "content": content}]})).asked();
    let message = asked.unwrap().message.unwrap();
    assert_eq!(
        (message.text.as_str(), &message.files[..]),
        ("What is this?", &["id".to_owned()][..])
    );
}

#[test]
fn a_stored_message_with_files_is_read_as_it_was_sent() {
    let file = |media_type: &str| FileRef {
        file_id: uuid::Uuid::now_v7(),
        name: "a".into(),
        media_type: media_type.into(),
        size_bytes: 1,
        sha256: String::new(),
    };
    let files = [file("image/png"), file("text/plain")];
    let content = content_with("What is this?", &files);
    assert_eq!(
        (&content[1]["type"], &content[2]["type"]),
        (&json!("image"), &json!("document"))
    );
    let asked = input(&json!({"messages": [{"role": "user", "content": content}]})).asked();
    let message = asked.unwrap().message.unwrap();
    assert_eq!(message.text, "What is this?");
    assert_eq!(message.files, files.map(|file| file.file_id.to_string()));
    assert_eq!(content_with("Hi", &[]), "Hi");
}

#[test]
fn context_state_and_system_messages_are_instructions() {
    let input = input(&json!({
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
        "context": [{"description": "Page", "value": "invoices"}],
        "state": {"rejoin": {"agent": "a"}, "open": 3},
    }));
    let text = input.instructions().unwrap().unwrap();
    for part in ["Be brief.", "Page: invoices", "{\"open\":3}"] {
        assert!(text.contains(part), "{text}");
    }
    assert!(!text.contains("rejoin"), "{text}");
}

#[test]
fn a_new_conversation_takes_over_what_was_said_before() {
    let input = input(&json!({"messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "One"},
        {"role": "assistant", "content": "Two"},
        {"role": "assistant", "content": "of a sub-agent", "subagentRunId": "s"},
        {"role": "user", "content": "Three"},
    ]}));
    assert_eq!(input.history(), [(true, "One".to_owned()), (false, "Two".to_owned())]);
}
