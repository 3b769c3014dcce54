//! Turns with and without an agent, over HTTP and SSE (requirements A01-A32 and B01-B26, with `default_agent`,
//! `turn_failures` and `outside_of_chats`).

use rejoin_runs::builtin;
use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::{json_of, kinds, of_kind, text};
use rejoin_tests::model_server::{Reply, sent};
use reqwest::StatusCode;
use serde_json::{Value, json};
use uuid::Uuid;

/// A small graph.
async fn graph(app: &TestApp) {
    let file = r#"{"kind":"object","type":"Package","key":"curl","properties":{"summary":"command line tool for URLs"}}
{"kind":"object","type":"Package","key":"libssl3","properties":{"summary":"Secure Sockets Layer toolkit"}}
{"kind":"relationship","type":"DEPENDS_ON","source":{"type":"Package","key":"curl"},"target":{"type":"Package","key":"libssl3"},"properties":{"constraint":">= 3.0.0"}}
"#;
    let actor = rejoin_graph::Actor {
        kind: rejoin_graph::ActorKind::User,
        id: None,
    };
    let on_error = rejoin_graph::import::OnError::Refuse;
    rejoin_graph::import::import(
        &app.db.pool,
        app.db.workspace_id,
        file.as_bytes(),
        on_error,
        actor,
        |_| (),
    )
    .await
    .unwrap();
}

pub(super) async fn rows(app: &TestApp, sql: &'static str) -> Vec<Value> {
    sqlx::query_scalar::<_, Value>(sql)
        .fetch_all(&app.db.pool)
        .await
        .unwrap()
}

/// Requirements: A02, B04, B13, C63.
#[tokio::test]
async fn a_plain_turn_searches_once_and_streams_its_answer() {
    let app = TestApp::start().await;
    graph(&app).await;
    app.model.script([Reply::text("libssl3 is a library.")]);
    let frames = app.client().ask(None, "What is libssl3?").await;
    assert_eq!(kinds(&frames), ["message", "meta", "token", "usage", "message", "done"]);
    assert_eq!(
        frames.iter().map(|frame| frame.id.unwrap()).collect::<Vec<_>>(),
        (1..=frames.len() as i64).collect::<Vec<_>>()
    );
    assert_eq!(text(&frames), "libssl3 is a library.");
    let events = json_of(&frames);
    assert_eq!(
        (&events[0]["message"]["role"], &events[0]["message"]["content"]),
        (&json!("user"), &json!("What is libssl3?"))
    );
    let meta = &events[1];
    assert_eq!(
        (&meta["attempt"], &meta["agentDefinitionId"]),
        (&json!(1), &Value::Null)
    );
    assert_eq!(meta["citations"][0]["key"], "libssl3");
    let requests = app.model.requests();
    assert_eq!(requests.len(), 1);
    assert!(
        requests[0]["tools"].as_array().is_none_or(Vec::is_empty),
        "no tools in plain mode"
    );
    let messages = sent(&requests[0]);
    assert_eq!(messages[0].0, "system");
    assert!(
        messages[0].1.contains("[Package:libssl3]"),
        "the search's hits are in the prompt: {}",
        messages[0].1
    );
    assert_eq!(messages[1..], [("user".to_owned(), "What is libssl3?".to_owned())]);
    let conversation = rows(&app, "select to_jsonb(c) from kb.chat_conversations c").await;
    assert_eq!(
        (&conversation[0]["agent_definition_id"], &conversation[0]["title"]),
        (&Value::Null, &json!("What is libssl3?"))
    );
    app.wait_until_idle().await;
}

/// Requirements: A01, A04, A15, B01, B11, B12.
#[tokio::test]
async fn an_agents_turn_calls_tools_and_keeps_both_records() {
    let app = TestApp::start().await;
    graph(&app).await;
    let agent = app.agent("asker", &["hybrid_search", "get_entity_edges"]).await;
    app.model.script([
        Reply::text("Let me look.").then_tool(
            "hybrid_search",
            json!({"query": "libssl3", "types": null, "labels": null, "limit": 5}),
        ),
        Reply::text("curl needs [Package:libssl3]."),
    ]);
    let frames = app.client().ask(Some(agent), "Who needs libssl3?").await;
    let events = json_of(&frames);
    assert_eq!(
        kinds(&frames),
        [
            "message",
            "meta",
            "token",
            "usage",
            "mcp_tool",
            "operation",
            "mcp_tool",
            "operation",
            "token",
            "usage",
            "message",
            "done"
        ]
    );
    // B14, B15, A05
    let tools = of_kind(&events, "mcp_tool");
    assert_eq!(
        (&tools[0]["tool"], &tools[0]["status"]),
        (&json!("hybrid_search"), &json!("started"))
    );
    assert_eq!(tools[0]["input"]["query"], "libssl3");
    assert_eq!(
        (&tools[1]["status"], &tools[1]["callId"]),
        (&json!("completed"), &tools[0]["callId"])
    );
    assert_eq!(tools[1]["result"]["data"][0]["object"]["key"], "libssl3");
    // A04: increments only, which add up to the whole text.
    assert_eq!(text(&frames), "Let me look.\n\ncurl needs [Package:libssl3].");
    let meta = of_kind(&events, "meta")[0];
    assert_eq!(
        (&meta["agentDefinitionId"], &meta["agent"]),
        (&json!(agent), &json!("asker"))
    );
    // A26, C10: the model was offered exactly its whitelist.
    let offered: Vec<String> = app.model.requests()[0]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["function"]["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(offered, ["get_entity_edges", "hybrid_search"]);
    // B18, B19, A16
    let messages = rows(&app, "select to_jsonb(m) from kb.chat_messages m order by seq").await;
    assert_eq!(messages.len(), 2);
    assert_eq!(messages[0]["role"], "user");
    assert_eq!(
        (&messages[1]["role"], &messages[1]["content"]),
        (&json!("assistant"), &json!(text(&frames)))
    );
    assert_eq!(messages[1]["retrieval_context"], json!({"agent_run_id": meta["runId"]}));
    let done = of_kind(&events, "done")[0];
    assert_eq!(
        (&done["status"], &done["finalMessageId"]),
        (&json!("completed"), &messages[1]["id"])
    );
    // B20
    let roles = rows(
        &app,
        "select to_jsonb(role) from kb.agent_run_messages order by position",
    )
    .await;
    assert_eq!(
        roles,
        ["system", "user", "assistant", "tool_result", "assistant"].map(Value::from)
    );
    // B21
    let calls = rows(&app, "select to_jsonb(c) from kb.agent_run_tool_calls c").await;
    assert_eq!(
        (calls.len(), &calls[0]["status"], &calls[0]["tool_name"]),
        (1, &json!("completed"), &json!("hybrid_search"))
    );
    assert_eq!(calls[0]["output"], tools[1]["result"]);
    assert!(app.model.violations().is_empty(), "{:?}", app.model.violations());
    app.wait_until_idle().await;
}

/// Requirements: A14, A19, B02, B03.
#[tokio::test]
async fn a_conversation_keeps_its_agent_whatever_the_body_says() {
    let app = TestApp::start().await;
    let (first, second) = (app.agent("first", &[]).await, app.agent("second", &[]).await);
    app.model
        .script([Reply::text("one"), Reply::text("two"), Reply::text("three")]);
    let client = app.client();
    let frames = client.ask(Some(first), "a").await;
    let conversation = frames[1].json()["conversationId"].clone();
    let frames = client
        .chat(json!({"message": "b", "conversationId": conversation, "agentDefinitionId": second}))
        .await;
    assert_eq!(frames[1].json()["agent"], "first");
    // Even a missing one: it is not read.
    let frames = client
        .chat(json!({"message": "c", "conversationId": conversation, "agentDefinitionId": Uuid::now_v7()}))
        .await;
    assert_eq!(frames[1].json()["agent"], "first");
    // And a plain conversation stays plain (A14).
    app.model.script([Reply::text("plain"), Reply::text("plain still")]);
    let frames = client.ask(None, "d").await;
    let plain = frames[1].json()["conversationId"].clone();
    let frames = client
        .chat(json!({"message": "e", "conversationId": plain, "agentDefinitionId": second}))
        .await;
    assert_eq!(frames[1].json()["agentDefinitionId"], Value::Null);
}

#[tokio::test]
async fn an_owner_changes_the_agent_of_a_conversation() {
    let app = TestApp::start().await;
    let (first, second) = (app.agent("first", &[]).await, app.agent("second", &[]).await);
    let client = app.client();
    app.model
        .script([Reply::text("one"), Reply::text("two"), Reply::text("three")]);
    let frames = client.ask(Some(first), "a").await;
    let conversation = frames[1].json()["conversationId"].clone();
    let path = format!("/api/conversations/{}", conversation.as_str().unwrap());
    assert_eq!(client.patch(&path, json!({"agentVersion": 1})).await.0, StatusCode::OK);
    let (status, changed) = client.patch(&path, json!({"agentDefinitionId": second})).await;
    assert_eq!(
        (status, &changed["agentDefinitionId"], &changed["marks"]["agentVersion"]),
        (StatusCode::OK, &json!(second), &Value::Null)
    );
    let message = json!({"message": "b", "conversationId": conversation});
    let frames = client.chat(message.clone()).await;
    assert_eq!(frames[1].json()["agent"], "second");
    // It knows what was said before.
    assert!(app.model.requests()[1]["messages"].to_string().contains("one"));
    let (status, problem) = client.patch(&path, json!({"agentDefinitionId": Uuid::now_v7()})).await;
    assert_eq!(
        (status.as_u16(), &problem["code"]),
        (400, &json!("agent_definition_not_found"))
    );
    assert_eq!(client.chat(message).await[1].json()["agent"], "second");
}

/// Requirements: B05.
#[tokio::test]
async fn an_unknown_definition_is_a_400_and_leaves_nothing_behind() {
    let app = TestApp::with(AppOptions {
        workers: 0,
        ..AppOptions::default()
    })
    .await;
    let client = app.client();
    for id in [json!(Uuid::now_v7()), json!("not-a-uuid")] {
        let (status, problem) = client
            .post("/api/chat/stream", json!({"message": "x", "agentDefinitionId": id}))
            .await;
        assert_eq!(
            (status, &problem["code"]),
            (StatusCode::BAD_REQUEST, &json!("agent_definition_not_found")),
            "{problem}"
        );
        assert!(problem["detail"].as_str().unwrap().contains("not found"), "{problem}");
    }
    let left = rows(&app, "select to_jsonb(count(*)) from kb.chat_conversations").await;
    assert_eq!(left, [json!(0)]);
}

/// Requirements: A21, B22, B23, B24.
#[tokio::test]
async fn the_newest_ten_messages_are_sent_and_the_new_one_once() {
    let app = TestApp::start().await;
    let agent = app.agent("memory", &[]).await;
    let client = app.client();
    app.model.script((1..=7).map(|i| Reply::text(format!("answer {i}"))));
    let frames = client.ask(Some(agent), "question 1").await;
    let conversation = frames[1].json()["conversationId"].clone();
    let first = sent(&app.model.requests()[0]);
    assert_eq!(
        first[1..],
        [("user".to_owned(), "question 1".to_owned())],
        "B23: only that message"
    );
    for i in 2..=7 {
        client
            .chat(json!({"message": format!("question {i}"), "conversationId": conversation}))
            .await;
    }
    let last = sent(&app.model.requests()[6]);
    let expected: Vec<(String, String)> = (2..=6)
        .flat_map(|i| {
            [
                ("user".to_owned(), format!("question {i}")),
                ("assistant".to_owned(), format!("answer {i}")),
            ]
        })
        .chain([("user".to_owned(), "question 7".to_owned())])
        .skip(1)
        .collect();
    assert_eq!(last[1..], expected, "ten in time order, the newest last and once");
}

/// Requirements: B22.
#[tokio::test]
async fn how_many_messages_are_sent_is_a_setting() {
    let app = TestApp::with(AppOptions {
        worker: |config| config.history_messages = 3,
        ..AppOptions::default()
    })
    .await;
    let agent = app.agent("memory", &[]).await;
    let client = app.client();
    app.model.script((1..=3).map(|i| Reply::text(format!("answer {i}"))));
    let frames = client.ask(Some(agent), "question 1").await;
    let conversation = frames[1].json()["conversationId"].clone();
    for i in 2..=3 {
        client
            .chat(json!({"message": format!("question {i}"), "conversationId": conversation}))
            .await;
    }
    let expected = [
        ("user", "question 2"),
        ("assistant", "answer 2"),
        ("user", "question 3"),
    ];
    let expected = expected.map(|(role, said)| (role.to_owned(), said.to_owned()));
    assert_eq!(sent(&app.model.requests()[2])[1..], expected);
}

#[tokio::test]
async fn no_tools_means_none_and_a_glob_grants_only_its_matches() {
    let app = TestApp::start().await;
    app.model.script([Reply::text("a"), Reply::text("b")]);
    let builtin = builtin::tools();
    // And list_available_agents and list_calendar_events, which belong to the worker.
    let lists = builtin.names().filter(|name| name.starts_with("list_")).count() + 2;
    for (name, tools, offered) in [("none", &[][..], 0), ("lists", &["list_*"][..], lists)] {
        let agent = app.agent(name, tools).await;
        app.client().ask(Some(agent), "hello").await;
        let request = app.model.requests().pop().unwrap();
        assert_eq!(request["tools"].as_array().map_or(0, Vec::len), offered, "{name}");
    }
}

/// Requirements: A08.
#[tokio::test]
async fn the_stored_list_of_enabled_tools_configures_nothing() {
    let app = TestApp::start().await;
    let agent = app.agent("strict", &["schema_version"]).await;
    app.model.script([Reply::text("a"), Reply::text("b")]);
    let frames = app.client().ask(Some(agent), "one").await;
    sqlx::query("update kb.chat_conversations set enabled_tools = '{hybrid_search}'")
        .execute(&app.db.pool)
        .await
        .unwrap();
    app.client()
        .chat(json!({"message": "two", "conversationId": frames[1].json()["conversationId"]}))
        .await;
    assert_eq!(app.model.requests()[0]["tools"], app.model.requests()[1]["tools"]);
}

#[tokio::test]
async fn reasoning_is_streamed_apart_from_the_reply() {
    let app = TestApp::start().await;
    let agent = app.agent("thinker", &[]).await;
    app.model.script([Reply::text("42").reasoning("six times seven")]);
    let frames = app.client().ask(Some(agent), "?").await;
    let events = json_of(&frames);
    let reasoning: String = of_kind(&events, "reasoning")
        .iter()
        .map(|event| event["text"].as_str().unwrap())
        .collect();
    assert_eq!(reasoning, "six times seven");
    assert_eq!(text(&frames), "42");
}
