//! Bedrock's Converse API: its rules for messages, tools and reasoning.

use rejoin_provider_stand_in::{Protocol, Providers, Turn, hello, message_of};
use serde_json::{Value, json};

use super::services::{BEDROCK, CLAUDE};
use super::{merge, refuses_at, schema, send_to};

#[tokio::test]
async fn converse_keeps_to_its_rules() {
    let user = |content: Value| json!({"role": "user", "content": content});
    let reply = |content: Value| json!({"role": "assistant", "content": content});
    let messages = |messages: Value| json!({"messages": messages});
    let tool = |change: Value| {
        let mut tool = json!({"toolSpec": {"name": "search", "inputSchema": {"json": schema()}}});
        merge(&mut tool, &change);
        json!({"toolConfig": {"tools": [tool]}})
    };
    let used = |id: &str| json!([{"toolUse": {"toolUseId": id, "name": "search", "input": {}}}]);
    let result = |id: &str| json!({"toolResult": {"toolUseId": id, "content": [{"text": "x"}]}});
    let hi = || json!([{"text": "hi"}]);
    let with_tools = |change: Value| {
        let mut both = tool(json!({}));
        merge(&mut both, &change);
        both
    };
    refuses_at(
        BEDROCK,
        CLAUDE,
        hello(Protocol::Converse, CLAUDE),
        &[
            (json!({"colour": 1}), 400, "Unexpected field: colour"),
            (json!({"inferenceConfig": {"temperature": 1.5}}), 400, "less than or equal to 1"),
            (json!({"inferenceConfig": {"maxTokens": 1_000_000}}), 400, "exceeds the model limit of 64000"),
            (messages(json!([])), 400, "must start with a user message"),
            (messages(json!([reply(hi())])), 400, "must start with a user message"),
            (messages(json!([user(hi()), user(hi())])), 400, "must alternate between user and assistant roles"),
            (messages(json!([user(json!([]))])), 400, "is empty"),
            (messages(json!([user(json!([{"text": " "}]))])), 400, "is blank"),
            (messages(json!([user(json!([{"text": "a", "cachePoint": {"type": "default"}}]))])), 400, "Exactly one member"),
            (messages(json!([user(json!([{"document": {"format": "pdf", "name": "a", "source": {"bytes": "AA=="}}}]))])), 400, "accompanied by a text block"),
            (messages(json!([user(json!([{"text": "a"}, {"document": {"format": "pdf", "name": "a.pdf", "source": {"bytes": "AA=="}}}]))])), 400, "invalid characters"),
            (messages(json!([user(hi()), reply(used("a")), user(json!([result("a")]))])), 400, "The toolConfig field must be defined"),
            (with_tools(messages(json!([user(hi()), reply(used("a")), user(hi())]))), 400, "Expected toolResult blocks at messages.2.content for the following Ids: a"),
            (with_tools(messages(json!([user(hi()), reply(used("a")), user(json!([result("a"), result("b")]))]))), 400, "exceeds the number of toolUse blocks"),
            (with_tools(messages(json!([user(hi()), reply(used("a b")), user(json!([result("a b")]))]))), 400, "[a-zA-Z0-9_-]+"),
            (tool(json!({"toolSpec": {"name": "a.b"}})), 400, "toolSpec.name"),
            (tool(json!({"toolSpec": {"description": ""}})), 400, "toolSpec.description"),
            (tool(json!({"toolSpec": {"inputSchema": {"json": {"type": "array"}}}})), 400, "must be one of the following: object"),
            (json!({"toolConfig": {"tools": [{"toolSpec": {"name": "a", "inputSchema": {"json": schema()}}}], "toolChoice": {"none": {}}}}), 400, "Unexpected field: toolConfig.toolChoice.none"),
            (json!({"additionalModelRequestFields": {"thinking": {"type": "adaptive"}}}), 400, "adaptive thinking is not supported"),
            (json!({"additionalModelRequestFields": {"thinking": {"type": "enabled", "budget_tokens": 2_000}}, "inferenceConfig": {"maxTokens": 4_000, "temperature": 0.5}}), 400, "may only be set to 1 when thinking is enabled"),
            (json!({"additionalModelRequestFields": {"colour": 1}}), 400, "The model returned the following errors"),
        ],
    )
    .await;
}

/// Claude's thinking comes back with its signature, as it was.
#[tokio::test]
async fn converse_wants_its_reasoning_back() {
    let server = Providers::start().await.expect("a stand-in");
    server.script("", [Turn::call("search", json!({"q": "a"})).reasoning("Let me look.")]);
    let mut request = hello(Protocol::Converse, CLAUDE);
    let more = json!({
        "toolConfig": {"tools": [{"toolSpec": {"name": "search", "inputSchema": {"json": schema()}}}]},
        "inferenceConfig": {"maxTokens": 4_000},
        "additionalModelRequestFields": {"thinking": {"type": "enabled", "budget_tokens": 2_000}},
    });
    merge(&mut request, &more);
    let (status, answer) = send_to(&server, BEDROCK, CLAUDE, &request).await;
    assert_eq!(status, 200, "{answer}");
    let printed = answer["output"]["message"].clone();
    let id = printed["content"][1]["toolUse"]["toolUseId"].clone();
    let next = |printed: &Value| {
        let mut next = request.clone();
        let result = json!({"toolResult": {"toolUseId": id, "content": [{"text": "x"}]}});
        let messages = next["messages"].as_array_mut().expect("messages");
        messages.extend([printed.clone(), json!({"role": "user", "content": [result]})]);
        next
    };
    assert_eq!(send_to(&server, BEDROCK, CLAUDE, &next(&printed)).await.0, 200);
    let mut altered = printed.clone();
    altered["content"][0]["reasoningContent"]["reasoningText"]["text"] = json!("Other words.");
    let mut bare = printed.clone();
    bare["content"].as_array_mut().expect("blocks").remove(0);
    for (printed, words) in [(altered, "Invalid `signature`"), (bare, "Expected `thinking`")] {
        let (status, answer) = send_to(&server, BEDROCK, CLAUDE, &next(&printed)).await;
        assert_eq!(status, 400, "{answer}");
        assert!(message_of(&answer).contains(words), "{answer}");
    }
}
