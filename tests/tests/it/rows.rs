//! Requirements of database specialists (D01 to D60) and of the planning chat (E01 to E69): that each has a test with its name; and those that
//! no other file is about.

use std::path::Path;

use rejoin_shared::agents;
use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::{Client, json_of, of_kind, text};
use rejoin_tests::model_server::Reply;
use serde_json::json;
use uuid::Uuid;

/// What is measured in `bench/` and by `make eval-routing`, and told in the documents: no test holds a time.
const MEASURED: [&str; 2] = ["d54", "d56"];
/// What is left out, and why: see docs.
const LEFT_OUT: [&str; 0] = [];

/// Names of tests in Rust, and titles of tests in JavaScript, below a folder.
fn names(folder: &Path, all: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if !["target", "node_modules", "dist", ".git", ".cache"].contains(&name.as_str()) {
                names(&path, all);
            }
            continue;
        }
        let source = match path.extension().and_then(|extension| extension.to_str()) {
            Some("rs" | "mjs" | "ts" | "tsx") => std::fs::read_to_string(&path).unwrap(),
            _ => continue,
        };
        for line in source.lines().map(str::trim_start) {
            let test = ["fn ", "async fn ", "test('", "it('"]
                .iter()
                .find_map(|begin| line.strip_prefix(begin));
            if let Some(test) = test {
                let words = test.split(['(', '\'']).next().unwrap_or_default();
                all.push_str(&format!("_{}_\n", words.to_lowercase().replace(' ', "_")));
            }
        }
    }
}

#[test]
fn each_row_has_a_test_by_its_name() {
    let mut all = String::new();
    names(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."), &mut all);
    let rows = (1..=60)
        .map(|n| format!("d{n:02}"))
        .chain((1..=69).map(|n| format!("e{n:02}")));
    let missing: Vec<String> = rows
        .filter(|id| !MEASURED.contains(&id.as_str()) && !LEFT_OUT.contains(&id.as_str()))
        .filter(|id| !all.contains(&format!("_{id}_")))
        .collect();
    assert!(missing.is_empty(), "without a test: {missing:?}");
}

#[test]
fn d02_d25_d26_d27_specialists_discover_ask_read_and_write_with_tools_whose_parameters_are_all_required() {
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
    let tools = rejoin_shared::tools::registry::Registry::builtin().resolve(&["*".to_owned()]);
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

#[tokio::test]
async fn d21_d22_d23_a_turn_has_two_minutes_keeps_what_there_is_and_nothing_follows_its_end() {
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
    let said = text(&frames);
    assert!(!said.is_empty());
    let message = of_kind(&events, "message").pop().unwrap();
    assert_eq!(
        message["message"]["content"],
        said.as_str(),
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

#[tokio::test]
async fn d36_d38_d39_d40_d48_d53_every_chat_has_its_real_owner_whichever_way_it_was_begun() {
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

#[tokio::test]
async fn d41_d43_d45_d46_a_chat_that_is_opened_again_brings_its_console_and_what_was_attached() {
    let app = TestApp::start().await;
    let agent = app.agent("one", &["modify_console"]).await;
    app.model.script([
        Reply::tool("modify_console", json!({"action": "append", "content": "-- more", "position": null, "startLine": null, "endLine": null, "consoleId": null, "version": null})),
        Reply::text("Done."),
    ]);
    let client = app.client();
    let console = Uuid::now_v7();
    let attached = json!([{"id": console, "title": "Orders", "content": "select 1", "databaseType": "postgresql"}]);
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
            &brought["isTemporary"]
        ),
        (
            &json!(console),
            &json!("Orders"),
            &json!("select 1\n-- more"),
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
}
