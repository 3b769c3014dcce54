//! Edits of one console that meet: a user's and an agent's, repeated ones, and late ones after it was deleted.

use std::sync::Arc;

use rejoin_graph::embedder::NoEmbedder;
use rejoin_runs::builtin;
use rejoin_tests::app::TestApp;
use rejoin_tests::client::json_of;
use rejoin_tests::model_server::Reply;
use rejoin_tools::{ToolContext, ToolError};
use rejoin_types::ids;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::edits::{TOOLS, console, errors, get, modify};

#[tokio::test]
async fn what_the_user_typed_meanwhile_is_merged_or_a_conflict() {
    let app = TestApp::start().await;
    let client = app.client();
    let agent = app.agent("writer", TOOLS).await;
    let query = console(&client, "Query", "one\ntwo\nthree").await;
    let path = format!("/api/consoles/{query}");
    let save = async |content: &str, version: i32| {
        client
            .patch(&path, json!({"content": content, "version": version}))
            .await
    };
    let (_, saved) = save("one!\ntwo\nthree", 1).await;
    assert_eq!((&saved["version"], &saved["merged"]), (&json!(2), &json!(false)));
    // The agent has read version 1, and changes another line; then a line changed by the user.
    app.model.script([
        modify("patch", "three!", json!({"startLine": 3, "endLine": 3, "version": 1})),
        modify("patch", "uno", json!({"startLine": 1, "endLine": 1, "version": 1})),
        modify("patch", "x", json!({"startLine": 9, "endLine": 9})),
        Reply::text("Done."),
    ]);
    let body = json!({"message": "go", "agentDefinitionId": agent, "consoles": [{"id": query}]});
    let events = json_of(&client.chat(body).await);
    let published = errors(&events);
    assert!(
        published[0].contains("conflict") && published[0].contains("version 3"),
        "{}",
        published[0]
    );
    assert!(published[1].contains("has 3 lines"), "{}", published[1]);
    assert_eq!(get(&client, query).await["content"], "one!\ntwo\nthree!");
    // A tab that still has version 2: other lines merge, the same ones don't.
    let (status, saved) = save("one!\ntwo\ntwo and a half\nthree", 2).await;
    assert_eq!(status, 409, "next to each other is the same place: {saved}");
    let (status, saved) = save("zero\none!\ntwo\nthree", 2).await;
    assert_eq!((status.as_u16(), &saved["merged"]), (200, &json!(true)));
    assert_eq!(saved["content"], "zero\none!\ntwo\nthree!");
    let (status, refused) = save("one!\ntwo\nTHREE", 2).await;
    assert_eq!((status.as_u16(), &refused["code"]), (409, &json!("console_conflict")));
    assert_eq!(refused["current"]["content"], "zero\none!\ntwo\nthree!");
    let (status, refused) = client.patch(&path, json!({"content": "blind"})).await;
    assert_eq!((status.as_u16(), &refused["code"]), (400, &json!("invalid_console")));
    // All of it can be read again.
    let (_, versions) = client.get(&format!("{path}/versions?limit=2")).await;
    assert_eq!(versions["items"][0]["content"], "zero\none!\ntwo\nthree!");
    assert_eq!(versions["items"][1]["modifiedBy"], "agent");
    let next = versions["nextCursor"].as_str().unwrap();
    let (_, older) = client.get(&format!("{path}/versions?limit=2&cursor={next}")).await;
    assert_eq!(older["items"][1]["content"], "one\ntwo\nthree");
}

/// A tool's context, as in a run.
fn context(app: &TestApp, run: Option<Uuid>) -> ToolContext {
    ToolContext {
        db: app.db.pool.clone(),
        workspace_id: app.db.workspace_id,
        model: Arc::new(NoEmbedder),
        run_id: run,
        user_id: Some(app.db.user_id),
        call_id: "call".to_owned(),
        record_id: ids::new(),
        cancel: CancellationToken::new(),
        focus: None,
        bounds: None,
    }
}

/// Requirements: D57.
#[tokio::test]
async fn a_hundred_interleaved_edits_lose_no_line() {
    let app = TestApp::start().await;
    let client = app.client();
    let (query, other) = (
        console(&client, "Query", "begin\n\nmiddle\n\nend").await,
        console(&client, "Other", "untouched").await,
    );
    let path = format!("/api/consoles/{query}");
    let tool = builtin::tools().get("modify_console").unwrap();
    // Concurrent writes: the user above the middle, based on the editor's version, the agent below, based on what it
    // has read.
    let user = async {
        let mut held = get(&client, query).await;
        for n in 0..50 {
            loop {
                let text = held["content"]
                    .as_str()
                    .unwrap()
                    .replacen("\n", &format!("\nuser {n}\n"), 1);
                let body = json!({"content": text, "version": held["version"]});
                let (status, answer) = client.patch(&path, body).await;
                if status == 200 {
                    held = answer;
                    break;
                }
                assert_eq!(status, 409, "{answer}");
                held = answer["current"].clone();
            }
        }
    };
    let agent = async {
        for n in 0..50 {
            let mut version = None;
            loop {
                let arguments = json!({"action": "append", "content": format!("agent {n}"), "position": null, "startLine": null,
                                       "endLine": null, "consoleId": query, "version": version});
                match tool.call(&context(&app, None), arguments).await {
                    Ok(_) => break,
                    Err(ToolError::RespondToModel(told)) => assert!(told.contains("conflict"), "{told}"),
                    Err(error) => panic!("{error}"),
                }
                version = get(&client, query).await["version"].as_i64();
            }
        }
    };
    tokio::join!(user, agent);
    let content = get(&client, query).await["content"].as_str().unwrap().to_owned();
    for n in 0..50 {
        for who in ["user", "agent"] {
            let line = format!("{who} {n}");
            assert_eq!(
                content.lines().filter(|one| *one == line).count(),
                1,
                "{line} in {content}"
            );
        }
    }
    assert_eq!(get(&client, other).await["content"], "untouched");
}

#[tokio::test]
async fn a_call_that_is_repeated_after_a_crash_changes_a_console_once() {
    let app = TestApp::start().await;
    let client = app.client();
    let query = console(&client, "Query", "a").await;
    let registry = builtin::tools();
    let (modify, create) = (
        registry.get("modify_console").unwrap(),
        registry.get("create_console").unwrap(),
    );
    let same = context(&app, None);
    let arguments = json!({"action": "append", "content": "b", "consoleId": query, "position": null, "startLine": null, "endLine": null, "version": null});
    let first = modify.call(&same, arguments.clone()).await.unwrap();
    let second = modify.call(&same, arguments).await.unwrap();
    assert_eq!(first, second);
    assert_eq!(modify.events(&first).len(), 1);
    assert_eq!(get(&client, query).await["content"], "a\nb");
    let same = context(&app, None);
    let arguments = json!({"title": "New", "content": "x", "kind": null, "dataSourceId": null, "database": null});
    let first = create.call(&same, arguments.clone()).await.unwrap();
    assert_eq!(first, create.call(&same, arguments).await.unwrap());
    let (_, all) = client.get("/api/consoles").await;
    assert_eq!(all["items"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn a_deleted_console_stays_deleted_whatever_comes_late() {
    let app = TestApp::start().await;
    let client = app.client();
    let agent = app.agent("writer", TOOLS).await;
    let query = console(&client, "Query", "a").await;
    app.model.script([
        Reply::text("Hi."),
        modify("append", "b", json!({"consoleId": query})),
        Reply::text("Gone."),
    ]);
    let body = json!({"message": "hi", "agentDefinitionId": agent, "consoles": [{"id": query}]});
    let events = json_of(&client.chat(body).await);
    let conversation = events[1]["conversationId"].as_str().unwrap();
    let path = format!("/api/consoles/{query}");
    let (status, _) = client.delete(&path).await;
    assert_eq!(status, 204);
    assert_eq!(
        client.patch(&path, json!({"content": "late", "version": 1})).await.0,
        404
    );
    assert_eq!(client.delete(&path).await.0, 404);
    let (status, told) = client
        .post("/api/consoles", json!({"id": query, "title": "Again"}))
        .await;
    assert_eq!((status.as_u16(), &told["code"]), (409, &json!("console_id_taken")));
    let body = json!({"message": "more", "conversationId": conversation, "consoles": [{"id": query, "content": "late", "version": 1}]});
    let events = json_of(&client.chat(body).await);
    assert!(errors(&events)[0].contains("no longer exists"), "{events:?}");
    let (_, opened) = client.get(&format!("/api/conversations/{conversation}")).await;
    assert_eq!(opened["attachedConsole"], Value::Null);
    assert_eq!(client.get(&path).await.0, 404);
}
