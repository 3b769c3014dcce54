//! The scripted side by its three protocols.

use super::*;
use crate::frames::{Decoder, Framing};
use crate::wire::Request;

const LIMIT: Duration = Duration::from_secs(5);

async fn post(server: &Scripted, path: &str, body: &Value) -> String {
    let request = Request {
        method: "POST".to_owned(),
        url: format!("{}{path}", server.url),
        headers: vec![("content-type".to_owned(), "application/json".to_owned())],
        body: Some(body.to_string()),
    };
    let mut response = request.send(LIMIT).await.unwrap();
    assert_eq!(response.status, 200);
    response.text(LIMIT).await.unwrap()
}

fn said(stream: &str, pointer: &str) -> String {
    let frames = Decoder::new(Framing::Sse).push(stream.as_bytes());
    let values = frames
        .iter()
        .filter_map(|frame| serde_json::from_str::<Value>(&frame.data).ok());
    values
        .filter_map(|value| value.pointer(pointer).and_then(Value::as_str).map(str::to_owned))
        .collect()
}

#[tokio::test]
async fn a_turn_is_said_in_each_protocol() {
    let server = Scripted::start(None).await.unwrap();
    let tools = json!([{"type": "function", "name": "x_record", "function": {"name": "x_record"}}]);
    for (id, path, pointer) in [
        ("c", "/v1/chat/completions", "/choices/0/delta/content"),
        ("r", "/v1/responses", "/delta"),
        ("m", "/v1/messages", "/delta/text"),
    ] {
        let script = Script::words(id, 3, 0);
        let question = json!([{"role": "user", "content": [{"type": "text", "text": script.message()}]}]);
        let body = json!({"stream": true, "messages": question, "input": question, "tools": tools});
        assert_eq!(said(&post(&server, path, &body).await, pointer), "w0.1é w0.2語 w0.3🙂 ");
        assert_eq!(
            said(&post(&server, path, &body).await, pointer),
            "x0.1é x0.2語 x0.3🙂 ",
            "the second attempt"
        );
        assert_eq!(server.world.calls(id).len(), 2);
        let whole = json!({"messages": question, "input": question});
        assert!(post(&server, path, &whole).await.contains("y0.3🙂"));
    }
}

#[tokio::test]
async fn a_call_is_asked_for_and_its_effects_are_counted() {
    let server = Scripted::start(None).await.unwrap();
    let script = Script::with_call("t", 1, 0);
    let tools = json!([{"type": "function", "function": {"name": "ledger_record"}}]);
    let mut messages = vec![json!({"role": "user", "content": script.message()})];
    let body = json!({"messages": messages, "tools": tools});
    let first: Value = serde_json::from_str(&post(&server, "/v1/chat/completions", &body).await).unwrap();
    let message = first["choices"][0]["message"].clone();
    let function = &message["tool_calls"][0]["function"];
    assert_eq!(function["name"], "ledger_record");
    let arguments: Value = serde_json::from_str(function["arguments"].as_str().unwrap()).unwrap();
    assert_eq!(arguments, json!({"call": "t:0"}));
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "record", "arguments": arguments}});
    assert!(post(&server, "/mcp", &call).await.contains("done"));
    assert_eq!(server.world.effects("t:0"), 1);
    messages.push(message);
    messages.push(json!({"role": "tool", "tool_call_id": "1", "content": "{\"done\":\"t:0\"}"}));
    let second = post(
        &server,
        "/v1/chat/completions",
        &json!({"messages": messages, "tools": tools}),
    )
    .await;
    assert!(second.contains("w1.1é"), "{second}");
    assert_eq!(server.world.calls("t")[1].results, ["{\"done\":\"t:0\"}"]);
}

#[tokio::test]
async fn another_agent_is_asked_by_the_tool_of_the_server() {
    let delegation = Delegation {
        tool: "spawn".to_owned(),
        arguments: "{\"agents\": [{\"task\": {{message|json}}}]}".to_owned(),
    };
    let server = Scripted::start(Some(delegation)).await.unwrap();
    let script = Script::with_sub_agent("s", 1, 0);
    let tools = json!([{"type": "function", "function": {"name": "spawn"}}]);
    let body = json!({"messages": [{"role": "user", "content": script.message()}], "tools": tools});
    let said: Value = serde_json::from_str(&post(&server, "/v1/chat/completions", &body).await).unwrap();
    let function = &said["choices"][0]["message"]["tool_calls"][0]["function"];
    assert_eq!(function["name"], "spawn");
    let arguments: Value = serde_json::from_str(function["arguments"].as_str().unwrap()).unwrap();
    let task = arguments["agents"][0]["task"].as_str().unwrap();
    assert_eq!(Script::of(task), Some(script.of_sub_agent(0)));
}
