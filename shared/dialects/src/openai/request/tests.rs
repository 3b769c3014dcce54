//! Requests of both protocols, read or refused.

use uuid::Uuid;

use super::*;

fn response(body: Value) -> Result<Ask, Invalid> {
    serde_json::from_value::<ResponseRequest>(body).unwrap().ask()
}

fn chat(body: Value) -> Result<Ask, Invalid> {
    serde_json::from_value::<ChatRequest>(body).unwrap().ask()
}

#[test]
fn a_request_names_its_functions_and_its_schema() {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let ask = response(
        json!({"model": "a", "input": "Hi", "tools": [{"type": "function", "name": "look", "parameters": schema}],
        "text": {"format": {"type": "json_schema", "name": "answer", "schema": schema}}}),
    );
    let ask = ask.unwrap();
    assert_eq!(ask.functions[0].name, "look");
    assert_eq!(ask.output_schema, Some(schema.clone()));
    let ask = chat(json!({"model": "a", "messages": [{"role": "user", "content": "Hi"}],
        "tools": [{"type": "function", "function": {"name": "look", "parameters": schema}}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}}));
    let ask = ask.unwrap();
    assert_eq!(
        (ask.functions[0].name.as_str(), ask.output_schema),
        ("look", Some(schema))
    );
    assert_eq!(ask.settings.tools[0]["name"], "look");
}

#[test]
fn what_is_not_supported_is_refused_by_its_name() {
    for (body, param) in [
        (
            json!({"model": "a", "input": "x", "tools": [{"type": "web_search"}]}),
            "tools[0].type",
        ),
        (
            json!({"model": "a", "input": "x", "tool_choice": "required"}),
            "tool_choice",
        ),
        (json!({"model": "a", "input": "x", "prompt": {"id": "p"}}), "prompt"),
        (json!({"model": "a", "input": "x", "metadata": {"n": 1}}), "metadata"),
        (
            json!({"model": "a", "input": "x", "text": {"format": {"type": "json_object"}}}),
            "text.format.type",
        ),
        (json!({"model": "a", "input": 1}), "input"),
    ] {
        assert_eq!(response(body).unwrap_err().param.as_deref(), Some(param));
    }
    for (body, param) in [
        (json!({"model": "a", "messages": [], "n": 2}), "n"),
        (json!({"model": "a", "messages": [], "logprobs": true}), "logprobs"),
        (
            json!({"model": "a", "messages": [{"role": "function", "content": "x"}]}),
            "messages[0].role",
        ),
    ] {
        assert_eq!(chat(body).unwrap_err().param.as_deref(), Some(param));
    }
}

#[test]
fn outputs_of_tools_that_end_the_messages_answer_their_calls() {
    let question = Uuid::now_v7();
    let id = ids::call(question);
    let ask = chat(json!({"model": "a", "messages": [
        {"role": "user", "content": "Look"},
        {"role": "assistant", "content": null, "tool_calls": [{"id": id, "type": "function", "function": {"name": "look", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": id, "content": "7"},
    ]}));
    let input = ask.unwrap().input;
    assert_eq!(input.answers[0].question, question);
    assert_eq!(input.message, None);
}
