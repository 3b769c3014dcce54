//! `/api/agent/stream`: another spelling of the same log, with the same cursors.

use rejoin_tests::app::TestApp;
use rejoin_tests::client::{json_of, of_kind};
use rejoin_tests::model_server::Reply;
use reqwest::Method;
use serde_json::{Value, json};

#[tokio::test]
async fn d60_e02_a_turn_in_the_dialect_can_be_left_and_rejoined() {
    let app = TestApp::start().await;
    let client = app.client();
    let agent = app
        .agent_with("first", &["schema_version", "*console*"], |content| {
            content.config = json!({"handoffs": ["second"]});
        })
        .await;
    app.agent("second", &["*console*"]).await;
    app.model.script([
        Reply::text("Let me see. ").then_tool("schema_version", json!({})),
        Reply::tool("transfer_to_second", json!({"reason": "it knows"})),
        Reply::tool("create_console", json!({"title": "Q", "content": "select 1"})),
        Reply::tool("modify_console", json!({"action": "append", "content": "-- yes"})),
        Reply::text("Here."),
        Reply::text("Again."),
    ]);
    let body = json!({"message": "go", "workspaceId": app.db.project_id, "agentDefinitionId": agent});
    let request = client.request(Method::POST, "/api/agent/stream").json(&body);
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), 200);
    let session = response.headers()["x-conversation-id"].to_str().unwrap().to_owned();
    let frames = rejoin_tests::client::Stream::of(response).rest().await;
    let events = json_of(&frames);
    let mut types: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    // A text may come in several pieces.
    types.dedup();
    assert_eq!(
        types,
        [
            "session",
            "agent_mode",
            "text",
            "tool_call",
            "tool_result",
            "tool_call",
            "tool_result",
            "handoff",
            "agent_mode",
            "tool_call",
            "tool_result",
            "console_creation",
            "tool_call",
            "tool_result",
            "console_modification",
            "text",
            "done"
        ]
    );
    assert_eq!(events[0]["sessionId"], session.as_str());
    let modes = of_kind(&events, "agent_mode");
    assert_eq!(
        (&modes[0]["mode"], &modes[1]["mode"]),
        (&json!("first"), &json!("second"))
    );
    assert_eq!(of_kind(&events, "handoff")[0]["agent"], "second");
    assert_eq!(
        of_kind(&events, "tool_call")[0]["tool_call"]["function"]["name"],
        "schema_version"
    );
    assert_eq!(of_kind(&events, "tool_result")[0]["result"]["success"], true);
    assert_eq!(events.last().unwrap()["finished_reason"], "completed");
    let said: String = of_kind(&events, "text")
        .iter()
        .map(|event| event["content"].as_str().unwrap())
        .collect();
    assert_eq!(said, "Let me see. \n\nHere.");

    // The cursor is the log's own: from any frame on, in this dialect or the native one.
    let numbers: Vec<i64> = frames.iter().filter_map(|frame| frame.id).collect();
    assert!(numbers.is_sorted());
    let handoff = events.iter().position(|event| event["type"] == "handoff").unwrap();
    let cut = frames[handoff - 1].id.unwrap();
    let path = format!("/api/agent/stream?sessionId={session}");
    let request = client
        .request(Method::GET, &path)
        .header("accept", "text/event-stream")
        .header("last-event-id", cut.to_string());
    let mut reader = rejoin_tests::client::Stream::of(request.send().await.unwrap());
    let mut rest = Vec::new();
    loop {
        let frame = reader.next_event().await.unwrap();
        let event = frame.json();
        let over = event["type"] == "done";
        if event["type"] != "caught_up" {
            rest.push(event);
        }
        if over {
            break;
        }
    }
    let expected: Vec<Value> = frames
        .iter()
        .zip(&events)
        .skip_while(|(frame, _)| frame.id != Some(cut))
        .skip(1)
        .map(|(_, event)| event.clone())
        .collect();
    assert_eq!(rest, expected);
    let native = client
        .stream(&format!("/api/conversations/{session}/events?after={cut}"))
        .await
        .next_event()
        .await
        .unwrap();
    assert!(native.id.unwrap() > cut);

    // E03: sessions, and one of them.
    let (_, listed) = client.get("/api/agent/stream").await;
    assert_eq!(listed["sessions"][0]["id"], session.as_str());
    let (_, one) = client.get(&path).await;
    assert_eq!(one["messages"].as_array().unwrap().len(), 2);
    assert_eq!(one["attachedConsole"]["content"], "select 1\n-- yes");

    // The next turn of it, in the other spelling of names; the same name of a turn is the same turn.
    let body = json!({"message": "more", "session_id": session, "stream_run_id": "turn-2", "context_type": "project"});
    for _ in 0..2 {
        let response = client
            .request(Method::POST, "/api/agent/stream")
            .json(&body)
            .send()
            .await
            .unwrap();
        let events = json_of(&rejoin_tests::client::Stream::of(response).rest().await);
        assert_eq!(of_kind(&events, "text")[0]["content"], "Again.");
        assert_eq!(of_kind(&events, "agent_mode")[0]["mode"], "second");
    }
    assert_eq!(app.model.left(), 0);
}

#[tokio::test]
async fn e29_e30_an_error_comes_before_the_end_and_strangers_find_nothing() {
    let app = TestApp::start().await;
    let client = app.client();
    let agent = app.agent("first", &[]).await;
    app.model.script([Reply::status(400)]);
    let body = json!({"message": "go", "agentDefinitionId": agent});
    let response = client
        .request(Method::POST, "/api/agent/stream")
        .json(&body)
        .send()
        .await
        .unwrap();
    let session = response.headers()["x-conversation-id"].to_str().unwrap().to_owned();
    let events = json_of(&rejoin_tests::client::Stream::of(response).rest().await);
    let types: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["session", "agent_mode", "error", "done"]);
    assert_eq!(events[2]["message"], events[2]["error"]);
    let body = json!({"message": "go", "workspaceId": uuid::Uuid::now_v7()});
    assert_eq!(client.post("/api/agent/stream", body).await.0, 404);
    let (_, key) = app.db.another_user().await;
    let stranger = rejoin_tests::client::Client::new(app.url(), &key);
    assert_eq!(
        stranger.get(&format!("/api/agent/stream?sessionId={session}")).await.0,
        404
    );
    assert_eq!(stranger.get("/api/agent/stream").await.1["sessions"], json!([]));
}
