//! Responses, like OpenAI's.

use rejoin_provider_stand_in::{Protocol, Providers, Turn, message_of};
use serde_json::{Value, json};

use super::{GPT, OLD_GPT, merge, refuses, schema, send};

#[tokio::test]
async fn responses_keep_to_their_parameters() {
    let tool = |change: Value| {
        let mut tool = json!({"type": "function", "name": "search", "parameters": schema()});
        merge(&mut tool, &change);
        json!({"tools": [tool]})
    };
    let long = "c".repeat(65);
    refuses(
        Protocol::Responses,
        GPT,
        json!({"model": GPT, "input": "hello", "tools": [{"type": "function", "name": "search", "parameters": schema()}], "reasoning": {"effort": "low"}}),
        &[
            (json!({"stop": ["x"]}), 400, "Unknown parameter: 'stop'."),
            (json!({"seed": 1}), 400, "Unknown parameter: 'seed'."),
            (json!({"messages": []}), 400, "Unknown parameter: 'messages'."),
            (json!({"input": []}), 400, "Invalid 'input': empty array."),
            (json!({"temperature": 0.0}), 400, "'temperature' does not support 0.0 with this model"),
            (json!({"reasoning": {"effort": "minimal"}}), 400, "'minimal' is not supported with the 'gpt-6-luna' model"),
            (json!({"reasoning": {"budget": 1}}), 400, "Unknown parameter: 'reasoning.budget'."),
            (json!({"include": ["everything"]}), 400, "Invalid value: 'everything'."),
            (json!({"max_output_tokens": 200_000}), 400, "max_output_tokens is too large"),
            (json!({"max_output_tokens": 1}), 400, "Expected a value >= 16"),
            (json!({"previous_response_id": "resp_unknown"}), 400, "Previous response with id 'resp_unknown' not found."),
            (json!({"model": OLD_GPT}), 400, "is not supported with this model"),
            (tool(json!({"name": "a b"})), 400, "Invalid 'tools[0].name': string does not match pattern."),
            (tool(json!({"strict": true, "parameters": {"required": []}})), 400, "Missing 'q'."),
            (
                json!({"text": {"format": {"type": "json_schema", "name": "answer", "strict": true, "schema": {"type": "object"}}}}),
                400,
                "Invalid schema for response_format 'answer'",
            ),
            (
                json!({"input": [{"role": "user", "content": [{"type": "output_text", "text": "hi"}]}]}),
                400,
                "Invalid value: 'output_text'.",
            ),
            (
                json!({"input": [{"type": "function_call_output", "call_id": "call_1", "output": "{}"}]}),
                400,
                "No tool call found for function call output with call_id call_1.",
            ),
            (
                json!({"input": [{"type": "function_call", "call_id": "call_1", "name": "search", "arguments": "{}"}]}),
                400,
                "No tool output found for function call call_1.",
            ),
            (
                json!({"input": [{"type": "function_call", "call_id": long, "name": "search", "arguments": "{}"}]}),
                400,
                "maximum length 64",
            ),
            (
                json!({"store": false, "input": [{"type": "reasoning", "id": "rs_1", "summary": []}, {"role": "assistant", "content": "hi"}]}),
                404,
                "Item with id 'rs_1' not found. Items are not persisted when `store` is set to false.",
            ),
            (
                json!({"store": false, "input": [{"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAforged"}, {"role": "assistant", "content": "hi"}]}),
                400,
                "could not be verified",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn responses_want_the_reasoning_back_that_a_call_came_with() {
    let server = Providers::start().await.expect("a stand-in");
    server.script(
        "weather",
        [
            Turn::call("search", json!({"q": "a"})).reasoning("Let me look."),
            Turn::text("done"),
        ],
    );
    let user = json!({"role": "user", "content": "weather"});
    let request = |input: Value| {
        json!({
            "model": GPT, "store": false, "include": ["reasoning.encrypted_content"], "reasoning": {"effort": "low", "summary": "auto"},
            "tools": [{"type": "function", "name": "search", "parameters": schema(), "strict": true}], "input": input,
        })
    };
    let (status, answer) = send(&server, Protocol::Responses, GPT, &request(json!([user]))).await;
    assert_eq!(status, 200, "{answer}");
    let reasoning = answer["output"][0].clone();
    let call = answer["output"][1].clone();
    assert_eq!(
        (&reasoning["type"], &call["type"]),
        (&json!("reasoning"), &json!("function_call"))
    );
    assert_eq!(reasoning["summary"][0]["text"], "Let me look.");
    let output = json!({"type": "function_call_output", "call_id": call["call_id"], "output": "{}"});

    let (status, body) = send(&server, Protocol::Responses, GPT, &request(json!([user, call, output]))).await;
    assert_eq!(status, 400);
    let wanted = format!(
        "Item '{}' of type 'function_call' was provided without its required 'reasoning' item: '{}'.",
        call["id"].as_str().unwrap(),
        reasoning["id"].as_str().unwrap()
    );
    assert_eq!(message_of(&body), wanted);
    let mut forged = reasoning.clone();
    forged["encrypted_content"] = json!("gAAAAAother");
    let (status, body) = send(
        &server,
        Protocol::Responses,
        GPT,
        &request(json!([user, forged, call, output])),
    )
    .await;
    assert_eq!(
        (status, &body["error"]["code"]),
        (400, &json!("invalid_encrypted_content"))
    );
    let (status, body) = send(&server, Protocol::Responses, GPT, &request(json!([user, reasoning]))).await;
    assert_eq!(status, 400);
    assert!(
        message_of(&body).contains("without its required following item"),
        "{body}"
    );

    // Without ids the provider can't tell, and accepts it; the reasoning is lost.
    let mut nameless = call.clone();
    nameless.as_object_mut().unwrap().remove("id");
    server.script("weather", [Turn::text("done")]);
    let (status, _) = send(
        &server,
        Protocol::Responses,
        GPT,
        &request(json!([user, nameless, output])),
    )
    .await;
    assert_eq!((status, server.losses().len()), (200, 1), "{:?}", server.losses());
    let (status, answer) = send(
        &server,
        Protocol::Responses,
        GPT,
        &request(json!([user, reasoning, call, output])),
    )
    .await;
    assert_eq!((status, server.losses().len()), (200, 1), "{answer}");
}
