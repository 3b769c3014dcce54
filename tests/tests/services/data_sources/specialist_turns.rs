//! Turns of the database specialists: their tools, their two minutes, owners of chats, chats that are opened again, and attachments.

use rejoin_runs::agents;
use rejoin_runs::builtin;
use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::{Client, json_of, of_kind, text};
use rejoin_tests::model_server::{Reply, sent};
use serde_json::json;
use uuid::Uuid;

/// Requirements: D02, D25, D26, D27.
#[test]
fn specialists_discover_ask_read_and_write_by_their_tools() {
    for definition in agents::specialists()
        .iter()
        .filter(|definition| definition.name != "triage")
    {
        let has = |part: &str| definition.tools.iter().any(|tool| tool.contains(part));
        assert!(
            has("list_") && has("inspect_") && has("execute_query"),
            "{}",
            definition.name
        );
        assert!(has("read_console") && has("modify_console"), "{}", definition.name);
    }
    let tools = builtin::tools().resolve(&["*".to_owned()]);
    for tool in tools {
        let schema = tool.spec().parameters.document();
        let mut properties: Vec<&str> = schema["properties"]
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        let mut required: Vec<&str> = schema["required"]
            .as_array()
            .unwrap()
            .iter()
            .map(|name| name.as_str().unwrap())
            .collect();
        properties.sort_unstable();
        required.sort_unstable();
        assert_eq!(properties, required, "{}", tool.spec().name);
        assert!(schema.get("strict").is_none());
        if tool.spec().name == "modify_console" {
            assert_eq!(schema["properties"]["position"]["type"], json!(["integer", "null"]));
            assert_eq!(schema["properties"]["consoleId"]["type"], json!(["string", "null"]));
        }
    }
}

/// Requirements: D21, D22, D23.
#[tokio::test]
async fn a_turn_of_two_minutes_keeps_what_it_has_and_then_ends() {
    assert!(
        agents::specialists()
            .iter()
            .all(|definition| definition.default_timeout == Some(120))
    );
    let app = TestApp::with(AppOptions {
        worker: |config| config.run_grace_s = 1,
        ..AppOptions::default()
    })
    .await;
    let agent = app
        .agent_with("slow", &[], |content| content.default_timeout = Some(1))
        .await;
    app.model.script([Reply::hang_after(2)]);
    let frames = app.client().ask(Some(agent), "go").await;
    let events = json_of(&frames);
    assert_eq!(
        (&events.last().unwrap()["type"], &events.last().unwrap()["status"]),
        (&json!("done"), &json!("paused"))
    );
    let published = text(&frames);
    assert!(!published.is_empty());
    let message = of_kind(&events, "message").pop().unwrap();
    assert_eq!(
        message["message"]["content"],
        published.as_str(),
        "what there was of an answer is kept"
    );
    app.wait_until_idle().await;
    let conversation = events[1]["conversationId"].as_str().unwrap();
    let all = app
        .client()
        .stream(&format!("/api/conversations/{conversation}/events"))
        .await
        .until("done")
        .await;
    assert_eq!(all.len(), frames.len());
}

/// Requirements: D36, D38, D39, D40, D48, D53.
#[tokio::test]
async fn every_chat_has_its_real_owner_however_it_began() {
    let app = TestApp::start().await;
    let agent = app.agent("one", &[]).await;
    app.model.always("hi", Reply::text("hello"));
    let (other, key) = app.db.another_user().await;
    let stranger = Client::new(app.url(), &key);
    // One implementation: the same conversation through either address.
    let native = json_of(
        &app.client()
            .chat(json!({"message": "hi", "agentDefinitionId": agent}))
            .await,
    );
    let session = native[1]["conversationId"].as_str().unwrap();
    let dialect = app
        .client()
        .stream_of("/api/agent/stream", json!({"message": "hi", "sessionId": session}))
        .await;
    assert_eq!(json_of(&dialect)[0]["sessionId"], session);
    stranger
        .stream_of(
            "/api/agent/stream",
            json!({"message": "hi", "agentDefinitionId": agent}),
        )
        .await;
    let owners: Vec<(Uuid, i64)> =
        sqlx::query_as("select owner_user_id, count(*) from kb.chat_conversations group by 1 order by 2, 1")
            .fetch_all(&app.db.pool)
            .await
            .unwrap();
    let mut wanted = vec![(app.db.user_id, 1), (other, 1)];
    wanted.sort_by_key(|(id, _)| *id);
    let mut found = owners;
    found.sort_by_key(|(id, _)| *id);
    assert_eq!(found, wanted);
    for path in [
        format!("/api/conversations/{session}"),
        format!("/api/agent/stream?sessionId={session}"),
        format!("/api/conversations/{session}/messages"),
    ] {
        assert_eq!(stranger.get(&path).await.0, 404, "{path}");
        assert_eq!(Client::new(app.url(), "nobody").get(&path).await.0, 401, "{path}");
    }
    assert_eq!(stranger.delete(&format!("/api/conversations/{session}")).await.0, 404);
    // No chat is without an owner, and lists have an index by project and owner.
    let (nullable, index): (String, String) = sqlx::query_as(
        "select (select is_nullable from information_schema.columns
                 where table_schema = 'kb' and table_name = 'chat_conversations' and column_name = 'owner_user_id'),
                (select indexdef from pg_indexes where schemaname = 'kb' and indexname = 'chat_conversations_list')",
    )
    .fetch_one(&app.db.pool)
    .await
    .unwrap();
    assert_eq!(nullable, "NO");
    assert!(index.contains("(project_id, owner_user_id"), "{index}");
}

/// Requirements: D41, D43, D45, D46.
#[tokio::test]
async fn a_reopened_chat_brings_its_console_and_attachments() {
    let app = TestApp::start().await;
    let agent = app.agent("one", &["modify_console"]).await;
    app.model.script([
        Reply::tool("modify_console", json!({"action": "append", "content": "-- more", "position": null, "startLine": null, "endLine": null, "consoleId": null, "version": null})),
        Reply::text("Done."),
    ]);
    let client = app.client();
    let console = Uuid::now_v7();
    let source = Uuid::now_v7();
    sqlx::query("insert into kb.data_sources (id, project_id, name, kind, settings) values ($1, $2, 'shop', 'postgresql', '{}')")
        .bind(source)
        .bind(app.db.workspace_id)
        .execute(&app.db.pool)
        .await
        .unwrap();
    let attached = json!([{"id": console, "title": "Orders", "content": "select 1", "databaseType": "postgresql", "databaseId": source}]);
    let events = json_of(
        &client
            .chat(json!({"message": "add", "agentDefinitionId": agent, "consoles": attached, "consoleId": console}))
            .await,
    );
    let conversation = events[1]["conversationId"].as_str().unwrap();
    let (_, opened) = client.get(&format!("/api/conversations/{conversation}")).await;
    let brought = &opened["attachedConsole"];
    assert_eq!(
        (
            &brought["id"],
            &brought["title"],
            &brought["content"],
            &brought["databaseId"],
            &brought["isTemporary"]
        ),
        (
            &json!(console),
            &json!("Orders"),
            &json!("select 1\n-- more"),
            &json!(source),
            &json!(true)
        )
    );
    let path = format!("/api/consoles/{console}");
    let (_, stored) = client.get(&path).await;
    assert_eq!(
        (&stored["lastModifiedBy"], &stored["conversationId"]),
        (&json!("agent"), &json!(conversation))
    );
    let (status, saved) = client.patch(&path, json!({"isTemporary": false})).await;
    assert_eq!((status.as_u16(), &saved["isTemporary"]), (200, &json!(false)));
    let (_, again) = client.get(&format!("/api/conversations/{conversation}")).await;
    assert_eq!(again["attachedConsole"]["isTemporary"], false);
    let (_, page) = client.get(&format!("/api/conversations/{conversation}/messages")).await;
    let first = &page["items"][0];
    assert_eq!(
        (&first["role"], &first["content"], &first["attachedContext"]["consoles"]),
        (&json!("user"), &json!("add"), &attached)
    );
    assert!(first["id"].is_string() && first["createdAt"].is_string());
    assert_eq!(first["timestamp"], first["createdAt"]);
}

/// Requirements: D46.
#[tokio::test]
async fn attachments_are_shown_to_the_agent_and_listed() {
    let app = TestApp::start().await;
    let client = app.client();
    let agent = app.agent("one", &["read_console"]).await;
    app.model.always("look", Reply::text("I see."));
    app.model.always("and now", Reply::text("I still do."));
    let console = Uuid::now_v7();
    let attached = json!([
        {"id": console, "type": "console", "title": "Orders", "content": "select 1", "metadata": {"databaseType": "sqlite"}},
        {"id": "shop", "type": "database", "title": "Shop", "metadata": {"databaseType": "mongodb"}},
        {"id": "f1", "type": "file", "title": "notes.txt", "content": "Ann owes 3.", "timestamp": "2026-01-01T00:00:00Z"},
    ]);
    let body = json!({"message": "look", "agentDefinitionId": agent, "attachedContext": attached});
    let events = json_of(&client.chat(body).await);
    let conversation = events[1]["conversationId"].as_str().unwrap();
    let body = json!({"message": "and now?", "conversationId": conversation});
    client.chat(body).await;
    let whole = "look\n\nDatabase `Shop` (shop, mongodb) is attached.\n\nFile `notes.txt`:\n```\nAnn owes 3.\n```";
    let requests = app.model.requests();
    let given = |request: usize| {
        let given = sent(&requests[request]).into_iter();
        given
            .filter(|(role, _)| role == "user")
            .map(|(_, text)| text)
            .collect::<Vec<_>>()
    };
    assert_eq!(given(0), [whole]);
    assert_eq!(given(1), [whole, "and now?"], "later turns see it, too");
    assert!(
        sent(&requests[0])[0].1.contains("select 1"),
        "consoles are told as all others"
    );

    let (_, page) = client.get(&format!("/api/conversations/{conversation}/messages")).await;
    let (first, at) = (&page["items"][0], &page["items"][0]["createdAt"]);
    assert_eq!(first["content"], "look", "what the user wrote stays as it is");
    assert_eq!(
        first["attachments"],
        json!([
            {"id": console, "type": "console", "title": "Orders", "content": "select 1", "metadata": {"databaseType": "sqlite"}, "timestamp": at},
            {"id": "shop", "type": "database", "title": "Shop", "content": "", "metadata": {"databaseType": "mongodb"}, "timestamp": at},
            {"id": "f1", "type": "file", "title": "notes.txt", "content": "Ann owes 3.", "metadata": {}, "timestamp": at},
        ])
    );
    assert_eq!(page["items"][1]["attachments"], json!([]));
    let (_, kept) = client.get(&format!("/api/consoles/{console}")).await;
    assert_eq!((&kept["title"], &kept["kind"]), (&json!("Orders"), &json!("sqlite")));

    let file = |content: String| json!({"id": "f", "type": "file", "title": "f.txt", "content": content});
    for (attached, code) in [
        (json!(vec![file("x".to_owned()); 21]), "invalid_attachment"),
        (json!([{"id": "f", "type": "file", "title": " "}]), "invalid_attachment"),
        (
            json!([{"id": "f", "type": "file", "title": "f", "metadata": []}]),
            "invalid_attachment",
        ),
        (json!([{"id": "f", "type": "table", "title": "f"}]), "invalid_body"),
        (json!([file("x".repeat(100_000))]), "message_too_long"),
    ] {
        let (status, refused) = client
            .post(
                "/api/chat/stream",
                json!({"message": "look", "attachedContext": attached}),
            )
            .await;
        assert_eq!((status.as_u16(), &refused["code"]), (400, &json!(code)), "{refused}");
    }
}

/// Requirements: D21.
#[tokio::test]
async fn a_shipped_specialist_is_stopped_after_two_minutes() {
    let app = TestApp::with(AppOptions {
        worker: |config| config.run_grace_s = 1,
        ..AppOptions::default()
    })
    .await;
    let client = app.client();
    let admin = format!("/api/admin/projects/{}", app.db.workspace_id);
    let install = format!("{admin}/install-default-agents?set=databases");
    assert_eq!(client.post(&install, json!({})).await.0, 200);
    // As installed; then a hundredth of it, so that the test need not wait.
    let shipped: Vec<Option<i32>> = sqlx::query_scalar("select default_timeout from kb.agent_definitions")
        .fetch_all(&app.db.pool)
        .await
        .unwrap();
    assert_eq!(shipped, [Some(120); 5]);
    sqlx::query("update kb.agent_definitions set default_timeout = default_timeout / 100, model = '{\"name\": \"openai:scripted\"}'")
        .execute(&app.db.pool)
        .await
        .unwrap();
    let agent: Uuid = sqlx::query_scalar("select id from kb.agent_definitions where name = 'sql-analyst'")
        .fetch_one(&app.db.pool)
        .await
        .unwrap();
    app.model.script([Reply::hang_after(2)]);
    let events = json_of(&client.ask(Some(agent), "go").await);
    assert_eq!(events.last().unwrap()["status"], "paused");
}
