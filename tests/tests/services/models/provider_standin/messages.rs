//! Messages, like Anthropic's.

use rejoin_provider_stand_in::{Protocol, Providers, Turn, hello, message_of};
use serde_json::{Value, json};

use super::{CLAUDE, OLD_CLAUDE, merge, refuses, schema, send};

#[tokio::test]
async fn messages_keep_to_their_parameters() {
    let with = |messages: Value| json!({"messages": messages});
    let marked = |text: &str| json!({"type": "text", "text": text, "cache_control": {"type": "ephemeral"}});
    let tool = |change: Value| {
        let mut tool = json!({"name": "search", "input_schema": schema()});
        merge(&mut tool, &change);
        json!({"tools": [tool]})
    };
    let format = |schema: Value| json!({"output_config": {"format": {"type": "json_schema", "schema": schema}}});
    refuses(
        Protocol::Messages,
        CLAUDE,
        hello(Protocol::Messages, CLAUDE),
        &[
            (json!({"colour": 1}), 400, "colour: Extra inputs are not permitted"),
            (json!({"max_tokens": null}), 400, "max_tokens: Field required"),
            (json!({"max_tokens": 0}), 400, "max_tokens: Input should be greater than or equal to 1"),
            (json!({"max_tokens": 200_000}), 400, "which is the maximum allowed number of output tokens for claude-haiku-5-5"),
            (json!({"temperature": 0.1}), 400, "`temperature` is deprecated for this model."),
            (json!({"top_k": 5}), 400, "`top_k` is deprecated for this model."),
            (json!({"thinking": {"type": "enabled", "budget_tokens": 2_000}}), 400, "\"thinking.type.enabled\" is not supported for this model."),
            (json!({"thinking": {"type": "adaptive", "budget_tokens": 2_000}}), 400, "thinking.budget_tokens: Extra inputs are not permitted"),
            (json!({"thinking": {"type": "between_tools"}}), 400, "\"thinking.type.between_tools\" is not supported"),
            (json!({"output_config": {"effort": "huge"}}), 400, "huge"),
            (with(json!([])), 400, "messages: at least one message is required"),
            (with(json!([{"role": "user", "content": ""}])), 400, "all messages must have non-empty content"),
            (with(json!([{"role": "user", "content": [{"type": "text", "text": ""}]}])), 400, "text content blocks must be non-empty"),
            (with(json!([{"role": "user", "content": [{"type": "text", "text": " \n"}]}])), 400, "must contain non-whitespace text"),
            (with(json!([{"role": "assistant", "content": "hi"}, {"role": "user", "content": "hi"}])), 400, "first message must use the \"user\" role"),
            (with(json!([{"role": "user", "content": "hi"}, {"role": "assistant", "content": "I"}])), 400, "does not support assistant message prefill"),
            (
                with(json!([{"role": "user", "content": [{"type": "audio", "source": {}}]}])),
                400,
                "Input tag 'audio' found does not match any of the expected tags",
            ),
            (
                with(json!([{"role": "user", "content": [{"type": "image", "source": {"type": "base64", "media_type": "image/bmp", "data": "AA=="}}]}])),
                400,
                "Input should be 'image/jpeg'",
            ),
            (
                with(json!([{"role": "user", "content": [{"type": "document", "source": {"type": "base64", "media_type": "audio/mpeg", "data": "AA=="}}]}])),
                400,
                "Input should be 'application/pdf'",
            ),
            (
                with(json!([{"role": "user", "content": [marked("a"), marked("b"), marked("c"), marked("d"), marked("e")]}])),
                400,
                "A maximum of 4 blocks with cache_control may be provided. Found 5.",
            ),
            (
                with(json!([{"role": "user", "content": [marked("a"), {"type": "text", "text": "b", "cache_control": {"type": "ephemeral", "ttl": "1h"}}]}])),
                400,
                "must not come after a ttl='5m' cache_control block",
            ),
            (tool(json!({"name": "bad name"})), 400, "tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'"),
            (tool(json!({"input_schema": {"type": "string"}})), 400, "tools.0.custom.input_schema.type: Input should be 'object'"),
            (tool(json!({"input_schema": {"anyOf": []}})), 400, "does not support oneOf, allOf, or anyOf at the top level"),
            (tool(json!({"strict": true, "input_schema": {"additionalProperties": true}})), 400, "'additionalProperties' must be explicitly set to false"),
            (tool(json!({"parameters": {}})), 400, "tools.0.parameters: Extra inputs are not permitted"),
            (json!({"tool_choice": {"type": "auto"}}), 400, "tool_choice: may only be specified while providing tools"),
            (
                json!({"tools": [{"name": "search", "input_schema": schema()}], "tool_choice": {"type": "any"}}),
                400,
                "Thinking may not be enabled when tool_choice forces tool use.",
            ),
            (format(json!({"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "additionalProperties": false})), 400, "For 'integer' type, property 'minimum' is not supported"),
            (format(json!({"type": "object", "properties": {}})), 400, "must be explicitly set to false"),
        ],
    )
    .await;
    refuses(
        Protocol::Messages,
        OLD_CLAUDE,
        json!({"model": OLD_CLAUDE, "max_tokens": 4_000, "messages": [{"role": "user", "content": "hi"}], "temperature": 0.1}),
        &[
            (json!({"thinking": {"type": "adaptive"}}), 400, "adaptive thinking is not supported on this model"),
            (json!({"thinking": {"type": "enabled", "budget_tokens": 2_000}}), 400, "`temperature` may only be set to 1 when thinking is enabled"),
            (json!({"thinking": {"type": "enabled", "budget_tokens": 100}}), 400, "greater than or equal to 1024"),
            (json!({"thinking": {"type": "enabled", "budget_tokens": 4_000}}), 400, "`max_tokens` must be greater than `thinking.budget_tokens`"),
            (json!({"output_config": {"effort": "low"}}), 400, "does not support the effort parameter"),
            (json!({"top_p": 0.9}), 400, "cannot both be specified"),
            (json!({"model": "claude-opus-5-5", "temperature": null, "thinking": {"type": "disabled"}}), 400, "\"thinking.type.disabled\" is not supported"),
            (
                json!({"model": "claude-opus-5-5", "temperature": null, "tools": [{"name": "search", "input_schema": schema()}], "tool_choice": {"type": "tool", "name": "search"}}),
                400,
                "type 'tool' is not supported for this model",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn messages_keep_calls_and_results_together() {
    let user = json!({"role": "user", "content": "hi"});
    let calls = |id: &str| json!({"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": "search", "input": {}}]});
    let result = |id: &str| json!({"type": "tool_result", "tool_use_id": id, "content": "{}"});
    let results = |blocks: Value| json!({"role": "user", "content": blocks});
    let with = |messages: Value| json!({"messages": messages});
    let text = json!({"type": "text", "text": "and"});
    refuses(
        Protocol::Messages,
        CLAUDE,
        json!({"model": CLAUDE, "max_tokens": 1_000, "messages": [user, calls("a"), results(json!([result("a"), text]))]}),
        &[
            (with(json!([user, calls("a"), user])), 400, "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: a."),
            (with(json!([user, calls("a"), results(json!([text, result("a")]))])), 400, "without `tool_result` blocks immediately after"),
            (with(json!([user, calls("a"), results(json!([result("a"), result("b")]))])), 400, "messages.2.content.1: unexpected `tool_use_id` found in `tool_result` blocks: b."),
            (with(json!([results(json!([result("a")]))])), 400, "unexpected `tool_use_id`"),
            (with(json!([user, calls("a"), results(json!([result("a"), result("a")]))])), 400, "Found multiple `tool_result` blocks with id: a"),
            (with(json!([user, calls("call#search#0"), results(json!([result("call#search#0")]))])), 400, "tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"),
            (
                with(json!([user, {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "search", "input": "{}"}]}])),
                400,
                "messages.1.content.0.input: Input should be an object",
            ),
            (
                with(json!([user, calls("a"), results(json!([{"type": "tool_result", "tool_use_id": "a", "content": "", "is_error": true}]))])),
                400,
                "content cannot be empty if `is_error` is true",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn messages_want_thinking_back_as_it_was() {
    let server = Providers::start().await.expect("a stand-in");
    let turns = || {
        [
            Turn::call("search", json!({"q": "a"})).reasoning("Let me look."),
            Turn::text("done"),
        ]
    };
    let tools = json!([{"name": "search", "input_schema": schema()}]);
    for (model, thinking) in [
        (OLD_CLAUDE, json!({"type": "enabled", "budget_tokens": 1_024})),
        (CLAUDE, json!({"type": "adaptive", "display": "summarized"})),
    ] {
        server.script("weather", turns());
        let user = json!({"role": "user", "content": "weather"});
        let request = |messages: Value| json!({"model": model, "max_tokens": 2_000, "thinking": thinking, "tools": tools, "messages": messages});
        let (status, answer) = send(&server, Protocol::Messages, model, &request(json!([user]))).await;
        assert_eq!(status, 200, "{answer}");
        let content = answer["content"].clone();
        assert_eq!(content[0]["thinking"], "Let me look.");
        let result = json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": content[1]["id"], "content": "{}"}]});
        let with = |content: Value| request(json!([user, {"role": "assistant", "content": content}, result]));

        for (field, other) in [("signature", "Zm9yZ2Vk"), ("thinking", "Something else.")] {
            let mut altered = content.clone();
            altered[0][field] = json!(other);
            let (status, body) = send(&server, Protocol::Messages, model, &with(altered)).await;
            assert_eq!(status, 400);
            assert_eq!(
                message_of(&body),
                "messages.1.content.0: Invalid `signature` in `thinking` block"
            );
        }
        let losses = server.losses().len();
        if model == OLD_CLAUDE {
            let (status, body) = send(&server, Protocol::Messages, model, &with(json!([content[1]]))).await;
            assert_eq!(status, 400);
            assert!(
                message_of(&body).starts_with(
                    "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`."
                ),
                "{body}"
            );
        } else {
            // The newest models bind their thinking to the preceding conversation.
            let other = json!({"role": "user", "content": "weather, please"});
            let moved = request(json!([other, {"role": "assistant", "content": content}, result]));
            let (status, body) = send(&server, Protocol::Messages, model, &moved).await;
            assert_eq!(status, 400);
            assert!(
                message_of(&body).contains("bound to a different conversation"),
                "{body}"
            );
            server.script("weather", [Turn::text("done")]);
            let (status, _) = send(&server, Protocol::Messages, model, &with(json!([content[1]]))).await;
            assert_eq!((status, server.losses().len()), (200, losses + 1));
        }
        let losses = server.losses().len();
        let (status, answer) = send(&server, Protocol::Messages, model, &with(content)).await;
        assert_eq!((status, server.losses().len()), (200, losses), "{answer}");
    }
}
