//! Chat Completions, like OpenAI's.

use rejoin_provider_stand_in::{Protocol, hello};
use serde_json::{Value, json};

use super::{GPT, OLD_GPT, merge, refuses, schema};

fn chat_tool(change: Value) -> Value {
    let mut tool = json!({"type": "function", "function": {"name": "search", "parameters": schema()}});
    merge(&mut tool["function"], &change);
    json!([tool])
}

#[tokio::test]
async fn chat_completions_keep_to_their_parameters() {
    let tools = chat_tool(json!({}));
    let base = hello(Protocol::Chat, GPT);
    refuses(
        Protocol::Chat,
        GPT,
        base,
        &[
            (json!({"colour": 1}), 400, "Unknown parameter: 'colour'."),
            (json!({"messages": null}), 400, "Missing required parameter: 'messages'."),
            (json!({"messages": []}), 400, "empty array"),
            (json!({"stream": "yes"}), 400, "Invalid type for 'stream': expected a boolean, but got a string instead."),
            (json!({"temperature": 0.1}), 400, "'temperature' does not support 0.1 with this model. Only the default (1)"),
            (json!({"top_p": 0.5}), 400, "'top_p' does not support 0.5"),
            (json!({"max_tokens": 100}), 400, "Use 'max_completion_tokens' instead."),
            (json!({"max_completion_tokens": 200_000}), 400, "max_completion_tokens is too large: 200000."),
            (json!({"reasoning_effort": "minimal"}), 400, "'minimal' is not supported with the 'gpt-6-luna' model. Supported values are: 'none',"),
            (json!({"reasoning_effort": "huge"}), 400, "Invalid value: 'huge'."),
            (json!({"stream_options": {"include_usage": true}}), 400, "only allowed when 'stream' is enabled"),
            (json!({"tools": tools}), 400, "Function tools with reasoning_effort are not supported for gpt-6-luna in /v1/chat/completions."),
            (json!({"tools": tools, "reasoning_effort": "low"}), 400, "set reasoning_effort to 'none'"),
            (json!({"prompt_cache_options": {"mode": "explicit"}, "prompt_cache_retention": "24h"}), 400, "cannot both be set"),
            (json!({"model": "gpt-5.4-pro"}), 404, "only supported in v1/responses"),
            (json!({"messages": [{"role": "user", "content": "hi", "mood": "good"}]}), 400, "Unknown parameter: 'messages[0].mood'."),
            (json!({"messages": [{"role": "robot", "content": "hi"}]}), 400, "Invalid value: 'robot'."),
            (json!({"messages": [{"role": "user"}]}), 400, "Missing required parameter: 'messages[0].content'."),
            (json!({"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": null}]}), 400, "expected a string, got null"),
            (json!({"messages": [{"role": "user", "content": []}]}), 400, "Invalid 'messages[0].content': empty array."),
            (
                json!({"messages": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "AA==", "format": "mp3"}}]}]}),
                400,
                "input_audio is only supported by certain models",
            ),
        ],
    )
    .await;
    // An older model: reasoning parameters are rejected, sampling is accepted.
    let base = json!({"model": OLD_GPT, "messages": [{"role": "user", "content": "hello"}], "temperature": 0.1, "max_tokens": 100});
    refuses(
        Protocol::Chat,
        OLD_GPT,
        base,
        &[
            (
                json!({"reasoning_effort": "low"}),
                400,
                "'reasoning_effort' is not supported with this model",
            ),
            (
                json!({"prompt_cache_options": {"mode": "implicit"}}),
                400,
                "'prompt_cache_options' is not supported with this model",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn chat_completions_keep_to_their_tools_and_schemas() {
    let base =
        json!({"model": OLD_GPT, "messages": [{"role": "user", "content": "hello"}], "tools": chat_tool(json!({}))});
    let format = |schema: Value| json!({"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "strict": true, "schema": schema}}});
    let long = "a".repeat(65);
    let many: Vec<Value> = (0..129)
        .map(|number| json!({"type": "function", "function": {"name": format!("t{number}")}}))
        .collect();
    refuses(
        Protocol::Chat,
        OLD_GPT,
        base,
        &[
            (
                json!({"tools": chat_tool(json!({"name": "bad name"}))}),
                400,
                "does not match pattern",
            ),
            (
                json!({"tools": chat_tool(json!({"name": long}))}),
                400,
                "string too long. Expected a string with maximum length 64",
            ),
            (json!({"tools": many}), 400, "Invalid 'tools': array too long."),
            (
                json!({"tools": chat_tool(json!({"parameters": {"type": "string"}}))}),
                400,
                "got 'type: \"string\"'",
            ),
            (
                json!({"tools": chat_tool(json!({"parameters": {"properties": {"q": {"type": "array"}}}}))}),
                400,
                "In context=('properties', 'q'), array schema missing items.",
            ),
            (
                json!({"tools": chat_tool(json!({"strict": true, "parameters": {"additionalProperties": true}}))}),
                400,
                "In context=(), 'additionalProperties' is required to be supplied and to be false.",
            ),
            (
                json!({"tools": chat_tool(json!({"strict": true, "parameters": {"required": []}}))}),
                400,
                "including every key in properties. Missing 'q'.",
            ),
            (
                json!({"tools": chat_tool(json!({"strict": true, "parameters": {"properties": {"q": {"not": {}}}}}))}),
                400,
                "'not' is not permitted",
            ),
            (
                json!({"tool_choice": {"type": "function", "function": {"name": "other"}}}),
                400,
                "Tool choice 'other' not found",
            ),
            (
                json!({"tools": null, "tool_choice": "required"}),
                400,
                "only allowed when 'tools' are specified",
            ),
            (
                format(json!({"type": "object", "properties": {}})),
                400,
                "Invalid schema for response_format 'answer': In context=()",
            ),
            (
                format(json!({"type": "array", "items": {}})),
                400,
                "got 'type: \"array\"'",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn chat_completions_keep_calls_and_results_together() {
    let call = json!({"id": "call_1", "type": "function", "function": {"name": "search", "arguments": "{}"}});
    let user = json!({"role": "user", "content": "hello"});
    let calls = json!({"role": "assistant", "content": null, "tool_calls": [call]});
    let result = json!({"role": "tool", "tool_call_id": "call_1", "content": "{}"});
    let long = "c".repeat(41);
    let with = |messages: Value| json!({"messages": messages});
    refuses(
        Protocol::Chat,
        OLD_GPT,
        json!({"model": OLD_GPT, "messages": [user, calls, result]}),
        &[
            (with(json!([user, calls])), 400, "did not have response messages: call_1"),
            (with(json!([user, calls, user])), 400, "did not have response messages: call_1"),
            (with(json!([user, result])), 400, "must be a response to a preceeding message with 'tool_calls'"),
            (with(json!([user, calls, result, result])), 400, "must be a response to a preceeding message"),
            (
                with(json!([user, {"role": "assistant", "tool_calls": [{"id": long, "type": "function", "function": {"name": "search", "arguments": "{}"}}]}])),
                400,
                "maximum length 40",
            ),
            (
                with(json!([user, {"role": "assistant", "tool_calls": [{"id": "a", "type": "function", "function": {"name": "search", "arguments": {}}}]}])),
                400,
                "Invalid type for 'messages[1].tool_calls[0].function.arguments': expected a string",
            ),
            (with(json!([user, {"role": "assistant", "tool_calls": [call, call]}])), 400, "Duplicate tool_call ids"),
        ],
    )
    .await;
}
