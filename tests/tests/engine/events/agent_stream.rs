//! `/api/agent/stream`: another format of the same log, with the same cursors.

use rejoin_tests::app::TestApp;
use rejoin_tests::client::{json_of, of_kind};
use rejoin_tests::model_server::Reply;
use reqwest::Method;
use serde_json::{Value, json};

/// Requirements: D60, E02.
#[tokio::test]
async fn a_turn_in_the_dialect_can_be_left_and_rejoined() {
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
    let body = json!({"message": "go", "workspaceId": app.db.workspace_id, "agentDefinitionId": agent});
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
    let published: String = of_kind(&events, "text")
        .iter()
        .map(|event| event["content"].as_str().unwrap())
        .collect();
    assert_eq!(published, "Let me see. \n\nHere.");

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
    let published: Vec<(&str, &str)> = one["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| {
            (
                message["role"].as_str().unwrap(),
                message["toolName"].as_str().unwrap_or_default(),
            )
        })
        .collect();
    assert_eq!(
        published,
        [
            ("user", ""),
            ("tool", "schema_version"),
            ("tool", "transfer_to_second"),
            ("tool", "create_console"),
            ("tool", "modify_console"),
            ("assistant", "")
        ],
        "E58: with what its tools gave"
    );
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

/// Requirements: E29, E30.
#[tokio::test]
async fn an_error_comes_before_the_end_and_strangers_see_nothing() {
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

/// Requirements: E58.
#[tokio::test]
async fn messages_of_tools_are_sent_to_those_who_ask_for_them() {
    let app = TestApp::start().await;
    let client = app.client();
    let agent = app.agent("helper", &["schema_version", "get_entity_edges"]).await;
    app.model.script([
        Reply::tools([
            ("schema_version", json!({})),
            ("get_entity_edges", json!({"entity_id": "nothing at all"})),
        ]),
        Reply::text("Done."),
        Reply::text("Again."),
    ]);
    let events = json_of(&client.ask(Some(agent), "look").await);
    let conversation = events[1]["conversationId"].as_str().unwrap();
    client
        .chat(json!({"message": "more", "conversationId": conversation}))
        .await;
    let path = format!("/api/conversations/{conversation}/messages");
    let (_, plain) = client.get(&path).await;
    let roles = |page: &Value| -> Vec<String> {
        let items = page["items"].as_array().unwrap().iter();
        items.map(|one| one["role"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(roles(&plain), ["user", "assistant", "user", "assistant"]);
    assert!(
        plain["items"]
            .as_array()
            .unwrap()
            .iter()
            .all(|one| one.get("toolCallId").is_none())
    );
    let (_, with) = client.get(&format!("{path}?include=tools")).await;
    assert_eq!(roles(&with), ["user", "tool", "tool", "assistant", "user", "assistant"]);
    let ended: Vec<Value> = of_kind(&events, "mcp_tool")
        .into_iter()
        .filter(|event| event["status"] != "started")
        .cloned()
        .collect();
    for (message, event) in with["items"].as_array().unwrap()[1..3].iter().zip(&ended) {
        assert_eq!(
            (
                &message["toolCallId"],
                &message["toolName"],
                &message["conversationId"],
                &message["seq"]
            ),
            (
                &event["callId"],
                &event["tool"],
                &json!(conversation),
                &with["items"][0]["seq"]
            )
        );
        assert_eq!(
            message["metadata"],
            json!({"runId": event["runId"], "status": event["status"], "source": "agent"})
        );
        let content = message["content"].as_str().unwrap();
        match event["error"].as_str() {
            Some(error) => assert_eq!(content, error),
            None => assert_eq!(serde_json::from_str::<Value>(content).unwrap(), event["result"]),
        }
    }
    // Pages are of the other messages: each of them is there once, with its tools.
    let (_, first) = client.get(&format!("{path}?include=tools&limit=1")).await;
    assert_eq!(roles(&first), ["user", "tool", "tool"]);
    let cursor = first["nextCursor"].as_str().unwrap();
    let (_, second) = client
        .get(&format!("{path}?include=tools&limit=1&cursor={cursor}"))
        .await;
    assert_eq!(roles(&second), ["assistant"]);
    let (status, problem) = client.get(&format!("{path}?include=everything")).await;
    assert_eq!((status.as_u16(), &problem["code"]), (400, &json!("invalid_query")));
}

/// Requirements: E02.
#[tokio::test]
async fn a_page_says_where_its_user_is_by_an_entity() {
    let app = TestApp::start().await;
    let client = app.client();
    let agent = app.agent("helper", &[]).await;
    app.model.always("where", Reply::text("Here."));
    let ids = rejoin_tests::projects::project(&client, "Apollo").await;
    let post = async |body: Value| {
        let mut whole = json!({"message": "where am I?", "agentDefinitionId": agent});
        whole.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
        let request = client.request(Method::POST, "/api/agent/stream").json(&whole);
        json_of(
            &rejoin_tests::client::Stream::of(request.send().await.unwrap())
                .rest()
                .await,
        )
    };
    let project = json!({"projectId": ids["project"], "projectName": "Apollo"});
    let task = json!({
        "projectId": ids["project"], "projectName": "Apollo", "focusType": "task", "focusEntityId": ids["first"],
    });
    for (body, focus) in [
        (json!({"entity_id": ids["project"]}), &project),
        (
            json!({"entityId": ids["project"], "ontologyEntityType": "project"}),
            &project,
        ),
        (
            json!({"contextType": "project", "entityId": ids["first"], "ontologyEntityType": "task"}),
            &task,
        ),
        (json!({"entityId": ids["first"]}), &task),
    ] {
        let events = post(body.clone()).await;
        assert_eq!(&of_kind(&events, "focus_active")[0]["focus"], focus, "{body}");
    }
    for (body, code) in [
        (
            json!({"entityId": ids["goal"], "ontologyEntityType": "task"}),
            "entity_not_found",
        ),
        (
            json!({"entityId": uuid::Uuid::now_v7(), "ontologyEntityType": "task"}),
            "entity_not_found",
        ),
    ] {
        let mut whole = json!({"message": "where am I?", "agentDefinitionId": agent});
        whole.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
        let (status, problem) = client.post("/api/agent/stream", whole).await;
        assert_eq!(
            (status.as_u16(), &problem["code"]),
            (400, &json!(code)),
            "{body}: {problem}"
        );
    }
}

/// Requirements: D60.
#[tokio::test]
async fn an_old_page_may_send_unknown_fields_and_old_names() {
    let app = TestApp::start().await;
    let client = app.client();
    let agent = app.agent("first", &[]).await;
    app.model.always("go", Reply::text("Here."));
    let body = json!({
        "message": "go", "agentDefinitionId": agent, "model": "gpt-x", "threadId": null, "a,b": 1,
        "attachedContext": [{"id": "f1", "type": "file", "title": "a.txt", "content": "x"}],
    });
    let request = client.request(Method::POST, "/api/agent/stream").json(&body);
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), 200);
    // No field is dropped silently.
    assert_eq!(response.headers()["x-ignored-fields"], "model, threadId");
    let session = response.headers()["x-conversation-id"].to_str().unwrap().to_owned();
    let events = json_of(&rejoin_tests::client::Stream::of(response).rest().await);
    assert_eq!(events.last().unwrap()["finished_reason"], "completed");
    let (_, listed) = client.get("/api/agent/stream").await;
    let (_, one) = client.get(&format!("/api/agent/stream?sessionId={session}")).await;
    for told in [&listed["sessions"][0], &one["session"]] {
        assert_eq!(
            (&told["id"], &told["threadId"], &told["activeAgent"]),
            (&json!(session), &json!(session), &json!("first"))
        );
    }
    assert_eq!(one["messages"][0]["attachments"][0]["title"], "a.txt");
    // Known fields are still type-checked, and the native endpoint rejects unknown ones.
    for (path, body, code) in [
        (
            "/api/agent/stream",
            json!({"message": "go", "sessionId": 1}),
            "invalid_body",
        ),
        (
            "/api/chat/stream",
            json!({"message": "go", "colour": "x"}),
            "unknown_field",
        ),
    ] {
        let (status, refused) = client.post(path, body).await;
        assert_eq!((status.as_u16(), &refused["code"]), (400, &json!(code)), "{path}");
    }
    // Without such fields there is no such header.
    let request = client
        .request(Method::POST, "/api/agent/stream")
        .json(&json!({"message": "go"}));
    assert!(
        request
            .send()
            .await
            .unwrap()
            .headers()
            .get("x-ignored-fields")
            .is_none()
    );
}
